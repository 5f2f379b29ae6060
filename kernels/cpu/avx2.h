/* avx2.h - the vectors of AVX2, FMA and F16C in the words of gemv_rows.h. */
#ifndef KERF_AVX2_H
#define KERF_AVX2_H

#include <stdlib.h>

#include "cpu/x86.h"

#define V 8
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

typedef __m256 vf;
typedef __m256i vi;
typedef __m128i vh;
typedef struct vt {
    vf low, high;
} vt;

KF_HD vf vf_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
KF_HD void vf_store(float *p, vf a)
{
    _mm256_storeu_ps(p, a);
}
KF_HD vf vf_set1(float x)
{
    return _mm256_set1_ps(x);
}
KF_HD vf vf_add(vf a, vf b)
{
    return _mm256_add_ps(a, b);
}
KF_HD vf vf_sub(vf a, vf b)
{
    return _mm256_sub_ps(a, b);
}
KF_HD vf vf_mul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}
KF_HD vf vf_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}
KF_HD vf vf_two(float a, float b)
{
    return _mm256_blend_ps(vf_set1(a), vf_set1(b), 0xf0);
}
KF_HD vf vf_spread(const float *p, vi i)
{
    return _mm256_permutevar8x32_ps(_mm256_loadu_ps(p), i);
}
KF_HD vf vf_of_int(vi a)
{
    return _mm256_cvtepi32_ps(a);
}
KF_HD vf vf_of_half(vh a)
{
    return _mm256_cvtph_ps(a);
}
KF_HD vf vf_of_bits(vi a)
{
    return _mm256_castsi256_ps(a);
}
KF_HD vi vi_load(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}
KF_HD vi vi_set1(int x)
{
    return _mm256_set1_epi32(x);
}
KF_HD vi vi_shl(vi a, int n)
{
    return _mm256_slli_epi32(a, n);
}
KF_HD vi vi_shr(vi a, int n)
{
    return _mm256_srli_epi32(a, n);
}
KF_HD vi vi_and(vi a, vi b)
{
    return _mm256_and_si256(a, b);
}
KF_HD vi vi_or(vi a, vi b)
{
    return _mm256_or_si256(a, b);
}
KF_HD vi vi_shr_lanes(vi a, int n)
{
    const vi lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_srlv_epi32(a, _mm256_add_epi32(lane, vi_set1(n)));
}
KF_HD vi vi_load_bytes(const uint8_t *p)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}
KF_HD vi vi_of_bytes(const uint64_t *words, unsigned j)
{
    return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)words[j / 8]));
}
KF_HD vi vi_max(vi a, vi b)
{
    return _mm256_max_epu32(a, b);
}
KF_HD vi vi_shr_each(vi a, const uint32_t n[V])
{
    return _mm256_srlv_epi32(a, vi_load((const uint8_t *)n));
}
KF_HD vi vi_place(const uint8_t *p, int two, size_t gap, vi place)
{
    const __m128i bytes = eight_or_two(p, two, gap);
    return _mm256_shuffle_epi8(
        two ? _mm256_broadcastsi128_si256(bytes) : _mm256_broadcastq_epi64(bytes), place);
}
KF_HD vh vh_place(const uint8_t *p, int two, size_t gap, vh place)
{
    return _mm_shuffle_epi8(eight_or_two(p, two, gap), place);
}
KF_HD vh vh_half_down(vh a)
{
    return _mm_srai_epi16(a, 1);
}
KF_HD vh vh_max16(vh a, vh b)
{
    return _mm_max_epu16(a, b);
}
KF_HD int vh_any_above(vh a, uint16_t x)
{
    return _mm_movemask_epi8(_mm_cmpeq_epi16(_mm_max_epu16(a, _mm_set1_epi16((short)x)), a)) != 0;
}
KF_HD vh vh_load(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}
KF_HD vh vh_set1(int16_t x)
{
    return _mm_set1_epi16(x);
}
KF_HD vh vh_set32(int32_t x)
{
    return _mm_set1_epi32(x);
}
KF_HD vh vh_and(vh a, vh b)
{
    return _mm_and_si128(a, b);
}
KF_HD vh vh_or(vh a, vh b)
{
    return _mm_or_si128(a, b);
}
KF_HD vh vh_shl32(vh a, int n)
{
    return _mm_slli_epi32(a, n);
}
KF_HD vh vh_shl16(vh a, int n)
{
    return _mm_slli_epi16(a, n);
}
KF_HD vh vh_sra16(vh a, unsigned n)
{
    return _mm_sra_epi16(a, _mm_cvtsi32_si128((int)n));
}
KF_HD vh vh_max8(vh a, vh b)
{
    return _mm_max_epu8(a, b);
}

