/* stats.c - exact, order-free statistics of a matrix. The sum of absmax is kept as a fixed-point
 * number of 320 bits in units of 2^-149, which holds 2^40 of the largest fp32 numbers: adding is
 * exact, so threads, bands and GPUs may add in any order and still agree on the last bit. */
#include "cpu/stats.h"

#define LIMBS 5

static void add_at(uint64_t sum[LIMBS], unsigned limb, uint64_t value)
{
    for (; value && limb < LIMBS; limb++)
        value = __builtin_add_overflow(sum[limb], value, &sum[limb]);
}

void kf_stats_add_block(kerf_stats *s, float absmax)
{
    uint32_t exponent = kf_bits(absmax) >> 23, mantissa = kf_bits(absmax) & 0x7fffff;
    if (exponent) mantissa |= 0x800000;
    unsigned shift = exponent ? exponent - 1 : 0;
    uint64_t low = (uint64_t)mantissa << shift % 64;
    uint64_t high = shift % 64 ? (uint64_t)mantissa >> (64 - shift % 64) : 0;
    add_at(s->sum, shift / 64, low);
    add_at(s->sum, shift / 64 + 1, high);
    s->blocks++;
}

void kerf_stats_merge(kerf_stats *into, const kerf_stats *from)
{
    into->amax = kf_max(into->amax, from->amax);
    into->min = kf_min(into->min, from->min);
    into->max = kf_max(into->max, from->max);
    into->blocks += from->blocks;
    for (unsigned i = 0; i < LIMBS; i++) add_at(into->sum, i, from->sum[i]);
}

/* 2^e for any double exponent that occurs here (-149 .. 171), by exact steps. */
static double power_of_two(int e)
{
    double x = 1;
    for (; e > 0; e--) x *= 2;
    for (; e < 0; e++) x /= 2;
    return x;
}

static int bit_at(const uint64_t sum[LIMBS], int i)
{
    return (int)(sum[i / 64] >> i % 64 & 1);
}

/* The sum in units of 2^-149, rounded to nearest even at 53 bits, times 2^-149. */
static double sum_to_double(const uint64_t sum[LIMBS])
{
    int top = LIMBS * 64 - 1;
    while (top >= 0 && !bit_at(sum, top)) top--;
    if (top < 0) return 0;
    int low = top > 52 ? top - 52 : 0; /* lowest bit that is kept */
    uint64_t mantissa = 0;
    for (int i = top; i >= low; i--) mantissa = mantissa << 1 | (uint64_t)bit_at(sum, i);
    if (low > 0 && bit_at(sum, low - 1)) {
        int sticky = 0;
        for (int i = 0; i < low - 1; i++) sticky |= bit_at(sum, i);
        mantissa += sticky || mantissa & 1;
    }
    return (double)mantissa * power_of_two(low - 149);
}

float kf_stats_mean_block(const kerf_stats *s)
{
    return s->blocks ? (float)(sum_to_double(s->sum) / (double)s->blocks) : 0;
}
