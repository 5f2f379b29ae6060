/* gemv_few_rows.h - up to four rows times up to four columns at a time, their sums in registers,
 * for one instruction set (gemv_rows.h). Tiles of AMX are another way: gemv_tiles.h. */
#ifndef KERF_GEMV_FEW_ROWS_H
#define KERF_GEMV_FEW_ROWS_H

#include "cpu/gemv_steps.h"

/* Adds steps [first, end), a chunk, of R rows times C columns. */
KF_HD void add_chunk(const int decode, const int scaling, const int R, const int C,
                     const int source, const kf_gemv_call *call, const constants *k, scratch *t,
                     size_t r0, const uint8_t *const *row, const float *x, size_t first, size_t end,
                     vf sum[ROWS][WIDE], vh worst[ROWS])
{
    const kf_gemv_layout *l = call->plan->state;
    const size_t x_stride = l->steps * l->step, whole = end < l->whole ? end : l->whole;
    const size_t last = ((size_t)1 << l->share) - 1;
    kf_gemv_widen *widen = KF_ISA(widen)[kf_format_index(call->plan->shape.format)];
    const int structs =
        scaling == KF_SCALING_STEP && (decode == KF_DECODE_LUT4 || decode == KF_DECODE_PAIR4 ||
                                       decode == KF_DECODE_INT4 || decode == KF_DECODE_BYTE);
    const int of_row = scaling == KF_SCALING_ZERO && !source && l->of_row;
    /* One scale serves all lanes: literally so where the source says it. */
    const int of_one =
        source == KF_SOURCE_FLOATS || source == KF_SOURCE_NESTED ||
        (source != KF_SOURCE_EXPONENTS && source != KF_SOURCE_BYTES && scaling != KF_SCALING_ROW &&
         (!source || C == 1) && l->scales == 1 && !l->piece);
    /* ... and the steps that come next. */
    const int shared = (source == KF_SOURCE_WORDS || source == KF_SOURCE_HALVES) &&
                       (decode == KF_DECODE_INT4 || decode == KF_DECODE_INT2) && of_one && l->share;
    /* One scale comes as several do. */
    const int is_shuffled = source == KF_SOURCE_WORDS && !BY_SCALARS;
    if (source)
        direct_ahead(&t->d, R, l, first, end);
    else if (scaling != KF_SCALING_ROW && !of_row)
        for (int r = 0; r < R; r++)
            widen(l, &call->w, r0 + (size_t)r, first * l->scales >> l->share,
                  ((end - first) * l->scales + last) >> l->share, t->scale[r], t->zero[r]);
#define ADD(kind)                                                                              \
    add_steps(decode, scaling, R, C, kind, source, l, k, t, first, row, 0, x, x_stride, first, \
              whole, sum, worst)
    if (source == KF_SOURCE_NESTED) {
        for (size_t from = first, to; from < whole; from = to) {
            to = direct_factors(&t->d, R, l, from, whole);
            add_steps(decode, scaling, R, C, STEPS_OF_ONE, source, l, k, t, first, row, 0, x,
                      x_stride, from, to, sum, worst);
        }
    } else if (of_row)
        ADD(STEPS_OF_ROW);
    else if (shared)
        ADD(STEPS_SHARED);
    else if (of_one && !is_shuffled)
        ADD(STEPS_OF_ONE);
    else if (structs && l->piece == 4 * V)
        ADD(STEPS_OF_STRUCT);
    else if (structs && l->piece == 2 * V)
        ADD(STEPS_OF_TWO);
    else if (structs && l->piece && !source)
        ADD(STEPS_OF_STRUCTS);
    else
        ADD(STEPS);
#undef ADD
    if (end > l->whole && !source) {
        const uint8_t *tail[ROWS];
        for (int r = 0; r < R; r++) tail[r] = t->tail[r];
#define ADD_TAIL(kind)                                                                          \
    add_steps(decode, scaling, R, C, kind, source, l, k, t, first, tail, l->whole, x, x_stride, \
              l->whole, end, sum, worst)
        if (of_row)
            ADD_TAIL(STEPS_OF_ROW);
        else
            ADD_TAIL(STEPS);
#undef ADD_TAIL
    }
}

/* What all sums are multiplied by, where scales are not of rows. */
KF_HD float late_factor(const int scaling, const kf_gemv_layout *l, const kf_gemv_call *call)
{
    if (scaling == KF_SCALING_ROW || l->halves != KF_HALVES_BYTES) return 1;
    const float late = kf_gemv_late_factor(l, kf_spec_of(call->plan->shape.format), &call->w);
    return late != 0 ? late : 1;
}

