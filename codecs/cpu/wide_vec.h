/* wide_vec.h - the few steps that compilers do not find in plain loops: tables held in registers,
 * conversions between fp16 and fp32, and codes of 6 bits. Everything else of a tile is plain C.
 *
 * What is written by hand here takes sixteen elements at a time and exists only where
 * KF_VEC says so; the caller has the plain loop for the rest of a tile and for other processors.
 * Each function says whose rule it follows; tests/check compares them with it.
 *
 * Conversions of fp16 in hardware neither flush subnormals nor depend on a rounding mode in force.
 * They are not used where a NaN could pass through them: its payload differs from the rule's. */
#ifndef KERF_WIDE_VEC_H
#define KERF_WIDE_VEC_H

#include "scalar/minifloat.h"

#if defined(__AVX512BW__) && defined(__AVX512VL__)
#include <immintrin.h>
#define KF_VEC_HALVES 1
#define KF_VEC_TABLES 1
#define KF_VEC_SIXES 1
#define KF_VEC_STRUCTS 1
#define KF_VEC_TURN 1
#define KF_VEC_EXTREMES 1
#define KF_VEC_PAIRS 1
#elif defined(__AVX2__)
#include <immintrin.h>
#define KF_VEC_HALVES 0
#define KF_VEC_TABLES 1
#define KF_VEC_SIXES 1
#define KF_VEC_STRUCTS 1
#define KF_VEC_TURN 1
#define KF_VEC_EXTREMES 1
#define KF_VEC_PAIRS 1
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
#define KF_VEC_HALVES 0
#define KF_VEC_TABLES 0
#define KF_VEC_SIXES 0
#define KF_VEC_STRUCTS 0
#define KF_VEC_TURN 1
#define KF_VEC_EXTREMES 0
#define KF_VEC_PAIRS 1
#else
#define KF_VEC_HALVES 0
#define KF_VEC_TABLES 0
#define KF_VEC_SIXES 0
#define KF_VEC_STRUCTS 0
#define KF_VEC_TURN 0
#define KF_VEC_EXTREMES 0
#define KF_VEC_PAIRS 0
#endif

enum { KF_VEC = 16 }; /* elements of one step */

#if KF_VEC_HALVES

/* kf_f16_decode of sixteen numbers without a NaN. */
KF_HD void vec_widen_halves(const uint8_t *src, float *x)
{
    _mm512_storeu_ps(x, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)src)));
}

/* kf_f16_encode; a NaN must be 0x7fc00000. */
KF_HD void vec_narrow_halves(const float *x, uint8_t *dst)
{
    const __mmask16 all = 0xffff; /* the plain form warns where nothing is optimized */
    __m256i half = _mm512_maskz_cvtps_ph(all, _mm512_loadu_ps(x), _MM_FROUND_TO_NEAREST_INT);
    _mm256_storeu_si256((__m256i *)(void *)dst, half);
}

/* kf_e5m2_decode, save for the payload of a NaN: its codes are the high bytes of fp16. */
KF_HD void vec_e5m2(const uint8_t *code, float *x)
{
    __m256i half = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)code));
    _mm512_storeu_ps(x, _mm512_cvtph_ps(_mm256_slli_epi16(half, 8)));
}

/* kf_e4m3_decode, save for the payload of a NaN: shifted into the fields of fp16 a code stands for
 * its number times 2^-8. */
KF_HD void vec_e4m3(const uint8_t *code, float *x)
{
    __m256i word = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)code));
    __m256i half = _mm256_and_si256(_mm256_slli_epi16(word, 7), _mm256_set1_epi16((short)0xbf80));
    __mmask16 nan = _mm256_cmpeq_epi16_mask(half, _mm256_set1_epi16(0x3f80)) |
                    _mm256_cmpeq_epi16_mask(half, _mm256_set1_epi16((short)0xbf80));
    __m512 y = _mm512_mul_ps(_mm512_cvtph_ps(half), _mm512_set1_ps(256.0f));
    _mm512_storeu_ps(x, _mm512_mask_mov_ps(y, nan, _mm512_set1_ps(kf_float(0x7fc00000u))));
}

#endif

#if KF_VEC_TABLES && defined(__AVX512BW__)

/* x = table[code], codes below 16; higher bits of a code do not matter. The second one has the
 * magnitudes of codes below 64, whose bit 5 is the sign. */
KF_HD void vec_look_up_16(const float *table, const uint32_t *code, float *x)
{
    __m512i i = _mm512_loadu_si512(code);
    _mm512_storeu_ps(x, _mm512_permutexvar_ps(i, _mm512_loadu_ps(table)));
}

