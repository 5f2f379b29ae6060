/* wide_value.h - codes to numbers: first the numbers at scale 1, then scales and the target type.
 *
 * In all families but casts a code stands for (v - zero) * scale, v being its number at scale 1 and
 * zero 0, and both operations being those of the rule: v - zero is exact. So the first step needs
 * the element alone, and the second neither format nor element. is_linear names the families of
 * which this is true; others take the functions of block/ as they are. */
#ifndef KERF_WIDE_VALUE_H
#define KERF_WIDE_VALUE_H

#include "cpu/wide_tile.h"

KF_HD int is_linear(kf_spec s)
{
    switch (s.family) {
    case KERF_FAMILY_FP8:
    case KERF_FAMILY_MX:
    case KERF_FAMILY_NVFP4:
    case KERF_FAMILY_NF4:
    case KERF_FAMILY_INT:
    case KERF_FAMILY_AFFINE:
    case KERF_FAMILY_GGML: return 1;
    default: return 0;
    }
}

/* --- numbers at scale 1 ------------------------------------------------------------------------
 */

/* Of codes of up to 6 bits: table holds the numbers of all of them, or of the magnitudes of 6 bits.
 * Elements up to the next multiple of KF_VEC may be written. */
KF_HD void look_up_values(unsigned bits, const float *table, const uint32_t *restrict code,
                          size_t n, float *restrict x)
{
#if KF_VEC_TABLES
    for (size_t i = 0; i < n; i += KF_VEC) {
        if (bits <= 4)
            vec_look_up_16(table, code + i, x + i);
        else
            vec_look_up_64(table, code + i, x + i);
    }
#else
    (void)bits, (void)table, (void)code, (void)n, (void)x;
#endif
}

/* Of the codes of the bytes that conversions of fp16 know; returns how many. */
KF_HD size_t convert_bytes(kerf_element e, const uint8_t *restrict code, size_t n,
                           float *restrict x)
{
    size_t i = 0;
#if KF_VEC_HALVES
    for (; e == KERF_ELEM_E4M3 && i + KF_VEC <= n; i += KF_VEC) vec_e4m3(code + i, x + i);
    for (; e == KERF_ELEM_E5M2 && i + KF_VEC <= n; i += KF_VEC) vec_e5m2(code + i, x + i);
#else
    (void)e, (void)code, (void)n, (void)x;
#endif
    return i;
}

/* The n codes of a tile, apart; those of byte structs begin at group `first` of the row. */
KF_HD void unpack_codes(kf_spec s, const uint8_t *codes, size_t first, size_t n, kf_tile *t)
{
    if (s.geometry == KERF_GROUP_STRUCT)
        unpack_struct(s, codes, first, n / s.group, t->code);
    else
        unpack_tile(s.bits, s.geometry == KERF_GROUP_FLAT, codes, n, t->code);
}

/* --- scales, and the target type ---------------------------------------------------------------
 */

/* The number, or the one NaN that decoding writes. */
KF_HD float one_nan(float x)
{
    return x == x ? x : kf_float(0x7fc00000u);
}

