/* gemv_avx2int.c - the matrix-vector product on AVX2 for codes of 2, 4 and 6 bits and for GGUF's
 * blocks, in integers: x is rounded to 16 bits, with a power of two for each step, and sums of a
 * step are exact. */
#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "cpu/avx2int.h"
#include "cpu/avx2levels.h"

#define KF_ISA(name) kf_gemv_avx2int_##name
#include "cpu/gemv_rows.h"

#if KF_IN_UNIT(COMMON)
const kf_gemv_ops kf_gemv_avx2int = {"avx2int", isa_plan, isa_start, isa_rows};
#endif
#endif
