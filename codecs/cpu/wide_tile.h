/* wide_tile.h - stages that do not depend on the format: fp32 from the source and to the target,
 * packing, and what each group knows of its elements. One copy per instruction set. */
#ifndef KERF_WIDE_TILE_H
#define KERF_WIDE_TILE_H

#include "cpu/band.h"
#include "cpu/wide_lanes.h"
#include "cpu/wide_pairs.h"
#include "cpu/widen.h"

enum {
    KF_TILE = 2048,              /* elements; a multiple of every group and of what fills bytes */
    KF_TILE_GROUPS = KF_TILE / 8 /* no group is smaller: wide.h checks every row */
};

/* The part of a row that goes through the stages at once. Codes have 32 bits here, as wide as the
 * elements, so that a loop over both needs vectors of one shape. What belongs to groups lies in
 * arrays of their own, so that many groups can be looked at together. */
typedef struct kf_tile {
    float x[KF_TILE + KF_VEC]; /* steps of KF_VEC may end past the last element */
    uint32_t code[KF_TILE + KF_VEC];
    int32_t low[KF_TILE_GROUPS], high[KF_TILE_GROUPS];    /* extremes of the elements     */
    uint32_t bits[KF_TILE_GROUPS], point[KF_TILE_GROUPS]; /* kf_scale, as stored          */
    float factor[KF_TILE_GROUPS];                         /* kf_quant, or kf_dequant.scale */
    int32_t zero[KF_TILE_GROUPS], dead[KF_TILE_GROUPS];
    int encoder;          /* encode: kerf_encoder_id ...                               */
    kerf_dtype source;    /* ... and the type that it rounds to                        */
    const uint8_t *pairs; /* encode: finite elements of bfloat16 in the source, or NULL      */
    const uint8_t *ahead; /* encode: what will be read next, asked for on the way */
} kf_tile;

#define KF_STAGE static __attribute__((noinline, unused))

/* --- source and target ------------------------------------------------------------------------ */

KF_HD void widen_as(kerf_dtype t, const uint8_t *restrict src, size_t n, float *restrict x)
{
    size_t i = 0;
#if KF_VEC_HALVES
    for (; t == KERF_F16 && i + KF_VEC <= n; i += KF_VEC) vec_widen_halves(src + 2 * i, x + i);
#endif
    for (; i < n; i++) x[i] = kf_load(t, src, i);
}

/* n elements without a NaN, or for whom one NaN is as good as another. */
KF_STAGE void widen_tile(kerf_dtype t, const uint8_t *src, size_t n, float *x)
{
    switch (t) {
    case KERF_F32: memcpy(x, src, 4 * n); return;
    case KERF_F16: widen_as(KERF_F16, src, n, x); return;
    default: widen_as(KERF_BF16, src, n, x); return;
    }
}

/* Asks for what will be read next: a tile is read in one go, too short for the processor to see a
 * stream. */
KF_HD void prefetch(const uint8_t *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(p + i);
}

/* --- what a group knows of its elements --------------------------------------------------------
 */

/* Floats as integers of the same order, and back. */
KF_HD int32_t order_of(float x)
{
    int32_t i = (int32_t)kf_bits(x);
    return i < 0 ? i ^ 0x7fffffff : i;
}
KF_HD float float_of(int32_t order)
{
    return kf_float((uint32_t)(order < 0 ? order ^ 0x7fffffff : order));
}

/* The extremes of group i, as a group that has no other elements. */
typedef struct extremes {
    float x[2];
} extremes;

KF_HD extremes extremes_at(const kf_tile *t, size_t i)
{
    extremes e = {{float_of(t->low[i]), float_of(t->high[i])}};
    return e;
}

/* What was chosen for group i. */
KF_HD void keep_choice(kf_spec s, kf_scale scale, kf_quant q, size_t i, kf_tile *t)
{
    t->bits[i] = scale.bits;
    t->factor[i] = q.factor;
    if (s.zero == KERF_ZERO_CODE) t->point[i] = scale.zero;
    if (s.zero == KERF_ZERO_CODE || s.geometry == KERF_GROUP_FLAT) t->zero[i] = q.zero;
    if (s.second == KERF_SECOND_TENSOR) t->dead[i] = q.dead;
}

