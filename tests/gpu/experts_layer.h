/* experts_layer.h - a small layer of experts, its routes, and what its product must be in double.
 */
#ifndef KERF_TESTS_EXPERTS_LAYER_H
#define KERF_TESTS_EXPERTS_LAYER_H

#include "cpu/widen.h"
#include "format/format.h"
#include "plan/experts_plan.h"
#include "plan/gemv_tuning.h"

#include <kerf/encode_matrix.h>
#include <kerf/gemv_experts.h>

#define PROGRAM "gemv_experts"
#include "gpu/fit_cols.h"
#include "gpu/zones.h"

enum { ROUTES = 4 }; /* ways to fill them */

static const kf_gemv_machine *machine_of_plans; /* NULL: the GPU that is there */

/* Codes go to the device shuffled, and plans are told. */
static int shuffled;

typedef struct layer_case {
    size_t experts, hidden, inter;
    unsigned tokens, top_k;
    kerf_dtype x, y, between;
    kerf_experts_rows rows;
    int bias, clamped;
} layer_case;

/* A stack of matrices: planes, values, bias. */
typedef struct stack {
    size_t rows, cols;
    uint8_t *plane[KERF_PLANES];
    size_t bytes[KERF_PLANES]; /* of one matrix */
    float *w, *bias;
    zone zones[KERF_PLANES], bias_zone;
} stack;

typedef struct layer {
    const kerf_format *f;
    layer_case c;
    stack in[2], down;
    uint8_t *x;
    int32_t ids[KERF_EXPERTS_TOKENS * KERF_EXPERTS_TOP_K];
    float weights[KERF_EXPERTS_TOKENS * KERF_EXPERTS_TOP_K];
    zone x_zone, y_zone, h_zone, ids_zone, weights_zone;
    mark before;
    kerf_gemv_experts *plan;
    kerf_gemv_experts_args args;
    double *exact, *bound; /* tokens x hidden */
} layer;

/* --- stacks ------------------------------------------------------------------------------------
 */

static stack stack_new(const layer *l, size_t rows, size_t cols, uint64_t seed)
{
    stack s = {.rows = rows, .cols = cols};
    size_t one = rows * cols, experts = l->c.experts;
    float *src = allocate(one * sizeof *src);
    s.w = allocate(experts * one * sizeof *s.w);
    s.bias = allocate(experts * rows * sizeof *s.bias);
    for (size_t e = 0; e < experts; e++) {
        kerf_shape shape = {2, {rows, cols}};
        kerf_geometry g;
        kerf_span out[KERF_PLANES];
        kerf_cspan in[KERF_PLANES];
        need(kerf_geometry_init(&g, l->f, &shape, &error), "geometry");
        for (int p = 0; p < KERF_PLANES; p++) {
            s.bytes[p] = (size_t)g.plane[p].bytes;
            if (!s.plane[p]) s.plane[p] = allocate(experts * s.bytes[p]);
            out[p] = (kerf_span){s.plane[p] + e * s.bytes[p], s.bytes[p]};
            in[p] = (kerf_cspan){out[p].p, out[p].n};
        }
        for (size_t i = 0; i < one; i++) src[i] = 0.06f * bell(seed + e * 7919 + i * 31);
        need(kerf_encode_matrix(&g, NULL, (kerf_cspan){src, one * 4}, KERF_F32, out, NULL, NULL,
                                &error),
             "encode");
        need(kerf_decode(&g, 0, g.bands, in, (kerf_span){s.w + e * one, one * 4}, KERF_F32, NULL,
                         &error),
             "decode");
    }
    for (size_t i = 0; i < experts * rows; i++) s.bias[i] = 0.1f * bell(seed + 99 + i);
    free(src);
    return s;
}

static void stack_place(const layer *l, stack *s, kerf_experts_stack *to)
{
    for (int p = 0; p < KERF_PLANES; p++) {
        if (!s->bytes[p]) continue;
        s->zones[p] = zone_new(l->c.experts * s->bytes[p], 0);
        if (shuffled && p == KERF_PLANE_CODES)
            need(kerf_gemv_shuffle(l->f, (kerf_span){s->plane[p], s->zones[p].n}, NULL, NULL,
                                   &error),
                 "shuffle");
        zone_write(s->zones[p], s->plane[p]);
        to->weights[p] = span_of(s->zones[p]);
    }
    if (!l->c.bias) return;
    s->bias_zone = zone_new(l->c.experts * s->rows * 4, 0);
    zone_write(s->bias_zone, s->bias);
    to->bias = span_of(s->bias_zone);
}

static void stack_free(stack *s)
{
    for (int p = 0; p < KERF_PLANES; p++) free(s->plane[p]);
    free(s->w);
    free(s->bias);
}

