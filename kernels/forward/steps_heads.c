/* steps_heads.c - what happens to heads, on the processor: positions, and the softmax over what
 * each token sees. A head of some queries is one task: scores are one product with the keys that
 * any of them sees, in the order of positions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vector_exp.h"
#include "forward/steps_plain.h"

#define QUERIES UINT64_C(64) /* of one task */

/* --- positions ----------------------------------------------------------------------------- */

static void rotate_block(const void *ctx, uint64_t first, uint64_t count)
{
    const kf_rotation *w = ctx;
    const uint64_t half = w->dims / 2, near = w->pairs ? 1 : half, step = w->pairs ? 2 : 1;
    for (uint64_t t = first; t < first + count; t++) {
        const float *cosine = w->cosine + t % w->length * half;
        const float *sine = w->sine + t % w->length * half;
        for (uint64_t h = w->from; h < w->x.columns; h += w->head) {
            float *a = w->x.p + t * w->x.stride + h;
            for (uint64_t i = 0; i < half; i++, a += step) {
                const float low = a[0], high = a[near];
                a[0] = low * cosine[i] - high * sine[i];
                a[near] = high * cosine[i] + low * sine[i];
            }
        }
    }
}

kerf_status kf_rotate_plain(kf_stepper *s, const kf_rotation *r, kerf_error *err)
{
    (void)err;
    return kf_for_tokens(s->threads, r->x.rows, rotate_block, r);
}

/* --- compressed heads ---------------------------------------------------------------------- */

static void unpack_block(const void *ctx, uint64_t first, uint64_t count)
{
    const kf_unpacking *u = ctx;
    for (uint64_t t = first; t < first + count; t++) {
        const float *from = u->unpacked.p + t * u->unpacked.stride;
        const float *shared = u->packed.p + t * u->packed.stride + u->shared;
        float *k = u->k.p + t * u->k.stride, *v = u->v.p + t * u->v.stride;
        for (uint64_t h = 0; h < u->heads; h++, from += u->nope + u->value) {
            memcpy(k, from, u->nope * sizeof *k);
            memcpy(k + u->nope, shared, u->rope * sizeof *k);
            memcpy(v, from + u->nope, u->value * sizeof *v);
            k += u->nope + u->rope;
            v += u->value;
        }
    }
}

kerf_status kf_unpack_plain(kf_stepper *s, const kf_unpacking *u, kerf_error *err)
{
    (void)err;
    return kf_for_tokens(s->threads, u->k.rows, unpack_block, u);
}

/* --- the softmax --------------------------------------------------------------------------- */

/* Over scores [from, to) of n; those that the token does not see become 0. sink: one more score,
 * which takes its share; NULL: none. */
static void soften(float *score, uint64_t from, uint64_t to, uint64_t n, float scale, float cap,
                   const float *sink)
{
    float top = sink ? *sink : -INFINITY, sum = 0;
    for (uint64_t j = from; j < to; j++) {
        score[j] *= scale;
        if (cap > 0) score[j] = cap * tanhf(score[j] / cap);
        top = score[j] > top ? score[j] : top;
    }
    for (uint64_t j = from; j < to; j++) score[j] = kf_exp(score[j] - top);
    for (uint64_t j = from; j < to; j++) sum += score[j];
    if (sink) sum += kf_exp(*sink - top);
    for (uint64_t j = from; j < to; j++) score[j] /= sum;
    memset(score, 0, from * sizeof *score);
    memset(score + to, 0, (n - to) * sizeof *score);
}

typedef struct attending {
    const kf_attention *a;
    kf_product *product;
    uint64_t blocks; /* of queries in a row */
} attending;

/* One head of up to QUERIES tokens of a row. */
static kerf_status attend(void *ctx, uint64_t i)
{
    const attending *w = ctx;
    const kf_attention *a = w->a;
    const uint64_t block = i % w->blocks, head = i / w->blocks % a->heads;
    const uint64_t row = i / w->blocks / a->heads * a->length, window = a->window;
    const uint64_t q0 = block * QUERIES, q1 = kf_min_u64(q0 + QUERIES, a->length);
    const uint64_t k0 = window && q0 + 1 > window ? q0 + 1 - window : 0, seen = q1 - k0;
    const uint64_t dim = a->dim, value = a->value, of = head / (a->heads / a->kv_heads);
    float *score = kf_alloc((q1 - q0) * seen + KF_PRODUCT_SCRATCH, sizeof *score);
    if (!score) return KERF_E_NOMEM;
    float *scratch = score + (q1 - q0) * seen;

    const kf_rows s = {score, (size_t)(q1 - q0), (size_t)seen, (size_t)seen};
    const float *keys = a->k.p + (row + k0) * a->k.stride + of * dim;
    w->product(
        s,
        (kf_rows){a->q.p + (row + q0) * a->q.stride + head * dim, s.rows, (size_t)dim, a->q.stride},
        (kf_factor){keys, (size_t)seen, (size_t)dim, a->k.stride, 1}, scratch);
    for (uint64_t t = q0; t < q1; t++) {
        const uint64_t from = window && t + 1 > window ? t + 1 - window - k0 : 0;
        soften(score + (t - q0) * seen, from, t + 1 - k0, seen, a->scale, a->cap,
               a->sinks ? a->sinks + head : NULL);
    }
    const float *values = a->v.p + (row + k0) * a->v.stride + of * value;
    w->product((kf_rows){a->mixed.p + (row + q0) * a->mixed.stride + head * value, s.rows,
                         (size_t)value, a->mixed.stride},
               s, (kf_factor){values, (size_t)value, (size_t)seen, 1, a->v.stride}, scratch);
    free(score);
    return KERF_OK;
}

kerf_status kf_attend_plain(kf_stepper *s, const kf_attention *a, kerf_error *err)
{
    attending w = {a, s->product, kf_div_up(a->length, QUERIES)};
    if (kf_parallel(a->rows * a->heads * w.blocks, s->threads, attend, &w) == KERF_OK)
        return KERF_OK;
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for the scores of a head");
}
