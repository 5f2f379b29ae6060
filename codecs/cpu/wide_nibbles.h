/* wide_nibbles.h - codes of 2 and 4 bits straight to bfloat16.
 *
 * The byte of a pair of codes is widened to a lane, the numbers of both are looked up, scaled and
 * rounded there, and the lane is the pair of bfloat16 again. Other orders of codes, and codes of
 * 2 bits, are brought into that of a packed row first. A scale that is not finite is left to the
 * stages that know what becomes of a NaN. */
#ifndef KERF_WIDE_NIBBLES_H
#define KERF_WIDE_NIBBLES_H

#include "cpu/wide_value.h"

KF_HD int has_nibbles(kf_spec s)
{
    return (s.bits == 2 || s.bits == 4) && is_linear(s);
}

/* Whether no product with a finite number is a NaN. */
KF_HD int has_finite_scales(size_t groups, const kf_tile *t)
{
    uint32_t top = 0;
    for (size_t i = 0; i < groups; i++) {
        uint32_t magnitude = kf_bits(t->factor[i]) & 0x7fffffffu;
        top = magnitude > top ? magnitude : top;
    }
    return top < 0x7f800000u;
}

/* --- other orders ------------------------------------------------------------------------------
 */

/* Bytes of four codes become two bytes each. */
KF_HD void spread_quarters(const uint8_t *restrict in, size_t bytes, uint8_t *restrict out)
{
    for (size_t i = 0; i < bytes; i++) {
        uint32_t w = in[i];
        w = (w | w << 4) & 0x0f0f;
        uint16_t pairs = (uint16_t)((w | w << 2) & 0x3333);
        memcpy(out + 2 * i, &pairs, 2);
    }
}

/* Whole structs of a row, from the one that begins with `group` on. */
KF_HD void unpack_structs(kf_spec s, const uint8_t *restrict row, size_t group, size_t groups,
                          uint8_t *restrict out)
{
    const size_t step = kf_struct_bytes(s), elements = kf_struct_elements(s);
    const uint8_t *in = row + kf_struct_code(s, group * s.group) / 2;
    for (size_t left = groups * s.group / elements; left; left--, in += step)
        for (size_t k = 0; k < elements / 2; k += 16, out += 16)
            vec_order_halves(in + k, s.group, out);
}

/* --- numbers -----------------------------------------------------------------------------------
 */

/* To nearest even, in the upper halves; no NaN comes here. */
KF_HD vec_u round_halves(vec_f x)
{
    const vec_u u = (vec_u)x;
    return u + 0x7fff + (u >> 16 & 1);
}

/* The codes of one vector of pairs. */
KF_HD void decode_vector(const float *table, int first_high, int shifts, vec_f scale, vec_f zero,
                         const uint8_t *codes, uint8_t *dst)
{
    const vec_u both = vec_widen_bytes(codes), high = both >> 4;
    vec_f even = vec_sixteenth(table, first_high ? high : both);
    vec_f odd = vec_sixteenth(table, first_high ? both : high);
    if (shifts) {
        even -= zero;
        odd -= zero;
    }
    vec_u first = round_halves(even * scale), second = round_halves(odd * scale);
    vec_store(vec_mix(0xffff, first >> 16, second), dst);
}

enum { PAIRED = 2 * VEC_LANES }; /* elements of a vector of pairs */

/* The last n elements, fewer than a vector has. */
KF_HD void decode_last(const float *table, int first_high, int shifts, vec_f scale, vec_f zero,
                       const uint8_t *codes, size_t n, uint8_t *dst)
{
    uint8_t in[VEC_LANES] = {0}, out[VEC_BYTES];
    memcpy(in, codes, (n + 1) / 2);
    decode_vector(table, first_high, shifts, scale, zero, in, out);
    memcpy(dst, out, 2 * n);
}

/* Groups of 16: a vector may hold more than one. */
KF_HD void decode_sixteens(const float *table, int shifts, const float *scale, const float *zero,
                           const uint8_t *codes, size_t n, uint8_t *dst)
{
    size_t at = 0;
    for (; at + PAIRED <= n; at += PAIRED)
        decode_vector(table, 0, shifts, vec_of_groups(scale, at), vec_of_groups(zero, at),
                      codes + at / 2, dst + 2 * at);
    if (at < n)
        decode_last(table, 0, shifts, vec_of_groups(scale, at), vec_of_groups(zero, at),
                    codes + at / 2, n - at, dst + 2 * at);
}

/* Groups of a multiple of 32, or one group. */
KF_HD void decode_groups(const float *table, int first_high, int shifts, size_t width,
                         const float *scale, const float *zero, const uint8_t *codes, size_t n,
                         uint8_t *dst)
{
    for (size_t at = 0; at < n; scale++, zero++) {
        const vec_f f = vec_all(*scale), z = vec_all(*zero);
        const size_t end = n - at < width ? n : at + width;
        for (; at + PAIRED <= end; at += PAIRED)
            decode_vector(table, first_high, shifts, f, z, codes + at / 2, dst + 2 * at);
        if (at < end)
            decode_last(table, first_high, shifts, f, z, codes + at / 2, end - at, dst + 2 * at);
        at = end;
    }
}

/* n codes in the order of a packed row, in groups of `width` from group g of the tile on. */
KF_STAGE void decode_nibbles(const float *table, int first_high, int shifts, size_t width, size_t g,
                             const kf_tile *t, const uint8_t *codes, size_t n, uint8_t *dst)
{
    const float *scale = t->factor + g;
    float zero[KF_TILE_GROUPS];
    for (size_t i = 0; shifts && i < (n + width - 1) / width; i++) zero[i] = (float)t->zero[g + i];
    if (width == 16 && shifts)
        decode_sixteens(table, 1, scale, zero, codes, n, dst);
    else if (width == 16)
        decode_sixteens(table, 0, scale, scale, codes, n, dst);
    else if (first_high)
        decode_groups(table, 1, 0, width, scale, scale, codes, n, dst);
    else if (shifts)
        decode_groups(table, 0, 1, width, scale, zero, codes, n, dst);
    else
        decode_groups(table, 0, 0, width, scale, scale, codes, n, dst);
}

/* The n codes of a tile, which begins at group `first` of its row and g of the tile's arrays. */
KF_HD void decode_pairs(kf_spec s, const float *table, size_t width, size_t first, size_t g,
                        const kf_tile *t, const uint8_t *codes, size_t n, uint8_t *dst)
{
    uint8_t ordered[KF_TILE / 2];
    if (s.geometry == KERF_GROUP_STRUCT) {
        unpack_structs(s, codes, first, n / s.group, ordered);
        codes = ordered;
    } else if (s.bits == 2) {
        spread_quarters(codes, kf_packed_bytes(2, n), ordered);
        codes = ordered;
    }
    decode_nibbles(table, s.geometry == KERF_GROUP_FLAT, s.zero == KERF_ZERO_CODE, width, g, t,
                   codes, n, dst);
}

#endif
