/* stats.h - the exact sum of block absmax that nf4-dq needs, as a fixed-point number of 320 bits in
 * units of 2^-149, which holds 2^40 of the largest fp32 numbers: adding is exact, so threads, bands
 * and GPUs may add in any order and still agree on the last bit. */
#ifndef KERF_STATS_H
#define KERF_STATS_H

#include "block/spec.h"

#define KF_LIMBS 5

KF_HD void kf_sum_add(uint64_t sum[KF_LIMBS], unsigned limb, uint64_t value)
{
    for (; value && limb < KF_LIMBS; limb++) {
        sum[limb] += value;
        value = sum[limb] < value; /* the carry */
    }
}

/* Mantissa of a finite fp32 >= 0, and the bit of the sum at which it begins. */
KF_HD uint32_t kf_sum_mantissa(float x)
{
    uint32_t mantissa = kf_bits(x) & 0x7fffff;
    return kf_bits(x) >> 23 ? mantissa | 0x800000 : mantissa;
}
KF_HD unsigned kf_sum_shift(uint32_t exponent_field)
{
    return exponent_field ? exponent_field - 1 : 0;
}

/* Adds a block's absmax >= 0 to the exact sum. */
KF_HD void kf_stats_add_block(kerf_stats *s, float absmax)
{
    uint64_t mantissa = kf_sum_mantissa(absmax);
    unsigned shift = kf_sum_shift(kf_bits(absmax) >> 23);
    kf_sum_add(s->sum, shift / 64, mantissa << shift % 64);
    kf_sum_add(s->sum, shift / 64 + 1, shift % 64 ? mantissa >> (64 - shift % 64) : 0);
    s->blocks++;
}

/* 2^e for any double exponent that occurs here (-149 .. 171), by exact steps. */
KF_HD double kf_sum_power(int e)
{
    double x = 1;
    for (; e > 0; e--) x *= 2;
    for (; e < 0; e++) x /= 2;
    return x;
}

KF_HD int kf_sum_bit(const uint64_t sum[KF_LIMBS], int i)
{
    return (int)(sum[i / 64] >> i % 64 & 1);
}

/* The sum in units of 2^-149, rounded to nearest even at 53 bits, times 2^-149. */
KF_HD double kf_sum_double(const uint64_t sum[KF_LIMBS])
{
    int top = KF_LIMBS * 64 - 1;
    while (top >= 0 && !kf_sum_bit(sum, top)) top--;
    if (top < 0) return 0;
    int low = top > 52 ? top - 52 : 0; /* lowest bit that is kept */
    uint64_t mantissa = 0;
    for (int i = top; i >= low; i--) mantissa = mantissa << 1 | (uint64_t)kf_sum_bit(sum, i);
    if (low > 0 && kf_sum_bit(sum, low - 1)) {
        int sticky = 0;
        for (int i = 0; i < low - 1; i++) sticky |= kf_sum_bit(sum, i);
        mantissa += (uint64_t)(sticky || (mantissa & 1));
    }
    return (double)mantissa * kf_sum_power(low - 149);
}

/* The exact sum rounded to double (nearest even), divided by the number of blocks in double,
 * rounded to fp32; 0 without blocks. */
KF_HD float kf_stats_mean_block(const kerf_stats *s)
{
    return s->blocks ? (float)(kf_sum_double(s->sum) / (double)s->blocks) : 0;
}

#endif