KF_HD void vec_look_up_64(const float *table, const uint32_t *code, float *x)
{
    __m512i i = _mm512_loadu_si512(code);
    __m512 low = _mm512_loadu_ps(table), high = _mm512_loadu_ps(table + 16);
    __m512i sign = _mm512_slli_epi32(_mm512_srli_epi32(i, 5), 31);
    __m512i y = _mm512_castps_si512(_mm512_permutex2var_ps(low, i, high));
    _mm512_storeu_si512(x, _mm512_or_si512(y, sign));
}

#elif KF_VEC_TABLES

/* Eight entries from `at` on where bit `bit` of the code is 0, from `at` + 8 where it is 1. */
KF_HD __m256 look_up_halves(const float *table, __m256i code, int bit)
{
    __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), code);
    __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), code);
    __m256 pick = _mm256_castsi256_ps(_mm256_slli_epi32(code, 31 - bit));
    return _mm256_blendv_ps(low, high, pick);
}

KF_HD void vec_look_up_16(const float *table, const uint32_t *code, float *x)
{
    for (int k = 0; k < KF_VEC; k += 8) {
        __m256i i = _mm256_loadu_si256((const __m256i *)(const void *)(code + k));
        _mm256_storeu_ps(x + k, look_up_halves(table, i, 3));
    }
}

KF_HD void vec_look_up_64(const float *table, const uint32_t *code, float *x)
{
    for (int k = 0; k < KF_VEC; k += 8) {
        __m256i i = _mm256_loadu_si256((const __m256i *)(const void *)(code + k));
        __m256 low = look_up_halves(table, i, 3), high = look_up_halves(table + 16, i, 3);
        __m256 pick = _mm256_castsi256_ps(_mm256_slli_epi32(i, 27));
        __m256 sign = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_srli_epi32(i, 5), 31));
        _mm256_storeu_ps(x + k, _mm256_or_ps(_mm256_blendv_ps(low, high, pick), sign));
    }
}

#endif

#if KF_VEC_EXTREMES

/* Least of eight unsigned words. */
KF_HD uint16_t vec_least(__m256i v)
{
    __m128i w = _mm_min_epu16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    return (uint16_t)_mm_cvtsi128_si32(_mm_minpos_epu16(w));
}

/* The largest magnitude of n numbers of 16 bits, as bits; n is a multiple of KF_VEC. */
KF_HD uint16_t vec_largest_half(const uint8_t *src, size_t n)
{
    const __m256i ones = _mm256_set1_epi16(-1), mask = _mm256_set1_epi16(0x7fff);
    __m256i top = _mm256_setzero_si256(), top2 = top;
    size_t i = 0;
    for (; i + 2 * KF_VEC <= n; i += 2 * KF_VEC) { /* a line of memory */
        __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(src + 2 * i));
        __m256i w = _mm256_loadu_si256((const __m256i *)(const void *)(src + 2 * i + 32));
        if (n > 128) _mm_prefetch((const char *)(src + 2 * i + 2048), _MM_HINT_T0);
        top = _mm256_max_epu16(top, _mm256_and_si256(v, mask));
        top2 = _mm256_max_epu16(top2, _mm256_and_si256(w, mask));
    }
    if (i < n) {
        __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(src + 2 * i));
        top = _mm256_max_epu16(top, _mm256_and_si256(v, mask));
    }
    top = _mm256_max_epu16(top, top2);
    return (uint16_t)~vec_least(_mm256_xor_si256(top, ones));
}

/* Least and largest in the order of order_of_half. */
KF_HD void vec_half_range(const uint8_t *src, size_t n, int16_t *least, int16_t *largest)
{
    const __m256i flip = _mm256_set1_epi16(INT16_MIN), other = _mm256_set1_epi16(INT16_MAX);
    __m256i low = other, high = flip, low2 = other, high2 = flip;
    size_t i = 0;
    for (; i + 2 * KF_VEC <= n; i += 2 * KF_VEC) { /* a line of memory */
        __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(src + 2 * i));
        __m256i w = _mm256_loadu_si256((const __m256i *)(const void *)(src + 2 * i + 32));
        if (n > 128) _mm_prefetch((const char *)(src + 2 * i + 2048), _MM_HINT_T0);
        v = _mm256_xor_si256(v, _mm256_srli_epi16(_mm256_srai_epi16(v, 15), 1));
        w = _mm256_xor_si256(w, _mm256_srli_epi16(_mm256_srai_epi16(w, 15), 1));
        low = _mm256_min_epi16(low, v);
        high = _mm256_max_epi16(high, v);
        low2 = _mm256_min_epi16(low2, w);
        high2 = _mm256_max_epi16(high2, w);
    }
    for (; i < n; i += KF_VEC) {
        __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(src + 2 * i));
        v = _mm256_xor_si256(v, _mm256_srli_epi16(_mm256_srai_epi16(v, 15), 1));
        low = _mm256_min_epi16(low, v);
        high = _mm256_max_epi16(high, v);
    }
    low = _mm256_min_epi16(low, low2);
    high = _mm256_max_epi16(high, high2);
    *least = (int16_t)(vec_least(_mm256_xor_si256(low, flip)) ^ 0x8000);
    *largest = (int16_t)(vec_least(_mm256_xor_si256(high, other)) ^ 0x7fff);
}