/* 16-bit types in the same way: bits without the sign are in order of their magnitudes. */
KF_HD int16_t order_of_half(uint16_t half)
{
    return (int16_t)(half & 0x8000 ? half ^ 0x7fff : half);
}

KF_HD int32_t half_order(kerf_dtype t, int16_t order)
{
    uint16_t half = (uint16_t)(order < 0 ? order ^ 0x7fff : order);
    return order_of(t == KERF_F16 ? kf_f16_decode(half) : kf_bf16_decode(half));
}

/* Least and largest of all, or the largest magnitude, of n numbers of 16 bits. */
KF_HD void half_extremes(int signs, const uint8_t *src, size_t n, int16_t *low, int16_t *high)
{
    int16_t least = INT16_MAX, largest = signs ? INT16_MIN : 0;
    size_t i = 0;
#if KF_VEC_EXTREMES
    i = n - n % KF_VEC;
    if (i && signs) vec_half_range(src, i, &least, &largest);
    if (i && !signs) largest = (int16_t)vec_largest_half(src, i);
#endif
    for (; i < n; i++) {
        uint16_t half;
        memcpy(&half, src + 2 * i, 2);
        int16_t v = signs ? order_of_half(half) : (int16_t)(half & 0x7fff);
        if (signs) least = v < least ? v : least;
        largest = v > largest ? v : largest;
    }
    *low = signs ? least : largest;
    *high = largest;
}

KF_HD void word_extremes(int signs, const uint8_t *src, size_t n, int32_t *low, int32_t *high)
{
    int32_t least = INT32_MAX, largest = signs ? INT32_MIN : 0;
    for (size_t i = 0; i < n; i++) {
        float x = kf_load(KERF_F32, src, i);
        int32_t v = signs ? order_of(x) : (int32_t)(kf_bits(x) & 0x7fffffffu);
        if (signs) least = v < least ? v : least;
        largest = v > largest ? v : largest;
    }
    *low = signs ? least : largest;
    *high = largest;
}

typedef struct group_extremes {
    int16_t low[KF_TILE_GROUPS], high[KF_TILE_GROUPS];      /* 16-bit sources */
    int32_t least[KF_TILE_GROUPS], largest[KF_TILE_GROUPS]; /* in fp32        */
} group_extremes;

KF_HD void extremes_at_group(kerf_dtype t, int signs, const uint8_t *src, size_t n, size_t g,
                             group_extremes *e)
{
    if (t == KERF_F32)
        word_extremes(signs, src, n, e->least + g, e->largest + g);
    else
        half_extremes(signs, src, n, e->low + g, e->high + g);
}

/* The largest magnitudes of groups of LANE_STEP, if there are enough of them; returns of how many.
 */
KF_HD size_t step_extremes(const uint8_t *src, size_t groups, group_extremes *e)
{
    size_t g = 0;
#if KF_VEC_EXTREMES
    while (groups >= KF_VEC_LANES && g < groups) {
        g = groups - g < KF_VEC_LANES ? groups - KF_VEC_LANES : g; /* some twice */
        lanes_largest(src + g * 2 * LANE_STEP, e->high + g);
        g += KF_VEC_LANES;
    }
#else
    (void)src, (void)groups, (void)e;
#endif
    return g;
}

enum { GROUP_BYTES = 32 }; /* of a group of 16 in bfloat16 */

/* As many groups as there are lanes, of which n are in the source, and the others zeros. */
KF_HD const uint8_t *groups_at(const uint8_t *src, size_t at, size_t n,
                               uint8_t room[GROUP_BYTES * VEC_LANES])
{
    if (n == VEC_LANES) return src + GROUP_BYTES * at;
    memset(room, 0, GROUP_BYTES * VEC_LANES);
    return memcpy(room, src + GROUP_BYTES * at, GROUP_BYTES * n);
}

