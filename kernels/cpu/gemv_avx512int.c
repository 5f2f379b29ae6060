/* gemv_avx512int.c - the matrix-vector product on AVX-512 with VNNI for GGUF's blocks, and
 * with VBMI for codes of 6 bits, in integers: x is rounded to 16 bits, with a power of two for each
 * step, and sums of a step are exact. */
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && \
    defined(__AVX512VNNI__)
#include "cpu/avx512six.h"

/* The unit of 6 bits is the only one that VBMI may be taken for granted in. */
#ifndef __AVX512VBMI__
#define ONLY_BLOCKS
#endif
#define CAN_DECODE(decode) ((decode) == KF_DECODE_LEVELS || __builtin_cpu_supports("avx512vbmi"))

#define KF_ISA(name) kf_gemv_avx512int_##name
#include "cpu/gemv_rows.h"

#if KF_IN_UNIT(COMMON)
const kf_gemv_ops kf_gemv_avx512int = {"avx512int", isa_plan, isa_start, isa_rows};
#endif
#endif
