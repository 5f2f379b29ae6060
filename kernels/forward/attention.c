/* attention.c - queries, keys and values of a panel, their positions, and the softmax over what
 * each token sees. A head of some queries is one task: scores are one product with the keys that
 * any of them sees, in the order of positions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "forward/layer_run.h"
#include "base/vector_exp.h"

#define QUERIES UINT64_C(64) /* of one task */

/* --- positions ----------------------------------------------------------------------------- */

typedef struct rotation {
    const kf_panel_run *r;
    kf_rows x;
    uint64_t head, from, dims; /* numbers from `from` on of each head of `head` are rotated */
    int pairs;
} rotation;

static void rotate_block(void *ctx, uint64_t first, uint64_t count)
{
    const rotation *w = ctx;
    const uint64_t half = w->dims / 2, near = w->pairs ? 1 : half, step = w->pairs ? 2 : 1;
    for (uint64_t t = first; t < first + count; t++) {
        const float *cosine = w->r->cosine + t % w->r->length * half;
        const float *sine = w->r->sine + t % w->r->length * half;
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

static void rotate(const kf_panel_run *r, kf_rows x, uint64_t head, uint64_t from)
{
    if (!r->cosine) return;
    rotation w = {r,
                  x,
                  head,
                  from,
                  r->d->config.rope[r->l->kind->rope].dims,
                  (r->l->kind->has & KF_HAS_PAIRS) != 0};
    kf_for_tokens(r->d, x.rows, rotate_block, &w);
}

/* --- queries, keys and values ----------------------------------------------------------------- */

static kerf_status project_heads(kf_panel_run *r)
{
    const kf_config *c = &r->d->config;
    kerf_layer_weight *const *of = r->l->of;
    float *const *data = r->l->data;
    const kerf_layer_weight *fused = of[KF_SLOT_QKV];
    const uint64_t q = r->q.columns, k = r->k.columns;
    KF_TRY(
        kf_multiply(r, r->q, r->normed, fused ? fused : of[KF_SLOT_Q], 0, 1, data[KF_SLOT_Q_BIAS]));
    KF_TRY(kf_multiply(r, r->k, r->normed, fused ? fused : of[KF_SLOT_K], fused ? q : 0, 1,
                       fused ? NULL : data[KF_SLOT_K_BIAS]));
    KF_TRY(kf_multiply(r, r->v, r->normed, fused ? fused : of[KF_SLOT_V], fused ? q + k : 0, 1,
                       fused ? NULL : data[KF_SLOT_V_BIAS]));
    if (r->l->kind->has & KF_HAS_HEAD_NORM) {
        const size_t dim = (size_t)c->head_dim;
        kf_norm_rows(r->d, r->q, r->q.p, data[KF_SLOT_Q_NORM], dim, c->eps);
        kf_norm_rows(r->d, r->k, r->k.p, data[KF_SLOT_K_NORM], dim, c->eps);
    }
    rotate(r, r->q, c->head_dim, 0);
    rotate(r, r->k, c->head_dim, 0);
    return KERF_OK;
}

/* An array of these columns in memory that another one has. */
static kf_rows view_in(kf_rows memory, float *p, uint64_t columns)
{
    return (kf_rows){p, memory.rows, (size_t)columns, (size_t)columns};
}

#define LATENT_EPS 1e-6 /* of the norms of compressed vectors, whatever config.json says */

static kerf_status latent_queries(kf_panel_run *r)
{
    const kf_config *c = &r->d->config;
    kerf_layer_weight *const *of = r->l->of;
    if (!c->q_rank) return kf_multiply(r, r->q, r->normed, of[KF_SLOT_Q], 0, 1, NULL);
    const kf_rows low = view_in(r->low, r->low.p, c->q_rank);
    KF_TRY(kf_multiply(r, low, r->normed, of[KF_SLOT_Q_A], 0, 1, r->l->data[KF_SLOT_Q_A_BIAS]));
    kf_norm_rows(r->d, low, low.p, r->l->data[KF_SLOT_Q_A_NORM], low.columns, LATENT_EPS);
    return kf_multiply(r, r->q, low, of[KF_SLOT_Q_B], 0, 1, NULL);
}

typedef struct unpacking {
    const kf_panel_run *r;
    kf_rows packed, latent, unpacked;
} unpacking;

static void take_latent(void *ctx, uint64_t first, uint64_t count)
{
    const unpacking *u = ctx;
    for (uint64_t t = first; t < first + count; t++)
        memcpy(u->latent.p + t * u->latent.stride, u->packed.p + t * u->packed.stride,
               u->latent.columns * sizeof(float));
}

/* A head of keys is its own part and the rotated one that all heads share. */
static void take_heads(void *ctx, uint64_t first, uint64_t count)
{
    const unpacking *u = ctx;
    const kf_config *c = &u->r->d->config;
    const uint64_t nope = c->nope_dim, value = c->value_dim, rope = c->rope_dim;
    for (uint64_t t = first; t < first + count; t++) {
        const float *from = u->unpacked.p + t * u->unpacked.stride;
        const float *shared = u->packed.p + t * u->packed.stride + c->kv_rank;
        float *k = u->r->k.p + t * u->r->k.stride, *v = u->r->v.p + t * u->r->v.stride;
        for (uint64_t h = 0; h < c->heads; h++, from += nope + value) {
            memcpy(k, from, nope * sizeof *k);
            memcpy(k + nope, shared, rope * sizeof *k);
            memcpy(v, from + nope, value * sizeof *v);
            k += nope + rope;
            v += value;
        }
    }
}

static kerf_status project_latent(kf_panel_run *r)
{
    const kf_config *c = &r->d->config;
    kerf_layer_weight *const *of = r->l->of;
    KF_TRY(latent_queries(r));
    rotate(r, r->q, c->head_dim, c->nope_dim);
    unpacking u = {.r = r, .packed = view_in(r->low, r->low.p, c->kv_rank + c->rope_dim)};
    u.latent = view_in(r->low, r->low.p + r->tokens * u.packed.columns, c->kv_rank);
    u.unpacked = view_in(r->mixed, r->mixed.p, c->heads * (c->nope_dim + c->value_dim));
    KF_TRY(
        kf_multiply(r, u.packed, r->normed, of[KF_SLOT_KV_A], 0, 1, r->l->data[KF_SLOT_KV_A_BIAS]));
    rotate(r, u.packed, u.packed.columns, c->kv_rank);
    kf_for_tokens(r->d, r->tokens, take_latent, &u);
    kf_norm_rows(r->d, u.latent, u.latent.p, r->l->data[KF_SLOT_KV_A_NORM], u.latent.columns,
                 LATENT_EPS);
    KF_TRY(kf_multiply(r, u.unpacked, u.latent, of[KF_SLOT_KV_B], 0, 1, NULL));
    kf_for_tokens(r->d, r->tokens, take_heads, &u);
    return KERF_OK;
}

/* --- the softmax --------------------------------------------------------------------------- */

/* Over scores [from, to) of n; those that the token does not see become 0. sink: one more score,
 * which takes its share; NULL: none. */
static void soften(float *score, uint64_t from, uint64_t to, uint64_t n, const kf_config *c,
                   const float *sink)
{
    const float scale = (float)c->score_scale, cap = (float)c->score_cap;
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

typedef struct attention {
    const kf_panel_run *r;
    kf_rows mixed;
    uint64_t blocks; /* of queries in a row */
} attention;

/* One head of up to QUERIES tokens of a row. */
static kerf_status attend(void *ctx, uint64_t i)
{
    const attention *a = ctx;
    const kf_panel_run *r = a->r;
    const kf_config *c = &r->d->config;
    const uint64_t block = i % a->blocks, head = i / a->blocks % c->heads;
    const uint64_t row = i / a->blocks / c->heads * r->length, window = r->l->kind->window;
    const uint64_t q0 = block * QUERIES, q1 = kf_min_u64(q0 + QUERIES, r->length);
    const uint64_t k0 = window && q0 + 1 > window ? q0 + 1 - window : 0, seen = q1 - k0;
    const uint64_t dim = c->head_dim, value = c->value_dim, of = head / (c->heads / c->kv_heads);
    float *score = kf_alloc((q1 - q0) * seen + KF_PRODUCT_SCRATCH, sizeof *score);
    if (!score) return KERF_E_NOMEM;
    float *scratch = score + (q1 - q0) * seen;

    const kf_rows s = {score, (size_t)(q1 - q0), (size_t)seen, (size_t)seen};
    const float *keys = r->k.p + (row + k0) * r->k.stride + of * dim;
    r->d->product(
        s,
        (kf_rows){r->q.p + (row + q0) * r->q.stride + head * dim, s.rows, (size_t)dim, r->q.stride},
        (kf_factor){keys, (size_t)seen, (size_t)dim, r->k.stride, 1}, scratch);
    const float *sinks = r->l->data[KF_SLOT_SINKS];
    for (uint64_t t = q0; t < q1; t++) {
        const uint64_t from = window && t + 1 > window ? t + 1 - window - k0 : 0;
        soften(score + (t - q0) * seen, from, t + 1 - k0, seen, c, sinks ? sinks + head : NULL);
    }
    const float *values = r->v.p + (row + k0) * r->v.stride + of * value;
    r->d->product((kf_rows){a->mixed.p + (row + q0) * a->mixed.stride + head * value, s.rows,
                            (size_t)value, a->mixed.stride},
                  s, (kf_factor){values, (size_t)value, (size_t)seen, 1, r->v.stride}, scratch);
    free(score);
    return KERF_OK;
}

kerf_status kf_run_attention(kf_panel_run *r)
{
    const kf_config *c = &r->d->config;
    const kf_rows mixed = view_in(r->mixed, r->mixed.p, c->heads * c->value_dim);
    KF_TRY(r->l->kind->has & KF_HAS_LATENT ? project_latent(r) : project_heads(r));
    if (r->watch && r->watch->cache)
        KF_TRY(r->watch->cache(r->watch->ctx, r->l->index, r->k.p, r->v.p, r->tokens, r->err));
    attention a = {r, mixed, kf_div_up(r->length, QUERIES)};
    const kerf_status s = kf_parallel(r->rows * c->heads * a.blocks, r->d->threads, attend, &a);
    if (s != KERF_OK) return kf_fail(r->err, s, KF_NOWHERE, "no memory for the scores of a head");
    return kf_multiply(r, r->delta, mixed, r->l->of[KF_SLOT_O], 0, 1, r->l->data[KF_SLOT_O_BIAS]);
}
