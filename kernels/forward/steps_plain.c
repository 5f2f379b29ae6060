/* steps_plain.c - the steps of a forward pass on the processor (plan/forward_steps.h), but for
 * those of heads: blocks of tokens, each the work of one thread. Norms are summed in double. */
#include "forward/steps_plain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vector_exp.h"
#include "cpu/product_choice.h"

#define BLOCK_TOKENS UINT64_C(64)

/* --- tokens over threads ------------------------------------------------------------------- */

typedef struct blocks {
    kf_token_task *task;
    const void *ctx;
    uint64_t tokens;
} blocks;

static kerf_status run_block(void *ctx, uint64_t i)
{
    const blocks *b = ctx;
    const uint64_t first = i * BLOCK_TOKENS;
    b->task(b->ctx, first, kf_min_u64(BLOCK_TOKENS, b->tokens - first));
    return KERF_OK;
}

kerf_status kf_for_tokens(int threads, uint64_t tokens, kf_token_task *task, const void *ctx)
{
    blocks b = {task, ctx, tokens};
    return kf_parallel(kf_div_up(tokens, BLOCK_TOKENS), threads, run_block, &b);
}

/* --- memory -------------------------------------------------------------------------------- */

static kerf_status allocate(kf_stepper *s, uint64_t bytes, void *out, kerf_error *err)
{
    (void)s;
    void *p = kf_alloc(bytes ? bytes : 1, 1);
    memcpy(out, &p, sizeof p);
    if (p) return KERF_OK;
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for %llu bytes of a layer",
                   (unsigned long long)bytes);
}

static void release(kf_stepper *s, void *p)
{
    (void)s;
    free(p);
}

static void close_steps(kf_stepper *s)
{
    (void)s;
}

/* --- norms --------------------------------------------------------------------------------- */

typedef struct norm_work {
    kf_rows y;
    const float *x, *w;
    size_t width;
    double eps;
} norm_work;

static void norm_block(const void *ctx, uint64_t first, uint64_t count)
{
    const norm_work *n = ctx;
    for (uint64_t t = first; t < first + count; t++)
        for (size_t at = 0; at < n->y.columns; at += n->width) {
            const float *in = n->x + t * n->y.stride + at;
            float *out = n->y.p + t * n->y.stride + at;
            double sum = 0;
            for (size_t k = 0; k < n->width; k++) sum += (double)in[k] * (double)in[k];
            const float scale = (float)(1.0 / sqrt(sum / (double)n->width + n->eps));
            for (size_t k = 0; k < n->width; k++) out[k] = in[k] * scale * n->w[k];
        }
}

static kerf_status norm(kf_stepper *s, kf_rows y, const float *x, const float *w, size_t width,
                        double eps, kerf_error *err)
{
    const norm_work n = {y, x, w, width, eps};
    (void)err;
    return kf_for_tokens(s->threads, y.rows, norm_block, &n);
}

/* --- products ------------------------------------------------------------------------------ */

typedef struct bias_work {
    kf_rows y;
    const float *bias;
    uint64_t step;
} bias_work;

static void bias_block(const void *ctx, uint64_t first, uint64_t count)
{
    const bias_work *b = ctx;
    for (uint64_t t = first; t < first + count; t++)
        for (size_t k = 0; k < b->y.columns; k++)
            b->y.p[t * b->y.stride + k] += b->bias[k * b->step];
}

static kerf_status product(kf_stepper *s, kf_rows y, kf_rows x, kf_factor w, const float *bias,
                           uint64_t bias_step, kerf_error *err)
{
    const bias_work b = {y, bias, bias_step};
    KF_TRY(kf_product_on(s->product, s->threads, y, x, w, err));
    return bias ? kf_for_tokens(s->threads, y.rows, bias_block, &b) : KERF_OK;
}

/* --- sums of two arrays, copies ------------------------------------------------------------- */

typedef struct pair {
    kf_rows y, x;
} pair;

static void add_block(const void *ctx, uint64_t first, uint64_t count)
{
    const pair *a = ctx;
    for (uint64_t i = first * a->y.stride; i < (first + count) * a->y.stride; i++)
        a->y.p[i] += a->x.p[i];
}

static kerf_status add(kf_stepper *s, kf_rows y, kf_rows x, kerf_error *err)
{
    const pair a = {y, x};
    (void)err;
    return kf_for_tokens(s->threads, y.rows, add_block, &a);
}

