/* avx512.h - the vectors of AVX-512 (F, BW, VL) in the words of gemv_rows.h. */
#ifndef KERF_AVX512_H
#define KERF_AVX512_H

#include <stdlib.h>
#include <string.h>

#include "cpu/x86.h"

#define V 16
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

typedef __m512 vf;
typedef __m512i vi;
typedef __m256i vh;
typedef __m512 vt;

KF_HD vf vf_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
KF_HD void vf_store(float *p, vf a)
{
    _mm512_storeu_ps(p, a);
}
KF_HD vf vf_set1(float x)
{
    return _mm512_set1_ps(x);
}
/* n numbers, 1, 2 or 4, over and over. */
KF_HD vf vf_repeat(const float *p, const size_t n)
{
    if (n == 1) return _mm512_set1_ps(*p);
    if (n == 4) return _mm512_broadcast_f32x4(_mm_loadu_ps(p));
    double two;
    memcpy(&two, p, sizeof two);
    return _mm512_castpd_ps(_mm512_set1_pd(two));
}
KF_HD vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}
KF_HD vf vf_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}
KF_HD vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}
KF_HD vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}
KF_HD vf vf_two(float a, float b)
{
    return _mm512_mask_mov_ps(vf_set1(a), 0xff00, vf_set1(b));
}
KF_HD vf vf_spread(const float *p, vi i)
{
    return _mm512_permutexvar_ps(i, _mm512_loadu_ps(p));
}
KF_HD vf vf_of_int(vi a)
{
    return _mm512_cvtepi32_ps(a);
}
KF_HD vf vf_of_half(vh a)
{
    return _mm512_cvtph_ps(a);
}
KF_HD vf vf_of_bits(vi a)
{
    return _mm512_castsi512_ps(a);
}
KF_HD vt vt_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
KF_HD vf vf_look_up(vt t, vi i)
{
    return _mm512_permutexvar_ps(i, t);
}
KF_HD vi vi_load(const uint8_t *p)
{
    return _mm512_loadu_si512(p);
}
KF_HD vi vi_set1(int x)
{
    return _mm512_set1_epi32(x);
}
KF_HD vi vi_add(vi a, vi b)
{
    return _mm512_add_epi32(a, b);
}
KF_HD vi vi_sub(vi a, vi b)
{
    return _mm512_sub_epi32(a, b);
}
KF_HD vi vi_mul(vi a, vi b)
{
    return _mm512_mullo_epi32(a, b);
}
KF_HD vi vi_shl(vi a, int n)
{
    return _mm512_slli_epi32(a, (unsigned)n);
}
KF_HD vi vi_shr(vi a, int n)
{
    return _mm512_srli_epi32(a, (unsigned)n);
}
KF_HD vi vi_and(vi a, vi b)
{
    return _mm512_and_si512(a, b);
}
KF_HD vi vi_or(vi a, vi b)
{
    return _mm512_or_si512(a, b);
}
KF_HD vi vi_shr_lanes(vi a, int n)
{
    const vi lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_srlv_epi32(a, _mm512_add_epi32(lane, vi_set1(n)));
}
KF_HD vi vi_load_bytes(const uint8_t *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}
KF_HD vi vi_of_bytes(const uint64_t *words, unsigned j)
{
    return _mm512_cvtepu8_epi32(
        _mm_set_epi64x((long long)words[j / 8 + 1], (long long)words[j / 8]));
}
KF_HD vi vi_max(vi a, vi b)
{
    return _mm512_max_epu32(a, b);
}
KF_HD vi vi_shr_each(vi a, const uint32_t n[V])
{
    return _mm512_srlv_epi32(a, _mm512_loadu_si512(n));
}
KF_HD vi vi_place(const uint8_t *p, int two, size_t gap, vi place)
{
    const __m128i bytes = eight_or_two(p, two, gap);
    return _mm512_shuffle_epi8(two ? _mm512_broadcast_i32x4(bytes) : _mm512_broadcastq_epi64(bytes),
                               place);
}
KF_HD vh vh_place(const uint8_t *p, int two, size_t gap, vh place)
{
    const __m128i bytes = eight_or_two(p, two, gap);
    return _mm256_shuffle_epi8(
        two ? _mm256_broadcastsi128_si256(bytes) : _mm256_broadcastq_epi64(bytes), place);
}
KF_HD vh vh_half_down(vh a)
{
    return _mm256_srai_epi16(a, 1);
}
KF_HD vh vh_max16(vh a, vh b)
{
    return _mm256_max_epu16(a, b);
}
KF_HD int vh_any_above(vh a, uint16_t x)
{
    return _mm256_cmpge_epu16_mask(a, _mm256_set1_epi16((short)x)) != 0;
}
KF_HD vh vh_load(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}
KF_HD vh vh_set1(int16_t x)
{
    return _mm256_set1_epi16(x);
}
KF_HD vh vh_set32(int32_t x)
{
    return _mm256_set1_epi32(x);
}
KF_HD vh vh_and(vh a, vh b)
{
    return _mm256_and_si256(a, b);
}
KF_HD vh vh_or(vh a, vh b)
{
    return _mm256_or_si256(a, b);
}
KF_HD vh vh_shl32(vh a, int n)
{
    return _mm256_slli_epi32(a, n);
}
KF_HD vh vh_shl16(vh a, int n)
{
    return _mm256_slli_epi16(a, n);
}
KF_HD vh vh_sra16(vh a, unsigned n)
{
    return _mm256_sra_epi16(a, _mm_cvtsi32_si128((int)n));
}
KF_HD vh vh_max8(vh a, vh b)
{
    return _mm256_max_epu8(a, b);
}