/* --- layers ------------------------------------------------------------------------------------
 */

static layer layer_new(const kerf_format *f, const layer_case *c)
{
    layer l = {.f = f, .c = *c, .before = zones_mark()};
    l.c.hidden = fit_cols(f, c->hidden);
    l.c.inter = fit_cols(f, c->inter);
    c = &l.c;
    kerf_gemv_experts_shape s = {.format = f,
                                 .experts = c->experts,
                                 .hidden = c->hidden,
                                 .inter = c->inter,
                                 .tokens = c->tokens,
                                 .top_k = c->top_k,
                                 .x = c->x,
                                 .y = c->y,
                                 .between = c->between,
                                 .bias = c->bias ? KERF_F32 : KERF_DTYPE_NONE,
                                 .rows = c->rows,
                                 .activation =
                                     c->clamped ? KERF_EXPERTS_CLAMPED : KERF_EXPERTS_SWIGLU,
                                 .limit = 0.5f,
                                 .flags = shuffled ? KERF_GEMV_SHUFFLED : 0};
    kerf_exec exec = {.device = gpu};
    kerf_status made = kf_gemv_experts_plan_create_as(&l.plan, &s, &exec, machine_of_plans, &error);
    if (made == KERF_E_NOSUP) return l;
    need(made, "plan");
    int apart = c->rows == KERF_EXPERTS_APART;
    for (int i = 0; i < 1 + apart; i++) {
        l.in[i] = stack_new(&l, c->inter * (apart ? 1 : 2), c->hidden, 11 + (uint64_t)i * 5003);
        stack_place(&l, &l.in[i], i ? &l.args.up : &l.args.gate);
    }
    l.down = stack_new(&l, c->hidden, c->inter, 777);
    stack_place(&l, &l.down, &l.args.down);
    l.x = allocate(c->tokens * c->hidden * size_of(c->x));
    for (size_t i = 0; i < c->tokens * c->hidden; i++) kf_store(c->x, l.x, i, bell(5 + i));
    size_t slots = (size_t)c->tokens * c->top_k, out = c->tokens * c->hidden;
    l.x_zone = zone_new(c->tokens * c->hidden * size_of(c->x), 0);
    l.y_zone = zone_new(out * size_of(c->y), 0);
    l.h_zone = zone_new(kerf_gemv_experts_workspace(l.plan), 0);
    l.ids_zone = zone_new(slots * 4, 0);
    l.weights_zone = zone_new(slots * 4, 0);
    zone_write(l.x_zone, l.x);
    zone_write(l.h_zone, NULL);
    l.args.x = span_of(l.x_zone);
    l.args.y = (kerf_span){l.y_zone.p, l.y_zone.n};
    l.args.ids = span_of(l.ids_zone);
    l.args.weights = span_of(l.weights_zone);
    l.args.workspace = (kerf_span){l.h_zone.p, l.h_zone.n};
    l.exact = allocate(out * sizeof(double));
    l.bound = allocate(out * sizeof(double));
    return l;
}

static void layer_free(layer *l)
{
    kerf_gemv_experts_plan_free(l->plan);
    stack_free(&l->in[0]);
    stack_free(&l->in[1]);
    stack_free(&l->down);
    free(l->x);
    free(l->exact);
    free(l->bound);
    zones_free(l->before);
}

/* --- routes ------------------------------------------------------------------------------------
 */

static int counts(const layer *l, size_t slot)
{
    return l->ids[slot] >= 0 && (size_t)l->ids[slot] < l->c.experts && l->weights[slot] != 0;
}

/* 0: as routers give them; 1: with strays: twice the same, none, out of range, weight zero; 2: all
 * tokens to one expert; 3: nothing that counts. */
static void fill_routes(layer *l, int way, uint64_t seed)
{
    static const int32_t strays[] = {-1, INT32_MIN, INT32_MAX, 1 << 20};
    size_t slots = (size_t)l->c.tokens * l->c.top_k;
    for (size_t i = 0; i < slots; i++) {
        uint64_t r = mix(seed + i);
        size_t first = mix(seed * 77 + i / l->c.top_k) % l->c.experts;
        l->ids[i] = (int32_t)((first + i % l->c.top_k * 5) % l->c.experts);
        l->weights[i] = 0.02f + (float)(r % 1000) * 0.001f;
        if (way == 2) l->ids[i] = (int32_t)(l->c.experts - 1);
        if (way == 3 || (way == 1 && r % 5 == 0)) l->ids[i] = strays[r / 8 % 4];
        if (way == 3 && r % 3 == 0) l->ids[i] = 0, l->weights[i] = 0;
        if (way == 1 && r % 5 == 1) l->weights[i] = r / 8 % 2 ? 0.0f : -0.0f;
        if (way == 1 && r % 5 == 2 && i % l->c.top_k) l->ids[i] = l->ids[i - 1];
        if (way == 1 && r % 5 == 3) l->weights[i] = -l->weights[i];
    }
    zone_write(l->ids_zone, l->ids);
    zone_write(l->weights_zone, l->weights);
}

