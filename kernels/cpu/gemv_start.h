/* gemv_start.h - what a backend of the matrix-vector product does around its kernels, for one
 * instruction set (gemv_rows.h): plans, and x in the order in which codes lie in vectors. */
#ifndef KERF_GEMV_START_H
#define KERF_GEMV_START_H

#include "cpu/gemv_x.h"
#if HAS_LEVELS
#include "cpu/gemv_levels_x.h"
#endif

#include <stdlib.h>

/* NULL: this instruction set has no such kernel. */
static kf_gemv_rows_function *rows_of(const kf_gemv_layout *l)
{
    static kf_gemv_rows_function *const *const table[KF_DECODES] = {
#define KF_GEMV_DECODE(kind, decode, ...) \
    IF_HAS(HAS_##kind, [KF_DECODE_##decode] = KF_ISA(decode), )
#include "cpu/gemv_decodes.def"
#undef KF_GEMV_DECODE
    };
#ifdef CAN_DECODE
    if (!CAN_DECODE(l->decode)) return NULL;
#endif
    return table[l->decode] ? table[l->decode][l->scaling] : NULL;
}

/* Whether scales are found that a row has beside its codes. */
static int has_scales(const kf_gemv_layout *l, const kerf_gemv *plan)
{
    const int widens = KF_ISA(widen)[kf_format_index(plan->shape.format)] != NULL;
    return l->decode == KF_DECODE_LEVELS || widens;
}

static kerf_status plan_of_kind(kerf_gemv *plan, kf_gemv_kind kind)
{
    kf_gemv_layout *l = malloc(sizeof *l);
    if (!l) return KERF_E_NOMEM;
    const int is_ours = kf_gemv_layout_init(l, plan, V, kind) && rows_of(l);
    if (!is_ours || !has_scales(l, plan)) {
        free(l);
        return KERF_E_NOSUP;
    }
    plan->state = l;
    plan->workspace = kf_gemv_layout_workspace(l, &plan->shape);
    plan->bound = kf_gemv_layout_bound(l);
    plan->x_bound = l->decode == KF_DECODE_LEVELS ? KF_GEMV_LEVELS_X_BOUND
                    : kf_gemv_is_whole(l)         ? KF_GEMV_X_BOUND
                                                  : 0;
    return KERF_OK;
}

static kerf_status isa_plan(kerf_gemv *plan)
{
    return plan_of_kind(plan, KIND);
}

#ifdef INTEGERS
/* A step of x as integers, in the order of its elements; returns what one of them stands for. */
static float round_step(const kf_gemv_layout *l, const float *from, size_t n, int16_t *whole)
{
    const float largest = l->decode == KF_DECODE_LEVELS ? KF_GEMV_LEVELS_LARGEST : KF_GEMV_LARGEST;
    float x[KF_GEMV_STEP];
    memcpy(x, from, n * sizeof *x);
    memset(x + n, 0, (l->step - n) * sizeof *x);
    return kf_gemv_round_x(x, l->step, largest, whole);
}

static void pack_step(const kf_gemv_layout *l, const float *from, size_t n, size_t step,
                      float factor, float *packed)
{
    int16_t whole[KF_GEMV_STEP];
    const float unit = round_step(l, from, n, whole);
    if (l->decode == KF_DECODE_LEVELS) {
        place_levels(l, whole, unit, (uint8_t *)(packed + step * l->x_step));
        return;
    }
    place_integers(l, whole, X_STEP(l, packed, step, l->codes));
    *X_UNIT(l, packed, step, l->codes) = unit * factor * UNIT_OF(l->decode);
}
#else
/* One step of x in the order of the layout, zero past its n numbers. */
static void pack_step(const kf_gemv_layout *l, const float *from, size_t n, size_t step,
                      float factor, float *packed)
{
    float *out = packed + step * l->step / (HAS_PAIR + 1);
    if (HAS_PAIR) {
        uint16_t *half = (uint16_t *)out;
        for (size_t i = 0; i < l->step; i++)
            half[i] = l->order[i] < n ? (uint16_t)(kf_bits(from[l->order[i]]) >> 16) : 0;
    } else if (n == l->step) {
        for (size_t i = 0; i < n; i++) out[i] = from[l->order[i]] * factor;
    } else
        for (size_t i = 0; i < l->step; i++)
            out[i] = l->order[i] < n ? from[l->order[i]] * factor : 0;
}
#endif

/* The factor of x that codes ask for, or as much of it as keeps x finite. */
static float x_factor(const kf_gemv_layout *l, float amax)
{
    float factor = l->factor;
    while (amax * factor >= 0x1p127f) factor /= 2;
    return factor;
}

/* Packs x. Numbers so large or so small that sums of codes times x could leave the range of fp32
 * where y does not are for the reference. */
static int isa_start(const kf_gemv_call *c)
{
    const kf_gemv_layout *l = c->plan->state;
    size_t cols = c->w.cols, size = kerf_dtype_bits(c->x_type) / 8;
    float *wide = (float *)c->workspace + c->columns * l->steps * l->step;
    for (unsigned i = 0; i < c->columns; i++) {
        float *out = (float *)c->workspace + i * l->x_column;
        float amax = widen_x(c->x_type, c->x + i * c->x_stride * size, cols, wide);
        if (!x_is_tame(l, amax)) return 0;
        const float factor = x_factor(l, amax);
        if (kf_gemv_is_bfloat(l->decode)) kf_gemv_backs(l, c)[i] = l->factor / factor;
        for (size_t step = 0; step < l->steps; step++) {
            size_t left = cols - step * l->step;
            pack_step(l, wide + step * l->step, left < l->step ? left : l->step, step, factor, out);
        }
    }
    return 1;
}

static void isa_rows(const kf_gemv_call *c, size_t r0, size_t r1)
{
    rows_of(c->plan->state)(c, r0, r1);
}

#endif
