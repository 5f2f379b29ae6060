/* ggml.h - the blocks of GGUF files, scale and codes in one struct (struct.h has the order).
 * a = amax of the group; every operation rounded once to fp32:
 *
 *   ggml-q8_0   32 elements, fp16 scale d = a / 127. code = x * (1 / d), half away from zero, with
 *               d before it is rounded to fp16; 0 in a block of zeros
 *   ggml-q4_0   32 elements, fp16 scale d = m / -8, m the first element of magnitude a;
 *               code = (int)(x * (1 / d) + 8.5), no more than 15; 8 in a block of zeros. Means
 *               (code - 8) * d
 *   ggml-mxfp4  32 elements, E8M0 scale e as mxfp4:ggml chooses it; codes nearest, ties to the
 *               lower code. Byte 0xFF is 2^128 here
 *   ggml-nvfp4  four groups of 16, E4M3 scales of a / 6 in ggml's own rounding: half up at the bit
 *               below the mantissa, from 248 on 448, subnormals no larger than 7 * 2^-9; codes as
 *               ggml-mxfp4. There is no scale per matrix. Scale bytes 0x00 and 0x7F mean 0; bit 7
 *               of others is ignored, so that 0xFF means 480
 *
 * fp16 scales above 65504 are Inf, as ggml has them. Where 1 / d is Inf (a below 2^-120) and where
 * ggml-mxfp4's e is below -127 ggml converts numbers that do not fit their type, which C leaves
 * undefined; here codes saturate and e is clamped. Rows must be a multiple of the struct.
 * decode: code * d, one fp32 product (E2M1 as 2 * value times d / 2).
 * Source: ggml 0.13, quantize_row_{q8_0,q4_0,mxfp4,nvfp4}_ref and gguf-py 0.19, quants.py. */
#ifndef KERF_GGML_H
#define KERF_GGML_H

#include "block/mx_peers.h"
#include "block/struct.h"

/* The first element of the largest magnitude. */
KF_HD float kf_group_peak(kf_group g)
{
    float peak = 0;
    for (size_t c = 0; c < g.cols; c++)
        if (kf_abs(g.x[c]) > kf_abs(peak)) peak = g.x[c];
    return peak;
}

KF_HD uint32_t kf_ue4m3_encode(float x)
{
    int e = (int)(kf_bits(x) >> 23) - 120; /* exponent field of the code */
    if (!(x > 0)) return 0;
    if (e <= 0) return (uint32_t)kf_min(x * 512.0f + 0.5f, 7.0f);
    if (e >= 15) return 0x7e;
    uint32_t code = (uint32_t)e << 3 | (kf_bits(x) >> 20 & 7);
    code += kf_bits(x) >> 19 & 1;
    return code >= 0x78 ? 0x7e : code;
}

KF_HD float kf_ue4m3_decode(uint32_t code)
{
    return code == 0x7f ? 0 : kf_minifloat_decode(5, 3, 7, code & 0x7f);
}

KF_HD kf_tensor kf_ggml_tensor(kf_spec s, int encoder, const kerf_stats *stats, int source)
{
    (void)s, (void)encoder, (void)stats, (void)source;
    kf_tensor t = {0};
    return t;
}

/* d before it is stored, for the formats with an fp16 scale. */
KF_HD float kf_ggml_scale(kf_spec s, kf_group g)
{
    if (s.element == KERF_ELEM_U4) return kf_group_peak(g) / -8.0f;
    return kf_group_amax(g) / 127.0f;
}

KF_HD kf_scale kf_ggml_choose(kf_spec s, int encoder, const kf_tensor *t, kf_group g)
{
    (void)encoder, (void)t;
    kf_scale scale = {0, 0};
    if (s.scale == KERF_SCALE_F16)
        scale.bits = kf_f16_encode(kf_ggml_scale(s, g));
    else if (s.scale == KERF_SCALE_E8M0)
        scale.bits = kf_mx_peer_byte(s, KERF_ENC_MX_GGML, KERF_F32, 2, kf_group_amax(g));
    else
        scale.bits = kf_ue4m3_encode(kf_group_amax(g) / 6.0f);
    return scale;
}

KF_HD kf_dequant kf_ggml_dequant(kf_spec s, kf_scale scale, float second, float offset)
{
    (void)second, (void)offset;
    kf_dequant d = {kf_scale_value(s.scale, scale.bits), 0, 0};
    if (s.scale == KERF_SCALE_E8M0) d.scale = kf_exp2((int)scale.bits - 128);
    if (s.scale == KERF_SCALE_E4M3) d.scale = kf_ue4m3_decode(scale.bits) * 0.5f;
    return d;
}

KF_HD float kf_ggml_value(kf_spec s, kf_dequant d, uint32_t code)
{
    if (s.element == KERF_ELEM_U4) return (float)((int)code - 8) * d.scale;
    if (s.element == KERF_ELEM_S8) return (float)kf_sign_extend(code, 8) * d.scale;
    return kf_e2m1_decode(code & 7 ? code : 0) * 2 * d.scale;
}

KF_HD kf_quant kf_ggml_quant(kf_spec s, int encoder, const kf_tensor *t, kf_scale scale, kf_group g)
{
    (void)encoder, (void)t;
    kf_quant q = {0};
    if (s.scale == KERF_SCALE_F16) {
        float d = kf_ggml_scale(s, g);
        q.factor = d == 0 ? 0 : 1.0f / d;
    } else
        q.factor = kf_ggml_dequant(s, scale, 1, 0).scale;
    return q;
}

KF_HD uint32_t kf_ggml_code(kf_spec s, kf_quant q, float x)
{
    float y = x == 0 ? x : x * q.factor; /* 0 * Inf is 0 */
    if (s.element == KERF_ELEM_U4) return (uint32_t)kf_min(kf_max(0.0f, y + 8.5f), 15.0f);
    if (s.element == KERF_ELEM_S8) {
        float a = kf_min(kf_max(0.0f, kf_abs(y)), 127.0f);
        int n = (int)(a + 0.49999997f); /* half away from zero: below 2^22 the same for every a */
        return (uint32_t)(y < 0 ? -n : n) & 0xff;
    }
    return kf_ggml_nearest(x, q.factor * 2);
}

#endif
