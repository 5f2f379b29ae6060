/* gemv_kernel.h - what the parts of one instruction set's kernels know of each other (gemv_rows.h).
 *
 * Of what these parts include, cpu/unit.h, cpu/widen.h and cpu/features.h are of codecs/cpu. Which
 * file of kernels/cpu has what stands in kernels/products.md. */
#ifndef KERF_GEMV_KERNEL_H
#define KERF_GEMV_KERNEL_H

#include "cpu/gemv_layout.h"
#include "cpu/unit.h"
#include "format/format.h"

#define ROWS 4 /* done at a time, so that each x is loaded once for them */
#define WIDE 4 /* columns done at a time, so that each weight is decoded once for them */
#define ENTRIES (2 * KF_GEMV_CHUNK * KF_GEMV_LANES)

/* What is multiplied here; of which kinds of gemv_decodes.def there are kernels, 1 or 0. */
#if defined(PAIRS)
#define KIND KF_KIND_PAIR
#define HAS_PAIR 1
#define HAS_INTEGERS 0
#define HAS_SINGLE 0
#elif defined(INTEGERS)
#define KIND INTEGERS
#define HAS_PAIR 0
#define HAS_INTEGERS 1
#define HAS_SINGLE 0
#else
#define KIND KF_KIND_SINGLE
#define HAS_PAIR 0
#define HAS_INTEGERS 0
#define HAS_SINGLE 1
#endif
#if HAS_SINGLE && defined(TAKES_BFLOAT)
#define HAS_BFLOAT 1
#else
#define HAS_BFLOAT 0
#endif
#ifdef ONLY_SIX_BITS /* of integers */
#define HAS_WHOLE 0
#define HAS_WIDE HAS_INTEGERS
#else
#define HAS_WHOLE HAS_INTEGERS
#define HAS_WIDE 0
#endif
#define HAS_WHOLE6 HAS_INTEGERS
#define HAS_LEVELS HAS_INTEGERS
#define HAS_SUPER HAS_SINGLE

/* The arguments after `has`, where that is 1. */
#define IF_HAS(has, ...) KF_UNIT_CHOOSE(has, __VA_ARGS__)

/* Scales and zero points of entries [first, first + n) of row r as fp32, zero past its end. An
 * entry is what one scale serves of one step. */
typedef void kf_gemv_widen(const kf_gemv_layout *l, const kf_matrix *w, size_t r, size_t first,
                           size_t n, float *scales, float *zeros);

/* Rows [r0, r1) of all columns. */
typedef void kf_gemv_rows_function(const kf_gemv_call *c, size_t r0, size_t r1);

#ifndef INTEGERS
typedef vf vz; /* zero points of lanes; integers have bytes */
typedef vt vz_table;
#define vz_of(zero) (zero)
#define vz_set1 vf_set1
#define vz_table_of vt_load
#define vz_look_up vf_look_up
#endif

/* Integers of x, and from their end on what one of each step stands for. */
#ifndef X_STEP
#define X_STEP(l, x, step, n) ((int16_t *)(x) + (step) * (n)*V)
#define X_UNIT(l, x, step, n) ((float *)(x) + kf_gemv_units(l) + (step))
#endif

/* By format; in the common unit. */
extern kf_gemv_widen *const KF_ISA(widen)[];

/* Of each decode, by scaling; NULL: none. */
#define KF_GEMV_DECODE(kind, decode, ...) \
    extern kf_gemv_rows_function *const KF_ISA(decode)[KF_SCALINGS];
#include "cpu/gemv_decodes.def"
#undef KF_GEMV_DECODE

/* What is common to all scales that spread from bytes, and enters at the end of a row. 0: so large
 * or small that scales are found one by one, with it. */
KF_HD float kf_gemv_late_factor(const kf_gemv_layout *l, kf_spec s, const kf_matrix *w)
{
    if (!l->quick) return 0;
    float factor = l->half_factor;
    if (s.second == KERF_SECOND_TENSOR)
        factor *= kf_float(kf_get_code(w->plane[KERF_PLANE_SECOND], 32, 0));
    return kf_abs(factor) >= 0x1p-100f && kf_abs(factor) <= 0x1p100f ? factor : 0;
}

/* Prefetches what lies `ahead` bytes further on: the same place of the rows that come next. Rows
 * are so short that the processor's own prefetcher loses them again and again. */
KF_HD void fetch_ahead(const uint8_t *p, size_t ahead)
{
    __builtin_prefetch((const void *)((uintptr_t)p + ahead), 0, 2);
}

#endif
