/* decoder.c - opens a decoder, and gives the state before its layers. */
#include "cpu/product_choice.h"
#include "forward/decoder.h"
#include "forward/steps_plain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/work.h"
#include "file/json/json_read.h"

/* --- open ---------------------------------------------------------------------------------- */

static kerf_status load_config(kerf_decoder *d, const kerf_checkpoint *c, kerf_error *err)
{
    char path[4096];
    json_t *root = NULL;
    const char *architecture = NULL;
    if (kerf_reader_is_gguf(d->reader))
        KF_TRY(kf_gguf_config(d->reader, &root, &architecture, err));
    else {
        if (snprintf(path, sizeof path, "%s/config.json", kerf_reader_folder(d->reader)) >=
            (int)sizeof path)
            return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "the path of the model is too long");
        KF_TRY(kf_json_read(path, KF_JSON_MAX_CONFIG_BYTES, KF_JSON_PYTHON, &root, err));
    }
    const kerf_status s = kf_config_read(
        root, architecture, kerf_weights_count(kerf_checkpoint_weights(c)), &d->config, err);
    json_decref(root);
    return s;
}

static uint64_t layer_bytes(const kerf_decoder *d, uint64_t layer)
{
    uint64_t sum = 0;
    for (int s = 0; s < KF_SLOTS; s++) {
        const kerf_weight *w = d->layer[layer].slot[s];
        if (!w) continue;
        const uint64_t times = kf_slots[s].kind == KF_KIND_EACH ? d->config.experts : 1;
        sum += kerf_weight_elements(w) * times * sizeof(float);
    }
    return sum;
}

static void describe(kerf_decoder *d)
{
    const kf_config *c = &d->config;
    d->info = (kerf_decoder_info){
        .family = c->family->names,
        .layers = c->layers,
        .hidden = c->hidden,
        .vocab = c->vocab,
        .heads = c->heads,
        .kv_heads = c->kv_heads,
        .head_dim = c->head_dim,
        .key_columns = c->kv_heads * c->head_dim,
        .value_columns = c->kv_heads * c->value_dim,
        .experts = c->experts,
        .experts_used = c->experts ? c->used : 0,
        .context = c->context,
        .head_bytes = c->vocab * c->hidden * sizeof(float),
    };
    for (uint64_t i = 0; i < c->layers; i++) {
        const uint64_t bytes = layer_bytes(d, i);
        if (bytes > d->info.layer_bytes) d->info.layer_bytes = bytes;
    }
}

static kerf_status open_stepper(kerf_decoder *d, const kerf_exec *exec, kerf_error *err)
{
    KF_TRY(kf_allocate(&d->stepper, 1, sizeof *d->stepper, err));
    *d->stepper =
        (kf_stepper){.steps = &kf_steps_plain, .threads = d->threads, .product = kf_product_find()};
    d->stepper->device = exec ? exec->device : NULL;
    return exec && exec->device ? kf_steps_on_gpu(d->stepper, exec->device, err) : KERF_OK;
}

kerf_status kerf_decoder_open(const kerf_checkpoint *c, const kerf_exec *exec, kerf_decoder **out,
                              kerf_error *err)
{
    kerf_decoder *d;
    *out = NULL;
    KF_TRY(kf_allocate(&d, 1, sizeof *d, err));
    d->reader = kerf_checkpoint_reader(c);
    d->weights = kerf_checkpoint_weights(c);
    d->threads = exec ? exec->threads : 0;
    kerf_status s = open_stepper(d, exec, err);
    if (s == KERF_OK) s = load_config(d, c, err);
    if (s == KERF_OK) s = kf_decoder_find(d, err);
    if (s == KERF_OK && d->rope_parts) {
        kf_rope *r = &d->config.rope[0];
        s = kf_allocate(&r->parts, r->dims / 2, sizeof *r->parts, err);
        if (s == KERF_OK) s = kf_floats_read(d, d->rope_parts, r->parts, err);
    }
    if (s != KERF_OK) {
        kerf_decoder_close(d);
        return s;
    }
    describe(d);
    *out = d;
    return KERF_OK;
}

void kerf_decoder_close(kerf_decoder *d)
{
    if (!d) return;
    free(d->layer);
    free(d->each);
    free(d->head_weight.data);
    free(d->norm_floats);
    kf_config_free(&d->config);
    if (d->stepper) d->stepper->steps->close(d->stepper);
    free(d->stepper);
    free(d);
}

const kerf_decoder_info *kerf_decoder_about(const kerf_decoder *d)
{
    return &d->info;
}

void kerf_decoder_heed(kerf_decoder *d, const kerf_job *job)
{
    d->stepper->job = job;
}

/* --- the embedding ------------------------------------------------------------------------- */

typedef struct taking {
    const uint32_t *token;
    const float *decoded; /* rows [first, first + rows) of the vocabulary */
    uint64_t first, rows, width;
    float scale, *hidden;
} taking;

