/* avx512.c - wide.h compiled for AVX-512 F, BW, DQ and VL. */
#include "cpu/ops.h"

#if defined(__AVX512BW__)
#define KF_ISA(name) kf_avx512_##name
#include "cpu/wide.h"
#endif
