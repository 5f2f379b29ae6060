/* cast.h - fp32, fp16 and bfloat16: a number is its own code.
 *
 * rne: IEEE 754 round to nearest even. fp16 overflows to Inf above 65519.99 (as every library
 * does); -0 and subnormals are kept. bfloat16 and fp32 never overflow for bf16 and fp16 sources. */
#ifndef KERF_CAST_H
#define KERF_CAST_H

#include "block/element.h"

KF_HD kf_tensor kf_cast_tensor(kf_spec s, int encoder, const kerf_stats *stats, int source)
{
    (void)s, (void)encoder, (void)stats, (void)source;
    kf_tensor t = {0};
    return t;
}

KF_HD kf_scale kf_cast_choose(kf_spec s, int encoder, const kf_tensor *t, kf_group g)
{
    (void)s, (void)encoder, (void)t, (void)g;
    kf_scale scale = {0, 0};
    return scale;
}

KF_HD kf_quant kf_cast_quant(kf_spec s, int encoder, const kf_tensor *t, kf_scale scale, kf_group g)
{
    (void)s, (void)encoder, (void)t, (void)scale, (void)g;
    kf_quant q = {0};
    q.factor = 1;
    return q;
}

KF_HD uint32_t kf_cast_code(kf_spec s, kf_quant q, float x)
{
    (void)q;
    return kf_element_encode(s.element, x);
}

KF_HD kf_dequant kf_cast_dequant(kf_spec s, kf_scale scale, float second, float offset)
{
    (void)s, (void)scale, (void)second, (void)offset;
    kf_dequant d = {1, 0, 0};
    return d;
}

KF_HD float kf_cast_value(kf_spec s, kf_dequant d, uint32_t code)
{
    (void)d;
    return kf_element_decode(s.element, code);
}

#endif
