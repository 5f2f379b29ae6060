/* gemv_avx2.c - the matrix-vector product on AVX2 with FMA and F16C. */
#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "cpu/avx2.h"

#define KF_ISA(name) kf_gemv_avx2_##name
#include "cpu/gemv_rows.h"

#if KF_IN_UNIT(COMMON)
const kf_gemv_ops kf_gemv_avx2 = {"avx2", isa_plan, isa_start, isa_rows};

/* Codes of 6 and 8 bits by fewer instructions, where subnormal numbers take no longer. */
static kerf_status plan_bfloat(kerf_gemv *plan)
{
    return plan_of_kind(plan, KF_KIND_BFLOAT);
}
const kf_gemv_ops kf_gemv_avx2bf16 = {"avx2bf16", plan_bfloat, isa_start, isa_rows};
#endif
#endif
