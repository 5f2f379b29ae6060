/* gemv_neonint.c - the matrix-vector product on 64-bit Arm for codes of 2 and 4 bits and for blocks
 * of two levels, in integers: x is rounded to 16 bits, with a power of two for each step, and sums
 * of a step are exact. */
#if defined(__aarch64__) && defined(__ARM_NEON)
#include "cpu/neonint.h"
#include "cpu/neonlevels.h"

#define KF_ISA(name) kf_gemv_neonint_##name
#include "cpu/gemv_rows.h"

#if KF_IN_UNIT(COMMON)
const kf_gemv_ops kf_gemv_neonint = {"neonint", isa_plan, isa_start, isa_rows};
#endif
#endif
