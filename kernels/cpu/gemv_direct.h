/* gemv_direct.h - scales and zero points of a step straight from their bytes, for one instruction
 * set (gemv_rows.h): one load, one shuffle that puts each byte where its lanes want it (or, of one
 * scale for all lanes, a broadcast), and what the type of scale needs to become fp32. The same
 * numbers as gemv_scales.h finds, without a call for each row and chunk.
 *
 * What would need a choice in every step is looked at after a row instead: a byte that does not
 * mean what its fp16 does, or a sum that is not finite, as NaN and infinite scales make it. Such
 * rows are done again with widened scales. Loads reach past a step's scales, so the last rows of a
 * matrix are done so, too. */
#ifndef KERF_GEMV_DIRECT_H
#define KERF_GEMV_DIRECT_H

#include "cpu/gemv_kernel.h"

#define DIRECT_READS 16 /* bytes from a step's scales on, at most; of structs, their first 8 */

/* Whether a bfloat16 comes to all lanes by way of a general register, and not by a shuffle. With
 * AVX2 the first is faster where codes become fp32, the second where they become integers
 * (bench/notes-gemv-cpu.md). */
#ifdef INTEGERS
#define BY_SCALARS 0
#else
#define BY_SCALARS 1
#endif

/* Where rows that go together have their scales and zero points. */
typedef struct direct {
    const uint8_t *scales[ROWS], *zeros[ROWS];
    size_t row_bytes;      /* from scales of one row to the next */
    const uint8_t *second; /* NESTED: the factors of KF_NEST_BLOCKS scales each ...     */
    size_t group[ROWS];    /* ... the scale, of all of a tensor, that a row begins with */
    vf factor[ROWS];       /* ... of the steps at hand (direct_factors)                 */
    vf offset;             /* ... and what is added to each                             */
} direct;

typedef struct direct_places {
    vi scale, zero;
    vh half, mask;
    vz_table zero_of;
} direct_places;

static inline direct_places direct_places_of(const kf_gemv_layout *l)
{
    direct_places p = {.scale = vi_load(l->scale_place),
                       .zero = vi_load(l->zero_place),
                       .half = vh_load(l->half_place),
                       .mask = vh_set1((int16_t)l->half_mask),
                       .zero_of = vz_table_of(l->zero_of)};
    return p;
}

/* 0: these rows are for widened scales. */
static inline int direct_init(direct *d, const int R, const kf_gemv_layout *l,
                              const kf_gemv_call *call, size_t r0)
{
    const kf_spec s = kf_spec_of(call->plan->shape.format);
    const kf_matrix *w = &call->w;
    const size_t tile = s.geometry == KERF_GROUP_TILE ? s.group : 1;
    const size_t left = (w->rows - 1) / tile - (r0 + (size_t)R - 1) / tile;
    const size_t groups = s.geometry == KERF_GROUP_FLAT ? w->cols / s.group : w->row_groups;
    const uint8_t *from = w->plane[KERF_PLANE_SCALES];
    d->row_bytes = groups * kf_scale_bytes(s.scale);
    if (l->piece) {
        d->row_bytes = l->row_bytes;
        from = w->plane[KERF_PLANE_CODES] + kf_struct_scale(s, 0);
    }
    if (l->whole != l->steps || left * d->row_bytes < DIRECT_READS) return 0;
    if (l->source != KF_SOURCE_MAP && kf_gemv_late_factor(l, s, w) == 0) return 0;
    if (s.zero == KERF_ZERO_CODE && left * w->zero_bytes < DIRECT_READS) return 0;
    for (size_t r = 0; r < (size_t)R; r++) {
        d->scales[r] = from + (r0 + r) / tile * d->row_bytes;
        d->zeros[r] = from;
        if (s.zero == KERF_ZERO_CODE)
            d->zeros[r] = w->plane[KERF_PLANE_ZEROS] + (r0 + r) * w->zero_bytes;
        d->group[r] = (r0 + r) * groups;
    }
    if (l->source == KF_SOURCE_NESTED) {
        d->second = w->plane[KERF_PLANE_SECOND];
        d->offset = vf_set1(kf_float(kf_get_code(w->plane[KERF_PLANE_ZEROS], 32, 0)));
    }
    return 1;
}

