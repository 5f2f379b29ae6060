/* experts_h.cuh - numbers of h between the two launches. They say themselves whether they are
 * there: gate and up for one token clears its part of h to a pattern of bits that no number is
 * written as, and down asks for the numbers, not for the end of the launch that writes them. */
#ifndef KERF_EXPERTS_H_CUH
#define KERF_EXPERTS_H_CUH

#include "cuda/experts/experts_y.cuh"

namespace
{

/* What h holds before its numbers are there. Numbers that are written are never this: put_h(). */
constexpr uint32_t NOT_YET = 0xffffffffu;

/* --- written ------------------------------------------------------------------------------------
 */

__device__ __forceinline__ void put_bits(const kf_experts_job &j, uint64_t i, uint32_t bits)
{
    if (j.y_type == KERF_F32)
        ((uint32_t *)j.y)[i] = bits;
    else
        ((uint16_t *)j.y)[i] = (uint16_t)bits;
}

/* A number of h; a NaN that looks as if it were not there is made another. */
__device__ __forceinline__ void put_h(const kf_experts_job &j, uint64_t i, float v)
{
    uint32_t bits = __float_as_uint(v);
    if (j.y_type == KERF_F16)
        bits = __half_as_ushort(__float2half_rn(v));
    else if (j.y_type == KERF_BF16)
        bits = kf_bf16_encode(v);
    if (bits == (j.y_type == KERF_F32 ? NOT_YET : NOT_YET >> 16)) bits--;
    put_bits(j, i, bits);
}

/* Biases of gate and of up, of number k of h. Apart, since few layers have any. */
__device__ __noinline__ float2 biases_of_h(const kf_experts_job &j, uint32_t expert, uint32_t k)
{
    float bias[2];
    gate_biases(j, expert, k, bias);
    return {bias[0], bias[1]};
}

/* --- read ---------------------------------------------------------------------------------------
 */

/* Whether one of eight numbers is not there yet: fp16 or bf16 in four words. */
__device__ __forceinline__ bool lacks_any(const uint4 &v)
{
    const uint32_t w[4] = {v.x, v.y, v.z, v.w};
    uint32_t any = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) any |= __vcmpeq2(w[i], NOT_YET);
    return any != 0;
}

__device__ __forceinline__ uint4 load_now(const uint4 *p)
{
    uint4 v;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}

/* A number of any type; of h, once it is there. */
__device__ __forceinline__ float number_of_x(const kf_experts_job &j, uint32_t row, uint32_t k)
{
    const uint64_t at = row * j.x_stride + k;
    const bool is_wide = j.x_type == KERF_F32;
    if (k >= j.cols) return 0;
    for (;; __nanosleep(100)) {
        uint32_t bits;
        if (is_wide)
            asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];"
                         : "=r"(bits)
                         : "l"((const uint32_t *)j.x + at)
                         : "memory");
        else
            asm volatile("{.reg .b16 h; ld.relaxed.gpu.global.u16 h, [%1]; cvt.u32.u16 %0, h;}"
                         : "=r"(bits)
                         : "l"((const uint16_t *)j.x + at)
                         : "memory");
        if (j.is_down && bits == (is_wide ? NOT_YET : NOT_YET >> 16)) continue;
        return is_wide                 ? __uint_as_float(bits)
               : j.x_type == KERF_BF16 ? __uint_as_float(bits << 16)
                                       : __half2float(__ushort_as_half((unsigned short)bits));
    }
}

/* Until number k of a row of h is there. One lane asks, and now and then: all of them would take
 * the way to memory from weights. */
__device__ __forceinline__ void wait_for_number(const kf_experts_job &j, uint32_t row, uint32_t k,
                                                uint32_t lane)
{
    if (lane == 0) number_of_x(j, row, k);
    __syncwarp();
}

} // namespace

#endif
