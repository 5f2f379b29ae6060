/* pseudo_random.h - numbers that look random and are the same on every machine: integers alone, or
 * operations of fp32 that are exact. For tests of this machine and for measurements. */
#ifndef KERF_PSEUDO_RANDOM_H
#define KERF_PSEUDO_RANDOM_H

#include <stdint.h>

#define KF_RANDOM_STEP UINT64_C(0x9e3779b97f4a7c15) /* 2^64 over the golden ratio */

/* 64 well mixed bits of a counter (the finalizer of splitmix64). Counters that grow by
 * KF_RANDOM_STEP give the sequence of that generator. */
static inline uint64_t kf_mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* The four 16-bit numbers of a word, added and centred: close to a normal distribution around 0 of
 * deviation 37837, and exact in fp32. */
static inline float kf_bell(uint64_t word)
{
    int sum = (int)(word & 0xffffu) + (int)(word >> 16 & 0xffffu) + (int)(word >> 32 & 0xffffu) +
              (int)(word >> 48) - 2 * 0xffff;
    return (float)sum;
}

#endif