static kerf_status zero(kf_stepper *s, kf_rows y, kerf_error *err)
{
    (void)s, (void)err;
    memset(y.p, 0, y.rows * y.stride * sizeof *y.p);
    return KERF_OK;
}

static void take_block(const void *ctx, uint64_t first, uint64_t count)
{
    const pair *a = ctx;
    for (uint64_t t = first; t < first + count; t++)
        memcpy(a->y.p + t * a->y.stride, a->x.p + t * a->x.stride, a->y.columns * sizeof(float));
}

static kerf_status take(kf_stepper *s, kf_rows to, kf_rows from, kerf_error *err)
{
    const pair a = {to, from};
    (void)err;
    return kf_for_tokens(s->threads, to.rows, take_block, &a);
}

static void gather_block(const void *ctx, uint64_t first, uint64_t count)
{
    const kf_gathering *w = ctx;
    for (uint64_t i = first; i < first + count; i++) {
        const uint64_t in = w->back ? i : w->token[i], out = w->back ? w->token[i] : i;
        const float *from = w->from.p + in * w->from.stride;
        float *to = w->to.p + out * w->to.stride;
        if (!w->back)
            memcpy(to, from, w->from.columns * sizeof *to);
        else
            for (size_t k = 0; k < w->from.columns; k++) to[k] += w->share[i] * from[k];
    }
}

static kerf_status gather(kf_stepper *s, const kf_gathering *g, kerf_error *err)
{
    (void)err;
    return kf_for_tokens(s->threads, g->back ? g->from.rows : g->to.rows, gather_block, g);
}

/* --- gates --------------------------------------------------------------------------------- */

static float activate(kf_gate_kind a, float x)
{
    return a == KF_GATE_GELU
               ? 0.5f * x * (1.0f + erff(x * 0.70710678118654752440f))
               : 0.5f * x * (1.0f + tanhf(0.79788456080286535588f * (x + 0.044715f * x * x * x)));
}

/* The gate of gpt-oss: both sides clamped, and one added to `up`. */
static float clamped(float gate, float up, float limit, float alpha)
{
    const float x = gate > limit ? limit : gate;
    const float y = up > limit ? limit : up < -limit ? -limit : up;
    return (y + 1.0f) * (x / (1.0f + kf_exp(-alpha * x)));
}

static void gate_block(const void *ctx, uint64_t first, uint64_t count)
{
    const kf_gating *w = ctx;
    const float limit = w->limit, alpha = w->alpha;
    const size_t n = w->gate.columns;
    for (uint64_t t = first; t < first + count; t++) {
        float *restrict g = w->gate.p + t * w->gate.stride;
        const float *restrict u = w->up.p + t * w->up.stride;
        if (w->kind == KF_GATE_CLAMPED)
            for (size_t k = 0; k < n; k++) g[k] = clamped(g[k], u[k], limit, alpha);
        else if (w->kind == KF_GATE_SILU)
            for (size_t k = 0; k < n; k++) g[k] = g[k] / (1.0f + kf_exp(-g[k])) * u[k];
        else
            for (size_t k = 0; k < n; k++) g[k] = activate(w->kind, g[k]) * u[k];
    }
}

static kerf_status gate(kf_stepper *s, const kf_gating *g, kerf_error *err)
{
    (void)err;
    return kf_for_tokens(s->threads, g->gate.rows, gate_block, g);
}

typedef struct cap_work {
    kf_rows y;
    float cap;
} cap_work;

static kerf_status cap_row(void *ctx, uint64_t i)
{
    const cap_work *w = ctx;
    float *x = w->y.p + i * w->y.stride;
    for (size_t k = 0; k < w->y.columns; k++) x[k] = w->cap * tanhf(x[k] / w->cap);
    return KERF_OK;
}

static kerf_status cap(kf_stepper *s, kf_rows y, float most, kerf_error *err)
{
    cap_work w = {y, most};
    (void)err;
    return kf_parallel(y.rows, s->threads, cap_row, &w);
}

/* --- all of them --------------------------------------------------------------------------- */

const kf_steps kf_steps_plain = {.name = "cpu",
                                 .close = close_steps,
                                 .allocate = allocate,
                                 .release = release,
                                 .norm = norm,
                                 .product = product,
                                 .add = add,
                                 .zero = zero,
                                 .rotate = kf_rotate_plain,
                                 .attend = kf_attend_plain,
                                 .gate = gate,
                                 .take = take,
                                 .unpack = kf_unpack_plain,
                                 .gather = gather,
                                 .cap = cap,
                                 .judge = kf_judge_plain};
