/* wide_lanes.h - integers of 16 bits side by side, and codes on their way from registers to bytes.
 *
 * Sources of 16 bits fit twice as many lanes into a vector as fp32 does, and what compilers have
 * for vectors covers all of their arithmetic but what is here: the least and the largest, powers of
 * two that differ from lane to lane, and packing. */
#ifndef KERF_WIDE_LANES_H
#define KERF_WIDE_LANES_H

#include "cpu/wide_vec.h"

#if defined(__AVX512BW__) && defined(__AVX512VL__)
#define KF_VEC_LANES 32
#elif defined(__AVX2__)
#define KF_VEC_LANES 16
#elif defined(__ARM_NEON) && defined(__aarch64__)
#define KF_VEC_LANES 8
#else
#define KF_VEC_LANES 0
#endif

enum { LANE_STEP = 32 }; /* codes that are packed at once */

#define KF_VEC_LOOK_UP (KF_VEC_LANES == 32)

#if KF_VEC_LANES

typedef uint16_t lanes16 __attribute__((vector_size(2 * KF_VEC_LANES)));
typedef int16_t lanes16s __attribute__((vector_size(2 * KF_VEC_LANES)));

enum { LANE_PARTS = LANE_STEP / KF_VEC_LANES };

KF_HD lanes16 lanes_load(const uint8_t *p)
{
    lanes16 v;
    memcpy(&v, p, sizeof v);
    return v;
}

KF_HD lanes16 lanes_of(uint16_t x)
{
    return x - (lanes16){0};
}

#if KF_VEC_LANES == 32

KF_HD lanes16 lanes_min(lanes16 a, lanes16 b)
{
    return (lanes16)_mm512_min_epu16((__m512i)a, (__m512i)b);
}
KF_HD lanes16 lanes_max(lanes16 a, lanes16 b)
{
    return (lanes16)_mm512_max_epu16((__m512i)a, (__m512i)b);
}

/* a - b, or 0. */
KF_HD lanes16 lanes_above(lanes16 a, lanes16 b)
{
    return (lanes16)_mm512_subs_epu16((__m512i)a, (__m512i)b);
}

/* a * 2^(n - 1), a below 256 and n up to 8. Where n is 0, something below 128. */
KF_HD lanes16 lanes_scale(lanes16 a, lanes16 n)
{
    return (lanes16)_mm512_sllv_epi16((__m512i)a, (__m512i)(n - 1));
}

/* The lanes of a step as bytes, of which they have no more than eight bits. */
KF_HD __m256i lanes_bytes(const lanes16 *v)
{
    return _mm512_cvtepi16_epi8((__m512i)v[0]);
}

KF_HD void lanes_pack_nibbles(const lanes16 *v, uint8_t *out)
{
    __m512i w = (__m512i)v[0];
    w = _mm512_or_si512(w, _mm512_srli_epi32(w, 12));
    _mm_storeu_si128((__m128i *)(void *)out, _mm512_cvtepi32_epi8(w));
}

/* Words that are below 2^15. */
KF_HD lanes16 lanes_of_words(const uint32_t *w)
{
    const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    __m512i v = _mm512_packus_epi32(_mm512_loadu_si512(w), _mm512_loadu_si512(w + 16));
    return (lanes16)_mm512_permutexvar_epi64(order, v);
}

#define LANES_DO(operation) _mm512_##operation
typedef __m512i lanes_bits;

KF_HD lanes16 lanes_fold_ends(lanes16 a, lanes16 b)
{
    return lanes_max((lanes16)_mm512_shuffle_i64x2((__m512i)a, (__m512i)b, 0x88),
                     (lanes16)_mm512_shuffle_i64x2((__m512i)a, (__m512i)b, 0xdd));
}

/* The largest of four groups, eight of each, which lie in the quarters of the result. */
KF_HD lanes16 lanes_fold_groups(const uint8_t *src)
{
    lanes16 a[4];
    for (int i = 0; i < 4; i++) a[i] = lanes_load(src + 64 * i) & 0x7fff;
    return lanes_fold_ends(lanes_fold_ends(a[0], a[1]), lanes_fold_ends(a[2], a[3]));
}

/* Lane i of quarter k is of group 4 * i + k. */
KF_HD lanes16 lanes_in_order(lanes16 v)
{
    const lanes16 from = {0, 8,  16, 24, 1, 9,  17, 25, 2, 10, 18, 26, 3, 11, 19, 27,
                          4, 12, 20, 28, 5, 13, 21, 29, 6, 14, 22, 30, 7, 15, 23, 31};
    return (lanes16)_mm512_permutexvar_epi16((__m512i)from, (__m512i)v);
}

