/* next_token.c - losses, KL divergence and agreement of next-token distributions, from logits that
 * are made a panel of positions at a time and stay where they are made. On the processor
 * exponentials are those of base/vector_exp.h, the same on every machine; sums are doubles in eight
 * lanes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vector_copies.h"
#include "base/vector_exp.h"
#include "base/work.h"
#include "forward/layer_run.h"
#include "forward/steps_plain.h"

enum { PANEL_BYTES = 32 << 20, PANEL_MOST = 512, LANES = 8, CHUNK = 256 };
enum { GPU_PANEL_BYTES = 512 << 20, GPU_PANEL_MOST = 2048 };

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

static kf_likely predict(const float *a, const float *b, size_t n, uint32_t next)
{
    const size_t top_a = most_likely(a, n), top_b = b ? most_likely(b, n) : 0;
    double sum[3];
    kf_likely out = {0};
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

typedef struct judging {
    kf_rows a, b;
    const uint32_t *next;
    kf_likely *out;
} judging;

static kerf_status judge_one(void *ctx, uint64_t i)
{
    const judging *w = ctx;
    if (w->next[i] == KF_NOTHING_FOLLOWS) return KERF_OK;
    w->out[i] = predict(w->a.p + i * w->a.stride, w->b.p ? w->b.p + i * w->b.stride : NULL,
                        w->a.columns, w->next[i]);
    return KERF_OK;
}

kerf_status kf_judge_plain(kf_stepper *s, kf_rows a, kf_rows b, const uint32_t *next,
                           kf_likely *out, kerf_error *err)
{
    judging w = {a, b, next, out};
    (void)err;
    return kf_parallel(a.rows, s->threads, judge_one, &w);
}

/* One or two models, and what one panel says. */
typedef struct comparing {
    const kerf_tokens *tokens;
    const kerf_said *said[2];
    kf_head_run head[2];
    uint32_t *next; /* [most] */
    kf_likely *likely;
    kerf_next_said *out;
} comparing;

static uint64_t most_of(const kerf_said *p, uint64_t positions)
{
    const int apart = p->model->stepper->steps->apart;
    const uint64_t row = p->model->config.vocab * sizeof(float);
    const uint64_t most = (uint64_t)(apart ? GPU_PANEL_BYTES : PANEL_BYTES) / row;
    const uint64_t bound = kf_min_u64(positions, apart ? GPU_PANEL_MOST : PANEL_MOST);
    return most < 1 ? 1 : kf_min_u64(most, bound);
}

/* Positions [first, first + n) over all rows. */
static kerf_status compare_panel(comparing *c, uint64_t first, uint64_t n, kerf_error *err)
{
    const uint64_t length = c->tokens->length;
    kf_rows logits[2] = {{0}, {0}};
    for (int i = 0; i < 2 && c->said[i]; i++) {
        const float *hidden = c->said[i]->hidden + first * c->said[i]->model->config.hidden;
        KF_TRY(kf_head_panel(&c->head[i], hidden, n, &logits[i]));
    }
    for (uint64_t i = 0; i < n; i++)
        c->next[i] = (first + i) % length == length - 1 ? KF_NOTHING_FOLLOWS
                                                        : c->tokens->token[first + i + 1];
    kf_stepper *s = c->said[0]->model->stepper;
    KF_TRY(s->steps->judge(s, logits[0], logits[1], c->next, c->likely, err));
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t at = first + i;
        const kf_likely *k = &c->likely[i];
        if (c->next[i] == KF_NOTHING_FOLLOWS) continue;
        c->out[at - at / length] = (kerf_next_said){k->loss, k->other, k->kl, k->agrees};
    }
    return KERF_OK;
}

static kerf_status compare_panels(comparing *c, uint64_t most, const kerf_job *job, kerf_error *err)
{
    const uint64_t positions = c->tokens->rows * c->tokens->length;
    KF_TRY(kf_allocate(&c->next, most, sizeof *c->next, err));
    KF_TRY(kf_allocate(&c->likely, most, sizeof *c->likely, err));
    for (int i = 0; i < 2 && c->said[i]; i++)
        KF_TRY(kf_head_open(&c->head[i], c->said[i]->model, most, NULL, err));
    for (uint64_t first = 0; first < positions; first += most) {
        KF_TRY(kf_job_check(job, err));
        KF_TRY(compare_panel(c, first, kf_min_u64(most, positions - first), err));
    }
    return KERF_OK;
}

kerf_status kerf_next_tokens(const kerf_said *p, const kerf_said *q, const kerf_tokens *tokens,
                             kerf_next_said *out, const kerf_job *job, kerf_error *err)
{
    comparing c = {.tokens = tokens, .said = {p, q}, .out = out};
    const uint64_t positions = tokens->rows * tokens->length;
    if (q && (q->model->config.vocab != p->model->config.vocab ||
              q->model->stepper->steps != p->model->stepper->steps))
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "models of two vocabularies, or one on a GPU and one on the processor");
    if (positions == 0) return KERF_OK;
    KF_TRY(kf_tokens_check(p->model, tokens, err));
    const kerf_status s = compare_panels(&c, most_of(p, positions), job, err);
    for (int i = 0; i < 2; i++) kf_head_close(&c.head[i]);
    free(c.next);
    free(c.likely);
    return s;
}
