/* decoder_head.c - from the state behind the last layer to the scores of the next token. */
#include <math.h>
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

typedef struct cap_work {
    float *logits;
    uint64_t vocab;
    float cap;
} cap_work;

static kerf_status cap_row(void *ctx, uint64_t i)
{
    const cap_work *w = ctx;
    float *x = w->logits + i * w->vocab;
    for (uint64_t k = 0; k < w->vocab; k++) x[k] = w->cap * tanhf(x[k] / w->cap);
    return KERF_OK;
}

/* Positions [at, at + n) of a row. */
static kerf_status panel_of(const kerf_decoder *d, const float *hidden, uint64_t n, float *normed,
                            float *logits, const kerf_watch *watch, kerf_error *err)
{
    const kf_config *c = &d->config;
    const kf_rows x = {normed, (size_t)n, (size_t)c->hidden, (size_t)c->hidden};
    const kf_rows y = {logits, (size_t)n, (size_t)c->vocab, (size_t)c->vocab};
    kf_norm_rows(d, x, hidden, d->norm_floats, (size_t)c->hidden, c->eps);
    if (watch && watch->input) KF_TRY(watch->input(watch->ctx, &d->head_weight, normed, n, err));
    KF_TRY(kf_product_on(
        d->product, d->threads, y, x,
        (kf_factor){d->head_weight.data, (size_t)c->vocab, (size_t)c->hidden, (size_t)c->hidden, 1},
        err));
    if (c->logit_cap <= 0) return KERF_OK;
    cap_work w = {logits, c->vocab, (float)c->logit_cap};
    return kf_parallel(n, d->threads, cap_row, &w);
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
    KF_TRY(load_head(d, err));
    float *normed = kf_alloc(most * width, sizeof *normed);
    float *logits = kf_alloc(most * vocab, sizeof *logits);
    kerf_status s = KERF_OK;
    if (!normed || !logits) s = kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for the logits");
    for (uint64_t row = 0; row < tokens->rows && s == KERF_OK; row++)
        for (uint64_t at = 0; at < length && s == KERF_OK; at += most) {
            const uint64_t n = kf_min_u64(most, length - at);
            if (job && job->cancel && job->cancel(job->ctx))
                s = kf_fail(err, KERF_E_CANCELED, KF_NOWHERE, "canceled");
            if (s == KERF_OK)
                s = panel_of(d, hidden + (row * length + at) * width, n, normed, logits, watch,
                             err);
            if (s == KERF_OK) s = each(ctx, row, at, n, logits, err);
        }
    free(normed);
    free(logits);
    return s;
}
