/* nvfp4_peers.h - NVFP4 as other projects write it: the same bytes and the same decoding, other
 * scales and other roundings. With A, a, e4() and e2() as in nvfp4.h, src() a rounding to the type
 * of the source, every line fp32 and every operation rounded once:
 *
 *   te               TransformerEngine 2.20, NVFP4QuantizerRef and its CUDA kernels: amax, but a
 *                    block whose scale underflows to 0 keeps codes of 6 (x * FLT_MAX)
 *   modelopt         Model-Optimizer 0.47, NVFP4QTensor.quantize: second = A / 2688;
 *                    S = e4(clamp(a / (6 * second), 2^-9, 448)), 1 in a block of zeros;
 *                    code = e2(x / (S * second))
 *   modelopt-static  the same with S = e4(clamp(((a / 6) * 448) / (A / 6), 2^-9, 448)), a / 6
 *                    taken as 1 in a block of zeros: get_weights_scaling_factor_from_quantizer
 *   ct               compressed-tensors 0.20, generate_gparam, calculate_qparams,
 *                    quantize_and_pack_fp4, in the type of the source:
 *                    g = src(2688 * src(1 / max(A, least normal of that type))), 1 if that is Inf;
 *                    S = e4(min(g * src(a / 6), 448)), 0.125 when zero; code = e2(x / (S / g)).
 *                    second = 1 / g
 *   ct-fp32          ct on a source that was widened to fp32 first
 *   torchao          torchao 0.18, nvfp4_quantize: second = A / 2688; S = e4(clamp((a / 6) /
 *                    second, 2^-6, 448)); code = e2(x * ((1 / second) / S))
 *   static_6         fouroversix 1.0.5, quantize_to_nvfp4: S = e4((a / 6) * enc), codes as amax
 *   static_4         the same with enc = 4 * 448 / A, S = e4((a / 4) * enc); second = A / 1792
 *   autoround        auto-round 0.16, ref_nvfp4_quant: g = 2688 * (1 / A);
 *                    S = e4(min(g * (a * fl(1/6)), 448)); code = e2(x * (1 / (S * (1 / g)))), 0
 *                    when S is 0. second = 1 / g
 *
 * A quotient or product of zero has code 0 in modelopt, ct, static and autoround, and keeps its
 * sign in te and torchao. Matrices of zeros store second 1 (peers: 0 and scales of NaN, or 1 /
 * Inf), so that they decode to zeros. */
#ifndef KERF_NVFP4_PEERS_H
#define KERF_NVFP4_PEERS_H

#include "block/element.h"
#include "block/encoder.h"
#include "block/scale.h"
#include "block/source.h"

KF_HD int kf_nvfp4_is_ct(int encoder)
{
    return encoder == KERF_ENC_NVFP4_CT || encoder == KERF_ENC_NVFP4_CT_FP32;
}
KF_HD int kf_nvfp4_is_modelopt(int encoder)
{
    return encoder == KERF_ENC_NVFP4_MODELOPT || encoder == KERF_ENC_NVFP4_MODELOPT_STATIC;
}
KF_HD int kf_nvfp4_is_static(int encoder)
{
    return encoder == KERF_ENC_NVFP4_STATIC_6 || encoder == KERF_ENC_NVFP4_STATIC_4;
}

/* The type that ct computes in. */
KF_HD int kf_nvfp4_ct_type(int encoder, int source)
{
    return encoder == KERF_ENC_NVFP4_CT ? source : KERF_F32;
}

/* compressed-tensors' and auto-round's divisor of the matrix, A > 0. */
KF_HD float kf_nvfp4_divisor(int encoder, int source, float amax)
{
    if (encoder == KERF_ENC_NVFP4_AUTOROUND) return 2688.0f * (1.0f / amax);
    int type = kf_nvfp4_ct_type(encoder, source);
    float inverse = kf_source_round(type, 1.0f / kf_max(amax, kf_source_tiny(type)));
    float g = kf_source_round(type, 2688.0f * inverse);
    return kf_is_finite(g) ? g : 1;
}

/* Replaces what kf_nvfp4_tensor found for encoders whose matrix scale is a divisor. */
KF_HD void kf_nvfp4_peer_tensor(int encoder, kf_tensor *t)
{
    if (!kf_nvfp4_is_ct(encoder) && encoder != KERF_ENC_NVFP4_AUTOROUND) return;
    if (t->amax == 0) return;
    t->encode = kf_nvfp4_divisor(encoder, t->source, t->amax);
    t->inv_encode = t->second = 1.0f / t->encode;
}

KF_HD uint32_t kf_nvfp4_clamped(float scale, float least)
{
    return kf_e4m3_encode(kf_min(kf_max(least, scale), 448.0f)); /* least of a NaN */
}

/* The stored scale of a block for the encoders of this header. */
KF_HD uint32_t kf_nvfp4_peer_scale(int encoder, const kf_tensor *t, float amax)
{
    float scale;
    uint32_t bits;
    switch (encoder) {
    case KERF_ENC_NVFP4_MODELOPT:
        scale = amax / (6.0f * t->second);
        return kf_nvfp4_clamped(scale == 0 ? 1 : scale, 0.001953125f);
    case KERF_ENC_NVFP4_MODELOPT_STATIC:
        scale = amax / 6.0f;
        scale = (scale == 0 ? 1 : scale) * 448.0f / (t->amax / 6.0f);
        return kf_nvfp4_clamped(scale, 0.001953125f);
    case KERF_ENC_NVFP4_TORCHAO: return kf_nvfp4_clamped(amax / 6.0f / t->second, 0.015625f);
    case KERF_ENC_NVFP4_STATIC_6: return kf_nvfp4_clamped(amax / 6.0f * t->encode, 0);
    case KERF_ENC_NVFP4_STATIC_4: return kf_nvfp4_clamped(amax / 4.0f * t->encode, 0);
    case KERF_ENC_NVFP4_AUTOROUND: return kf_nvfp4_clamped(t->encode * (amax * (1.0f / 6.0f)), 0);
    default: /* ct, ct-fp32 */
        scale = kf_source_round(kf_nvfp4_ct_type(encoder, t->source), amax / 6.0f);
        bits = kf_nvfp4_clamped(t->encode * scale, 0);
        return bits ? bits : 0x20;
    }
}

/* What an element is multiplied by, or divided by in modelopt and ct. */
KF_HD float kf_nvfp4_peer_factor(int encoder, const kf_tensor *t, uint32_t bits)
{
    float scale = kf_e4m3_decode(bits);
    if (kf_nvfp4_is_modelopt(encoder)) return scale * t->second;
    if (kf_nvfp4_is_ct(encoder)) return scale / t->encode;
    if (encoder == KERF_ENC_NVFP4_TORCHAO) return 1.0f / t->second / scale;
    float inverse = scale * t->inv_encode; /* static, autoround, te */
    if (encoder == KERF_ENC_NVFP4_AUTOROUND) return inverse == 0 ? 0 : 1.0f / inverse;
    return kf_min(1.0f / inverse, KF_F32_MAX);
}

KF_HD uint32_t kf_nvfp4_peer_code(kf_quant q, float x)
{
    int divides = kf_nvfp4_is_modelopt(q.encoder) || kf_nvfp4_is_ct(q.encoder);
    int keeps_sign = q.encoder == KERF_ENC_NVFP4_TE || q.encoder == KERF_ENC_NVFP4_TORCHAO;
    float y = x == 0 ? x : divides ? x / q.factor : x * q.factor; /* 0 * Inf is 0 */
    return y == 0 && !keeps_sign ? 0 : kf_e2m1_encode(y);
}

#endif