/* Steps [from, to) of the rows that come next. */
static inline void direct_ahead(const direct *d, const int R, const kf_gemv_layout *l, size_t from,
                                size_t to)
{
    if (l->piece) return; /* they lie among the codes */
    const size_t begin = (from >> l->share) * l->scale_bytes;
    const size_t end = (to >> l->share) * l->scale_bytes;
    for (int r = 0; r < R; r++)
        for (size_t i = begin; i < end; i += 64) fetch_ahead(d->scales[r] + i, ROWS * d->row_bytes);
}

/* NESTED: finds the factors of R rows in step `from`; returns the step up to which they hold, or
 * `to`. */
static inline size_t direct_factors(direct *d, const int R, const kf_gemv_layout *l, size_t from,
                                    size_t to)
{
    for (int r = 0; r < R; r++) {
        const size_t block = (d->group[r] + (from >> l->share)) / KF_NEST_BLOCKS;
        const size_t end = ((block + 1) * KF_NEST_BLOCKS - d->group[r]) << l->share;
        float factor;
        memcpy(&factor, d->second + block * sizeof factor, sizeof factor);
        d->factor[r] = vf_set1(factor);
        if (end < to) to = end;
    }
    return to;
}

/* The scales of the lanes of row r. one: for all of them; two: of structs; odd: the largest fp16 of
 * bytes. */
KF_HD vf direct_scale(const int source, const int one, const int two, const kf_gemv_layout *l,
                      const direct *d, const direct_places *place, int r, size_t step, vh *odd)
{
    const uint8_t *p = d->scales[r] + (step >> l->share) * l->scale_bytes;
    switch (source) {
    case KF_SOURCE_FLOATS: {
        float scale;
        memcpy(&scale, p, sizeof scale);
        return vf_set1(scale);
    }
    case KF_SOURCE_NESTED: return vf_add(vf_mul(vf_set1(l->map[*p]), d->factor[r]), d->offset);
    case KF_SOURCE_WORDS:
        if (one && BY_SCALARS) {
            uint16_t word;
            memcpy(&word, p, sizeof word);
            return vf_of_bits(vi_set1((int)((uint32_t)word << 16)));
        }
        return vf_of_bits(vi_place(p, two, l->scale_gap, place->scale));
    case KF_SOURCE_MAP:
        return one ? vf_set1(l->map[*p]) : vf_two(l->map[*p], l->map[p[l->scale_gap]]);
    case KF_SOURCE_EXPONENTS: { /* 2^-127 is subnormal */
        vi bits = vi_shr(vi_place(p, two, l->scale_gap, place->scale), 1);
        return vf_of_bits(vi_max(bits, vi_set1(0x00400000)));
    }
    case KF_SOURCE_HALVES:
        if (one) {
            int16_t half;
            memcpy(&half, p, sizeof half);
            return vf_of_half(vh_set1(half));
        }
        return vf_of_half(vh_place(p, two, l->scale_gap, place->half));
    default: {
        vh half = vh_half_down(vh_place(p, two, l->scale_gap, place->half));
        half = vh_and(half, place->mask);
        *odd = vh_max16(*odd, half);
        return vf_of_half(half);
    }
    }
}

/* Their zero points, of which a byte has 2^packed. */
KF_HD vz direct_zero(const unsigned packed, const kf_gemv_layout *l, const direct *d,
                     const direct_places *place, int r, size_t step)
{
    const size_t group = step * l->scales >> l->share;
    const size_t in_byte = group & (((size_t)1 << packed) - 1);
    vi bytes = vi_place(d->zeros[r] + (group >> packed), 0, 0, place->zero);
    return vz_look_up(place->zero_of, vi_shr_each(bytes, l->zero_shift[in_byte]));
}

/* Whether a row must be done again: its sum, and the largest fp16 of its scales. 0x3f80 is what
 * 0x7F would be; above are the negative ones, which hide it. */
static inline int direct_failed(const int source, float sum, vh odd)
{
    return (source == KF_SOURCE_BYTES && vh_any_above(odd, 0x3f80)) || !kf_is_finite(sum);
}

#endif
