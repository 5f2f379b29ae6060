/* avx512int.h - bytes times bytes on AVX-512 with VNNI, for blocks of two levels and, with VBMI,
 * for codes of 6 bits (avx512six.h), in the words of gemv_rows.h.
 *
 * vpdpbusd multiplies bytes without a sign by bytes with one and adds four products to a dword. So
 * the numbers of a book are moved up until none is negative; where levels follow at once,
 * vpmaddubsw makes words, at most 2 * 63 * 128, and vpdpwssd multiplies them by a level and adds
 * two. */
#ifndef KERF_AVX512INT_H
#define KERF_AVX512INT_H

#include "cpu/avx512.h"
#include "cpu/gemv_layout.h"

#define INTEGERS KF_KIND_VNNI
#define ONLY_SIX_BITS
#define BASE 256
#define SIGNED_CODES 0
#define BOOK_BIAS 127
#define PRODUCTS_ARE_WORDS 0
#define TAKES_WORDS 1

KF_HD vi vi_bytes(int n)
{
    return _mm512_set1_epi8((char)n);
}
KF_HD vi vi_load16(const uint8_t *p)
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)p));
}
KF_HD vi vi_times_base(vi a)
{
    return _mm512_slli_epi32(a, 8);
}
KF_HD vi vi_sub_bytes(vi a, vi b)
{
    return _mm512_sub_epi8(a, b);
}
KF_HD vi vi_book(vi table, vi codes)
{
    return _mm512_shuffle_epi8(table, codes);
}
KF_HD vi vi_merge(vi a, vi b, int mask)
{
    return _mm512_ternarylogic_epi32(a, b, vi_bytes(mask), 0xf8);
}
KF_HD vi vi_high(const uint8_t *p, int n0, int n1)
{
    const long long a = n0 & 63, b = n1 & 63;
    const vi bytes = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_rolv_epi64(bytes, _mm512_setr_epi64(a, a, a, a, b, b, b, b));
}
/* 16 bits from p on and every `stride` bytes. */
KF_HD uint64_t four_words(const uint8_t *p, size_t stride)
{
    uint64_t all = 0;
    UNROLL for (unsigned i = 0; i < 4; i++)
    {
        uint16_t bits;
        memcpy(&bits, p + i * stride, 2);
        all |= (uint64_t)bits << 16 * i;
    }
    return all;
}
KF_HD vi vi_add16(vi a, const uint8_t *p, size_t stride, unsigned v)
{
    return _mm512_mask_add_epi8(a, (__mmask64)four_words(p + 2 * v, stride), a, vi_bytes(16));
}

KF_HD vi vi_dot(vi sum, vi codes, const uint8_t *x)
{
    return _mm512_dpbusd_epi32(sum, codes, vi_load(x));
}
KF_HD vi vi_dot_level(vi sum, vi codes, const uint8_t *x, vi level)
{
    return _mm512_dpwssd_epi32(sum, _mm512_maddubs_epi16(codes, vi_load(x)), level);
}

KF_HD void vi_words(vi bytes, int have_signs, vi out[2])
{
    (void)have_signs; /* none have */
    out[0] = vi_and(bytes, _mm512_set1_epi16(255));
    out[1] = _mm512_srli_epi16(bytes, 8);
}
KF_HD vi vi_sub_words(vi words, int n)
{
    return _mm512_sub_epi16(words, _mm512_set1_epi16((short)n));
}
KF_HD vi vi_mul_words(vi a, vi b)
{
    return _mm512_mullo_epi16(a, b);
}
KF_HD vi vi_dot_words(vi sum, vi words, const uint8_t *x)
{
    return _mm512_dpwssd_epi32(sum, words, vi_load(x));
}

KF_HD vi vi_levels(uint64_t a, uint64_t b, int bias)
{
    const __m128i all = _mm_set_epi64x((long long)b, (long long)a);
    return _mm512_broadcast_i32x4(bias ? _mm_sub_epi8(all, _mm_set1_epi8((char)bias)) : all);
}
KF_HD vi vi_level(vi levels, const uint8_t *place, int size, int is_signed)
{
    const vi all = _mm512_shuffle_epi8(levels, vi_load(place));
    if (!is_signed) return all;
    return size == 2 ? _mm512_srai_epi16(all, 8) : _mm512_srai_epi32(all, 24);
}
KF_HD vi vi_level_sums(vi levels, const uint8_t *p)
{
    const __m256i words = _mm256_cvtepi8_epi16(_mm512_castsi512_si128(levels));
    return _mm512_zextsi256_si512(_mm256_madd_epi16(words, _mm256_loadu_si256((const __m256i *)p)));
}
KF_HD vf vf_four_halves(uint64_t bits)
{
    const vi four = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    const __m128 all = _mm_cvtph_ps(_mm_cvtsi64_si128((long long)bits));
    return _mm512_permutexvar_ps(four, _mm512_castps128_ps512(all));
}
KF_HD vf vf_halves(const uint8_t *p, size_t stride, vf *next)
{
    *next = vf_four_halves(four_words(p + 2, stride));
    return vf_four_halves(four_words(p, stride));
}

#endif
