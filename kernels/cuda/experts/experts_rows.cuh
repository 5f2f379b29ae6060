/* experts_rows.cuh - what a warp that multiplies units must know of their rows beside codes and
 * scales in the ring: factors and zero points of rows, read from memory ahead. */
#ifndef KERF_EXPERTS_ROWS_CUH
#define KERF_EXPERTS_ROWS_CUH

#include "cuda/experts/experts_feed.cuh"
#include "cuda/gemv/gemv_sums.cuh"

namespace
{

/* What rows g and g + 8 of a tile of an expert's matrix have of their own, as it lies in memory. */
struct tile_rows {
    row_scale scale[2];
    uint32_t zero[2];
    float weight, offset;
    uint32_t skews; /* of the first of a row's scales in its word, a byte each; and whether they lie
                     * in the ring as they do in memory */

    template <typename EXPERTS, typename PLACE>
    __device__ __forceinline__ void load(const kf_experts_job &j, const EXPERTS &e, const PLACE &p,
                                         uint32_t lane)
    {
        const uint32_t first = first_row(j, (int)p.mat, p.tile);
        const kf_gemv_matrix m = matrix_of(j, j.stack[p.mat], e.expert_at(p.group));
        weight = j.is_down ? e.weight_at(p.group) : 1;
        skews = has_skews(j, j.rows - first) ? 1u << 16 : 0;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const uint32_t row = min(first + lane / 4 + 8 * half, j.rows - 1);
            scale[half] = load_row_scale(j, m, row);
            if constexpr (ROW_ZEROS) zero[half] = row_zero(j, m, row);
            if (MAY_SKEW && skews) skews |= skew_of_row(j, m, row) << 8 * half;
        }
        if constexpr (KF_ROW.zero == KERF_ZERO_F32)
            offset = __ldg((const float *)m.plane[KERF_PLANE_ZEROS]);
    }
};

/* The same, as units are multiplied by it. */
struct tile_factors {
    float factor[SCALING == KF_SCALES_AT_END && SCALE_SIZE ? 2 : 1]; /* of sums */
    uint32_t skews;

    __device__ __forceinline__ void settle(const tile_rows &r, column_worker &me)
    {
        constexpr int N = sizeof factor / sizeof *factor;
#pragma unroll
        for (int half = 0; half < N; half++) factor[half] = factor_of(r.scale[half]) * r.weight;
        skews = r.skews;
        if constexpr (ROW_ZEROS)
            me.zero[0] = minus_1024(r.zero[0]), me.zero[1] = minus_1024(r.zero[1]);
        if constexpr (KF_ROW.zero == KERF_ZERO_F32) me.offset = r.offset;
    }
    __device__ __forceinline__ float of_half(int half) const
    {
        return factor[sizeof factor / sizeof *factor == 2 ? half : 0];
    }
    __device__ __forceinline__ skewed_scales scales_of(uint32_t stage) const
    {
        if (!MAY_SKEW) return {{0, 0}, false};
        const uint32_t at = stage * SKEW_STAGE;
        return {{(skews + at) % SKEWS, ((skews >> 8) + at) % SKEWS}, skews >> 16 != 0};
    }
};

/* What lies beside the scales of a unit, from memory, a unit ahead. */
template <typename EXPERTS, typename PLACE>
__device__ __forceinline__ void fetch_beside(column_beside &out, const kf_experts_job &j,
                                             const EXPERTS &e, const PLACE &p, uint32_t lane)
{
    if constexpr ((HAS_ZEROS && HAS_GROUPS) || NESTED) {
        const kf_gemv_matrix m = matrix_of(j, j.stack[p.mat], e.expert_at(p.group));
        const uint32_t first = first_row(j, (int)p.mat, p.tile);
        fetch_beside(out, j, m, first, p.stage, lane);
        if constexpr (NESTED) fetch_next(out, j, m, first, p.stage, lane);
    }
}

/* What a unit adds to the sum of a column and a half of the tile. */
template <int N>
__device__ __forceinline__ float unit_sum(const float sum[N][2], const float whole[PAIRS<N>][2][4],
                                          int c, int half)
{
    const int k = half * 2 + c % 2;
    return HAS_GROUPS ? sum[c][half] : whole[c / 2][0][k] + whole[c / 2][1][k];
}

template <int N>
__device__ __forceinline__ void apply_factors(float total[N][2], const tile_factors &f)
{
#pragma unroll
    for (int i = 0; i < 2 * N; i++) total[i / 2][i % 2] *= f.of_half(i % 2);
}

/* The warp's sums of a result and N columns, from which it begins anew: to a slot. */
template <int N>
__device__ __forceinline__ void leave_result(uint32_t slot, uint32_t lane, float total[N][2])
{
#pragma unroll
    for (int i = 0; i < 2 * N; i++) {
        const int c = i / 2, half = i % 2;
        float v = total[c][half];
        v += __shfl_xor_sync(0xffffffffu, v, 1);
        v += __shfl_xor_sync(0xffffffffu, v, 2);
        if (lane % 4 == 0) put_word(slot + c * (TILE * 4) + lane + 32 * half, __float_as_uint(v));
        total[c][half] = 0;
    }
}

} // namespace

#endif
