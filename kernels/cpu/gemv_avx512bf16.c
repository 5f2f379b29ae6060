/* gemv_avx512bf16.c - the matrix-vector product on AVX-512 with BF16, for codes of 2 and 4 bits
 * whose numbers bfloat16 holds, times bfloat16 x: one table lookup and one instruction for 32
 * products. Those are exact and are added one by one in fp32, so the error is that of the other
 * kernels. */
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && \
    defined(__AVX512BF16__)
#include "cpu/avx512.h"

#define PAIRS

KF_HD vf vf_dot(vf c, vi a, vi b)
{
    return _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b);
}
KF_HD vi vi_look_up16(vi t, vi i)
{
    return _mm512_permutexvar_epi16(i, t);
}

/* Twice, since a lookup takes 5 bits. */
KF_HD vi vi_table16(const float *p)
{
    __m256i half = _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_loadu_si512(p), 16));
    return _mm512_inserti64x4(_mm512_castsi256_si512(half), half, 1);
}

#define KF_ISA(name) kf_gemv_avx512bf16_##name
#include "cpu/gemv_rows.h"

#if KF_IN_UNIT(COMMON)
const kf_gemv_ops kf_gemv_avx512bf16 = {"avx512bf16", isa_plan, isa_start, isa_rows};
#endif
#endif
