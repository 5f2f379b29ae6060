/* gemv_scales.h - scales and zero points of a row as fp32, for one instruction set (gemv_rows.h).
 */
#ifndef KERF_GEMV_SCALES_H
#define KERF_GEMV_SCALES_H

#include "cpu/gemv_kernel.h"

/* Zero points of m groups from group `first` on, as the numbers of codes are. */
KF_HD void widen_zeros(kf_spec s, const kf_gemv_layout *l, const uint8_t *zeros, size_t first,
                       size_t m, float *restrict out)
{
    uint8_t code[ENTRIES];
    const unsigned in_byte = 8 / s.bits, mask = (1u << s.bits) - 1;
    const uint8_t *from = zeros + first / in_byte; /* chunks begin at whole bytes */
    size_t whole = m / in_byte;
    for (size_t i = 0; i < whole; i++)
        UNROLL for (unsigned j = 0; j < in_byte; j++) code[i * in_byte + j] =
            (uint8_t)(from[i] >> j * s.bits & mask);
    for (size_t i = whole * in_byte; i < m; i++)
        code[i] = (uint8_t)kf_get_code(zeros, s.bits, first + i);
    for (size_t i = 0; i < m; i++) {
        kf_scale scale = {0, code[i]};
        out[i] = ((float)kf_dequant_init(s, scale, 1, 0).zero - l->offset) * l->zero_unit;
    }
}

/* V scales that are fp16, or one byte each that spreads to one, from contiguous bytes. */
KF_HD vf halves_to_scales(const kf_gemv_layout *l, const uint8_t *from, float factor)
{
    if (l->halves == KF_HALVES_WHOLE) return vf_of_half(vh_load(from));
    return vf_spread_bytes(from, l->half_mask, factor, l->half_last);
}

/* The vector way for the layouts that have one; the same numbers as kf_dequant_at gives. 0: a
 * second-level scale so large or small that the products would round differently. */
KF_HD int widen_halves(kf_spec s, const kf_gemv_layout *l, const kf_matrix *w, size_t r,
                       size_t first, size_t m, float *restrict scale)
{
    const size_t size = s.scale == KERF_SCALE_F16 ? 2 : 1;
    uint8_t bytes[(ENTRIES + V) * 2];
    const uint8_t *from = w->plane[KERF_PLANE_SCALES];
    float factor = l->half_factor;
    size_t i = 0;
    if (s.second == KERF_SECOND_TENSOR)
        factor *= kf_float(kf_get_code(w->plane[KERF_PLANE_SECOND], 32, 0));
    if (!(kf_abs(factor) >= 0x1p-100f && kf_abs(factor) <= 0x1p100f)) return 0;
    if (s.geometry == KERF_GROUP_STRUCT) {
        const size_t together = kf_struct_groups(s) * size; /* chunks begin with a struct */
        from = w->plane[KERF_PLANE_CODES] + r * w->row_bytes + kf_struct_scale(s, first);
        for (size_t j = 0; j < m * size; j += together, from += kf_struct_bytes(s))
            memcpy(bytes + j, from, together);
        memset(bytes + m * size, 0, V * size);
        from = bytes;
        for (; i < m; i += V) vf_store(scale + i, halves_to_scales(l, from + i * size, factor));
        return 1;
    }
    from += (s.geometry == KERF_GROUP_FLAT ? r * w->cols / s.group : r * w->row_groups) * size;
    from += first * size;
    for (; i + V <= m; i += V) vf_store(scale + i, halves_to_scales(l, from + i * size, factor));
    memset(bytes, 0, V * size);
    memcpy(bytes, from + i * size, (m - i) * size);
    if (i < m) vf_store(scale + i, halves_to_scales(l, bytes, factor));
    return 1;
}

KF_HD void widen_scales(kf_spec s, const kf_gemv_layout *l, const kf_matrix *w, size_t r,
                        size_t first, size_t n, float *restrict scale, float *restrict zero)
{
    size_t base = s.geometry == KERF_GROUP_FLAT ? r * w->cols / s.group : 0;
    size_t left = (w->cols + l->scale_elements - 1) / l->scale_elements - first;
    size_t m = n < left ? n : left, at = s.geometry == KERF_GROUP_TENSOR ? 0 : r;
    const uint8_t *zeros =
        s.zero == KERF_ZERO_CODE ? w->plane[KERF_PLANE_ZEROS] + at * w->zero_bytes : NULL;
    if (l->scale_elements == s.group) {
        if (s.geometry == KERF_GROUP_BLOCK) {
            const size_t size = kf_scale_bytes(s.scale), ahead = ROWS * w->row_groups * size;
            const uint8_t *p = w->plane[KERF_PLANE_SCALES] + (r * w->row_groups + first) * size;
            for (size_t i = 0; i < m * size; i += 64) fetch_ahead(p + i, ahead);
        }
        int may = s.scale == KERF_SCALE_F16 || s.scale == KERF_SCALE_E4M3; /* folds away */
        if (!may || !l->halves || !widen_halves(s, l, w, r, first, m, scale))
            for (size_t i = 0; i < m; i++)
                scale[i] = kf_dequant_at(s, w, r, base + first + i).scale;
        if (zeros) widen_zeros(s, l, zeros, first, m, zero);
    } else { /* a group serves several steps */
        size_t known = SIZE_MAX;
        kf_dequant d = {0, 0, 0};
        for (size_t i = 0; i < m; i++) {
            size_t group = s.group ? (first + i) * l->scale_elements / s.group : 0;
            if (group != known) d = kf_dequant_at(s, w, r, base + group);
            known = group;
            scale[i] = d.scale;
            if (zeros) zero[i] = ((float)d.zero - l->offset) * l->zero_unit;
        }
    }
    for (size_t i = m; i < n; i++) {
        scale[i] = 0;
        if (zeros) zero[i] = 0;
    }
}

#define KERF_FORMAT(ID, wire, name, family, elem, geometry, group, scale, second, zero, ...)      \
    static void widen_##ID(const kf_gemv_layout *l, const kf_matrix *w, size_t r, size_t first,   \
                           size_t n, float *scales, float *zeros)                                 \
    {                                                                                             \
        static const kf_spec s = KF_SPEC(ID, family, elem, geometry, group, scale, second, zero); \
        widen_scales(s, l, w, r, first, n, scales, zeros);                                        \
    }
#include <kerf/formats.def>
#undef KERF_FORMAT

kf_gemv_widen *const KF_ISA(widen)[] = {
#define KERF_FORMAT(ID, ...) widen_##ID,
#include <kerf/formats.def>
#undef KERF_FORMAT
};

#endif
