/* decoder_head.c - from the state behind the last layer to the scores of the next token. */
#include <stdlib.h>

#include "base/work.h"
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

kerf_status kf_head_open(kf_head_run *h, kerf_decoder *d, uint64_t most, const kerf_watch *watch,
                         kerf_error *err)
{
    const kf_steps *steps = d->stepper->steps;
    const uint64_t width = d->config.hidden, states = steps->apart ? 2 : 1;
    KF_TRY(hold_head(d, err));
    *h = (kf_head_run){.r = {.d = d, .s = d->stepper, .watch = watch, .err = err}};
    KF_TRY(steps->allocate(d->stepper, most * (states * width + d->config.vocab) * sizeof(float),
                           &h->memory, err));
    h->normed = h->memory;
    h->state = h->memory + (states - 1) * most * width;
    h->logits = h->memory + states * most * width;
    return KERF_OK;
}

void kf_head_close(kf_head_run *h)
{
    if (h->memory) h->r.s->steps->release(h->r.s, h->memory);
}

kerf_status kf_head_panel(kf_head_run *h, const float *hidden, uint64_t n, kf_rows *logits)
{
    const kf_config *c = &h->r.d->config;
    const kf_steps *steps = h->r.s->steps;
    const kf_rows x = {h->normed, (size_t)n, (size_t)c->hidden, (size_t)c->hidden};
    const kf_rows y = {h->logits, (size_t)n, (size_t)c->vocab, (size_t)c->vocab};
    kerf_error *err = h->r.err;
    *logits = y;
    if (steps->apart && !steps->is_there(h->r.s, hidden)) {
        KF_TRY(steps->upload(h->r.s, h->state, hidden, n * c->hidden * sizeof *hidden, err));
        hidden = h->state;
    }
    KF_TRY(steps->norm(h->r.s, x, hidden, h->r.d->norm_floats, x.columns, c->eps, err));
    KF_TRY(kf_multiply(&h->r, y, x, &h->r.d->head_weight, 0, 1, NULL));
    return c->logit_cap > 0 ? steps->cap(h->r.s, y, (float)c->logit_cap, err) : KERF_OK;
}

/* Logits where the caller sees them. `here`: memory for those that are apart. */
static kerf_status bring_panel(kf_head_run *h, const float *hidden, uint64_t n, float *here,
                               float **out)
{
    kf_rows logits;
    KF_TRY(kf_head_panel(h, hidden, n, &logits));
    *out = here ? here : logits.p;
    if (!here) return KERF_OK;
    return h->r.s->steps->download(h->r.s, here, logits.p, n * logits.columns * sizeof *here,
                                   h->r.err);
}

kerf_status kerf_decoder_logits(kerf_decoder *d, const kerf_tokens *tokens, const float *hidden,
                                const kerf_watch *watch, kerf_logits_of each, void *ctx,
                                const kerf_job *job, kerf_error *err)
{
    const uint64_t width = d->config.hidden, vocab = d->config.vocab, length = tokens->length;
    const int apart = d->stepper->steps->apart;
    uint64_t most = LOGIT_BYTES / (vocab * sizeof(float));
    most = most < 16 ? 16 : kf_min_u64(most, LOGIT_ROWS);
    if (most > length) most = length;
    if (most == 0) return KERF_OK;
    kf_head_run h = {.memory = NULL};
    float *here = NULL, *logits = NULL;
    kerf_status s = kf_head_open(&h, d, most, watch, err);
    if (s == KERF_OK && apart) s = kf_allocate(&here, most * vocab, sizeof *here, err);
    for (uint64_t row = 0; row < tokens->rows && s == KERF_OK; row++)
        for (uint64_t at = 0; at < length && s == KERF_OK; at += most) {
            const uint64_t n = kf_min_u64(most, length - at);
            s = kf_job_check(job, err);
            if (s == KERF_OK)
                s = bring_panel(&h, hidden + (row * length + at) * width, n, here, &logits);
            if (s == KERF_OK) s = each(ctx, row, at, n, logits, err);
        }
    if (s == KERF_OK && apart) s = d->stepper->steps->settle(d->stepper, err);
    if (s != KERF_OK && apart) d->stepper->steps->drop(d->stepper); /* sums, too */
    kf_head_close(&h);
    free(here);
    return s;
}
