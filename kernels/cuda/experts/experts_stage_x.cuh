/* experts_stage_x.cuh - a stage of a row of x, or of h, as cuda/few multiplies it: each octet of a
 * quarter goes where lanes look for it, and is made halves there by the lane that brought it. So
 * each stage has a power of two of its own, which one warp finds alone. */
#ifndef KERF_EXPERTS_STAGE_X_CUH
#define KERF_EXPERTS_STAGE_X_CUH

#include "cuda/experts/experts_feed.cuh"
#include "cuda/experts/experts_h.cuh"

namespace
{

constexpr uint32_t LANE_OCTETS = (STAGE_OCTETS + 31) / 32;

/* Whether place lane + 32 u is one. */
__device__ __forceinline__ bool has_octet(uint32_t lane, uint32_t u)
{
    return STAGE_OCTETS % 32 == 0 || lane + 32 * u < STAGE_OCTETS;
}

/* --- as it lies ---------------------------------------------------------------------------------
 */

/* Starts copies of a stage of a row of x, which is plain. */
__device__ __forceinline__ void copy_stage_of_x(const kf_experts_job &j, uint32_t to, uint32_t row,
                                                uint32_t stage, uint32_t lane)
{
    const uint8_t *x = j.x + (uint64_t)row * j.x_stride * 2;
#pragma unroll
    for (uint32_t u = 0; u < LANE_OCTETS; u++) {
        const uint32_t k = stage * STAGE_CODES + octet_at(lane + 32 * u);
        const bool inside = k < j.cols;
        if (has_octet(lane, u))
            copy_async(to + lane * 16 + u * 512, inside ? x + k * 2 : j.x, inside);
    }
}

/* A stage of a row of x as it lies; waits: of h, once its numbers are there. */
__device__ __forceinline__ void take_stage(const kf_experts_job &j, uint32_t to, uint32_t row,
                                           uint32_t stage, bool waits, uint32_t lane)
{
    const uint8_t *x = j.x + (uint64_t)row * j.x_stride * 2;
    uint4 v[LANE_OCTETS] = {};
    bool lacks;
    do {
        lacks = false;
#pragma unroll
        for (uint32_t u = 0; u < LANE_OCTETS; u++) {
            const uint32_t k = stage * STAGE_CODES + octet_at(lane + 32 * u);
            if (has_octet(lane, u) && k < j.cols) v[u] = load_now((const uint4 *)(x + k * 2));
            lacks = lacks || (waits && lacks_any(v[u]));
        }
    } while (lacks);
#pragma unroll
    for (uint32_t u = 0; u < LANE_OCTETS; u++)
        if (has_octet(lane, u)) put_piece(to + lane * 16 + u * 512, v[u]);
}

/* --- halves -------------------------------------------------------------------------------------
 */

/* Eight numbers, times a power of two, as halves in the order of codes. */
__device__ __forceinline__ void put_octet(uint32_t to, const float v[8], float factor)
{
    uint32_t w[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        __half2 h =
            __floats2half2_rn(v[octet_order(2 * i)] * factor, v[octet_order(2 * i + 1)] * factor);
        w[i] = *(uint32_t *)&h;
    }
    put_piece(to, {w[0], w[1], w[2], w[3]});
}

/* Makes a stage of raw fp16 or bf16 what is multiplied, in place. Returns the exponent of the power
 * of two that it was multiplied by. */
__device__ __forceinline__ int convert_16_bits(const kf_experts_job &j, uint32_t at, uint32_t lane)
{
    uint32_t w[LANE_OCTETS][4] = {};
#pragma unroll
    for (uint32_t u = 0; u < LANE_OCTETS; u++)
        if (has_octet(lane, u)) {
            const uint4 v = shared_piece(at + lane * 16 + u * 512);
            w[u][0] = v.x, w[u][1] = v.y, w[u][2] = v.z, w[u][3] = v.w;
        }
    int shift = 0;
    if (j.x_type == KERF_BF16) {
        uint32_t most = 0; /* of either half */
#pragma unroll
        for (uint32_t i = 0; i < LANE_OCTETS * 4; i++)
            most = __vmaxu2(most, w[i / 4][i % 4] & 0x7fff7fffu);
        most = max(most << 16, most & 0xffff0000u);
        shift = x_shift(__reduce_max_sync(0xffffffffu, most));
        const float factor = kf_exp2(shift);
#pragma unroll
        for (uint32_t u = 0; u < LANE_OCTETS; u++) {
            float v[8];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                v[2 * i] = __uint_as_float(w[u][i] << 16);
                v[2 * i + 1] = __uint_as_float(w[u][i] & 0xffff0000u);
            }
            if (has_octet(lane, u)) put_octet(at + lane * 16 + u * 512, v, factor);
        }
        return shift;
    }
#pragma unroll
    for (uint32_t u = 0; u < LANE_OCTETS; u++) {
        put_in_order(w[u]);
        if (has_octet(lane, u))
            put_piece(at + lane * 16 + u * 512, {w[u][0], w[u][1], w[u][2], w[u][3]});
    }
    return shift;
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

} // namespace

#endif
