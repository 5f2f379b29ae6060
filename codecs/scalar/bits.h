/* bits.h - the ground of all codec arithmetic: how shared functions are declared for C, C++ and
 * CUDA, and floats seen as bits. Codec arithmetic uses IEEE single operations and integers only:
 * no libm, no contraction, no flush to zero, so every compiler gives the same bytes. */
#ifndef KERF_BITS_H
#define KERF_BITS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
#define KF_HD static __host__ __device__ __forceinline__
#define KF_HD_CONST static constexpr __host__ __device__ __forceinline__ /* in constants, too */
#else
#define KF_HD static inline __attribute__((always_inline, unused))
#define KF_HD_CONST KF_HD
#endif

/* A constant table in a header that host and device compile. */
#if defined(__CUDA_ARCH__)
#define KF_TABLE static __device__ const
#else
#define KF_TABLE static const
#endif

#define KF_F32_MAX 3.402823466e+38f
#define KF_F32_TINY 1.401298464e-45f /* 2^-149, the least positive fp32 */

KF_HD uint32_t kf_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}

KF_HD float kf_float(uint32_t u)
{
    float x;
    memcpy(&x, &u, 4);
    return x;
}

KF_HD float kf_abs(float x)
{
    return kf_float(kf_bits(x) & 0x7fffffffu);
}
KF_HD float kf_min(float a, float b)
{
    return b < a ? b : a;
}
KF_HD float kf_max(float a, float b)
{
    return b > a ? b : a;
}
KF_HD int kf_clamp_int(int x, int lo, int hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}
KF_HD int kf_is_finite(float x)
{
    return (kf_bits(x) & 0x7f800000u) != 0x7f800000u;
}

/* 2^e exactly, -149 <= e <= 127. */
KF_HD float kf_exp2(int e)
{
    return e >= -126 ? kf_float((uint32_t)(e + 127) << 23) : kf_float(1u << (e + 149));
}

/* Nearest integer, ties to even, clamped to [lo, hi]; |lo|, |hi| <= 2^22. NaN gives lo.
 * Adding 1.5 * 2^23 leaves the integer in the low bits of the sum, rounded by IEEE itself. */
KF_HD int kf_round_clamp(float x, int lo, int hi)
{
    x = kf_min(kf_max((float)lo, x), (float)hi);
    return (int)(kf_bits(x + 12582912.0f) & 0x7fffffu) - 0x400000;
}

#endif
