/* wide_tile.h - stages that do not depend on the format: fp32 from the source and to the target,
 * packing, and what each group knows of its elements. One copy per instruction set. */
#ifndef KERF_WIDE_TILE_H
#define KERF_WIDE_TILE_H

#include "cpu/band.h"
#include "cpu/widen.h"

enum {
    KF_TILE = 2048,              /* elements; a multiple of every group and of what fills bytes */
    KF_TILE_GROUPS = KF_TILE / 8 /* no group is smaller: wide.h checks every row */
};

/* The part of a row that goes through the stages at once. Codes have 32 bits here, as wide as the
 * elements, so that a loop over both needs vectors of one shape. What belongs to groups lies in
 * arrays of their own, so that many groups can be looked at together. */
typedef struct kf_tile {
    float x[KF_TILE];
    uint32_t code[KF_TILE + 8];
    int32_t low[KF_TILE_GROUPS], high[KF_TILE_GROUPS];    /* extremes of the elements     */
    uint32_t bits[KF_TILE_GROUPS], point[KF_TILE_GROUPS]; /* kf_scale, as stored          */
    float factor[KF_TILE_GROUPS];                         /* kf_quant, or kf_dequant.scale */
    int32_t zero[KF_TILE_GROUPS], dead[KF_TILE_GROUPS];
} kf_tile;

#define KF_STAGE static __attribute__((noinline, unused))

/* --- source and target ------------------------------------------------------------------------ */

/* Widens n elements; returns the largest magnitude as bits. */
KF_HD uint32_t widen_as(kerf_dtype t, const uint8_t *restrict src, size_t n, float *restrict x)
{
    uint32_t top = 0;
    for (size_t i = 0; i < n; i++) {
        float v = kf_load(t, src, i);
        uint32_t magnitude = kf_bits(v) & 0x7fffffffu;
        x[i] = v;
        top = magnitude > top ? magnitude : top;
    }
    return top;
}

KF_STAGE uint32_t widen_tile(kerf_dtype t, const uint8_t *src, size_t n, float *x)
{
    switch (t) {
    case KERF_F32: return widen_as(KERF_F32, src, n, x);
    case KERF_F16: return widen_as(KERF_F16, src, n, x);
    default: return widen_as(KERF_BF16, src, n, x);
    }
}

/* Asks for what the next tile will need while this one is worked on: a tile is read in one go,
 * too short for the processor to see a stream. */
KF_HD void prefetch(const uint8_t *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(p + i);
}

/* n elements of a band from element `first` on, NaN and Inf treated as the caller wants them, and
 * their largest magnitude as bits. Returns 0 when there is one that is an error. */
KF_STAGE int load_tile(const kf_band *b, size_t first, size_t n, float *x, uint32_t *top)
{
    size_t size = b->dtype == KERF_F32 ? 4 : 2;
    const uint8_t *src = b->source + first * size;
    prefetch(src + n * size, n * size);
    *top = widen_tile(b->dtype, src, n, x);
    if (*top < 0x7f800000u) return 1;
    if (kf_widen(b->dtype, src, n, b->nan, x) != KF_NO_ELEMENT) return 0;
    *top = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t magnitude = kf_bits(x[i]) & 0x7fffffffu;
        *top = magnitude > *top ? magnitude : *top;
    }
    return 1;
}

KF_HD void narrow_as(kerf_dtype t, const float *restrict x, size_t n, uint8_t *restrict dst)
{
    for (size_t i = 0; i < n; i++) kf_store(t, dst, i, x[i]);
}