/* Copies the decoded rows of some tokens. */
static void take_rows(const void *ctx, uint64_t begin, uint64_t count)
{
    const taking *w = ctx;
    for (uint64_t i = begin; i < begin + count; i++) {
        const uint64_t at = w->token[i];
        if (at < w->first || at >= w->first + w->rows) continue;
        const float *from = w->decoded + (at - w->first) * w->width;
        for (uint64_t k = 0; k < w->width; k++) w->hidden[i * w->width + k] = from[k] * w->scale;
    }
}

#define TAKEN (UINT64_C(1) << 22) /* numbers that are copied between two questions of the job */

static kerf_status take(const kerf_decoder *d, const taking *w, uint64_t tokens, kerf_error *err)
{
    const uint64_t step = TAKEN / w->width + 1;
    for (uint64_t at = 0; at < tokens; at += step) {
        taking part = *w;
        part.token += at;
        part.hidden += at * w->width;
        KF_TRY(kf_job_check(d->stepper->job, err));
        KF_TRY(kf_for_tokens(d->threads, kf_min_u64(step, tokens - at), take_rows, &part));
    }
    return KERF_OK;
}

#define EMBEDDED (UINT64_C(1) << 24) /* numbers of a panel */

/* The embedding passes by in panels of whole rows, of which only those that are asked for are kept:
 * it can be as large as a layer. Flat formats have no rows, and are decoded as a whole. */
static kerf_status embed(const kerf_decoder *d, const kf_floats *f, const kerf_tokens *t,
                         float *hidden, kerf_error *err)
{
    const kerf_geometry *g = &f->geometry;
    const uint64_t width = d->config.hidden, vocab = d->config.vocab;
    const int is_flat = g->rows != vocab;
    const uint64_t band_rows = is_flat ? vocab : g->band_rows;
    uint64_t bands = EMBEDDED / (band_rows * width) + 1;
    if (is_flat) bands = g->bands;
    const uint64_t rows = is_flat ? vocab : kf_min_u64(bands * band_rows, vocab);
    float *decoded = kf_alloc(rows * width, sizeof *decoded);
    if (!decoded) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for the embedding");
    kerf_status s = KERF_OK;
    for (uint64_t b = 0; b < g->bands && s == KERF_OK; b += bands) {
        const uint64_t end = kf_min_u64(b + bands, g->bands);
        const uint64_t first = is_flat ? 0 : b * band_rows;
        s = kf_floats_panels(f, d->threads, b, end, decoded, err);
        const taking w = {.token = t->token,
                          .decoded = decoded,
                          .first = first,
                          .rows = kf_min_u64(rows, vocab - first),
                          .width = width,
                          .scale = (float)d->config.input_scale,
                          .hidden = hidden};
        if (s == KERF_OK) s = take(d, &w, t->rows * t->length, err);
    }
    free(decoded);
    return s;
}

/* States that steps keep apart are made here and brought there. */
static kerf_status embed_there(const kerf_decoder *d, const kf_floats *f, const kerf_tokens *t,
                               float *hidden, kerf_error *err)
{
    const uint64_t n = t->rows * t->length * d->config.hidden;
    float *here = kf_alloc(n, sizeof *here);
    if (!here) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for the states");
    kerf_status s = embed(d, f, t, here, err);
    if (s == KERF_OK)
        s = d->stepper->steps->upload(d->stepper, hidden, here, n * sizeof *here, err);
    free(here);
    return s;
}

kerf_status kf_tokens_check(const kerf_decoder *d, const kerf_tokens *t, kerf_error *err)
{
    uint64_t count, bytes;
    if (!kf_mul_ok(t->rows, t->length, &count) ||
        !kf_mul_ok(count, d->config.hidden * sizeof(float), &bytes))
        return kf_fail(err, KERF_E_RANGE, KF_NOWHERE, "rows x length tokens: no memory holds them");
    for (uint64_t i = 0; i < count; i++)
        if (t->token[i] >= d->config.vocab)
            return kf_fail(err, KERF_E_DATA, i, "token %llu is %u, and the model knows %llu",
                           (unsigned long long)i, t->token[i], (unsigned long long)d->config.vocab);
    return KERF_OK;
}

kerf_status kerf_decoder_embed(kerf_decoder *d, const kerf_tokens *tokens, float *hidden,
                               kerf_error *err)
{
    kf_floats f;
    KF_TRY(kf_tokens_check(d, tokens, err));
    kerf_status s = kf_floats_open(&f, d, d->embedding, err);
    const kf_steps *steps = d->stepper->steps;
    const int there = steps->apart && steps->is_there(d->stepper, hidden);
    if (s == KERF_OK) s = (there ? embed_there : embed)(d, &f, tokens, hidden, err);
    kf_floats_close(&f);
    return s;
}
