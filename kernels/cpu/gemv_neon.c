/* gemv_neon.c - the matrix-vector product on 64-bit Arm, where NEON is always there. */
#if defined(__aarch64__) && defined(__ARM_NEON)
#include "cpu/neon.h"

#define KF_ISA(name) kf_gemv_neon_##name
#include "cpu/gemv_rows.h"

#if KF_IN_UNIT(COMMON)
const kf_gemv_ops kf_gemv_neon = {"neon", isa_plan, isa_start, isa_rows};
#endif
#endif
