/* gemv_avx512.c - the matrix-vector product on AVX-512 (F, BW, VL), in fp32. */
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#include "cpu/avx512.h"

#include "cpu/gemv_rows.h"

const kf_gemv_ops kf_gemv_avx512 = {"avx512", isa_plan, isa_start, isa_rows};
#else
typedef int kf_gemv_avx512_is_elsewhere; /* ISO C wants something here */
#endif
