/* avx512.c - wide.h compiled for AVX-512 F, BW, DQ and VL. */
#include "cpu/ops.h"

#if defined(__AVX512BW__)
#include "cpu/wide.h"

const kf_codec_ops *kf_avx512_ops(const kerf_format *f)
{
    (void)f;
    return &wide_ops;
}
#endif