KF_HD void store_number(kerf_dtype t, uint8_t *dst, size_t i, float x)
{
    uint32_t u = kf_bits(one_nan(x));
    uint16_t half = (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
    if (t == KERF_BF16)
        memcpy(dst + 2 * i, &half, 2);
    else
        kf_store(t, dst, i, kf_float(u));
}

/* One group, or a part of it. */
KF_HD void scale_group(kerf_dtype t, int shifts, kf_dequant d, const float *restrict x, size_t n,
                       uint8_t *restrict dst)
{
    const float zero = (float)d.zero;
    size_t i = 0;
#if KF_VEC_HALVES
    for (; t == KERF_F16 && i + KF_VEC <= n; i += KF_VEC) {
        float y[KF_VEC];
        for (size_t k = 0; k < KF_VEC; k++)
            y[k] = one_nan((shifts ? x[i + k] - zero : x[i + k]) * d.scale);
        vec_narrow_halves(y, dst + 2 * i);
    }
#endif
    for (; i < n; i++) store_number(t, dst, i, (shifts ? x[i] - zero : x[i]) * d.scale);
}

KF_HD kf_dequant dequant_of(const kf_tile *t, size_t i)
{
    kf_dequant d = {t->factor[i], t->zero[i], 0};
    return d;
}

KF_HD void scale_sized(kerf_dtype type, int shifts, size_t width, size_t n, size_t g,
                       const kf_tile *t, uint8_t *dst)
{
    size_t size = type == KERF_F32 ? 4 : 2, at = 0;
    for (; at + width <= n; at += width)
        scale_group(type, shifts, dequant_of(t, g++), t->x + at, width, dst + at * size);
    if (at < n) scale_group(type, shifts, dequant_of(t, g), t->x + at, n - at, dst + at * size);
}

KF_HD void scale_as(kerf_dtype type, int shifts, size_t width, size_t n, size_t g, const kf_tile *t,
                    uint8_t *dst)
{
    switch (width) {
    case 16: scale_sized(type, shifts, 16, n, g, t, dst); return;
    case 32: scale_sized(type, shifts, 32, n, g, t, dst); return;
    default: scale_sized(type, shifts, width, n, g, t, dst); return;
    }
}

/* The n numbers of a tile, in groups of `width` from group g on, to the target. */
KF_STAGE void scale_tile(kerf_dtype type, int shifts, size_t width, size_t n, size_t g,
                         const kf_tile *t, uint8_t *dst)
{
    switch (type) {
    case KERF_F32:
        if (shifts)
            scale_as(KERF_F32, 1, width, n, g, t, dst);
        else
            scale_as(KERF_F32, 0, width, n, g, t, dst);
        return;
    case KERF_F16:
        if (shifts)
            scale_as(KERF_F16, 1, width, n, g, t, dst);
        else
            scale_as(KERF_F16, 0, width, n, g, t, dst);
        return;
    default:
        if (shifts)
            scale_as(KERF_BF16, 1, width, n, g, t, dst);
        else
            scale_as(KERF_BF16, 0, width, n, g, t, dst);
        return;
    }
}

/* --- casts: from one float type to another -----------------------------------------------------
 */

KF_HD void convert_as(kerf_dtype from, kerf_dtype to, const uint8_t *restrict src, size_t n,
                      uint8_t *restrict dst)
{
    size_t i = 0;
#if KF_VEC_HALVES
    for (; from == KERF_F16 && to == KERF_BF16 && i + KF_VEC <= n; i += KF_VEC) {
        float x[KF_VEC]; /* a NaN becomes quiet, which it has to */
        vec_widen_halves(src + 2 * i, x);
        for (size_t k = 0; k < KF_VEC; k++) kf_store(KERF_BF16, dst, i + k, x[k]);
    }
    for (; from != KERF_F16 && to == KERF_F16 && i + KF_VEC <= n; i += KF_VEC) {
        float x[KF_VEC];
        for (size_t k = 0; k < KF_VEC; k++) {
            float v = kf_load(from, src, i + k);
            x[k] = v == v ? v : kf_float((kf_bits(v) & 0x80000000u) | 0x7fc00000u);
        }
        vec_narrow_halves(x, dst + 2 * i);
    }
#endif
    for (; i < n; i++) kf_store(to, dst, i, kf_load(from, src, i));
}

KF_HD void convert_to(kerf_dtype from, kerf_dtype to, const uint8_t *src, size_t n, uint8_t *dst)
{
    switch (to) {
    case KERF_F32: convert_as(from, KERF_F32, src, n, dst); return;
    case KERF_F16: convert_as(from, KERF_F16, src, n, dst); return;
    default: convert_as(from, KERF_BF16, src, n, dst); return;
    }
}

KF_STAGE void convert(kerf_dtype from, kerf_dtype to, const uint8_t *src, size_t n, uint8_t *dst)
{
    switch (from) {
    case KERF_F32: convert_to(KERF_F32, to, src, n, dst); return;
    case KERF_F16: convert_to(KERF_F16, to, src, n, dst); return;
    default: convert_to(KERF_BF16, to, src, n, dst); return;
    }
}

/* The source or target type whose bits are the codes of a cast. */
KF_HD kerf_dtype cast_type(kf_spec s)
{
    return s.element == KERF_ELEM_F32   ? KERF_F32
           : s.element == KERF_ELEM_F16 ? KERF_F16
                                        : KERF_BF16;
}

#endif
