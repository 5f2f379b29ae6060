/* next_token.c - losses, KL divergence and agreement of next-token distributions, from logits that
 * are made a panel of positions at a time. Exponentials are those of base/vector_exp.h, the
 * same on every machine; sums are doubles in eight lanes. */
#include "calibrate/next_token.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/vector_exp.h"
#include "base/vector_copies.h"

enum { PANEL_BYTES = 32 << 20, PANEL_MOST = 512, LANES = 8, CHUNK = 256 };

/* --- one position -------------------------------------------------------------------------- */

/* CHUNK numbers less `top`; what lies behind the last of them is as unlikely as can be. */
static inline void take_chunk(float out[CHUNK], const float *x, size_t n, float top)
{
    for (size_t i = n; i < CHUNK; i++) out[i] = -1000;
    if (n < CHUNK)
        for (size_t i = 0; i < n; i++) out[i] = x[i] - top;
    else
        for (size_t i = 0; i < CHUNK; i++) out[i] = x[i] - top;
}

/* sum[0..2]: of e^(a - top a), of e^(b - top b), and of e^(a - top a) times the difference of both
 * exponents; b NULL: the first alone. */
KF_WIDE(sum_exponents,
        (const float *a, float top_a, const float *b, float top_b, size_t n, double *sum),
        (a, top_a, b, top_b, n, sum), {
            double lane[3][LANES] = {{0}};
            float xa[CHUNK], xb[CHUNK], ea[CHUNK], eb[CHUNK];
            for (size_t at = 0; at < n; at += CHUNK) {
                const size_t m = n - at < CHUNK ? n - at : CHUNK;
                take_chunk(xa, a + at, m, top_a);
                for (size_t i = 0; i < CHUNK; i++) ea[i] = kf_exp(xa[i]);
                for (size_t i = 0; i < CHUNK; i += LANES)
                    for (size_t k = 0; k < LANES; k++) lane[0][k] += (double)ea[i + k];
                if (!b) continue;
                take_chunk(xb, b + at, m, top_b);
                for (size_t i = 0; i < CHUNK; i++) eb[i] = kf_exp(xb[i]);
                for (size_t i = 0; i < CHUNK; i++) xb[i] = xa[i] - xb[i];
                for (size_t i = 0; i < CHUNK; i += LANES)
                    for (size_t k = 0; k < LANES; k++) {
                        lane[1][k] += (double)eb[i + k];
                        lane[2][k] += (double)ea[i + k] * (double)xb[i + k];
                    }
            }
            for (size_t i = 0; i < 3; i++) {
                sum[i] = 0;
                for (size_t k = 0; k < LANES; k++) sum[i] += lane[i][k];
            }
        })

/* The largest of n numbers. */
KF_WIDE(find_top, (const float *x, size_t n, float *top), (x, n, top), {
    float most[CHUNK];
    for (size_t i = 0; i < CHUNK; i++) most[i] = x[i < n ? i : 0];
    for (size_t at = CHUNK; at + CHUNK <= n; at += CHUNK)
        for (size_t i = 0; i < CHUNK; i++) most[i] = x[at + i] > most[i] ? x[at + i] : most[i];
    *top = x[0];
    for (size_t i = 0; i < CHUNK; i++) *top = most[i] > *top ? most[i] : *top;
    for (size_t i = n - n % CHUNK; i < n; i++) *top = x[i] > *top ? x[i] : *top;
})

/* The first of the most likely tokens. */
static size_t most_likely(const float *x, size_t n)
{
    float top;
    size_t at = 0;
    find_top(x, n, &top);
    while (at + 1 < n && x[at] != top) at++;
    return at;
}

static kf_prediction predict(const float *a, const float *b, size_t n, uint32_t next)
{
    const size_t top_a = most_likely(a, n), top_b = b ? most_likely(b, n) : 0;
    double sum[3];
    kf_prediction out = {0};
    sum_exponents(a, a[top_a], b, b ? b[top_b] : 0, n, sum);
    const double log_a = log(sum[0]);
    out.loss = (float)(log_a + (double)(a[top_a] - a[next]));
    if (!b) return out;
    const double log_b = log(sum[1]);
    out.other = (float)(log_b + (double)(b[top_b] - b[next]));
    out.kl = (float)(sum[2] / sum[0] - (log_a - log_b));
    out.agrees = top_a == top_b;
    return out;
}

/* --- panels -------------------------------------------------------------------------------- */

typedef struct panel {
    const kerf_tokens *tokens;
    uint64_t first, count; /* positions over all rows */
    size_t vocabulary;
    float *logits[2]; /* [count][vocabulary]; [1] NULL: one model */
    float *filling;
    uint64_t filled;
    kf_prediction *out;
} panel;

static kerf_status take_logits(void *ctx, uint64_t row, uint64_t position, uint64_t n,
                               float *logits, kerf_error *err)
{
    panel *p = ctx;
    (void)row, (void)position, (void)err; /* panels come in rising order */
    memcpy(p->filling + p->filled * p->vocabulary, logits, n * p->vocabulary * sizeof *logits);
    p->filled += n;
    return KERF_OK;
}

static kerf_status fill_panel(panel *p, const kf_said *m, float *to, const kerf_job *job,
                              kerf_error *err)
{
    const uint64_t width = kerf_decoder_about(m->model)->hidden;
    const kerf_tokens part = {p->tokens->token + p->first, 1, p->count};
    p->filling = to;
    p->filled = 0;
    return kerf_decoder_logits(m->model, &part, m->hidden + p->first * width, NULL, take_logits, p,
                               job, err);
}

static kerf_status predict_one(void *ctx, uint64_t i)
{
    const panel *p = ctx;
    const uint64_t at = p->first + i, length = p->tokens->length;
    if (at % length == length - 1) return KERF_OK; /* nothing follows */
    const float *a = p->logits[0] + i * p->vocabulary,
                *b = p->logits[1] ? p->logits[1] + i * p->vocabulary : NULL;
    p->out[at - at / length] = predict(a, b, p->vocabulary, p->tokens->token[at + 1]);
    return KERF_OK;
}

static kerf_status run_panels(panel *p, uint64_t most, const kf_said *a, const kf_said *b,
                              int threads, const kerf_job *job, kerf_error *err)
{
    const uint64_t positions = p->tokens->rows * p->tokens->length;
    for (p->first = 0; p->first < positions; p->first += p->count) {
        p->count = kf_min_u64(most, positions - p->first);
        KF_TRY(fill_panel(p, a, p->logits[0], job, err));
        if (b) KF_TRY(fill_panel(p, b, p->logits[1], job, err));
        KF_TRY(kf_parallel(p->count, threads, predict_one, p));
    }
    return KERF_OK;
}

kerf_status kf_next_tokens(const kf_said *a, const kf_said *b, const kerf_tokens *tokens,
                           int threads, kf_prediction *out, const kerf_job *job, kerf_error *err)
{
    const size_t vocabulary = (size_t)kerf_decoder_about(a->model)->vocab;
    uint64_t most = PANEL_BYTES / sizeof(float) / vocabulary;
    panel p = {.tokens = tokens, .vocabulary = vocabulary, .out = out};
    most = most < 1 ? 1 : most > PANEL_MOST ? PANEL_MOST : most;
    kerf_status s = kf_allocate(&p.logits[0], most * vocabulary, sizeof(float), err);
    if (s == KERF_OK && b) s = kf_allocate(&p.logits[1], most * vocabulary, sizeof(float), err);
    if (s == KERF_OK) s = run_panels(&p, most, a, b, threads, job, err);
    free(p.logits[0]);
    free(p.logits[1]);
    return s;
}
