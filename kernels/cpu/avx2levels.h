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
#define PRODUCTS_ARE_WORDS 1
#define TAKES_WORDS 1

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
KF_HD vi vi_sub_bytes(vi a, vi b)
{
    return _mm256_sub_epi8(a, b);
}
KF_HD vi vi_book(vi table, vi codes)
{
    return _mm256_shuffle_epi8(table, codes);
}
/* Four bytes from p on, and four that lie `stride` behind them. */
KF_HD __m128i two_dwords(const uint8_t *p, size_t stride)
{
    int32_t a, b;
    memcpy(&a, p, 4);
    memcpy(&b, p + stride, 4);
    return _mm_insert_epi32(_mm_cvtsi32_si128(a), b, 1);
}
KF_HD vi vi_add16(vi a, const uint8_t *p, size_t stride, unsigned v)
{
    const long long each = 0x0101010101010101, from = v ? 2 * each : 0;
    const vi place = _mm256_setr_epi64x(from, from + each, from + 4 * each, from + 5 * each);
    const vi one = _mm256_set1_epi64x((long long)0x8040201008040201u);
    const vi bits = _mm256_shuffle_epi8(_mm256_broadcastq_epi64(two_dwords(p, stride)), place);
    return vi_or(a, vi_and(_mm256_cmpeq_epi8(vi_and(bits, one), one), vi_bytes(16)));
}

KF_HD vi multiply_bytes(vi codes, const uint8_t *x, int book)
{
    const vi n = vi_load(x);
    if (!book) return _mm256_maddubs_epi16(codes, n);
    return _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(n, codes));
}
/* gcc would leave many sums of integers for later, with what is to be added in memory. */
KF_HD vi vi_add_now(vi sum, vi a)
{
    sum = vi_add(sum, a);
    __asm__("" : "+x"(sum));
    return sum;
}
KF_HD vi vi_dot_level(vi sum, vi codes, const uint8_t *x, vi level, int book)
{
    return vi_add_now(sum, _mm256_madd_epi16(multiply_bytes(codes, x, book), level));
}
/* Words of codes up to 31 are at most 2 * 31 * 127, so two vectors are added as words. */
KF_HD vi vi_dot_small(const vi codes[2], const uint8_t *x, int book)
{
    const vi base = _mm256_set1_epi16(BASE), one = _mm256_set1_epi16(1);
    const vi upper0 = multiply_bytes(codes[0], x, book);
    const vi lower0 = multiply_bytes(codes[0], x + 32, book);
    const vi upper1 = multiply_bytes(codes[1], x + 64, book);
    const vi lower1 = multiply_bytes(codes[1], x + 96, book);
    if (!book)
        return vi_add(_mm256_madd_epi16(_mm256_add_epi16(upper0, upper1), base),
                      _mm256_madd_epi16(_mm256_add_epi16(lower0, lower1), one));
    return vi_add(vi_add(_mm256_madd_epi16(upper0, base), _mm256_madd_epi16(upper1, base)),
                  vi_add(_mm256_madd_epi16(lower0, one), _mm256_madd_epi16(lower1, one)));
}

/* The even bytes as words, and the odd ones. */
KF_HD void vi_words(vi bytes, int have_signs, vi out[2])
{
    if (have_signs) {
        out[0] = _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8);
        out[1] = _mm256_srai_epi16(bytes, 8);
    } else {
        out[0] = vi_and(bytes, _mm256_set1_epi16(255));
        out[1] = _mm256_srli_epi16(bytes, 8);
    }
}
KF_HD vi vi_sub_words(vi words, int n)
{
    return _mm256_sub_epi16(words, _mm256_set1_epi16((short)n));
}
KF_HD vi vi_mul_words(vi a, vi b)
{
    return _mm256_mullo_epi16(a, b);
}
KF_HD vi vi_dot_words(vi sum, vi words, const uint8_t *x)
{
    return vi_add_now(sum, _mm256_madd_epi16(words, vi_load(x)));
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
KF_HD vf vf_halves(const uint8_t *p, size_t stride, vf *next)
{
    const vf all = _mm256_castps128_ps256(_mm_cvtph_ps(two_dwords(p, stride)));
    *next = _mm256_permutevar8x32_ps(all, _mm256_setr_epi32(1, 1, 1, 1, 3, 3, 3, 3));
    return _mm256_permutevar8x32_ps(all, _mm256_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2));
}

#endif
