/* fp8.h - FP8 weights with an fp32 scale per matrix, row or 128x128 tile.
 *
 * With src() a rounding to the type of the source:
 *   amax      scale = amax / largest (448 or 57344), code = element(x / scale): two IEEE divisions,
 *             each rounded once to fp32, then to nearest even, saturating. This is the order of
 *             Model-Optimizer's per-channel and per-tile FP8. A group of zeros stores scale 1, so
 *             that readers may divide by it
 *   modelopt  Model-Optimizer 0.47, to_quantized_weight, one scale per matrix: the same scale, but
 *             code = element(src(x / scale)), since a scale without dimensions does not widen the
 *             quotient
 *   ct        compressed-tensors 0.20, calculate_qparams and quantize: scale = src(amax / 448), in
 *             a group of zeros the epsilon of the source's type; code = element(src(x / scale))
 *   torchao   torchao 0.18, Float8Tensor.from_hp: scale = src(amax / largest), code =
 *             element(x / scale)
 *   deepseek  DeepSeek-V3, per 128x128 tile: scale = max(amax, 1e-4) / 448,
 *             code = element(x / scale)
 *
 * -0 is kept.
 * decode: element * scale, one fp32 product. */
#ifndef KERF_FP8_H
#define KERF_FP8_H

#include "block/element.h"
#include "block/scale.h"
#include "block/source.h"

KF_HD uint32_t kf_fp8_scale(kf_spec s, int encoder, int source, float amax)
{
    float largest = kf_element_max(s.element);
    if (encoder == KERF_ENC_FP8_DEEPSEEK) return kf_bits(kf_max(amax, 1e-4f) / largest);
    int in_source = encoder == KERF_ENC_FP8_CT || encoder == KERF_ENC_FP8_TORCHAO;
    float scale =
        in_source ? kf_source_round(source, amax / largest) : kf_scale_quotient(amax, largest);
    if (scale == 0) scale = encoder == KERF_ENC_FP8_CT ? kf_source_eps(source) : 1;
    return kf_bits(scale);
}

KF_HD kf_tensor kf_fp8_tensor(kf_spec s, int encoder, const kerf_stats *stats, int source)
{
    kf_tensor t = {0};
    t.amax = stats->amax;
    t.bits = kf_fp8_scale(s, encoder, source, stats->amax);
    t.source = source;
    return t;
}

KF_HD kf_scale kf_fp8_choose(kf_spec s, int encoder, const kf_tensor *t, kf_group g)
{
    kf_scale scale = {kf_fp8_scale(s, encoder, t->source, kf_group_amax(g)), 0};
    return scale;
}

KF_HD kf_quant kf_fp8_quant(kf_spec s, int encoder, const kf_tensor *t, kf_scale scale, kf_group g)
{
    (void)s, (void)g;
    kf_quant q = {0};
    q.factor = kf_float(scale.bits);
    q.source =
        encoder == KERF_ENC_FP8_CT || encoder == KERF_ENC_FP8_MODELOPT ? t->source : KERF_F32;
    return q;
}

KF_HD uint32_t kf_fp8_code(kf_spec s, kf_quant q, float x)
{
    return kf_element_encode(s.element, kf_source_round(q.source, x / q.factor));
}

KF_HD kf_dequant kf_fp8_dequant(kf_spec s, kf_scale scale, float second, float offset)
{
    (void)s, (void)second, (void)offset;
    kf_dequant d = {kf_float(scale.bits), 0, 0};
    return d;
}

KF_HD float kf_fp8_value(kf_spec s, kf_dequant d, uint32_t code)
{
    return kf_element_decode(s.element, code) * d.scale;
}

#endif
