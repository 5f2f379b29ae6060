/* product_neon.c - float32 products with NEON: 6 x 16 sums in 24 of 32 registers. */
#if defined(__aarch64__) && defined(__ARM_NEON)
#include <arm_neon.h>

#define KF_PRODUCT kf_product_neon
#define V float32x4_t
#define LANES 4
#define ACROSS 4
#define TILE 6
#define V_LOAD(p) vld1q_f32(p)
#define V_STORE(p, v) vst1q_f32(p, v)
#define V_SPLAT(a) vdupq_n_f32(a)
#define V_FMA(a, b, c) vfmaq_f32(c, a, b)
#include "cpu/product_kernel.h"
#endif
