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
    const uint8_t *from = zeros + first / in_byte;
    size_t whole = first % in_byte ? 0 : m / in_byte;
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
KF_HD vf halves_to_scales(const kf_gemv_layout *l, const uint8_t *from)
{
    if (l->halves == KF_HALVES_WHOLE) return vf_of_half(vh_load(from));
    return vf_spread_bytes(from, l->half_mask, l->half_last);
}

/* Stored scales of m groups from group `first` of row r on, side by side. */
KF_HD const uint8_t *find_scales(kf_spec s, const kf_matrix *w, size_t r, size_t first, size_t m,
                                 uint8_t *room)
{
    const size_t size = kf_scale_bytes(s.scale);
    if (s.geometry == KERF_GROUP_STRUCT) {
        const size_t together = kf_struct_groups(s) * size; /* chunks begin with a struct */
        const uint8_t *from =
            w->plane[KERF_PLANE_CODES] + r * w->row_bytes + kf_struct_scale(s, first);
        for (size_t j = 0; j < m * size; j += together, from += kf_struct_bytes(s))
            memcpy(room + j, from, together);
        return room;
    }
    size_t at = s.geometry == KERF_GROUP_TILE ? r / s.group * w->row_groups : r * w->row_groups;
    if (s.geometry == KERF_GROUP_FLAT) at = r * w->cols / s.group;
    const uint8_t *from = w->plane[KERF_PLANE_SCALES] + (at + first) * size;
    if (s.geometry == KERF_GROUP_BLOCK || s.geometry == KERF_GROUP_FLAT) {
        const size_t row = s.geometry == KERF_GROUP_BLOCK ? w->row_groups : w->cols / s.group;
        for (size_t i = 0; i < m * size; i += 64) fetch_ahead(from + i, ROWS * row * size);
    }
    return from;
}

/* Without what enters at a row's end (kf_gemv_late_factor). */
KF_HD int widen_halves(kf_spec s, const kf_gemv_layout *l, const kf_matrix *w, const uint8_t *from,
                       size_t m, float *restrict scale)
{
    const size_t size = s.scale == KERF_SCALE_F16 ? 2 : 1;
    uint8_t bytes[V * 2] = {0};
    size_t i = 0;
    if (kf_gemv_late_factor(l, s, w) == 0) return 0;
    for (; i + V <= m; i += V) vf_store(scale + i, halves_to_scales(l, from + i * size));
    memcpy(bytes, from + i * size, (m - i) * size);
    if (i < m) vf_store(scale + i, halves_to_scales(l, bytes));
    return 1;
}

/* Scales in two levels: entries of a map, of which KF_NEST_BLOCKS share a factor. */
KF_HD void widen_nested(const kf_gemv_layout *l, const kf_matrix *w, const uint8_t *from,
                        size_t group, size_t m, float *restrict scale)
{
    const float offset = kf_float(kf_get_code(w->plane[KERF_PLANE_ZEROS], 32, 0));
    for (size_t i = 0; i < m;) {
        size_t rest = KF_NEST_BLOCKS - (group + i) % KF_NEST_BLOCKS;
        size_t end = rest < m - i ? i + rest : m;
        const float second =
            kf_float(kf_get_code(w->plane[KERF_PLANE_SECOND], 32, (group + i) / KF_NEST_BLOCKS));
        for (; i < end; i++) scale[i] = l->map[from[i]] * second + offset;
    }
}

/* The quick way for the layouts that have one; the same numbers as kf_dequant_at gives. 0: not for
 * these. What does not apply to a format folds away. */
KF_HD int widen_quickly(kf_spec s, const kf_gemv_layout *l, const kf_matrix *w, size_t r,
                        size_t first, size_t m, float *restrict scale)
{
    uint8_t room[ENTRIES * 4];
    if (!l->quick) return 0;
    const uint8_t *from = find_scales(s, w, r, first, m, room);
    switch (s.scale) {
    case KERF_SCALE_F16:
    case KERF_SCALE_E4M3: return widen_halves(s, l, w, from, m, scale);
    case KERF_SCALE_F32: memcpy(scale, from, 4 * m); return 1;
    case KERF_SCALE_BF16:
        for (size_t i = 0; i < m; i++) {
            uint16_t half;
            memcpy(&half, from + 2 * i, 2);
            scale[i] = kf_float((uint32_t)half << 16);
        }
        return 1;
    case KERF_SCALE_E8M0: /* 2^-127 is subnormal, 255 is NaN */
        for (size_t i = 0; i < m; i++) {
            uint32_t byte = from[i], bits = byte << 23;
            bits = bits > 0x00400000 ? bits : 0x00400000;
            scale[i] = kf_float(bits | (byte + 1) >> 8 << 22);
        }
        return 1;
    case KERF_SCALE_MAP8:
        widen_nested(l, w, from, r * w->cols / s.group + first, m, scale);
        return 1;
    default: return 0;
    }
}

/* Scales and zero points of m groups from group `first` of row r on; may write up to V past them.
 */
KF_HD void widen_groups(kf_spec s, const kf_gemv_layout *l, const kf_matrix *w, size_t r,
                        size_t first, size_t m, float *restrict scale, float *restrict zero)
{
    const size_t base = s.geometry == KERF_GROUP_FLAT ? r * w->cols / s.group : 0;
    if (!widen_quickly(s, l, w, r, first, m, scale))
        for (size_t i = 0; i < m; i++) scale[i] = kf_dequant_at(s, w, r, base + first + i).scale;
    if (s.zero != KERF_ZERO_CODE) return;
    const size_t at = s.geometry == KERF_GROUP_TENSOR ? 0 : r;
    widen_zeros(s, l, w->plane[KERF_PLANE_ZEROS] + at * w->zero_bytes, first, m, zero);
}

KF_HD void widen_scales(kf_spec s, const kf_gemv_layout *l, const kf_matrix *w, size_t r,
                        size_t first, size_t n, float *restrict scale, float *restrict zero)
{
    const int zeros = s.zero == KERF_ZERO_CODE;
    size_t left = l->entries - first;
    size_t m = n < left ? n : left;
    if (l->scale_elements == s.group) {
        widen_groups(s, l, w, r, first, m, scale, zero);
    } else { /* a group serves more than an entry */
        float of_group[ENTRIES + V], zero_of[ENTRIES + V];
        size_t per = s.group ? s.group / l->scale_elements : SIZE_MAX;
        size_t group = first / per, in = first % per;
        if (m) widen_groups(s, l, w, r, group, (in + m - 1) / per + 1, of_group, zero_of);
        for (size_t i = 0, g = 0; i < m; i++) {
            scale[i] = of_group[g];
            if (zeros) zero[i] = zero_of[g];
            if (++in == per) in = 0, g++;
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

/* Pairs are of 2 and 4 bits, integers of 2, 4 and 6: for formats of other codes there is nothing to
 * compile, and no plan (gemv_start.h). */
#define MAY_HOLD(bits) \
    (HAS_SINGLE ||     \
     ((bits) == 6 ? HAS_WHOLE6 : (HAS_PAIR || HAS_WHOLE) && ((bits) == 2 || (bits) == 4)))

kf_gemv_widen *const KF_ISA(widen)[] = {
#define KERF_FORMAT(ID, wire, name, family, elem, ...) MAY_HOLD(KF_BITS_##elem) ? widen_##ID : NULL,
#include <kerf/formats.def>
#undef KERF_FORMAT
};

#endif
