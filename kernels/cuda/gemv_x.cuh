/* gemv_x.cuh - x in shared memory, as halves in the order of decoded codes.
 *
 * x may be what the kernel before this one wrote while this one already ran: it is read from the
 * second level of the cache, never through the read-only path. */
#ifndef KERF_GEMV_X_CUH
#define KERF_GEMV_X_CUH

#include "cuda/gemv_ring.cuh"

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

/* Places of x: lane `t` of block `block` of column `column`, each thread every THREADS-th. */
struct x_cursor {
    uint32_t i, column;

    __device__ __forceinline__ void settle(uint32_t each)
    {
        while (i >= each) i -= each, column++;
    }
};

__device__ __forceinline__ uint32_t half_pair(const kf_gemv_job &j, uint32_t pair, float factor)
{
    if (j.x_type == KERF_F16) return pair;
    __half2 h = __floats2half2_rn(__uint_as_float(pair << 16) * factor,
                                  __uint_as_float(pair & 0xffff0000u) * factor);
    return *(uint32_t *)&h;
}

/* In the order of codes. */
__device__ __forceinline__ uint4 in_order(const uint32_t w[4])
{
    uint32_t v[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int a = BITS == 8 ? 2 * i : order(0, 2 * i), b = BITS == 8 ? a + 1 : order(0, 2 * i + 1);
        v[i] = __byte_perm(w[a / 2], w[b / 2], (a % 2 ? 0x32 : 0x10) | (b % 2 ? 0x7600 : 0x5400));
    }
    return {v[0], v[1], v[2], v[3]};
}

/* Bits of the largest finite magnitude of each column of the block's part of x. */
__device__ void measure_x(const kf_gemv_job &j, uint32_t k0, uint32_t n, uint32_t *largest)
{
    for (uint32_t c = 0; c < j.columns; c++) {
        uint32_t most = 0;
#pragma unroll 8
        for (uint32_t k = threadIdx.x; k < n; k += THREADS) {
            uint32_t u = __float_as_uint(x_at(j, c * j.x_stride + k0 + k)) & 0x7fffffffu;
            most = max(most, u < 0x7f800000u ? u : 0);
        }
        most = __reduce_max_sync(0xffffffffu, most);
        if (threadIdx.x % 32 == 0 && most) atomicMax(largest + c, most);
    }
}

/* 16-bit x into shared memory as it is, save that 8-bit codes have their quarters in other places.
 * A thread copies what it will put in order: nobody else need wait for it. */
__device__ __forceinline__ void copy_x(const kf_gemv_job &j, x_cursor c, uint32_t k0, uint32_t each,
                                       uint8_t *to)
{
    uint32_t base = (uint32_t)__cvta_generic_to_shared(to);
    for (; c.column < j.columns; c.i += THREADS, c.settle(each)) {
        uint32_t t = c.i % 4, there = base + c.column * j.x_pitch + c.i * 16;
        const uint16_t *x = (const uint16_t *)j.x + c.column * j.x_stride + k0 + c.i / 4 * 32;
        if (BITS == 8) {
            asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(there), "l"(x + 4 * t)
                         : "memory");
            asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(there + 8),
                         "l"(x + 16 + 4 * t)
                         : "memory");
        } else {
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(there), "l"(x + 8 * t)
                         : "memory");
        }
    }
    commit_copies();
}

/* Puts the block's part of x down: [column][32 elements][lane of the quad][8 halves]. */
__device__ void stage_x(const kf_gemv_job &j, const span &s, uint8_t *to, const uint32_t *largest)
{
    uint32_t k0 = s.stage * STAGE_CODES, each = s.stages * STAGE_CODES / 8;
    if (each == 0) return;
    x_cursor c = {threadIdx.x, 0};
    c.settle(each);
    bool whole = BITS != 16 && j.x_type != KERF_F32 && j.x_wide && k0 + each * 8 <= j.cols;
    if (whole) {
        copy_x(j, c, k0, each, to);
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        if (BITS == 8 && j.x_type == KERF_F16) return;
        for (; c.column < j.columns; c.i += THREADS, c.settle(each)) {
            float f = j.x_type == KERF_F16 ? 1 : kf_exp2(x_shift(largest[c.column]));
            uint4 *at = (uint4 *)(to + c.column * j.x_pitch + c.i * 16), v = *at;
            uint32_t w[4] = {half_pair(j, v.x, f), half_pair(j, v.y, f), half_pair(j, v.z, f),
                             half_pair(j, v.w, f)};
            *at = in_order(w);
        }
        return;
    }
    for (; c.column < j.columns; c.i += THREADS, c.settle(each)) {
        float f = j.x_type == KERF_F16 ? 1 : kf_exp2(x_shift(largest[c.column]));
        uint32_t k = k0 + c.i / 4 * 32;
        float v[8];
#pragma unroll
        for (int e = 0; e < 8; e++) {
            uint32_t o = order((int)(c.i % 4), e);
            v[e] = k + o < j.cols ? x_at(j, c.column * j.x_stride + k + o) : 0.0f;
        }
        __half2 h[4];
#pragma unroll
        for (int e = 0; e < 4; e++) h[e] = __floats2half2_rn(v[2 * e] * f, v[2 * e + 1] * f);
        *(uint4 *)(to + c.column * j.x_pitch + c.i * 16) = *(uint4 *)h;
    }
}

} // namespace

#endif
