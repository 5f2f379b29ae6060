/* neon.c - wide.h compiled for Advanced SIMD of 64-bit Arm. */
#include "cpu/ops.h"

#if defined(__ARM_NEON)
#define KF_ISA(name) kf_neon_##name
#include "cpu/wide.h"
#endif