/* 24 bytes, as words of which bits 4 to 9 and 10 to 15 are codes; the upper half is loaded with 4
 * bytes before it. */
KF_HD vi vi_load6(const uint8_t *p)
{
    const vi place = _mm256_setr_epi8(0, 1, 1, 2, 3, 4, 4, 5, 6, 7, 7, 8, 9, 10, 10, 11, 4, 5, 5, 6,
                                      7, 8, 8, 9, 10, 11, 11, 12, 13, 14, 14, 15);
    __m128i lo = _mm_loadu_si128((const __m128i *)p);
    __m128i hi = _mm_loadu_si128((const __m128i *)(p + 8));
    vi words =
        _mm256_shuffle_epi8(_mm256_inserti128_si256(_mm256_castsi128_si256(lo), hi, 1), place);
    return _mm256_mullo_epi16(words, _mm256_set1_epi32(0x00010010));
}

/* Two vh in a vi. */
#define TWO_MINIS
#define TAKES_BFLOAT
KF_HD vi vi_both(vh a)
{
    return _mm256_broadcastsi128_si256(a);
}
KF_HD vh vi_part(vi a, int i)
{
    return i == 0 ? _mm256_castsi256_si128(a) : _mm256_extracti128_si256(a, 1);
}
KF_HD vi vi_shl16(vi a, int n)
{
    return _mm256_slli_epi16(a, n);
}
KF_HD vi vi_sra16(vi a, unsigned n)
{
    return _mm256_sra_epi16(a, _mm_cvtsi32_si128((int)n));
}
KF_HD vi vi_max8(vi a, vi b)
{
    return _mm256_max_epu8(a, b);
}

KF_HD int vh_has8(vh a, uint8_t x)
{
    return _mm_movemask_epi8(_mm_cmpeq_epi8(a, _mm_set1_epi8((char)x))) != 0;
}

KF_HD vt vt_load(const float *p)
{
    vt t = {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
    return t;
}

/* Bit 3 of a lane, moved to its sign, picks the half of the table. */
KF_HD vf vf_look_up(vt t, vi i)
{
    vf low = _mm256_permutevar8x32_ps(t.low, i), high = _mm256_permutevar8x32_ps(t.high, i);
    return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(i, 28)));
}

KF_HD vf pick_where(vf a, __m128i bytes, float x)
{
    return _mm256_blendv_ps(a, vf_set1(x), _mm256_castsi256_ps(_mm256_cvtepi8_epi32(bytes)));
}

KF_HD vf vf_spread_bytes(const uint8_t *p, uint16_t mask, const float last[2])
{
    __m128i b = _mm_loadl_epi64((const __m128i *)p);
    vh top = _mm_slli_epi16(_mm_cvtepu8_epi16(b), 8);
    vf scale = _mm256_cvtph_ps(vh_and(_mm_srai_epi16(top, 1), vh_set1((int16_t)mask)));
    scale = pick_where(scale, _mm_cmpeq_epi8(b, _mm_set1_epi8(0x7f)), last[0]);
    return pick_where(scale, _mm_cmpeq_epi8(b, _mm_set1_epi8(-1)), last[1]);
}

/* Byte j of each lane at its top. */
KF_HD vi vi_top_byte(vi a, int j)
{
    const __m128i place =
        _mm_add_epi8(_mm_setr_epi8(-1, -1, -1, 0, -1, -1, -1, 4, -1, -1, -1, 8, -1, -1, -1, 12),
                     _mm_set1_epi32(j << 24));
    return _mm256_shuffle_epi8(a, _mm256_broadcastsi128_si256(place));
}

/* Two structs of 16 bytes of codes, side by side. */
KF_HD vi vi_load_pieces(const uint8_t *p, size_t stride, size_t bytes)
{
    (void)bytes;
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)p)),
                                   _mm_loadu_si128((const __m128i *)(p + stride)), 1);
}

/* 12 bytes. */
KF_HD vh vh_load6(const uint8_t *p)
{
    int32_t last;
    memcpy(&last, p + 8, 4);
    __m128i all = _mm_insert_epi32(_mm_loadl_epi64((const __m128i *)p), last, 2);
    return _mm_shuffle_epi8(all,
                            _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1));
}

KF_HD float vf_sum(vf a)
{
    float x[8];
    _mm256_storeu_ps(x, a);
    for (int n = 4; n > 0; n /= 2)
        for (int i = 0; i < n; i++) x[i] += x[i + n];
    return x[0];
}

#endif
