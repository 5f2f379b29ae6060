/* avx2.c - wide.h compiled for AVX2 and BMI2. */
#include "cpu/ops.h"

#if defined(__AVX2__)
#define KF_ISA(name) kf_avx2_##name
#include "cpu/wide.h"
#endif
