/* product_avx512.c - float32 products with AVX-512: 12 x 32 sums in 24 of 32 registers. */
#if defined(__AVX512F__)
#include <immintrin.h>

#define KF_PRODUCT kf_product_avx512
#define V __m512
#define LANES 16
#define ACROSS 2
#define TILE 12
#define V_LOAD(p) _mm512_loadu_ps(p)
#define V_STORE(p, v) _mm512_storeu_ps(p, v)
#define V_SPLAT(a) _mm512_set1_ps(a)
#define V_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#include "cpu/product_kernel.h"
#endif
