/* gemv_x.h - x as fp32, and as integers of 16 bits with one power of two, for one instruction set
 * (gemv_rows.h, gemv_tiles.h). */
#ifndef KERF_GEMV_X_H
#define KERF_GEMV_X_H

#include "cpu/gemv_kernel.h"

/* n numbers as fp32; returns their largest magnitude, NaN and Inf as the largest of all. */
static float widen_x(kerf_dtype type, const uint8_t *x, size_t n, float *out)
{
    size_t i = 0;
    uint32_t amax = 0;
    if (type == KERF_F16)
        for (; i + V <= n; i += V) vf_store(out + i, vf_of_half(vh_load(x + 2 * i)));
    if (type == KERF_BF16)
        for (; i < n; i++) {
            uint16_t half;
            memcpy(&half, x + 2 * i, 2);
            out[i] = kf_bf16_decode(half);
        }
    if (type == KERF_F32) memcpy(out, x, 4 * n), i = n;
    for (; i < n; i++) out[i] = kf_load(type, x, i);
    for (i = 0; i < n; i++) {
        uint32_t magnitude = kf_bits(out[i]) & 0x7fffffff;
        amax = magnitude > amax ? magnitude : amax;
    }
    return kf_float(amax);
}

/* Whether sums of codes times x stay in the range of fp32 where y does: 0 and numbers whose largest
 * is neither huge nor tiny. Of sums that are multiplied once more (kf_gemv_backs) what is lost
 * below fp32's range is, too. */
static int x_is_tame(const kf_gemv_layout *l, float amax)
{
    const float most = kf_gemv_is_bfloat(l->decode) ? 0x1p30f : 0x1p60f;
    return amax == 0 || (amax >= 0x1p-60f && amax <= most);
}

/* n numbers, rounded to nearest even, of magnitude `largest` at most; returns what one of them
 * stands for. Units below 2^-114 are not needed: what is smaller counts as zero, which the bound
 * leaves room for. */
static inline float kf_gemv_round_x(const float *x, size_t n, float largest, int16_t *whole)
{
    uint32_t amax = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t magnitude = kf_bits(x[i]) & 0x7fffffff;
        amax = magnitude > amax ? magnitude : amax;
    }
    int e = (int)(amax >> 23) - 127 - 14;
    if (e < -114) e = -114;
    e += kf_float(amax) * kf_exp2(-e) > largest;
    const float per = kf_exp2(-e);
    for (size_t i = 0; i < n; i++) { /* in the low bits of 1.5 * 2^23 + n */
        float y = x[i] * per + 0x1.8p23f;
        whole[i] = (int16_t)(uint16_t)kf_bits(y);
    }
    return kf_exp2(e);
}

#endif