/* table[i % 128] */
KF_HD lanes16 lanes_look_up(const lanes16 table[4], lanes16 i)
{
    __m512i low = _mm512_permutex2var_epi16((__m512i)table[0], (__m512i)i, (__m512i)table[1]);
    __m512i high = _mm512_permutex2var_epi16((__m512i)table[2], (__m512i)i, (__m512i)table[3]);
    __mmask32 upper = _mm512_test_epi16_mask((__m512i)i, _mm512_set1_epi16(64));
    return (lanes16)_mm512_mask_blend_epi16(upper, low, high);
}

#elif KF_VEC_LANES == 16

#define LANES_DO(operation) _mm256_##operation
typedef __m256i lanes_bits;

KF_HD lanes16 lanes_min(lanes16 a, lanes16 b)
{
    return (lanes16)_mm256_min_epu16((__m256i)a, (__m256i)b);
}
KF_HD lanes16 lanes_max(lanes16 a, lanes16 b)
{
    return (lanes16)_mm256_max_epu16((__m256i)a, (__m256i)b);
}
KF_HD lanes16 lanes_above(lanes16 a, lanes16 b)
{
    return (lanes16)_mm256_subs_epu16((__m256i)a, (__m256i)b);
}
KF_HD lanes16 lanes_scale(lanes16 a, lanes16 n)
{
    const __m256i power = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 2, 4, 8, 16, 32, 64, -128, 0, 0, 0, 0, 0, 0, 0));
    return a * (lanes16)_mm256_shuffle_epi8(power, (__m256i)n);
}
KF_HD lanes16 lanes_fold_groups(const uint8_t *src)
{
    lanes16 a[4];
    for (int i = 0; i < 4; i++) a[i] = lanes_load(src + 32 * i) & 0x7fff;
    __m256i v = (__m256i)lanes_max(a[0], a[1]), w = (__m256i)lanes_max(a[2], a[3]);
    return lanes_max((lanes16)_mm256_permute2x128_si256(v, w, 0x20),
                     (lanes16)_mm256_permute2x128_si256(v, w, 0x31));
}
KF_HD lanes16 lanes_in_order(lanes16 v)
{
    __m128i even = _mm256_castsi256_si128((__m256i)v);
    __m128i odd = _mm256_extracti128_si256((__m256i)v, 1);
    return (lanes16)_mm256_set_m128i(_mm_unpackhi_epi16(even, odd), _mm_unpacklo_epi16(even, odd));
}
KF_HD __m256i lanes_bytes(const lanes16 *v)
{
    return _mm256_permute4x64_epi64(_mm256_packus_epi16((__m256i)v[0], (__m256i)v[1]), 0xd8);
}
KF_HD void lanes_pack_nibbles(const lanes16 *v, uint8_t *out)
{
    const __m256i low = _mm256_set1_epi32(0xff), order = _mm256_setr_epi32(0, 4, 1, 5, 0, 4, 1, 5);
    __m256i a = _mm256_or_si256((__m256i)v[0], _mm256_srli_epi32((__m256i)v[0], 12));
    __m256i b = _mm256_or_si256((__m256i)v[1], _mm256_srli_epi32((__m256i)v[1], 12));
    a = _mm256_packus_epi32(_mm256_and_si256(a, low), _mm256_and_si256(b, low));
    a = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(a, a), order);
    _mm_storeu_si128((__m128i *)(void *)out, _mm256_castsi256_si128(a));
}
KF_HD lanes16 lanes_of_words(const uint32_t *w)
{
    const __m256i *p = (const __m256i *)(const void *)w;
    __m256i v = _mm256_packus_epi32(_mm256_loadu_si256(p), _mm256_loadu_si256(p + 1));
    return (lanes16)_mm256_permute4x64_epi64(v, 0xd8);
}

#else

