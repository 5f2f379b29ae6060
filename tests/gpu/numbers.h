/* numbers.h - sources that have every kind of number, the same on every machine. */
#ifndef KERF_GPU_NUMBERS_H
#define KERF_GPU_NUMBERS_H

#include <kerf/codec.h>

#include <string.h>

#ifdef _OPENMP
#define KERF_IN_PARALLEL _Pragma("omp parallel for if (n > 100000)")
#define KERF_IN_PARALLEL_ALWAYS _Pragma("omp parallel for")
#else
#define KERF_IN_PARALLEL
#define KERF_IN_PARALLEL_ALWAYS
#endif

static inline uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static inline size_t size_of(kerf_dtype t)
{
    return kerf_dtype_bits(t) / 8;
}

/* Every bit pattern of the type, at random: all exponents, NaN, Inf, subnormals. */
static inline void fill_patterns(uint8_t *p, kerf_dtype t, size_t n, uint64_t seed)
{
    KERF_IN_PARALLEL
    for (size_t i = 0; i < n; i++) {
        uint64_t r = mix(seed + i);
        memcpy(p + i * size_of(t), &r, size_of(t));
    }
}

/* fp32 as fp16, near enough: the exponent moved, the mantissa cut. */
static inline uint16_t half_near(uint32_t u)
{
    uint32_t magnitude = u & 0x7fffffff;
    return (uint16_t)((u >> 16 & 0x8000) |
                      (magnitude < 0x38800000 ? 0 : (magnitude - 0x38000000) >> 13));
}

/* A bell about zero with a few outliers, some exact zeros and the occasional run of zeros. */
static inline void fill_bell(uint8_t *p, kerf_dtype t, size_t n, uint64_t seed)
{
    KERF_IN_PARALLEL
    for (size_t i = 0; i < n; i++) {
        uint64_t r = mix(seed + i);
        float x = 0;
        for (int k = 0; k < 4; k++) x += (float)(int16_t)(r >> 16 * k);
        x *= 1e-6f;
        if (r % 1021 == 0) x *= 50;
        if (r % 61 == 0 || mix(seed + i / 160) % 37 == 0) x = r % 2 ? 0.0f : -0.0f;
        uint32_t u;
        memcpy(&u, &x, 4);
        uint16_t half = t == KERF_F16 ? half_near(u) : (uint16_t)(u >> 16);
        memcpy(p + i * size_of(t), t == KERF_F32 ? (void *)&u : (void *)&half, size_of(t));
    }
}

/* bf16: every pattern up to the largest element of its block of 16, for every mantissa of that
 * largest element and several exponents: normal, tiny, huge, and the edges of E8M0. */
static inline void fill_below_amax(uint8_t *p, size_t n)
{
    static const uint16_t exponents[] = {127, 121, 1, 0, 254, 100, 140, 6, 16, 250, 64};
    uint64_t pattern = 0, round = 0;
    for (size_t i = 0; i < n; i++) {
        uint16_t amax = (uint16_t)((unsigned)exponents[round / 128 % 11] << 7 |
                                   (unsigned)(round % 128)),
                 x = amax;
        if (i % 16 != (round + i / 16) % 16) {
            x = (uint16_t)(pattern << 15 | pattern >> 1);
            if ((x & 0x7fff) >= amax) {
                pattern = 0;
                round++;
                x = 0;
            } else {
                pattern++;
            }
        }
        memcpy(p + 2 * i, &x, 2);
    }
}

#endif
