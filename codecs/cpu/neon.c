/* neon.c - wide.h compiled for Advanced SIMD of 64-bit Arm. */
#include "cpu/ops.h"

#if defined(__ARM_NEON)
#include "cpu/wide.h"

const kf_codec_ops *kf_neon_ops(const kerf_format *f)
{
    (void)f;
    return &wide_ops;
}
#endif