/* --- the reference ------------------------------------------------------------------------------
 */

/* A row times a vector: the sum, the sum of magnitudes, and what is lost on the way to fp16. */
typedef struct dot {
    double y, sum;
} dot;

static dot dot_of(const float *w, const double *x, size_t n)
{
    dot d = {0, 0};
    double w_max = 0, x_max = 0;
    for (size_t k = 0; k < n; k++) {
        double t = (double)w[k] * x[k];
        d.y += t;
        d.sum += fabs(t);
        w_max = fmax(w_max, fabs((double)w[k]));
        x_max = fmax(x_max, fabs(x[k]));
    }
    d.sum += (double)n * 0x1p-28 * w_max * x_max;
    return d;
}

/* h of an expert and token, and by how much it may be off. */
static void solve_h(const layer *l, size_t e, const double *x, double *h, double *off)
{
    const layer_case *c = &l->c;
    double b1, b2,
        r = c->between == KERF_BF16  ? 0x1p-8
            : c->between == KERF_F16 ? 0x1p-10
                                     : 0x1p-18;
    kerf_gemv_experts_bound(l->plan, &b1, &b2);
    KERF_IN_PARALLEL_ALWAYS
    for (size_t k = 0; k < c->inter; k++) {
        double v[2], d[2], limit = 0.5;
        for (int i = 0; i < 2; i++) {
            const stack *s = c->rows == KERF_EXPERTS_APART ? &l->in[i] : &l->in[0];
            size_t row = c->rows == KERF_EXPERTS_HALVES        ? k + (size_t)i * c->inter
                         : c->rows == KERF_EXPERTS_ALTERNATING ? 2 * k + (size_t)i
                                                               : k;
            dot p = dot_of(s->w + (e * s->rows + row) * c->hidden, x, c->hidden);
            double bias = c->bias ? (double)s->bias[e * s->rows + row] : 0;
            v[i] = p.y + bias;
            d[i] = b1 * (p.sum + fabs(bias));
        }
        if (c->clamped) {
            double g = fmin(v[0], limit), u = fmax(fmin(v[1], limit), -limit) + 1;
            double s = g / (1 + exp((double)-1.702f * g));
            h[k] = s * u;
            off[k] =
                1.1 * d[0] * (fabs(u) + d[1]) + (fabs(s) + fabs(g)) * (d[1] + r) + r * fabs(h[k]);
        } else {
            double s = v[0] / (1 + exp(-v[0]));
            h[k] = s * v[1];
            off[k] = 1.1 * d[0] * (fabs(v[1]) + d[1]) + fabs(s) * d[1] + r * fabs(h[k]);
        }
        if (c->between == KERF_F16) off[k] += 0x1p-24;
    }
}

static void solve_layer(layer *l)
{
    const layer_case *c = &l->c;
    double b1, b2, *x = allocate(c->hidden * 8);
    double *h = allocate(c->inter * 8), *off = allocate(c->inter * 8);
    kerf_gemv_experts_bound(l->plan, &b1, &b2);
    memset(l->exact, 0, c->tokens * c->hidden * sizeof(double));
    memset(l->bound, 0, c->tokens * c->hidden * sizeof(double));
    for (size_t i = 0; i < (size_t)c->tokens * c->top_k; i++) {
        if (!counts(l, i)) continue;
        size_t t = i / c->top_k, e = (size_t)l->ids[i];
        double w = (double)l->weights[i];
        for (size_t k = 0; k < c->hidden; k++)
            x[k] = (double)kf_load(c->x, l->x, t * c->hidden + k);
        solve_h(l, e, x, h, off);
        KERF_IN_PARALLEL_ALWAYS
        for (size_t r = 0; r < c->hidden; r++) {
            const float *row = l->down.w + (e * c->hidden + r) * c->inter;
            double bias = c->bias ? (double)l->down.bias[e * c->hidden + r] : 0;
            dot p = dot_of(row, h, c->inter), q = dot_of(row, off, c->inter);
            l->exact[t * c->hidden + r] += w * (p.y + bias);
            l->bound[t * c->hidden + r] += fabs(w) * (q.sum + b2 * (p.sum + q.sum + fabs(bias)));
        }
    }
    free(x);
    free(h);
    free(off);
}

#endif