KF_HD int vh_has8(vh a, uint8_t x)
{
    return _mm256_movemask_epi8(_mm256_cmpeq_epi8(a, _mm256_set1_epi8((char)x))) != 0;
}

KF_HD vf vf_spread_bytes(const uint8_t *p, uint16_t mask, const float last[2])
{
    __m128i b = _mm_loadu_si128((const __m128i *)p);
    vh top = _mm256_slli_epi16(_mm256_cvtepu8_epi16(b), 8);
    vf scale = _mm512_cvtph_ps(vh_and(_mm256_srai_epi16(top, 1), vh_set1((int16_t)mask)));
    scale =
        _mm512_mask_mov_ps(scale, _mm_cmpeq_epi8_mask(b, _mm_set1_epi8(0x7f)), vf_set1(last[0]));
    return _mm512_mask_mov_ps(scale, _mm_cmpeq_epi8_mask(b, _mm_set1_epi8(-1)), vf_set1(last[1]));
}

/* Byte j of each lane at its top. */
KF_HD vi vi_top_byte(vi a, int j)
{
    const __m128i place =
        _mm_add_epi8(_mm_setr_epi8(-1, -1, -1, 0, -1, -1, -1, 4, -1, -1, -1, 8, -1, -1, -1, 12),
                     _mm_set1_epi32(j << 24));
    return _mm512_shuffle_epi8(a, _mm512_broadcast_i32x4(place));
}

/* Structs of 16 or 32 bytes of codes, side by side. */
KF_HD vi vi_load_pieces(const uint8_t *p, size_t stride, size_t bytes)
{
    if (bytes == 32)
        return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)p)),
                                  _mm256_loadu_si256((const __m256i *)(p + stride)), 1);
    vi a = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)p));
    a = _mm512_inserti32x4(a, _mm_loadu_si128((const __m128i *)(p + stride)), 1);
    a = _mm512_inserti32x4(a, _mm_loadu_si128((const __m128i *)(p + 2 * stride)), 2);
    return _mm512_inserti32x4(a, _mm_loadu_si128((const __m128i *)(p + 3 * stride)), 3);
}

/* 24 bytes; the upper half is loaded with 4 bytes before it. */
KF_HD vh vh_load6(const uint8_t *p)
{
    const __m256i place = _mm256_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1, 4,
                                           5, 6, -1, 7, 8, 9, -1, 10, 11, 12, -1, 13, 14, 15, -1);
    __m128i lo = _mm_loadu_si128((const __m128i *)p);
    __m128i hi = _mm_loadu_si128((const __m128i *)(p + 8));
    return _mm256_shuffle_epi8(_mm256_inserti128_si256(_mm256_castsi128_si256(lo), hi, 1), place);
}

KF_HD float vf_sum(vf a)
{
    float x[16];
    _mm512_storeu_ps(x, a);
    for (int n = 8; n > 0; n /= 2)
        for (int i = 0; i < n; i++) x[i] += x[i + n];
    return x[0];
}

#endif