#endif

#if KF_VEC_SIXES

/* Twelve bytes (sixteen are read) become sixteen codes. */
KF_HD void vec_unpack_sixes(const uint8_t *in, uint32_t *code)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)in);
#if defined(__AVX512BW__)
    const __m512i place =
        _mm512_set_epi32((int)0x800b0a09, (int)0x800b0a09, (int)0x800b0a09, (int)0x800b0a09,
                         (int)0x80080706, (int)0x80080706, (int)0x80080706, (int)0x80080706,
                         (int)0x80050403, (int)0x80050403, (int)0x80050403, (int)0x80050403,
                         (int)0x80020100, (int)0x80020100, (int)0x80020100, (int)0x80020100);
    const __m512i shift = _mm512_broadcast_i32x4(_mm_set_epi32(18, 12, 6, 0));
    __m512i word = _mm512_shuffle_epi8(_mm512_broadcast_i32x4(bytes), place);
    word = _mm512_and_si512(_mm512_srlv_epi32(word, shift), _mm512_set1_epi32(63));
    _mm512_storeu_si512(code, word);
#else
    const __m256i shift = _mm256_broadcastsi128_si256(_mm_set_epi32(18, 12, 6, 0));
    const __m256i first =
        _mm256_set_epi32((int)0x80050403, (int)0x80050403, (int)0x80050403, (int)0x80050403,
                         (int)0x80020100, (int)0x80020100, (int)0x80020100, (int)0x80020100);
    const __m256i both = _mm256_broadcastsi128_si256(bytes);
    for (int k = 0; k < 2; k++) {
        __m256i place = _mm256_add_epi8(first, _mm256_set1_epi32(k ? 0x00060606 : 0));
        __m256i word = _mm256_srlv_epi32(_mm256_shuffle_epi8(both, place), shift);
        _mm256_storeu_si256((__m256i *)(void *)(code + 8 * k),
                            _mm256_and_si256(word, _mm256_set1_epi32(63)));
    }
#endif
}

/* Sixteen codes become twelve bytes; four zeros follow them. */
KF_HD void vec_pack_sixes(const uint32_t *code, uint8_t out[16])
{
#if defined(__AVX512BW__)
    __m128i bytes = _mm512_cvtepi32_epi8(_mm512_loadu_si512(code));
#else
    __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)code);
    __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(code + 8));
    __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xd8);
    __m128i bytes =
        _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
#endif
    __m128i pairs = _mm_maddubs_epi16(bytes, _mm_set1_epi16(64 << 8 | 1));
    __m128i fours = _mm_madd_epi16(pairs, _mm_set1_epi32(4096 << 16 | 1));
    const __m128i place = _mm_set_epi32((int)0x80808080, 0x0e0d0c0a, 0x09080605, 0x04020100);
    _mm_storeu_si128((__m128i *)(void *)out, _mm_shuffle_epi8(fours, place));
}

#endif

#if KF_VEC_STRUCTS

KF_HD void widen_sixteen(__m128i bytes, uint32_t *code)
{
#if defined(__AVX512BW__)
    _mm512_storeu_si512(code, _mm512_cvtepu8_epi32(bytes));
#else
    _mm256_storeu_si256((__m256i *)(void *)code, _mm256_cvtepu8_epi32(bytes));
    bytes = _mm_unpackhi_epi64(bytes, bytes);
    _mm256_storeu_si256((__m256i *)(void *)(code + 8), _mm256_cvtepu8_epi32(bytes));
#endif
}

/* A group of 16 or 32 codes of a byte struct: low nibbles first, then the high ones. */
KF_HD void vec_unpack_struct(const uint8_t *in, size_t group, uint32_t *code)
{
    const __m128i mask = _mm_set1_epi8(15);
    const __m128i *p = (const __m128i *)(const void *)in;
    __m128i v = group == 16 ? _mm_loadl_epi64(p) : _mm_loadu_si128(p);
    __m128i low = _mm_and_si128(v, mask), high = _mm_and_si128(_mm_srli_epi16(v, 4), mask);
    widen_sixteen(group == 16 ? _mm_unpacklo_epi64(low, high) : low, code);
    if (group == 32) widen_sixteen(high, code + 16);
}

#endif

#endif