/* The largest magnitude of each group of 16 numbers of bfloat16, as the bits of fp32: of as many
 * groups at once as there are lanes, turned so that a vector holds the same pair of each. There is
 * room for a vector more. */
KF_HD void find_amaxes(const uint8_t *src, size_t groups, int32_t *amax)
{
    uint8_t last[GROUP_BYTES * VEC_LANES];
    for (size_t at = 0; at < groups; at += VEC_LANES) {
        const size_t n = groups - at < VEC_LANES ? groups - at : VEC_LANES;
        vec_u pair[8], top = {0};
        vec_turn_groups(groups_at(src, at, n, last), pair);
        for (int i = 0; i < 8; i++) top = vec_larger_halves(top, pair[i] & 0x7fff7fffu);
        vec_store(vec_larger_halves(top << 16, top & 0xffff0000u), amax + at);
    }
}

/* Whole groups of a literal width, and then what is left. */
KF_HD size_t extremes_sized(kerf_dtype t, int signs, const uint8_t *src, size_t n, size_t width,
                            group_extremes *e)
{
    size_t g = 0, at, size = t == KERF_F32 ? 4 : 2;
    if (t != KERF_F32 && !signs && width == 32) g = step_extremes(src, n / width, e);
    for (at = g * width; at + width <= n; at += width, g++)
        extremes_at_group(t, signs, src + at * size, width, g, e);
    if (at < n) extremes_at_group(t, signs, src + at * size, n - at, g++, e);
    return g;
}

KF_HD void extremes_as(kerf_dtype t, int signs, const uint8_t *src, size_t n, size_t width,
                       group_extremes *e)
{
    size_t groups;
    if (t == KERF_BF16 && !signs && width == 16 && n % 16 == 0) {
        find_amaxes(src, n / 16, e->largest);
        memcpy(e->least, e->largest, n / 16 * sizeof *e->least);
        return;
    }
    switch (width) {
    case 16: groups = extremes_sized(t, signs, src, n, 16, e); break;
    case 32: groups = extremes_sized(t, signs, src, n, 32, e); break;
    default: groups = extremes_sized(t, signs, src, n, width, e); break;
    }
    for (size_t i = 0; t != KERF_F32 && i < groups; i++) {
        e->largest[i] = half_order(t, e->high[i]);
        e->least[i] = signs ? half_order(t, e->low[i]) : e->largest[i];
    }
}

/* Merges n elements of the source in groups of `width` into low and high. Returns their largest
 * magnitude as bits of fp32. */
KF_STAGE uint32_t merge_source(kerf_dtype t, int signs, const uint8_t *src, size_t n, size_t width,
                               int32_t *restrict low, int32_t *restrict high)
{
    group_extremes e;
    int32_t top = 0;
    switch ((int)t << 1 | signs) {
    case KERF_F32 << 1: extremes_as(KERF_F32, 0, src, n, width, &e); break;
    case KERF_F32 << 1 | 1: extremes_as(KERF_F32, 1, src, n, width, &e); break;
    case KERF_F16 << 1: extremes_as(KERF_F16, 0, src, n, width, &e); break;
    case KERF_F16 << 1 | 1: extremes_as(KERF_F16, 1, src, n, width, &e); break;
    case KERF_BF16 << 1: extremes_as(KERF_BF16, 0, src, n, width, &e); break;
    default: extremes_as(KERF_BF16, 1, src, n, width, &e); break;
    }
    for (size_t g = 0, groups = (n + width - 1) / width; g < groups; g++) {
        int32_t a = (int32_t)(kf_bits(float_of(e.least[g])) & 0x7fffffffu);
        int32_t b = (int32_t)(kf_bits(float_of(e.largest[g])) & 0x7fffffffu);
        top = a > top ? a : top;
        top = b > top ? b : top;
        low[g] = e.least[g] < low[g] || !signs ? e.least[g] : low[g];
        high[g] = e.largest[g] > high[g] ? e.largest[g] : high[g];
        if (!signs) low[g] = high[g];
    }
    return (uint32_t)top;
}

/* --- packing -----------------------------------------------------------------------------------
 */