/* R rows from r on times C columns from `column` on. 0: not with this source of scales, and nothing
 * is written. */
KF_HD int do_few_rows(const int decode, const int scaling, const int R, const int C,
                      const int source, const kf_gemv_call *call, size_t r0, size_t column)
{
    const kf_gemv_layout *l = call->plan->state;
    const float *x = kf_gemv_packed(l, call->workspace, column);
    constants k = constants_of(l);
    scratch t;
    const uint8_t *row[ROWS];
    vf total[ROWS][WIDE];
    vh worst[ROWS];
    float y[ROWS][WIDE];
    const int of_row = scaling == KF_SCALING_ZERO && !source && l->of_row;
    kf_gemv_widen *widen = KF_ISA(widen)[kf_format_index(call->plan->shape.format)];
    t.odd = vh_set1(0);
    if (source && !direct_init(&t.d, R, l, call, r0)) return 0;
    for (int r = 0; r < R; r++) {
        row[r] = call->w.plane[KERF_PLANE_CODES] + (r0 + (size_t)r) * l->row_bytes;
        worst[r] = vh_set1(0);
        if (l->whole < l->steps) kf_gemv_tail(l, row[r], t.tail[r]);
        if (of_row) {
            widen(l, &call->w, r0 + (size_t)r, 0, 1, t.scale[r], t.zero[r]);
            t.zero_of_row[r] = vz_set1(t.zero[r][0]);
        }
        UNROLL for (int c = 0; c < C; c++) total[r][c] = vf_set1(0);
    }
    for (size_t first = 0; first < l->steps; first += l->chunk) {
        size_t end = l->steps - first < l->chunk ? l->steps : first + l->chunk;
        vf sum[ROWS][WIDE];
        for (int r = 0; r < R; r++) UNROLL for (int c = 0; c < C; c++) sum[r][c] = vf_set1(0);
        add_chunk(decode, scaling, R, C, source, call, &k, &t, r0, row, x, first, end, sum, worst);
        for (int r = 0; r < R; r++)
            UNROLL for (int c = 0; c < C; c++) total[r][c] = vf_add(total[r][c], sum[r][c]);
    }
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++) {
            y[r][c] = vf_sum(total[r][c]);
            if (source && direct_failed(source, y[r][c], t.odd)) return 0;
        }
    const float late = late_factor(scaling, l, call);
    for (int r = 0; r < R; r++) {
        float factor[1 + V] = {late}, none[1 + V];
        if (scaling == KF_SCALING_ROW) widen(l, &call->w, r0 + (size_t)r, 0, 1, factor, none);
        if (of_row) factor[0] = late * t.scale[r][0];
        const int minis = decode == KF_DECODE_MINI8 || decode == KF_DECODE_BFLOAT8;
        const int nan = minis && l->nan_code && vh_has8(worst[r], l->nan_code);
        for (int c = 0; c < C; c++) {
            if (is_bfloat(decode)) y[r][c] *= kf_gemv_backs(l, call)[column + (size_t)c];
            kf_gemv_finish(call, r0 + (size_t)r, column + (size_t)c,
                           nan ? kf_float(0x7fc00000) : y[r][c] * factor[0]);
        }
    }
    return 1;
}

/* R rows times C columns with scales straight from their bytes; 0: not these. Where one scale
 * serves all lanes of a step, only one column is done so: for several, a loop that widens scales
 * before the chunk is faster. */
KF_HD int do_direct(const int decode, const int scaling, const int R, const int C,
                    const kf_gemv_call *call, size_t r, size_t c)
{
    const kf_gemv_layout *l = call->plan->state;
    if (scaling == KF_SCALING_ROW || decode == KF_DECODE_LUT2 || decode == KF_DECODE_PAIR2)
        return 0;
    if (scaling == KF_SCALING_ZERO && decode == KF_DECODE_BYTE) return 0; /* fit_direct has none */
    if (C > 1 && l->scales == 1 && !l->piece) return 0;
    switch (l->source) {
#define SOURCE(name) \
    case KF_SOURCE_##name: return do_few_rows(decode, scaling, R, C, KF_SOURCE_##name, call, r, c);
        SOURCE(WORDS)
        SOURCE(HALVES)
    default: break;
    }
    if (scaling == KF_SCALING_ZERO) return 0; /* no such format */
    switch (l->source) {
        SOURCE(EXPONENTS)
        SOURCE(BYTES)
    default: break;
    }
    if (C == WIDE) return 0; /* one loop more there, and mxfp4 takes a tenth longer */
    if (l->source == KF_SOURCE_MAP)
        return do_few_rows(decode, scaling, R, C, KF_SOURCE_MAP, call, r, c);
    if (C > 1) return 0;
    switch (l->source) {
        SOURCE(FLOATS)
        SOURCE(NESTED)
    default: return 0;
    }
#undef SOURCE
}

