/* gemv_avx512.c - the matrix-vector product on AVX-512 (F, BW, VL), in fp32. */
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#include "cpu/avx512.h"

/* Two vh in a vi. A shift by a vector of counts is one operation, by one count for all two. */
#define TWO_MINIS
KF_HD vi vi_both(vh a)
{
    return _mm512_broadcast_i64x4(a);
}
KF_HD vh vi_part(vi a, int i)
{
    return i == 0 ? _mm512_castsi512_si256(a) : _mm512_extracti64x4_epi64(a, 1);
}
KF_HD vi vi_shl16(vi a, int n)
{
    return _mm512_sllv_epi16(a, _mm512_set1_epi16((int16_t)n));
}
KF_HD vi vi_sra16(vi a, unsigned n)
{
    return _mm512_srav_epi16(a, _mm512_set1_epi16((int16_t)n));
}
KF_HD vi vi_max8(vi a, vi b)
{
    return _mm512_max_epu8(a, b);
}
/* 48 bytes, 12 to each quarter, as words of which bits 4 to 9 and 10 to 15 are codes. */
KF_HD vi vi_load6(const uint8_t *p)
{
    const vi quarter = _mm512_setr_epi32(0, 1, 2, 2, 3, 4, 5, 5, 6, 7, 8, 8, 9, 10, 11, 11);
    const __m128i place = _mm_setr_epi8(0, 1, 1, 2, 3, 4, 4, 5, 6, 7, 7, 8, 9, 10, 10, 11);
    const vi bytes = _mm512_permutexvar_epi32(quarter, _mm512_maskz_loadu_epi64(0x3f, p));
    const vi words = _mm512_shuffle_epi8(bytes, _mm512_broadcast_i32x4(place));
    return _mm512_mullo_epi16(words, _mm512_set1_epi32(0x00010010));
}

#define KF_ISA(name) kf_gemv_avx512_##name
#include "cpu/gemv_rows.h"

#if KF_IN_UNIT(COMMON)
const kf_gemv_ops kf_gemv_avx512 = {"avx512", isa_plan, isa_start, isa_rows};
#endif
#endif
