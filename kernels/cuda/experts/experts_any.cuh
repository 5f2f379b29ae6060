/* experts_any.cuh - both launches for every format and shape, an element at a time through the
 * block arithmetic: what the kernels for tiles decline. A warp takes a row of h of a group, or a
 * row of y of all tokens, its lanes every 32nd element. */
#ifndef KERF_EXPERTS_ANY_CUH
#define KERF_EXPERTS_ANY_CUH

#include "cuda/experts/experts_y.cuh"

#include "cpu/matrix.h"

namespace
{

__device__ __forceinline__ kf_matrix any_expert(const kf_experts_job &j, const kf_experts_planes &s,
                                                uint32_t expert)
{
    kf_matrix w = {};
    for (int i = 0; i < KERF_PLANES; i++) w.plane[i] = s.plane[i] + expert * s.stride[i];
    w.rows = j.rows;
    w.cols = j.cols;
    w.row_bytes = j.strides.row_bytes;
    w.row_groups = j.strides.row_groups;
    w.zero_bytes = j.strides.zero_bytes;
    return w;
}

/* The sums of row r for the tokens of a group, whole in every lane. */
__device__ __forceinline__ void any_sums(const kf_experts_job &j, const expert_groups &g,
                                         uint32_t group, bool is_h, const kf_experts_planes &stack,
                                         uint32_t r, float sum[KF_EXPERTS_SHARE])
{
    const kf_matrix w = any_expert(j, stack, g.expert[group]);
    uint64_t at[KF_EXPERTS_SHARE] = {};
    uint32_t mask = g.mask[group], columns = 0;
#pragma unroll
    for (int c = 0; c < KF_EXPERTS_SHARE; c++) {
        sum[c] = 0;
        if (!mask) continue;
        uint32_t row = is_h ? g.column[group] + c : g.half[group] * 8 + __ffs(mask) - 1;
        at[c] = row * j.x_stride;
        mask &= mask - 1;
        columns++;
    }
    for (uint32_t k = threadIdx.x % 32; k < j.cols; k += 32) {
        kf_dequant d = kf_dequant_at(KF_ROW, &w, r, kf_group_of(KF_ROW, &w, r, k));
        float v = kf_value(KF_ROW, d, kf_code_at(KF_ROW, &w, r, k));
#pragma unroll
        for (int c = 0; c < KF_EXPERTS_SHARE; c++)
            if (c < columns) sum[c] = __fmaf_rn(v, number_at(j.x_type, j.x, at[c] + k), sum[c]);
    }
#pragma unroll
    for (int c = 0; c < KF_EXPERTS_SHARE; c++)
        for (int step = 16; step; step /= 2) sum[c] += __shfl_xor_sync(0xffffffffu, sum[c], step);
}

__device__ __forceinline__ void any_gate_up(const kf_experts_job &j, const expert_groups &g,
                                            uint64_t i)
{
    uint32_t group = (uint32_t)(i / j.out), k = (uint32_t)(i % j.out), lane = threadIdx.x % 32;
    uint32_t gate_row = j.alternating ? 2 * k : j.first[0] + k;
    uint32_t up_row = j.alternating ? 2 * k + 1 : j.first[1] + k;
    float gate[KF_EXPERTS_SHARE], up[KF_EXPERTS_SHARE];
    any_sums(j, g, group, false, j.stack[0], gate_row, gate);
    any_sums(j, g, group, false, j.stack[1], up_row, up);
#pragma unroll
    for (int c = 0; c < KF_EXPERTS_SHARE; c++)
        if (lane == c && c < __popc(g.mask[group]))
            put_number(j.y_type, j.y, (g.column[group] + c) * j.y_stride + k,
                       gated(j, g.expert[group], k, gate[c], up[c]));
}

/* Lane t ends up with the sum of token t. */
__device__ __forceinline__ void any_down(const kf_experts_job &j, const expert_groups &g,
                                         uint32_t row)
{
    uint32_t lane = threadIdx.x % 32;
    float v = 0;
    for (uint32_t i = 0; i < g.count; i++) {
        float sum[KF_EXPERTS_SHARE];
        any_sums(j, g, i, true, j.stack[0], row, sum);
        uint32_t mask = g.mask[i];
#pragma unroll
        for (int c = 0; c < KF_EXPERTS_SHARE; c++) {
            if (!mask) continue;
            if (lane == g.half[i] * 8 + __ffs(mask) - 1) v += sum[c] * g.weight[g.column[i] + c];
            mask &= mask - 1;
        }
    }
    if (lane >= j.tokens) return;
    if (j.stack[0].bias) v += down_biases(j, g, lane, row);
    put_number(j.y_type, j.y, lane * j.y_stride + row, v);
}

template <int MATS>
__global__ void __launch_bounds__(THREADS) experts_any(const __grid_constant__ kf_experts_job j)
{
    __shared__ expert_groups g;
    __shared__ expert_slots slots;
    wait_previous();
    begin_next();
    find_groups(j, g, slots);
    const uint64_t rows = (uint64_t)(MATS == 2 ? g.count : 1) * j.out; /* up to 2^32 */
    for (uint64_t i = blockIdx.x * WARPS + threadIdx.x / 32; i < rows; i += gridDim.x * WARPS)
        if constexpr (MATS == 2)
            any_gate_up(j, g, i);
        else
            any_down(j, g, (uint32_t)i);
}

} // namespace

#endif
