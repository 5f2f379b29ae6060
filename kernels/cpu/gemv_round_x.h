/* gemv_round_x.h - x as integers of 16 bits with one power of two, for one instruction set
 * (gemv_rows.h, gemv_tiles.h). */
#ifndef KERF_GEMV_ROUND_X_H
#define KERF_GEMV_ROUND_X_H

#include "cpu/gemv_layout.h"

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
