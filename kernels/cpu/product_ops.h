/* product_ops.h - one product for each kind of vector; product_choice.c chooses. */
#ifndef KERF_CPU_PRODUCT_OPS_H
#define KERF_CPU_PRODUCT_OPS_H

#include "cpu/row_product.h"

kf_product kf_product_plain, kf_product_avx2, kf_product_avx512, kf_product_neon;

#endif
