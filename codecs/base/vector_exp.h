/* vector_exp.h - e^x for loops over many numbers, which compilers turn into vectors: the C
 * library's would be called for each. Within one unit in the last place of e^x; below -87 it is 0,
 * above 88 it is infinite, and NaN stays NaN. */
#ifndef KERF_VECTOR_EXP_H
#define KERF_VECTOR_EXP_H

#include <stdint.h>
#include <string.h>

static inline float kf_exp(float x)
{
    /* x = n ln 2 + r, and e^r by its series: n from adding and taking away 1.5 x 2^23 */
    const float clipped = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
    const float shifted = clipped * 1.44269504f + 12582912.0f;
    const float n = shifted - 12582912.0f;
    const float r = (clipped - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 127u) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    const float y = p * power;
    return x < -87.0f ? 0.0f : x > 88.0f ? __builtin_inff() : y;
}

#endif
