/* source.h - arithmetic of peers that stays in the type of the source: PyTorch computes an
 * operation on bfloat16 or fp16 tensors in fp32 and rounds its result once to that type. */
#ifndef KERF_SOURCE_H
#define KERF_SOURCE_H

#include "block/spec.h"

/* x as the nearest number of the type, ties to even; fp16 overflows to Inf. */
KF_HD float kf_source_round(int source, float x)
{
    if (source == KERF_BF16) return kf_bf16_decode(kf_bf16_encode(x));
    if (source == KERF_F16) return kf_f16_decode(kf_f16_encode(x));
    return x;
}

/* torch.finfo: distance from 1 to the next number, and the least normal number. */
KF_HD float kf_source_eps(int source)
{
    return kf_exp2(source == KERF_BF16 ? -7 : source == KERF_F16 ? -10 : -23);
}

KF_HD float kf_source_tiny(int source)
{
    return kf_exp2(source == KERF_F16 ? -14 : -126);
}

/* How many fp32 numbers next to 2^k have a base-2 logarithm that rounds to k in fp32: 2^p * ln 2 of
 * them, when the logarithm's fp32 neighbours are 2^(p - 23) apart on that side. n is |k|, less one
 * where the neighbours lie on the side of zero. */
KF_HD uint32_t kf_log2_slack(int n, int shift)
{
    int p = -1;
    for (; n > 0; n >>= 1) p++;
    return p < 0 ? 0 : (11356u << (p + shift)) >> 15;
}

/* Exponent and 24-bit mantissa of x > 0, subnormal or not. */
KF_HD int kf_split(float x, uint32_t *mantissa)
{
    uint32_t u = kf_bits(x) & 0x7fffffu;
    int e = (int)(kf_bits(x) >> 23) - 127;
    if (e > -127) {
        *mantissa = u | 0x800000u;
        return e;
    }
    for (e = -126; u < 0x800000u; e--) u <<= 1;
    *mantissa = u;
    return e;
}

/* ceil(log2(x)) and floor(log2(x)) of x > 0 with the logarithm rounded to fp32, as peers have
 * them: the neighbours of a power of two count as that power. */
KF_HD int kf_ceil_log2(float x)
{
    uint32_t mantissa;
    int k = kf_split(x, &mantissa);
    return k + (mantissa - 0x800000u > kf_log2_slack(k > 0 ? k : -k - 1, 0));
}

KF_HD int kf_floor_log2(float x)
{
    uint32_t mantissa;
    int k = kf_split(x, &mantissa) + 1;
    return k - (0x1000000u - mantissa > kf_log2_slack(k > 0 ? k - 1 : -k, 1));
}

#endif