KF_STAGE void store_tile(const kf_band *b, size_t first, size_t n, const float *x)
{
    switch (b->dtype) {
    case KERF_F32: narrow_as(KERF_F32, x, n, b->target + 4 * first); return;
    case KERF_F16: narrow_as(KERF_F16, x, n, b->target + 2 * first); return;
    default: narrow_as(KERF_BF16, x, n, b->target + 2 * first); return;
    }
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

/* Merges the elements of every group into low and high: least and largest of all, or the largest
 * magnitude in both. */
KF_HD void merge_groups(int signs, const float *restrict x, size_t n, size_t width,
                        int32_t *restrict low, int32_t *restrict high)
{
    for (size_t g = 0; g * width < n; g++) {
        const float *group = x + g * width;
        size_t cols = n - g * width < width ? n - g * width : width;
        int32_t least = low[g], largest = high[g];
        for (size_t i = 0; i < cols; i++) {
            int32_t v = signs ? order_of(group[i]) : (int32_t)(kf_bits(group[i]) & 0x7fffffffu);
            if (signs) least = v < least ? v : least;
            largest = v > largest ? v : largest;
        }
        low[g] = signs ? least : largest;
        high[g] = largest;
    }
}

/* The same for groups of a literal size: n is a multiple of it. */
KF_HD void merge_whole(int signs, const float *restrict x, size_t n, size_t width,
                       int32_t *restrict low, int32_t *restrict high)
{
    for (size_t g = 0; g < n / width; g++) {
        const float *group = x + g * width;
        int32_t least = INT32_MAX, largest = INT32_MIN;
        for (size_t i = 0; i < width; i++) {
            int32_t v = signs ? order_of(group[i]) : (int32_t)(kf_bits(group[i]) & 0x7fffffffu);
            if (signs) least = v < least ? v : least;
            largest = v > largest ? v : largest;
        }
        high[g] = largest > high[g] ? largest : high[g];
        low[g] = !signs ? high[g] : least < low[g] ? least : low[g];
    }
}

KF_HD void merge_sized(int signs, const float *x, size_t n, size_t width, int32_t *low,
                       int32_t *high)
{
    size_t whole = n - n % width;
    switch (width) {
    case 16: merge_whole(signs, x, whole, 16, low, high); break;
    case 32: merge_whole(signs, x, whole, 32, low, high); break;
    case 64: merge_whole(signs, x, whole, 64, low, high); break;
    case 128: merge_whole(signs, x, whole, 128, low, high); break;
    default: whole = 0; break;
    }
    merge_groups(signs, x + whole, n - whole, width, low + whole / width, high + whole / width);
}

KF_STAGE void merge_tile(int signs, const float *x, size_t n, size_t width, int32_t *low,
                         int32_t *high)
{
    if (signs)
        merge_sized(1, x, n, width, low, high);
    else
        merge_sized(0, x, n, width, low, high);
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

/* Words of 24 bits, three bytes each, `bytes` in all. */
KF_HD void pack_triples(const uint32_t *restrict word, size_t bytes, uint8_t *restrict out)
{
    size_t i = 0;
    for (; 3 * i + 4 <= bytes; i++) memcpy(out + 3 * i, word + i, 4);
    for (size_t k = 3 * i; k < bytes; k++) out[k] = (uint8_t)(word[k / 3] >> 8 * (k % 3));
}

/* Packs n codes; those that fill the last byte up are `padding`. Destroys the codes. */
KF_STAGE void pack_tile(unsigned bits, int first_high, uint32_t padding, uint32_t *code, size_t n,
                        uint8_t *out)
{
    uint32_t half[KF_TILE / 2 + 4];
    size_t bytes = kf_packed_bytes(bits, n);
    for (unsigned k = 0; k < 8; k++) code[n + k] = padding;
    switch (bits) {
    case 2:
        join_pairs(code, 2 * bytes, 2, half);
        pack_nibbles(half, bytes, 0, out);
        return;
    case 4: pack_nibbles(code, bytes, first_high, out); return;
    case 6:
        join_pairs(code, (n + 3) / 4 * 2, 6, half);
        join_pairs(half, (n + 3) / 4, 12, code);
        pack_triples(code, bytes, out);
        return;
    case 8: pack_bytes(code, n, out); return;
    case 16: pack_halves(code, n, out); return;
    default: memcpy(out, code, bytes); return;
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

KF_HD void unpack_triples(const uint8_t *restrict in, size_t bytes, uint32_t *restrict word)
{
    size_t i = 0;
    for (; 3 * i + 4 <= bytes; i++) {
        memcpy(word + i, in + 3 * i, 4);
        word[i] &= 0xffffff;
    }
    for (size_t k = 3 * i; k < bytes; k++)
        word[k / 3] = (k % 3 ? word[k / 3] : 0) | (uint32_t)in[k] << 8 * (k % 3);
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
    case 6:
        unpack_triples(in, bytes, code);
        split_pairs(code, (n + 3) / 4, 12, half);
        split_pairs(half, (n + 3) / 4 * 2, 6, code);
        return;
    case 8: unpack_bytes(in, n, code); return;
    case 16: unpack_halves(in, n, code); return;
    default: memcpy(code, in, bytes); return;
    }
}

/* The codes of byte structs: groups apart, and the halves of a group in low and high nibbles. */
KF_STAGE void unpack_struct(kf_spec s, const uint8_t *row, size_t group, size_t groups,
                            uint32_t *code)
{
    for (size_t i = group; i < group + groups; i++, code += s.group) {
        size_t place = kf_struct_code(s, i * s.group);
        if (s.bits == 8) {
            unpack_bytes(row + place, s.group, code);
            continue;
        }
        for (unsigned k = 0; k < s.group / 2; k++) {
            code[k] = row[place / 2 + k] & 0xf;
            code[s.group / 2 + k] = row[place / 2 + k] >> 4;
        }
    }
}

#endif
