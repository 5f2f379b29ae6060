/* avx2levels.h - bytes times bytes on AVX2, for blocks of two levels, in the words of gemv_rows.h.
 *
 * vpmaddubsw multiplies bytes without a sign by bytes with one, in words of two products: at most
 * 2 * 127 * 127. The numbers of a book give their sign to x first (vpsignb), which must not be -128
 * for that: so the base is 255. */
#ifndef KERF_AVX2LEVELS_H
#define KERF_AVX2LEVELS_H

#include "cpu/avx2.h"

#define BASE 255
#define SIGNED_CODES 0
#define BOOK_BIAS 0

KF_HD vi vi_bytes(int n)
{
    return _mm256_set1_epi8((char)n);
}
KF_HD vi vi_load16(const uint8_t *p)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p));
}
KF_HD vi vi_add(vi a, vi b)
{
    return _mm256_add_epi32(a, b);
}
KF_HD vi vi_sub(vi a, vi b)
{
    return _mm256_sub_epi32(a, b);
}
KF_HD vi vi_mul(vi a, vi b)
{
    return _mm256_mullo_epi32(a, b);
}
KF_HD vi vi_times_base(vi a)
{
    return vi_sub(_mm256_slli_epi32(a, 8), a);
}
KF_HD vi vi_sub_bytes(vi a, vi b)
{
    return _mm256_sub_epi8(a, b);
}
KF_HD vi vi_book(vi table, vi codes)
{
    return _mm256_shuffle_epi8(table, codes);
}
KF_HD vi vi_add16(vi a, uint64_t bits)
{
    const vi place =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const vi one = _mm256_set1_epi64x((long long)0x8040201008040201u);
    const vi spread = _mm256_shuffle_epi8(vi_set1((int)(uint32_t)bits), place);
    return vi_or(a, vi_and(_mm256_cmpeq_epi8(vi_and(spread, one), one), vi_bytes(16)));
}

KF_HD vi multiply_bytes(vi codes, const uint8_t *x, int book)
{
    const vi n = vi_load(x);
    if (!book) return _mm256_maddubs_epi16(codes, n);
    return _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(n, codes));
}
KF_HD vi vi_dot(vi sum, vi codes, const uint8_t *x, int book)
{
    const vi words = multiply_bytes(codes, x, book);
    return vi_add(sum, _mm256_madd_epi16(words, _mm256_set1_epi16(1)));
}
KF_HD vi vi_dot_level(vi sum, vi codes, const uint8_t *x, vi level)
{
    return vi_add(sum, _mm256_madd_epi16(multiply_bytes(codes, x, 0), level));
}

KF_HD vi vi_levels(uint64_t a, uint64_t b, int bias)
{
    const __m128i all = _mm_set_epi64x((long long)b, (long long)a);
    return _mm256_broadcastsi128_si256(bias ? _mm_sub_epi8(all, _mm_set1_epi8((char)bias)) : all);
}
KF_HD vi vi_level(vi levels, const uint8_t *place, int size, int is_signed)
{
    const vi all = _mm256_shuffle_epi8(levels, vi_load(place));
    if (!is_signed) return all;
    return size == 2 ? _mm256_srai_epi16(all, 8) : _mm256_srai_epi32(all, 24);
}
KF_HD vi vi_level_sums(vi levels, const uint8_t *p)
{
    return _mm256_madd_epi16(_mm256_cvtepi8_epi16(_mm256_castsi256_si128(levels)), vi_load(p));
}
KF_HD vf vf_halves(uint64_t bits)
{
    const __m128 all = _mm_cvtph_ps(_mm_cvtsi64_si128((long long)bits));
    return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(all),
                                    _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1));
}

#endif