/* Pairs of words become one: the odd one goes `shift` bits up. */
KF_HD void join_pairs(const uint32_t *restrict in, size_t pairs, unsigned shift,
                      uint32_t *restrict out)
{
    for (size_t i = 0; i < pairs; i++) {
        uint64_t w;
        memcpy(&w, in + 2 * i, 8);
        out[i] = (uint32_t)(w | w >> (32 - shift));
    }
}

KF_HD void split_pairs(const uint32_t *restrict in, size_t pairs, unsigned shift,
                       uint32_t *restrict out)
{
    const uint32_t mask = (1u << shift) - 1;
    for (size_t i = 0; i < pairs; i++) {
        uint64_t w = (in[i] & mask) | (uint64_t)(in[i] >> shift) << 32;
        memcpy(out + 2 * i, &w, 8);
    }
}

KF_HD void pack_bytes(const uint32_t *restrict code, size_t n, uint8_t *restrict out)
{
    for (size_t i = 0; i < n; i++) out[i] = (uint8_t)code[i];
}

KF_HD void pack_halves(const uint32_t *restrict code, size_t n, uint8_t *restrict out)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t half = (uint16_t)code[i];
        memcpy(out + 2 * i, &half, 2);
    }
}

KF_HD void pack_nibbles(const uint32_t *restrict code, size_t bytes, int first_high,
                        uint8_t *restrict out)
{
    for (size_t i = 0; i < bytes; i++) {
        uint64_t w;
        memcpy(&w, code + 2 * i, 8);
        out[i] = (uint8_t)(first_high ? w << 4 | w >> 32 : w | w >> 28);
    }
}

/* Codes that fill `bytes`. Destroys them where there are no vectors for it. */
KF_HD void pack_sixes(uint32_t *restrict code, size_t bytes, uint8_t *restrict out)
{
#if KF_VEC_SIXES
    uint8_t last[16];
    size_t i = 0;
    for (; 12 * i + 16 <= bytes; i++) vec_pack_sixes(code + KF_VEC * i, out + 12 * i);
    for (; 12 * i < bytes; i++) {
        vec_pack_sixes(code + KF_VEC * i, last);
        memcpy(out + 12 * i, last, bytes - 12 * i < 12 ? bytes - 12 * i : 12);
    }
#else
    uint32_t half[KF_TILE / 2 + KF_VEC];
    size_t words = (bytes + 2) / 3, i = 0;
    join_pairs(code, 2 * words, 6, half);
    join_pairs(half, words, 12, code);
    for (; 3 * i + 4 <= bytes; i++) memcpy(out + 3 * i, code + i, 4);
    for (size_t k = 3 * i; k < bytes; k++) out[k] = (uint8_t)(code[k / 3] >> 8 * (k % 3));
#endif
}

/* Packs n codes; those that fill the last byte up are `padding`. Destroys the codes. */
KF_STAGE void pack_tile(unsigned bits, int first_high, uint32_t padding, uint32_t *code, size_t n,
                        uint8_t *out)
{
    uint32_t half[KF_TILE / 2 + 4];
    size_t bytes = kf_packed_bytes(bits, n);
    for (unsigned k = 0; k < KF_VEC; k++) code[n + k] = padding;
    switch (bits) {
    case 2:
        join_pairs(code, 2 * bytes, 2, half);
        pack_nibbles(half, bytes, 0, out);
        return;
    case 4: pack_nibbles(code, bytes, first_high, out); return;
    case 6: pack_sixes(code, bytes, out); return;
    case 8: pack_bytes(code, n, out); return;
    case 16: pack_halves(code, n, out); return;
    default: memcpy(out, code, bytes); return;
    }
}

/* The halves of a group in low and high nibbles. */
KF_HD void pack_group_halves(const uint32_t *restrict code, size_t half, uint8_t *restrict out)
{
    for (size_t k = 0; k < half; k++) out[k] = (uint8_t)(code[k] | code[half + k] << 4);
}

