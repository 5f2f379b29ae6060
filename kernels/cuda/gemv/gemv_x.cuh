/* gemv_x.cuh - elements of x as halves in the order of decoded codes.
 *
 * x may be what the kernel before this one wrote while this one already ran: it is read from the
 * second level of the cache, never through the read-only path. fp16 is taken as it is. bf16 and
 * fp32 are multiplied by a power of two that brings the largest of a column, or of the part of it
 * that a warp has, to 2^14 .. 2^15, and rounded to fp16: exact for bf16, save for what is 2^-28 of
 * the largest and less. */
#ifndef KERF_GEMV_X_CUH
#define KERF_GEMV_X_CUH

#include "cuda/gemv/gemv_ring.cuh"

namespace
{

__device__ __forceinline__ float x_at(const kf_gemv_job &j, uint64_t i)
{
    if (j.x_type == KERF_F32) return __ldcg((const float *)j.x + i);
    uint32_t u = __ldcg((const unsigned short *)j.x + i);
    return j.x_type == KERF_BF16 ? __uint_as_float(u << 16)
                                 : __half2float(__ushort_as_half((unsigned short)u));
}

/* The power of two that brings a column whose largest finite magnitude has these bits to 2^14 and
 * more, as an exponent. */
__device__ __forceinline__ int x_shift(uint32_t largest)
{
    int e = (int)(largest >> 23) - 127;
    return largest == 0 ? 0 : min(max(14 - e, -126), 126);
}

__device__ __forceinline__ uint32_t half_pair(const kf_gemv_job &j, uint32_t pair, float factor)
{
    if (j.x_type == KERF_F16) return pair;
    __half2 h = __floats2half2_rn(__uint_as_float(pair << 16) * factor,
                                  __uint_as_float(pair & 0xffff0000u) * factor);
    return *(uint32_t *)&h;
}

/* The largest finite magnitude of two bfloat16, as the upper half of a float. */
__device__ __forceinline__ uint32_t larger_bf16(uint32_t most, uint32_t pair)
{
    uint32_t low = pair << 16 & 0x7fffffff, high = pair & 0x7fff0000;
    if (low < 0x7f800000) most = max(most, low);
    return high < 0x7f800000 ? max(most, high) : most;
}

/* The larger magnitudes of two pairs of bfloat16, half by half; NaN is larger than all. */
__device__ __forceinline__ uint32_t larger_halves(uint32_t most, uint32_t pair)
{
    asm("{\n\t.reg .b32 size;\n\t"
        "abs.bf16x2 size, %1;\n\t"
        "max.NaN.bf16x2 %0, %0, size;\n\t}"
        : "+r"(most)
        : "r"(pair));
    return most;
}
__device__ __forceinline__ uint32_t larger_halves(uint32_t most, uint4 v)
{
    return larger_halves(larger_halves(larger_halves(larger_halves(most, v.x), v.y), v.z), v.w);
}

/* The larger one of such a pair, as a float has it. */
__device__ __forceinline__ uint32_t larger_half(uint32_t pair)
{
    return max(pair << 16, pair & 0xffff0000u);
}

/* The power of two that brings bfloat16 to fp16, by the largest of a column, and does so in four
 * instructions a pair. It is 2^-112 of that of x_shift(), so that a product, a bfloat16, has the
 * exponent's bits that fp16 has: shifted by three, the difference of their mantissas, it is one.
 * What is less than 2^-28 of the largest has lost bits then: it is subnormal in bfloat16. */
struct bf16_power {
    uint32_t pair;

    __device__ __forceinline__ explicit bf16_power(uint32_t largest)
        : pair((uint32_t)(x_shift(largest) + 127 - 112) * 0x00800080u)
    {
    }
    /* Whether that power is a bfloat16, and the largest a number. */
    static __device__ __forceinline__ bool fits(uint32_t largest)
    {
        return largest < (127u + 29) << 23;
    }
    __device__ __forceinline__ uint32_t halves(uint32_t x) const
    {
        uint32_t v;
        asm("{\n\t.reg .b32 size;\n\t"
            "abs.bf16x2 size, %1;\n\t"
            "fma.rn.bf16x2 %0, size, %2, %3;\n\t}"
            : "=r"(v)
            : "r"(x), "r"(pair), "r"(0x80008000u));
        return v << 3 | (x & 0x80008000u);
    }
};

/* The element of eight that is the i-th of a lane. */
__device__ __forceinline__ constexpr int octet_order(int i)
{
    if (SWAPS) return i % 4 == 1 ? i + 1 : i % 4 == 2 ? i - 1 : i;
    return WAY == KF_WAY_E2M1 || WAY == KF_WAY_NIBBLE || WAY == KF_WAY_TWO_BITS ? order(0, i) : i;
}

/* Eight halves from their order in memory to that of codes. */
__device__ __forceinline__ void put_in_order(uint32_t w[4])
{
    uint32_t v[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int a = octet_order(2 * i), b = octet_order(2 * i + 1);
        v[i] = __byte_perm(w[a / 2], w[b / 2], (a % 2 ? 0x32 : 0x10) | (b % 2 ? 0x7600 : 0x5400));
    }
#pragma unroll
    for (int i = 0; i < 4; i++) w[i] = v[i];
}

/* Bits of the largest finite magnitude of a column of x. */
__device__ void measure_x(const kf_gemv_job &j, uint32_t column, uint32_t *largest)
{
    uint32_t most = 0;
#pragma unroll 8
    for (uint32_t k = threadIdx.x; k < j.cols; k += THREADS) {
        uint32_t u = __float_as_uint(x_at(j, column * j.x_stride + k)) & 0x7fffffffu;
        most = max(most, u < 0x7f800000u ? u : 0);
    }
    most = __reduce_max_sync(0xffffffffu, most);
    if (threadIdx.x % 32 == 0 && most) atomicMax(largest, most);
}

} // namespace

#endif
