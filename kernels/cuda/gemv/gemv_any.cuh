/* gemv_any.cuh - y = w x for every format and shape, an element at a time through the block
 * arithmetic: what the kernels for tiles decline. A warp takes a row, its lanes every 32nd element;
 * the order of sums is fixed. */
#include "cpu/matrix.h"

namespace
{

constexpr int ANY_WARPS = KF_GEMV_WARPS;

__device__ __forceinline__ float any_number(kerf_dtype t, const uint8_t *p, uint64_t i)
{
    if (t == KERF_F32) return ((const float *)p)[i];
    uint32_t u = ((const uint16_t *)p)[i];
    return t == KERF_BF16 ? __uint_as_float(u << 16) : kf_f16_decode((uint16_t)u);
}

__device__ __forceinline__ kf_matrix any_matrix(const kf_gemv_job &j, const kf_gemv_matrix &m)
{
    kf_matrix w = {};
    for (int i = 0; i < KERF_PLANES; i++) w.plane[i] = m.plane[i];
    w.rows = m.rows;
    w.cols = j.cols;
    w.row_bytes = j.strides.row_bytes;
    w.row_groups = j.strides.row_groups;
    w.zero_bytes = j.strides.zero_bytes;
    return w;
}

/* The sums of row r, whole in every lane. */
__device__ __forceinline__ void any_row(const kf_gemv_job &j, const kf_gemv_matrix &m, uint32_t r,
                                        float sum[KERF_GEMV_COLUMNS])
{
    kf_matrix w = any_matrix(j, m);
#pragma unroll
    for (int c = 0; c < KERF_GEMV_COLUMNS; c++) sum[c] = 0;
    for (uint32_t k = threadIdx.x % 32; k < j.cols; k += 32) {
        kf_dequant d = kf_dequant_at(KF_ROW, &w, r, kf_group_of(KF_ROW, &w, r, k));
        float v = kf_value(KF_ROW, d, kf_code_at(KF_ROW, &w, r, k));
#pragma unroll
        for (int c = 0; c < KERF_GEMV_COLUMNS; c++)
            if (c < j.columns)
                sum[c] = __fmaf_rn(v, any_number(j.x_type, j.x, c * j.x_stride + k), sum[c]);
    }
#pragma unroll
    for (int c = 0; c < KERF_GEMV_COLUMNS; c++)
        for (int step = 16; step; step /= 2) sum[c] += __shfl_xor_sync(0xffffffffu, sum[c], step);
}

__global__ void __launch_bounds__(32 * ANY_WARPS) gemv_any(const __grid_constant__ kf_gemv_job j)
{
    begin_next();
    wait_previous();
    uint32_t lane = threadIdx.x % 32, rows = 0;
    for (uint32_t p = 0; p < (j.swiglu ? 1 : j.parts); p++) rows += j.part[p].rows;
    for (uint32_t i = blockIdx.x * ANY_WARPS + threadIdx.x / 32; i < rows;
         i += gridDim.x * ANY_WARPS) {
        uint32_t part = 0, r = i;
        while (r >= j.part[part].rows) r -= j.part[part++].rows;
        float sum[KERF_GEMV_COLUMNS], up[KERF_GEMV_COLUMNS];
        any_row(j, j.part[part], r, sum);
        if (j.swiglu) any_row(j, j.part[1], r, up);
#pragma unroll
        for (int c = 0; c < KERF_GEMV_COLUMNS; c++)
            if (c < j.columns && lane == c)
                finish(j, j.part[part], r, c, sum[c], j.swiglu ? up[c] : 0);
    }
}

} // namespace
