/* product_plain.c - float32 products for any processor: what the others are compared with. */
#include <math.h>

#define KF_PRODUCT kf_product_plain
#define V float
#define LANES 1
#define ACROSS 8
#define TILE 4
#define V_LOAD(p) (*(p))
#define V_STORE(p, v) (*(p) = (v))
#define V_SPLAT(a) (a)
#define V_FMA(a, b, c) fmaf(a, b, c)
#include "cpu/product_kernel.h"
