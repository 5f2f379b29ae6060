/* avx2.c - wide.h compiled for AVX2 and BMI2. */
#include "cpu/ops.h"

#if defined(__AVX2__)
#include "cpu/wide.h"

const kf_codec_ops *kf_avx2_ops(const kerf_format *f)
{
    (void)f;
    return &wide_ops;
}
#endif
