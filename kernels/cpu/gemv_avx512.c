/* gemv_avx512.c - the matrix-vector product on AVX-512 (F, BW, VL), in fp32. */
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#include "cpu/avx512.h"

#define KF_ISA(name) kf_gemv_avx512_##name
#include "cpu/gemv_rows.h"

#if KF_IN_UNIT(COMMON)
const kf_gemv_ops kf_gemv_avx512 = {"avx512", isa_plan, isa_start, isa_rows};
#endif
#endif