KF_HD lanes16 lanes_min(lanes16 a, lanes16 b)
{
    return (lanes16)vminq_u16((uint16x8_t)a, (uint16x8_t)b);
}
KF_HD lanes16 lanes_max(lanes16 a, lanes16 b)
{
    return (lanes16)vmaxq_u16((uint16x8_t)a, (uint16x8_t)b);
}
KF_HD lanes16 lanes_above(lanes16 a, lanes16 b)
{
    return (lanes16)vqsubq_u16((uint16x8_t)a, (uint16x8_t)b);
}
KF_HD lanes16 lanes_scale(lanes16 a, lanes16 n)
{
    return (lanes16)vshlq_u16((uint16x8_t)a, (int16x8_t)(n - 1));
}
KF_HD lanes16 lanes_of_words(const uint32_t *w)
{
    return (lanes16)vuzp1q_u16(vreinterpretq_u16_u32(vld1q_u32(w)),
                               vreinterpretq_u16_u32(vld1q_u32(w + 4)));
}
KF_HD uint8x16_t lanes_half(const lanes16 *v)
{
    return vuzp1q_u8((uint8x16_t)v[0], (uint8x16_t)v[1]);
}
KF_HD void lanes_pack_bytes(const lanes16 *v, uint8_t *out)
{
    vst1q_u8(out, lanes_half(v));
    vst1q_u8(out + 16, lanes_half(v + 2));
}
KF_HD void lanes_pack_nibbles(const lanes16 *v, uint8_t *out)
{
    uint8x16_t a = lanes_half(v), b = lanes_half(v + 2);
    vst1q_u8(out, vsliq_n_u8(vuzp1q_u8(a, b), vuzp2q_u8(a, b), 4));
}
KF_HD void lanes_pack_sixes(const lanes16 *v, uint8_t *out)
{
    uint8x16_t a = lanes_half(v), b = lanes_half(v + 2);
    uint8x16_t even = vuzp1q_u8(a, b), odd = vuzp2q_u8(a, b);
    uint8x8_t c0 = vget_low_u8(vuzp1q_u8(even, even)), c2 = vget_low_u8(vuzp2q_u8(even, even));
    uint8x8_t c1 = vget_low_u8(vuzp1q_u8(odd, odd)), c3 = vget_low_u8(vuzp2q_u8(odd, odd));
    uint8x8x3_t bytes = {{vsli_n_u8(c0, c1, 6), vsli_n_u8(vshr_n_u8(c1, 2), c2, 4),
                          vsli_n_u8(vshr_n_u8(c2, 4), c3, 2)}};
    vst3_u8(out, bytes);
}

#endif

#if KF_VEC_LANES > 8

/* Of each of as many groups of 32 as there are lanes the largest element without its sign. */
KF_HD lanes16 lanes_fold_words(lanes16 a, lanes16 b)
{
    return lanes_max((lanes16)LANES_DO(unpacklo_epi16)((lanes_bits)a, (lanes_bits)b),
                     (lanes16)LANES_DO(unpackhi_epi16)((lanes_bits)a, (lanes_bits)b));
}
KF_HD lanes16 lanes_fold_pairs(lanes16 a, lanes16 b)
{
    return lanes_max((lanes16)LANES_DO(unpacklo_epi32)((lanes_bits)a, (lanes_bits)b),
                     (lanes16)LANES_DO(unpackhi_epi32)((lanes_bits)a, (lanes_bits)b));
}
KF_HD lanes16 lanes_fold_fours(lanes16 a, lanes16 b)
{
    return lanes_max((lanes16)LANES_DO(unpacklo_epi64)((lanes_bits)a, (lanes_bits)b),
                     (lanes16)LANES_DO(unpackhi_epi64)((lanes_bits)a, (lanes_bits)b));
}

KF_HD void lanes_largest(const uint8_t *src, int16_t *largest)
{
    lanes16 r[8];
    for (int i = 0; i < 8; i++) r[i] = lanes_fold_groups(src + i * 8 * KF_VEC_LANES);
    for (int i = 0; i < 8; i += 2) r[i] = lanes_fold_words(r[i], r[i + 1]);
    for (int i = 0; i < 8; i += 4) r[i] = lanes_fold_pairs(r[i], r[i + 2]);
    r[0] = lanes_in_order(lanes_fold_fours(r[0], r[4]));
    memcpy(largest, r, sizeof *r);
}

KF_HD void lanes_pack_bytes(const lanes16 *v, uint8_t *out)
{
    _mm256_storeu_si256((__m256i *)(void *)out, lanes_bytes(v));
}

/* Four codes in three bytes, as vec_pack_sixes has it. */
KF_HD void lanes_pack_sixes(const lanes16 *v, uint8_t *out)
{
    const __m256i order = _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 6, 6);
    const __m256i place = _mm256_broadcastsi128_si256(
        _mm_set_epi32((int)0x80808080, 0x0e0d0c0a, 0x09080605, 0x04020100));
    __m256i w = _mm256_maddubs_epi16(lanes_bytes(v), _mm256_set1_epi16(64 << 8 | 1));
    w = _mm256_shuffle_epi8(_mm256_madd_epi16(w, _mm256_set1_epi32(4096 << 16 | 1)), place);
    w = _mm256_permutevar8x32_epi32(w, order);
    _mm_storeu_si128((__m128i *)(void *)out, _mm256_castsi256_si128(w));
    _mm_storel_epi64((__m128i *)(void *)(out + 16), _mm256_extracti128_si256(w, 1));
}

#endif

#endif

#endif