/* The codes of whole byte structs: halves of a group in low and high nibbles, or bytes. */
KF_STAGE void pack_structs(kf_spec s, const uint32_t *restrict code, size_t group, size_t groups,
                           uint8_t *restrict row)
{
    const size_t step = kf_struct_bytes(s), each = kf_struct_groups(s);
    const size_t bytes = s.group * s.bits / 8;
    uint8_t *out = row + kf_struct_code(s, group * s.group) / (s.bits == 8 ? 1 : 2);
    for (size_t left = groups / each; left; left--, out += step)
        for (size_t k = 0; k < each; k++, code += s.group) {
            if (s.bits == 8)
                pack_bytes(code, s.group, out + bytes * k);
            else if (s.group == 32)
                pack_group_halves(code, 16, out + bytes * k);
            else if (s.group == 16)
                pack_group_halves(code, 8, out + bytes * k);
            else
                pack_group_halves(code, s.group / 2, out + bytes * k);
        }
}

KF_HD void unpack_bytes(const uint8_t *restrict in, size_t n, uint32_t *restrict code)
{
    for (size_t i = 0; i < n; i++) code[i] = in[i];
}

KF_HD void unpack_halves(const uint8_t *restrict in, size_t n, uint32_t *restrict code)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, in + 2 * i, 2);
        code[i] = half;
    }
}

KF_HD void unpack_nibbles(const uint8_t *restrict in, size_t bytes, int first_high,
                          uint32_t *restrict code)
{
    for (size_t i = 0; i < bytes; i++) {
        uint64_t b = in[i], w = first_high ? b >> 4 | b << 32 : b | b << 28;
        w &= UINT64_C(0x0000000f0000000f);
        memcpy(code + 2 * i, &w, 8);
    }
}

KF_HD void unpack_sixes(const uint8_t *restrict in, size_t n, uint32_t *restrict code)
{
    size_t i = 0;
#if KF_VEC_SIXES
    for (size_t bytes = kf_packed_bytes(6, n); i / 4 * 3 + 16 <= bytes; i += KF_VEC)
        vec_unpack_sixes(in + i / 4 * 3, code + i);
#endif
    for (; i + 4 <= n; i += 4) {
        uint32_t word =
            in[i / 4 * 3] | (uint32_t)in[i / 4 * 3 + 1] << 8 | (uint32_t)in[i / 4 * 3 + 2] << 16;
        for (unsigned k = 0; k < 4; k++) code[i + k] = word >> 6 * k & 63;
    }
    for (; i < n; i++) code[i] = kf_get_code(in, 6, i);
}

/* n codes, and what fills the last byte. */
KF_STAGE void unpack_tile(unsigned bits, int first_high, const uint8_t *in, size_t n,
                          uint32_t *code)
{
    uint32_t half[KF_TILE / 2 + 4];
    size_t bytes = kf_packed_bytes(bits, n);
    switch (bits) {
    case 2:
        unpack_nibbles(in, bytes, 0, half);
        split_pairs(half, 2 * bytes, 2, code);
        return;
    case 4: unpack_nibbles(in, bytes, first_high, code); return;
    case 6: unpack_sixes(in, n, code); return;
    case 8: unpack_bytes(in, n, code); return;
    case 16: unpack_halves(in, n, code); return;
    default: memcpy(code, in, bytes); return;
    }
}

/* The 4-bit codes of byte structs: groups apart, and the halves of a group in low and high
 * nibbles. */
KF_HD void unpack_struct(kf_spec s, const uint8_t *restrict row, size_t group, size_t groups,
                         uint32_t *restrict code)
{
    for (size_t i = group; i < group + groups; i++, code += s.group) {
        const uint8_t *in = row + kf_struct_code(s, i * s.group) / 2;
#if KF_VEC_STRUCTS
        if (s.group == 16 || s.group == 32) {
            vec_unpack_struct(in, s.group, code);
            continue;
        }
#endif
        for (unsigned k = 0; k < s.group / 2; k++) code[k] = in[k] & 0xf;
        for (unsigned k = 0; k < s.group / 2; k++) code[s.group / 2 + k] = in[k] >> 4;
    }
}

#endif