/* Rows [r, end) times C columns, two or WIDE, two rows at a time: both rows use the x that was
 * read. For each C a function of its own, so that the loops of one column keep their registers. */
typedef void columns_function(const kf_gemv_call *call, size_t r, size_t end, size_t column);

KF_HD void do_columns(const int decode, const int scaling, const int C, const kf_gemv_call *call,
                      size_t r, size_t end, size_t column)
{
    for (; end - r >= 2; r += 2)
        if (!do_direct(decode, scaling, 2, C, call, r, column))
            do_few_rows(decode, scaling, 2, C, 0, call, r, column);
    if (r < end) do_few_rows(decode, scaling, 1, C, 0, call, r, column);
}

/* Rows in fours: their codes stay near while the columns pass. */
KF_HD void do_rows(const int decode, const int scaling, columns_function *wide,
                   columns_function *two, const kf_gemv_call *call, size_t r0, size_t r1)
{
    for (size_t r = r0; r < r1; r += ROWS) {
        const size_t end = r1 - r < ROWS ? r1 : r + ROWS;
        for (size_t c = 0; c < call->columns;) {
            const size_t left = call->columns - c;
            const size_t C = left >= WIDE ? WIDE : left >= 2 ? 2 : 1;
            for (size_t i = r; i < end;) {
                if (C > 1) {
                    (C == WIDE ? wide : two)(call, i, end, c);
                    i = end;
                } else if (end - i == ROWS) {
                    if (!do_direct(decode, scaling, ROWS, 1, call, i, c))
                        do_few_rows(decode, scaling, ROWS, 1, 0, call, i, c);
                    i += ROWS;
                } else
                    do_few_rows(decode, scaling, 1, 1, 0, call, i++, c);
            }
            c += C;
        }
    }
}

/* --- the kernels of this unit -------------------------------------------------------------------
 */

#define COLUMNS(name, C, decode, scaling)                                              \
    static __attribute__((noinline)) void name##_##decode##_##scaling(                 \
        const kf_gemv_call *call, size_t r, size_t end, size_t column)                 \
    {                                                                                  \
        do_columns(KF_DECODE_##decode, KF_SCALING_##scaling, C, call, r, end, column); \
    }
#define ROWS_1(decode, scaling)                                                        \
    COLUMNS(wide, WIDE, decode, scaling)                                               \
    COLUMNS(two, 2, decode, scaling)                                                   \
    static void rows_##decode##_##scaling(const kf_gemv_call *c, size_t r0, size_t r1) \
    {                                                                                  \
        do_rows(KF_DECODE_##decode, KF_SCALING_##scaling, wide_##decode##_##scaling,   \
                two_##decode##_##scaling, c, r0, r1);                                  \
    }
#define ROWS_0(decode, scaling)
#define ENTRY_1(decode, scaling) [KF_SCALING_##scaling] = rows_##decode##_##scaling,
#define ENTRY_0(decode, scaling)
#define KERNELS(decode, row, step, zero)                                        \
    ROWS_##row(decode, ROW) ROWS_##step(decode, STEP) ROWS_##zero(decode, ZERO) \
        kf_gemv_rows_function *const KF_ISA(decode)[KF_SCALINGS] = {            \
            ENTRY_##row(decode, ROW) ENTRY_##step(decode, STEP) ENTRY_##zero(decode, ZERO)};
#define KERNELS_SINGLE(...) IF_HAS(HAS_SINGLE, KERNELS(__VA_ARGS__))
#define KERNELS_BFLOAT(...) IF_HAS(HAS_BFLOAT, KERNELS(__VA_ARGS__))
#define KERNELS_PAIR(...) IF_HAS(HAS_PAIR, KERNELS(__VA_ARGS__))
#define KERNELS_WHOLE(...) IF_HAS(HAS_WHOLE, KERNELS(__VA_ARGS__))
#define KERNELS_WHOLE6(...) IF_HAS(HAS_WHOLE6, KERNELS(__VA_ARGS__))
#define KERNELS_WIDE(...) IF_HAS(HAS_WIDE, KERNELS(__VA_ARGS__))
#define KERNELS_SUPER(...)  /* gemv_super.h */
#define KERNELS_LEVELS(...) /* gemv_levels.h */

#define KF_GEMV_DECODE(kind, decode, codes, ...) \
    KF_IF_UNIT(decode, KERNELS_##kind(decode, __VA_ARGS__))
#include "cpu/gemv_decodes.def"
#undef KF_GEMV_DECODE

#endif
