/* minifloat.h - small binary floats: one encoder and one decoder for every (exponent bits,
 * mantissa bits, bias), and the named formats on top of them.
 *
 * A code is sign | exponent | mantissa. Encoding rounds to nearest even and saturates at the
 * largest finite code (fp16 alone overflows to Inf, as IEEE has it). -0 keeps its sign. NaN gives
 * what CUDA's satfinite conversions give: 0x7F for E4M3 and E5M2, the largest positive code where
 * there is no NaN. Sources: OCP OFP8 and MX v1.0, CUDA cuda_fp8.h, cuda_fp6.h, cuda_fp4.h.
 *
 *          bits  bias  largest  least normal  least subnormal
 *   E2M1   4     1     6        1             0.5
 *   E2M3   6     1     7.5      1             0.125
 *   E3M2   6     3     28       0.25          0.0625
 *   E4M3   8     7     448      2^-6          2^-9            NaN 0x7F, no Inf
 *   E5M2   8     15    57344    2^-14         2^-16           Inf 0x7C, NaN 0x7D..0x7F
 */
#ifndef KERF_MINIFLOAT_H
#define KERF_MINIFLOAT_H

#include "scalar/bits.h"

/* largest: the code that finite values and Inf saturate at. nan: the code for NaN. */
KF_HD uint32_t kf_minifloat_encode(int exp_bits, int man_bits, int bias, uint32_t largest,
                                   uint32_t nan, float x)
{
    const int drop = 23 - man_bits;
    const uint32_t least = (uint32_t)(128 - bias) << 23; /* the least normal number */
    const uint32_t limit = (largest << drop) + ((uint32_t)(127 - bias) << 23);
    uint32_t sign = kf_bits(x) >> 31 << (exp_bits + man_bits);
    uint32_t mag = kf_bits(x) & 0x7fffffffu, cut = mag > limit ? limit : mag;
    uint32_t binade = cut & 0x7f800000u;
    if (binade < least) binade = least;
    /* Next to this power of two an fp32 step is one code step of the binade. */
    uint32_t power = binade + ((uint32_t)drop << 23);
    uint32_t steps = kf_bits(kf_float(cut) + kf_float(power)) - power;
    uint32_t code = steps + ((binade - least) >> drop);
    return mag > 0x7f800000u ? nan : sign | code;
}

/* Finite codes only; Inf and NaN are the caller's. */
KF_HD float kf_minifloat_decode(int exp_bits, int man_bits, int bias, uint32_t code)
{
    uint32_t mag = code & ((1u << (exp_bits + man_bits)) - 1);
    uint32_t sign = code >> (exp_bits + man_bits) & 1;
    float value = mag >> man_bits == 0
                      ? (float)mag * kf_exp2(1 - bias - man_bits)
                      : kf_float((mag << (23 - man_bits)) + ((uint32_t)(127 - bias) << 23));
    return kf_float(kf_bits(value) | sign << 31);
}

KF_HD uint32_t kf_e2m1_encode(float x)
{
    return kf_minifloat_encode(2, 1, 1, 0x7, 0x7, x);
}
KF_HD uint32_t kf_e2m3_encode(float x)
{
    return kf_minifloat_encode(2, 3, 1, 0x1f, 0x1f, x);
}
KF_HD uint32_t kf_e3m2_encode(float x)
{
    return kf_minifloat_encode(3, 2, 3, 0x1f, 0x1f, x);
}
KF_HD uint32_t kf_e4m3_encode(float x)
{
    return kf_minifloat_encode(4, 3, 7, 0x7e, 0x7f, x);
}
KF_HD uint32_t kf_e5m2_encode(float x)
{
    return kf_minifloat_encode(5, 2, 15, 0x7b, 0x7f, x);
}

KF_HD float kf_e2m1_decode(uint32_t code)
{
    return kf_minifloat_decode(2, 1, 1, code);
}
KF_HD float kf_e2m3_decode(uint32_t code)
{
    return kf_minifloat_decode(2, 3, 1, code);
}
KF_HD float kf_e3m2_decode(uint32_t code)
{
    return kf_minifloat_decode(3, 2, 3, code);
}

KF_HD float kf_e4m3_decode(uint32_t code)
{
    if ((code & 0x7f) == 0x7f) return kf_float(0x7fc00000u | (code & 0x80) << 24);
    return kf_minifloat_decode(4, 3, 7, code);
}

KF_HD float kf_e5m2_decode(uint32_t code)
{
    if ((code & 0x7f) > 0x7c) return kf_float(0x7fc00000u | (code & 0x80) << 24);
    if ((code & 0x7f) == 0x7c) return kf_float(0x7f800000u | (code & 0x80) << 24);
    return kf_minifloat_decode(5, 2, 15, code);
}

/* --- E8M0: a power of two, 2^(code - 127); 0xFF is NaN; there is no zero ------------------- */

KF_HD float kf_e8m0_decode(uint32_t code)
{
    return code == 0xff ? kf_float(0x7fc00000u) : kf_exp2((int)code - 127);
}

/* The least power of two that is not below x >= 0, as cvt.rp.satfinite.ue8m0 has it. */
KF_HD uint32_t kf_e8m0_encode_up(float x)
{
    uint32_t u = kf_bits(x);
    if (u <= 0x00400000u) return 0; /* up to 2^-127, a subnormal of fp32 */
    uint32_t code = (u + 0x7fffffu) >> 23;
    return code > 0xfe ? 0xfe : code;
}

/* --- fp16 and bfloat16 ---------------------------------------------------------------------- */

/* Rounds to nearest even; overflows to Inf; NaN becomes quiet and keeps its sign. */
KF_HD uint16_t kf_f16_encode(float x)
{
    uint32_t nan = 0x7e00u | (kf_bits(x) >> 16 & 0x8000u);
#ifdef __CUDA_ARCH__ /* one instruction, but for the bits of a NaN */
    uint16_t code;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(code) : "f"(x));
    return x != x ? (uint16_t)nan : code;
#endif
    return (uint16_t)kf_minifloat_encode(5, 10, 15, 0x7c00, nan, x);
}

KF_HD float kf_f16_decode(uint16_t code)
{
    uint32_t mag = code & 0x7fffu, sign = (uint32_t)(code & 0x8000u) << 16;
    if (mag >= 0x7c00u) return kf_float(sign | 0x7f800000u | (mag & 0x3ffu) << 13);
#ifdef __CUDA_ARCH__
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(code));
    return value;
#endif
    return kf_minifloat_decode(5, 10, 15, code);
}

KF_HD uint16_t kf_bf16_encode(float x)
{
    uint32_t u = kf_bits(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

KF_HD float kf_bf16_decode(uint16_t code)
{
    return kf_float((uint32_t)code << 16);
}

#endif
