/* gemv_avx2.c - the matrix-vector product on AVX2 with FMA and F16C. */
#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "cpu/avx2.h"

#define KF_ISA(name) kf_gemv_avx2_##name
#include "cpu/gemv_rows.h"

#if KF_IN_UNIT(COMMON)
const kf_gemv_ops kf_gemv_avx2 = {"avx2", isa_plan, isa_start, isa_rows};
#endif
#endif
