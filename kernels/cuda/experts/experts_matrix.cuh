/* experts_matrix.cuh - parameters of a mixture-of-experts launch: an expert's matrix, its rows, x.
 */
#ifndef KERF_EXPERTS_MATRIX_CUH
#define KERF_EXPERTS_MATRIX_CUH

#include "cuda/experts/experts_groups.cuh"

namespace
{

/* The matrix of an expert. */
__device__ __forceinline__ kf_gemv_matrix matrix_of(const kf_experts_job &j,
                                                    const kf_experts_planes &s, uint32_t expert)
{
    kf_gemv_matrix m;
#pragma unroll
    for (int i = 0; i < KERF_PLANES; i++) m.plane[i] = s.plane[i] + expert * s.stride[i];
    m.rows = j.rows;
    return m;
}

/* The row that a tile begins with. Where rows alternate, all of the last tile's second half may lie
 * behind the matrix: then nothing that is made of it is used. */
__device__ __forceinline__ uint32_t first_row(const kf_experts_job &j, int m, uint32_t tile)
{
    return min(j.first[m] + tile * j.step, j.rows - 1);
}

/* Element at of row `row` of x, which may be what the launch before has just written. */
__device__ __forceinline__ uint32_t x_bits(const kf_experts_job &j, uint64_t row, uint32_t at)
{
    uint64_t i = row * j.x_stride + at;
    if (at >= j.cols) return 0;
    return j.x_type == KERF_F32 ? __ldcg((const uint32_t *)j.x + i)
                                : __ldcg((const uint16_t *)j.x + i);
}

/* Brings parameters into the constant cache, the lines by different warps at once. */
__device__ __forceinline__ void touch_job(const kf_experts_job &j, uint32_t warp)
{
    constexpr uint32_t LINES = (sizeof j + 63) / 64;
    for (uint32_t i = warp; i < LINES; i += blockDim.x / 32) {
        uint32_t v = ((const uint32_t *)&j)[min(i * 16, (uint32_t)sizeof j / 4 - 1)];
        asm volatile("" ::"r"(v));
    }
}

} // namespace

#endif
