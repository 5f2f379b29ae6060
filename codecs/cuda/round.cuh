/* round.cuh - quotients by one number and rounding to integers, in the FMA pipe: adding 1.5 * 2^23
 * leaves the rounded integer in the low bits of a float, and floats are packed as they are, by
 * multiply-add, with all the exponent bits taken off at the end by one subtraction. */
#ifndef KERF_ROUND_CUH
#define KERF_ROUND_CUH

#include "cuda/load.cuh"

namespace
{

constexpr float MAGIC = 12582912.0f; /* 1.5 * 2^23 */

/* --- division by the same number -----------------------------------------------------------------
 * x / d rounded to nearest even. Of fp32 from r = 1 / d in five operations (Markstein 1990): two
 * steps of q += (x - q d) r, the first giving a faithful, the second the correctly rounded
 * quotient. Valid while x - q d is exact, for which d in [2^-80, 2^100] suffices: quotients below
 * 2^-17 may be off by an ulp, and every element type rounds those to zero.
 *
 * Of x with at most 11 bits (fp16, bfloat16) in two, as x r + x s, where r + s is 1 / d to 2^-47. A
 * rounded quotient may then be off by an ulp, but is below, on or above a tie of up to 10 bits as
 * the true one is: of all x, ties and d near x / tie only d whose mantissa is all ones fails. r is
 * rounded down, so that s is not negative and x s + x r keeps the sign of a zero. */
__device__ __noinline__ void divide_slowly(volatile float *x, float d)
{
    for (int i = 0; i < CHUNK; i++) x[i] = x[i] / d;
}

__device__ __forceinline__ bool divides_fast(float d)
{
    return d >= 0x1p-80f && d <= 0x1p100f && (__float_as_uint(d) & 0x7fffff) != 0x7fffff;
}

/* For d that is not so. */
__device__ __forceinline__ void divide_aside(const float *x, float d, float *y)
{
    volatile float z[CHUNK]; /* volatile, as in load.cuh */
#pragma unroll
    for (int i = 0; i < CHUNK; i++) z[i] = x[i];
    divide_slowly(z, d);
#pragma unroll
    for (int i = 0; i < CHUNK; i++) y[i] = z[i];
}

/* x: elements of type D. */
template <int D> __device__ __forceinline__ void divide_all(const float *x, float d, float *y)
{
    float r = 1.0f / d;
    if constexpr (D == KERF_F32) {
#pragma unroll
        for (int i = 0; i < CHUNK; i++) {
            y[i] = x[i] * r;
#pragma unroll
            for (int k = 0; k < 2; k++) y[i] = __fmaf_rn(__fmaf_rn(-y[i], d, x[i]), r, y[i]);
        }
    } else {
        r = __uint_as_float(__float_as_uint(r) - 1);
        float left = __fmaf_rn(-r, d, 1.0f), s = __fmaf_rn(left * r, left, left * r);
#pragma unroll
        for (int i = 0; i < CHUNK; i++) y[i] = __fmaf_rn(x[i], r, x[i] * s);
    }
    if (!divides_fast(d)) divide_aside(x, d, y);
}

/* --- integers in the low bits of floats ------------------------------------------------------ */

/* bits at i, 2 i, ...: what one unit in every code of a word is worth. */
__host__ __device__ constexpr uint32_t every_code(int bits)
{
    uint32_t sum = 0;
    for (int i = 0; i < 32 / bits; i++) sum |= 1u << (bits * i);
    return sum;
}

/* Packs floats MAGIC + n: the sum of n_i 2^(BITS i) modulo 2^32. */
template <int BITS> __device__ __forceinline__ uint32_t pack_magic(const float *s)
{
    uint32_t sum = 0;
#pragma unroll
    for (int i = 32 / BITS - 1; i >= 0; i--) sum = (sum << BITS) + __float_as_uint(s[i]);
    return sum - 0x4b400000u * every_code(BITS);
}

/* The same of floats 2^23 + n. */
template <int BITS> __device__ __forceinline__ uint32_t pack_whole(const float *s)
{
    uint32_t sum = 0;
#pragma unroll
    for (int i = 32 / BITS - 1; i >= 0; i--) sum = (sum << BITS) + __float_as_uint(s[i]);
    return sum - 0x4b000000u * every_code(BITS);
}

/* MAGIC + x / d, rounded to nearest even, given r = fl(1 / d), where x and d have at most 11 bits:
 * then x / d is a tie between two integers or further than 2^-13 from it, so that x r, rounded to
 * multiples of 2^-14 or finer, is the tie or on its side of it. */
constexpr bool SHORT_SCALES =
    KF_ROW.scale == KERF_SCALE_BF16 || KF_ROW.scale == KERF_SCALE_F16; /* of so few bits */
__device__ __forceinline__ float divide_short(float x, float r)
{
    constexpr float FINE = KF_ROW.bits == 8 ? 768.0f : 48.0f; /* its binade holds all codes */
    return __fmaf_rn(x, r, FINE) + (MAGIC - FINE);
}

/* MAGIC + x / d, rounded to nearest even; x: elements of type D, d: a scale. */
template <int D> __device__ __forceinline__ void divide_to_magic(const float *x, float d, float *s)
{
    if constexpr (D != KERF_F32 && SHORT_SCALES) {
        float r = 1.0f / d;
#pragma unroll
        for (int i = 0; i < CHUNK; i++) s[i] = divide_short(x[i], r);
        if (divides_fast(d)) return;
        divide_aside(x, d, s);
    } else {
        divide_all<D>(x, d, s);
    }
#pragma unroll
    for (int i = 0; i < CHUNK; i++) s[i] += MAGIC;
}

/* n of MAGIC + n to [lo, hi]. */
__device__ __forceinline__ void clamp_magic(float *s, float lo, float hi)
{
#pragma unroll
    for (int i = 0; i < CHUNK; i++) s[i] = fminf(fmaxf(s[i], MAGIC + lo), MAGIC + hi);
}

/* Packs a chunk of floats MAGIC + n: n + zero; `flip` is xored into codes. */
template <int BITS>
__device__ __forceinline__ void pack_integers(const float *s, int zero, uint32_t flip, uint32_t *w)
{
#pragma unroll
    for (int k = 0; k < BITS / 2; k++)
        w[k] = (pack_magic<BITS>(s + 32 / BITS * k) + (uint32_t)zero * every_code(BITS)) ^
               flip * every_code(BITS);
}

} // namespace
#endif
