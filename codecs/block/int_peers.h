/* int_peers.h - symmetric integers as other projects write them. a = amax of the group, Q = 127, 7
 * or 1, src() a rounding to the type of the source, rne() to the nearest integer, ties to even;
 * every line fp32 and every operation rounded once:
 *
 *   ct        compressed-tensors 0.20, calculate_qparams and quantize: scale = src(a / (Q + 0.5)),
 *             the epsilon of the source's type when that is zero;
 *             code = rne(clamp(src(x / scale)))
 *   torchao   torchao 0.18, Int8Tensor and IntxUnpackedToInt8Tensor: scale = src(a / (Q + 0.5)), no
 *             less than 2^-23 (int8) or the least normal number of the source's type;
 *             code = clamp(rne(x * r)), r = 1 / scale, for intx rounded to the source's type, as
 *             the product is
 *   modelopt  Model-Optimizer 0.47, to_quantized_weight: s = a / Q, 1 in a group of zeros;
 *             code = clamp(rne(x / s))
 *   gptq      AutoGPTQ 0.7.1 and GPTQModel 7.7, Quantizer.find_params, sym: s = 2 a / (2 Q + 1), or
 *             a / (2 Q + 1) where no number is negative, 2 / (2 Q + 1) in a group of zeros;
 *             code = clamp(rne(x / s))
 *   bnb       bitsandbytes 0.50, int8_vectorwise_quant (LLM.int8): x is rounded to fp16 first;
 *             code = rne(x * ((1 / a) * 127)). SCB = a; scale = SCB / 127, from which SCB is found
 *             again by one product and a rounding to fp16. A row of zeros has scale 0; one that is
 *             Inf in fp16 has codes 0
 *
 * modelopt and gptq hold the scale s in fp32 while they round; it is stored rounded once to the
 * format's type, as GPTQ's packer does with fp16. */
#ifndef KERF_INT_PEERS_H
#define KERF_INT_PEERS_H

#include "block/element.h"
#include "block/encoder.h"
#include "block/scale.h"
#include "block/source.h"

KF_HD float kf_int_torchao_least(kf_spec s, int source)
{
    return s.element == KERF_ELEM_S8 ? kf_exp2(-23) : kf_source_tiny(source);
}

/* The scale while it is used: of a group with largest magnitude amax and least number min. */
KF_HD float kf_int_peer_scale(kf_spec s, int encoder, int source, float amax, float min)
{
    float largest = kf_element_max(s.element), levels = 2 * largest + 1;
    float scale;
    switch (encoder) {
    case KERF_ENC_INT_CT:
        scale = kf_source_round(source, amax / (levels / 2));
        return scale == 0 ? kf_source_eps(source) : scale;
    case KERF_ENC_INT_TORCHAO:
        scale = kf_source_round(source, amax / (levels / 2));
        return kf_max(scale, kf_int_torchao_least(s, source));
    case KERF_ENC_INT_GPTQ:
        if (amax == 0) return 2 / levels;
        return (min < 0 ? amax + amax : amax) / levels;
    case KERF_ENC_INT_BNB: return kf_source_round(KERF_F16, amax) / largest;
    default: return amax == 0 ? 1 : amax / largest; /* modelopt */
    }
}

KF_HD float kf_group_min(kf_group g)
{
#ifndef __CUDA_ARCH__ /* as kf_group_amax */
    if (g.rows == 1 && g.cols == 1) return kf_min(0, g.x[0]);
    if (g.rows == 1 && g.cols == 2) return kf_min(kf_min(0, g.x[0]), g.x[1]);
#endif
    float least = 0;
    for (size_t r = 0; r < g.rows; r++)
        for (size_t c = 0; c < g.cols; c++) least = kf_min(least, g.x[r * g.ld + c]);
    return least;
}

/* What elements are divided by, or multiplied by in torchao and bnb. */
KF_HD float kf_int_peer_factor(kf_spec s, int encoder, int source, float amax, float min)
{
    float scale = kf_int_peer_scale(s, encoder, source, amax, min);
    if (encoder == KERF_ENC_INT_BNB) {
        float absmax = kf_source_round(KERF_F16, amax);
        return absmax == 0 ? 0 : 1.0f / absmax * kf_element_max(s.element);
    }
    if (encoder != KERF_ENC_INT_TORCHAO) return scale;
    return kf_source_round(s.element == KERF_ELEM_S8 ? KERF_F32 : source, 1.0f / scale);
}

KF_HD uint32_t kf_int_peer_code(kf_spec s, kf_quant q, float x)
{
    switch (q.encoder) {
    case KERF_ENC_INT_CT: x = kf_source_round(q.source, x / q.factor); break;
    case KERF_ENC_INT_TORCHAO:
        x = kf_source_round(s.element == KERF_ELEM_S8 ? KERF_F32 : q.source, x * q.factor);
        break;
    case KERF_ENC_INT_BNB:
        x = kf_source_round(KERF_F16, x) * q.factor;
        if (x != x) x = 0;
        break;
    default: x = x / q.factor; break;
    }
    return kf_element_encode(s.element, x);
}

#endif
