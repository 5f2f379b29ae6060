/* mx_peers.h - the MX formats as other projects write them. a = amax of the block, max the largest
 * element, emax its exponent; every operation rounded once:
 *
 *   torchao       torchao 0.18, to_mx with RCEIL, the mode of its inference workflow, eager:
 *                 e = ceil(fl(log2(a / max))); elements as rceil, but x itself is rounded where the
 *                 byte is 0. Its FLOOR, EVEN and CEIL are floor, even and ceil, save that byte 0
 *                 divides by 2^-126 there
 *   ct            compressed-tensors 0.20, calculate_qparams, generate_mx_scales, quantize, in the
 *                 type of the source: e = E(a + 2^-2 ulp of its exponent, for mxfp6 2^-4) - emax;
 *                 x / 2^e, clamped, to nearest even. In fp16 a block below the normal numbers, or
 *                 of zeros, has e = 0; elsewhere a block of zeros has byte 0
 *   modelopt      Model-Optimizer 0.47, MXFP4QTensor and MXFP8QTensor: e = ceil(fl(log2(a / max)));
 *                 mxfp4 rounds ties toward zero and writes every zero as code 8
 *   microxcaling  microxcaling 7bc41952, _quantize_mx on fp32: e = floor(fl(log2(a))) - emax,
 *                 a = 2^-126 in a block of zeros; half away from zero, as floor(fl(m + 0.5))
 *   ggml          ggml, quantize_row_mxfp4_ref: e = floor(fl(log2(a))) - 2; the first of the 16
 *                 codes with the least fl(|value * 2^e - x|), so ties go to the smaller magnitude
 *
 * fl(log2()): the logarithm rounded to fp32, so that neighbours of a power of two count as it.
 * Zeros: torchao keeps their sign, as ct does in mxfp8; ct, microxcaling and ggml write +0. */
#ifndef KERF_MX_PEERS_H
#define KERF_MX_PEERS_H

#include "block/element.h"
#include "block/encoder.h"
#include "block/scale.h"
#include "block/source.h"

/* e of compressed-tensors, as its byte: the exponent field after an addition to the mantissa. */
KF_HD uint32_t kf_mx_ct_byte(kf_spec s, int source, int emax, float amax)
{
    int bits = s.element == KERF_ELEM_E2M3 ? 4 : 2; /* of the mantissa that are looked at */
    uint32_t add = source == KERF_F32 ? 0x800000u >> bits : 0;
    int field, bias = 127;
    if (source == KERF_BF16)
        field = (kf_bf16_encode(amax) + (0x80 >> bits)) >> 7;
    else if (source == KERF_F16) {
        field = (kf_f16_encode(amax) + (0x400 >> bits)) >> 10;
        bias = 15;
    } else
        field = (int)((kf_bits(amax) + add) >> 23);
    int e = field - bias - emax;
    if (source == KERF_F16) return (uint32_t)(field == 0 ? 127 : e + 127); /* e >= -14 - emax */
    return (uint32_t)(kf_clamp_int(e, -127, 127) + 127);
}

KF_HD uint32_t kf_mx_peer_byte(kf_spec s, int encoder, int source, int emax, float amax)
{
    if (encoder == KERF_ENC_MX_CT) return kf_mx_ct_byte(s, source, emax, amax);
    if (encoder == KERF_ENC_MX_MICROXCALING && amax == 0) amax = kf_exp2(-126);
    if (encoder == KERF_ENC_MX_MICROXCALING || encoder == KERF_ENC_MX_GGML)
        return amax == 0 ? 0
                         : (uint32_t)(kf_clamp_int(kf_floor_log2(amax) - emax, -127, 127) + 127);
    float v = amax / kf_element_max(s.element); /* torchao, modelopt */
    return v == 0 ? 0 : (uint32_t)(kf_clamp_int(kf_ceil_log2(v), -127, 127) + 127);
}

/* What an element is multiplied by. */
KF_HD float kf_mx_peer_factor(int encoder, uint32_t byte)
{
    if (encoder == KERF_ENC_MX_TORCHAO && byte == 0) return 1;
    return kf_exp2(127 - (int)byte);
}

/* Half away from zero: the mantissa as an integer plus one half, cut off, as microxcaling has it;
 * the sum is itself rounded to fp32. least: exponent of the least normal element. */
KF_HD uint32_t kf_mx_half_away(kf_spec s, float y, int least, int mantissa_bits)
{
    int e = (int)(kf_bits(y) >> 23 & 0xff) - 127;
    if (s.element == KERF_ELEM_MXI8)
        e = 0;
    else if (e < least)
        e = least;
    float m = kf_abs(y) * kf_exp2(mantissa_bits - e);
    uint32_t half_more = kf_bits(m + 0.5f), most = kf_bits(1073741824.0f);
    if (half_more > most) half_more = most; /* it saturates anyway, and must fit an int */
    float r = (float)(int)kf_float(half_more) * kf_exp2(e - mantissa_bits);
    if (r == 0 && y == 0) return 0;
    return kf_element_encode(s.element, kf_bits(y) >> 31 ? -r : r);
}

/* Ties toward zero; every zero is code 8. */
KF_HD uint32_t kf_mx_modelopt_fp4(float y)
{
    float a = kf_abs(y);
    uint32_t code = (uint32_t)((a > 0.25f) + (a > 0.75f) + (a > 1.25f) + (a > 1.75f) + (a > 2.5f) +
                               (a > 3.5f) + (a > 5.0f));
    return y > 0 ? code : code | 8;
}

/* The first of the 16 codes with the least distance; d is the scale. */
KF_HD uint32_t kf_ggml_nearest(float x, float d)
{
    uint32_t best = 0;
    float least = kf_abs(x);
    for (uint32_t code = 1; code < 16; code++) {
        float err = kf_abs(kf_e2m1_decode(code) * d - x);
        if (err < least) {
            least = err;
            best = code;
        }
    }
    return best;
}

#endif
