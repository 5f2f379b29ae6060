/* decoder_head.c - from the state behind the last layer to the scores of the next token. */
#include <stdlib.h>

#include "forward/layer_run.h"

#define LOGIT_BYTES (UINT64_C(64) << 20)
#define LOGIT_ROWS UINT64_C(384)

static kerf_status load_head(kerf_decoder *d, kerf_error *err)
{
    const kf_config *c = &d->config;
    if (!d->norm_floats) {
        KF_TRY(kf_allocate(&d->norm_floats, c->hidden, sizeof(float), err));
        KF_TRY(kf_floats_read(d, d->norm, d->norm_floats, err));
        kf_add_one(d, d->norm_floats, c->hidden);
    }
    if (d->head_weight.data) return KERF_OK;
    float *data = kf_alloc(c->vocab * c->hidden, sizeof *data);
    if (!data) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for the output head");
    const kerf_status s = kf_floats_read(d, d->head, data, err);
    if (s != KERF_OK) {
        free(data);
        return s;
    }
    d->head_weight = (kerf_layer_weight){d->head->name, -1, c->vocab, c->hidden, data};
    return KERF_OK;
}

/* Steps that are apart are given it once. */
static kerf_status hold_head(kerf_decoder *d, kerf_error *err)
{
    const kf_config *c = &d->config;
    KF_TRY(load_head(d, err));
    if (!d->stepper->steps->apart || d->head_held) return KERF_OK;
    const kf_held held[] = {{d->norm_floats, c->hidden, 0},
                            {d->head_weight.data, c->vocab * c->hidden, 1}};
    KF_TRY(d->stepper->steps->hold(d->stepper, held, 2, 1, err));
    d->head_held = 1;
    return KERF_OK;
}

/* A panel of positions of a row: states, their norms and logits where steps work, and where the
 * caller sees logits. */
typedef struct head_run {
    kf_panel_run r;
    float *memory, *state, *normed, *there, *logits;
} head_run;

static kerf_status open_run(head_run *h, uint64_t most, kerf_error *err)
{
    const kf_config *c = &h->r.d->config;
    const kf_steps *steps = h->r.s->steps;
    const uint64_t width = c->hidden, states = steps->apart ? 2 : 1;
    KF_TRY(steps->allocate(h->r.s, most * (states * width + c->vocab) * sizeof(float), &h->memory,
                           err));
    h->normed = h->memory;
    h->state = h->memory + (states - 1) * most * width;
    h->logits = h->there = h->memory + states * most * width;
    if (!steps->apart) return KERF_OK;
    return kf_allocate(&h->logits, most * c->vocab, sizeof(float), err);
}

static void close_run(head_run *h)
{
    h->r.s->steps->release(h->r.s, h->memory);
    if (h->r.s->steps->apart) free(h->logits);
}

/* n positions from hidden on. */
static kerf_status panel_of(head_run *h, const float *hidden, uint64_t n)
{
    const kf_config *c = &h->r.d->config;
    const kf_steps *steps = h->r.s->steps;
    const kf_rows x = {h->normed, (size_t)n, (size_t)c->hidden, (size_t)c->hidden};
    const kf_rows y = {h->there, (size_t)n, (size_t)c->vocab, (size_t)c->vocab};
    const kerf_layer_weight *w = &h->r.d->head_weight;
    kerf_error *err = h->r.err;
    if (steps->apart && !steps->is_there(h->r.s, hidden)) {
        KF_TRY(steps->upload(h->r.s, h->state, hidden, n * c->hidden * sizeof *hidden, err));
        hidden = h->state;
    }
    KF_TRY(steps->norm(h->r.s, x, hidden, h->r.d->norm_floats, x.columns, c->eps, err));
    KF_TRY(kf_multiply(&h->r, y, x, w, 0, 1, NULL));
    if (c->logit_cap > 0) KF_TRY(steps->cap(h->r.s, y, (float)c->logit_cap, err));
    if (!steps->apart) return KERF_OK;
    return steps->download(h->r.s, h->logits, h->there, n * c->vocab * sizeof *h->logits, err);
}

kerf_status kerf_decoder_logits(kerf_decoder *d, const kerf_tokens *tokens, const float *hidden,
                                const kerf_watch *watch, kerf_logits_of each, void *ctx,
                                const kerf_job *job, kerf_error *err)
{
    const uint64_t width = d->config.hidden, vocab = d->config.vocab, length = tokens->length;
    uint64_t most = LOGIT_BYTES / (vocab * sizeof(float));
    most = most < 16 ? 16 : kf_min_u64(most, LOGIT_ROWS);
    if (most > length) most = length;
    if (most == 0) return KERF_OK;
    KF_TRY(hold_head(d, err));
    head_run h = {.r = {.d = d, .s = d->stepper, .watch = watch, .err = err}};
    kerf_status s = open_run(&h, most, err);
    for (uint64_t row = 0; row < tokens->rows && s == KERF_OK; row++)
        for (uint64_t at = 0; at < length && s == KERF_OK; at += most) {
            const uint64_t n = kf_min_u64(most, length - at);
            if (job && job->cancel && job->cancel(job->ctx))
                s = kf_fail(err, KERF_E_CANCELED, KF_NOWHERE, "canceled");
            if (s == KERF_OK) s = panel_of(&h, hidden + (row * length + at) * width, n);
            if (s == KERF_OK) s = each(ctx, row, at, n, h.logits, err);
        }
    if (s == KERF_OK && h.r.s->steps->apart) s = h.r.s->steps->settle(h.r.s, err);
    close_run(&h);
    return s;
}
