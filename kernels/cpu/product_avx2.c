/* product_avx2.c - float32 products with AVX2 and FMA: 6 x 16 sums in 12 of 16 registers. */
#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>

#define KF_PRODUCT kf_product_avx2
#define V __m256
#define LANES 8
#define ACROSS 2
#define TILE 6
#define V_LOAD(p) _mm256_loadu_ps(p)
#define V_STORE(p, v) _mm256_storeu_ps(p, v)
#define V_SPLAT(a) _mm256_set1_ps(a)
#define V_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#include "cpu/product_kernel.h"
#endif
