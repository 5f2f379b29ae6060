/* experts_one_x.cuh - one token of a mixture-of-experts layer: x of a block, or h of its experts,
 * in shared memory as cuda/few has it: [step][octet][quarter], in halves.
 *
 * A warp has every eighth stage. It copies all of them as they lie, each octet to its place, and
 * makes them halves there. So each stage has a power of two of its own, which its warp finds
 * alone; a warp waits for no other, and the code is short. */
#ifndef KERF_EXPERTS_ONE_X_CUH
#define KERF_EXPERTS_ONE_X_CUH

#include "cuda/experts/experts_one_feed.cuh"
#include "cuda/experts/experts_stage_x.cuh"

namespace
{

/* What h holds before its numbers are there. Numbers that are written are never this: put_h(). */
constexpr uint32_t NOT_YET = 0xffffffffu;

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

/* Until the first number of a stage of h is there. One lane asks, and now and then: all of them
 * would take the way to memory from weights. */
__device__ __forceinline__ void wait_for_stage(const kf_experts_job &j, uint32_t row,
                                               uint32_t stage, uint32_t lane)
{
    if (lane == 0) number_of_x(j, row, stage * STAGE_CODES);
    __syncwarp();
}

/* fp32, and rows that do not begin at multiples of 16 bytes. Returns the exponent of the power of
 * two that the stage is multiplied by. */
__device__ __noinline__ int load_stage_slowly(const kf_experts_job &j, uint32_t to, uint32_t row,
                                              uint32_t stage, uint32_t lane)
{
    float v[LANE_OCTETS][8] = {}, most = 0;
#pragma unroll
    for (uint32_t u = 0; u < LANE_OCTETS; u++) {
        const uint32_t k = stage * STAGE_CODES + octet_at(lane + 32 * u);
        if (!has_octet(lane, u)) continue;
        if (j.x_type == KERF_F32 && j.x_wide && k + 8 <= j.cols) {
            const uint4 *p = (const uint4 *)((const float *)j.x + row * j.x_stride + k);
            uint4 a, b;
            uint32_t largest;
            do {
                a = load_now(p);
                b = load_now(p + 1);
                largest = max(max(max(a.x, a.y), max(a.z, a.w)), max(max(b.x, b.y), max(b.z, b.w)));
            } while (j.is_down && largest == NOT_YET);
            const uint32_t w[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
            for (int i = 0; i < 8; i++) v[u][i] = __uint_as_float(w[i]);
        } else {
#pragma unroll 1
            for (int i = 0; i < 8; i++) v[u][i] = number_of_x(j, row, k + i);
        }
    }
#pragma unroll
    for (uint32_t i = 0; i < LANE_OCTETS * 8; i++) most = fmaxf(most, fabsf(v[i / 8][i % 8]));
    const int shift =
        j.x_type == KERF_F16 ? 0 : x_shift(__reduce_max_sync(0xffffffffu, __float_as_uint(most)));
    const float factor = kf_exp2(shift);
#pragma unroll
    for (uint32_t u = 0; u < LANE_OCTETS; u++)
        if (has_octet(lane, u)) put_octet(to + lane * 16 + u * 512, v[u], factor);
    return shift;
}

/* Whether x can be copied as it lies: 16-bit numbers in whole octets. */
__device__ __forceinline__ bool x_is_plain(const kf_experts_job &j)
{
    return j.x_wide && j.x_type != KERF_F32 && j.cols % 8 == 0;
}

/* Starts the copies of the token's x, which the caller commits. */
__device__ __forceinline__ void copy_x_of_token(const kf_experts_job &j, uint32_t x_at,
                                                uint32_t warp, uint32_t lane)
{
    if (!x_is_plain(j)) return;
#pragma unroll 1
    for (uint32_t stage = warp; stage < j.slices; stage += WARPS)
        copy_stage_of_x(j, x_at + stage * X_STAGE, 0, stage, lane);
}

/* A stage of h as it lies, once it is there. */
__device__ __forceinline__ void take_stage_of_h(const kf_experts_job &j, uint32_t to, uint32_t row,
                                                uint32_t stage, uint32_t lane)
{
    const uint8_t *h = j.x + (uint64_t)row * j.x_stride * 2;
    uint4 v[LANE_OCTETS] = {};
    bool lacks;
    do {
        lacks = false;
#pragma unroll
        for (uint32_t u = 0; u < LANE_OCTETS; u++) {
            const uint32_t k = stage * STAGE_CODES + octet_at(lane + 32 * u);
            if (has_octet(lane, u) && k < j.cols) v[u] = load_now((const uint4 *)(h + k * 2));
            lacks = lacks || lacks_any(v[u]);
        }
    } while (lacks);
#pragma unroll
    for (uint32_t u = 0; u < LANE_OCTETS; u++)
        if (has_octet(lane, u)) put_piece(to + lane * 16 + u * 512, v[u]);
}

/* Makes x of the block's steps halves; and to backs_at what makes up for the power of two of each.
 */
__device__ __forceinline__ void finish_x(const kf_experts_job &j, const one_block &b, uint32_t x_at,
                                         uint32_t backs_at, uint32_t warp, uint32_t lane)
{
    const bool is_plain = x_is_plain(j);
#pragma unroll 1
    for (uint32_t step = warp; step < b.steps; step += WARPS) {
        const uint32_t to = x_at + step * X_STAGE, at = b.stage + step;
        const uint32_t row = j.is_down ? b.group + at / j.slices : 0;
        const uint32_t stage = j.is_down ? at % j.slices : at;
        if (j.is_down) wait_for_stage(j, row, stage, lane);
        if (is_plain && j.is_down) take_stage_of_h(j, to, row, stage, lane);
        const int shift =
            is_plain ? convert_16_bits(j, to, lane) : load_stage_slowly(j, to, row, stage, lane);
        if (lane == 0) put_word(backs_at + step * 4, __float_as_uint(kf_exp2(-shift)));
    }
}

} // namespace

#endif
