/* experts_one_x.cuh - one token of a mixture-of-experts layer: x of a block, or h of its experts,
 * in shared memory as cuda/few has it: [step][octet][quarter], in halves. A warp has every eighth
 * stage; it waits for no other, and the code is short. */
#ifndef KERF_EXPERTS_ONE_X_CUH
#define KERF_EXPERTS_ONE_X_CUH

#include "cuda/experts/experts_one_places.cuh"
#include "cuda/experts/experts_stage_x.cuh"

namespace
{

/* Starts the copies of the token's x, which the caller commits. */
__device__ __forceinline__ void copy_x_of_token(const kf_experts_job &j, uint32_t x_at,
                                                uint32_t warp, uint32_t lane)
{
    if (!x_is_plain(j)) return;
#pragma unroll 1
    for (uint32_t stage = warp; stage < j.slices; stage += WARPS)
        copy_stage_of_x(j, x_at + stage * X_STAGE, 0, stage, lane);
}

/* Makes x of the block's steps halves; to backs_at comes what makes up for the power of two of
 * each, to x_sums_at sums over groups. Returns whether one that this thread made is not finite. */
__device__ __forceinline__ uint32_t finish_x(const kf_experts_job &j, const one_block &b,
                                             uint32_t base, uint32_t warp, uint32_t lane)
{
    const bool is_plain = x_is_plain(j);
    const uint32_t x_at = base + j.x_at, backs_at = base + j.backs_at;
    uint32_t odd = 0;
#pragma unroll 1
    for (uint32_t step = warp; step < b.steps; step += WARPS) {
        const uint32_t to = x_at + step * X_STAGE, at = b.stage + step;
        const uint32_t row = j.is_down ? b.group + at / j.slices : 0;
        const uint32_t stage = j.is_down ? at % j.slices : at;
        if (j.is_down) wait_for_number(j, row, stage * STAGE_CODES, lane);
        if (is_plain && j.is_down) take_stage(j, to, row, stage, true, lane);
        const int shift =
            is_plain ? convert_16_bits(j, to, lane) : load_stage_slowly(j, to, row, stage, lane);
        if (lane == 0) put_word(backs_at + step * 4, __float_as_uint(kf_exp2(-shift)));
        odd |= sum_stage(to, base + j.x_sums_at + step * (STAGE_GROUPS * 4), lane);
    }
    return odd;
}

} // namespace

#endif
