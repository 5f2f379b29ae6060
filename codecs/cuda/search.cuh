/* search.cuh - scales that are searched: many candidates for a group, each tried on every element.
 *
 * The elements are widened into memory first, so that the very loops of block/ can run over them.
 * A warp takes a group: each lane sums the errors of its own candidates, in the order of the
 * elements, and the least error wins, the earliest candidate among equals, which is what a loop
 * over the candidates keeps. All lanes read the same element, one broadcast for 32 candidates:
 * arithmetic binds, 127 (nvfp4) or 80 quantize-dequantize rounds per element. MX tries three
 * exponents: there a thread takes a group. */
#ifndef KERF_SEARCH_CUH
#define KERF_SEARCH_CUH

#include "cuda/grid.cuh"
#include "cuda/group.cuh"

namespace
{

/* nvfp4: the choice of 4/6 and the 126 positive scales. */
constexpr int CANDIDATES = KF_ROW.family == KERF_FAMILY_NVFP4 ? 127 : KF_SEARCH_STEPS;

template <int D> __global__ void __launch_bounds__(THREADS) widen(const __grid_constant__ kf_job j)
{
    uint64_t n = j.lines * j.width, step = (uint64_t)gridDim.x * THREADS;
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += step)
        j.floats[i] = widen_bits<D>(repair_bits<D>(j, load_bits<D>(j.dense, i), j.offset + i));
}

__device__ __forceinline__ kf_group group_at(const kf_job &j, uint64_t line, uint64_t group)
{
    uint64_t width = KF_ROW.group ? KF_ROW.group : j.width, first = group * width;
    uint64_t left = j.width - first;
    kf_group g = {j.floats + line * j.width + first, 1, left < width ? left : width, j.width,
                  left >= width};
    return g;
}

__device__ __forceinline__ kf_scale candidate_at(const kf_tensor *t, extremes e, kf_group g, int i)
{
    kf_scale scale = {(uint32_t)i, 0};
    if constexpr (KF_ROW.family == KERF_FAMILY_NVFP4)
        if (i == 0) scale.bits = kf_nvfp4_four_over_six(KF_ROW, KERF_ENC_NVFP4_SWEEP, t, g, e.hi);
    if constexpr (KF_ROW.family == KERF_FAMILY_INT) scale.bits = kf_int_candidate(KF_ROW, e.hi, i);
    if constexpr (IS_AFFINE) scale = kf_affine_candidate(KF_ROW, e.lo, e.hi, i);
    return scale;
}

__device__ __forceinline__ float error_of(const kf_tensor *t, kf_scale scale, kf_group g)
{
    if constexpr (KF_ROW.family == KERF_FAMILY_NVFP4)
        return kf_nvfp4_error(KF_ROW, KERF_ENC_NVFP4_SWEEP, t, scale.bits, g);
    if constexpr (KF_ROW.family == KERF_FAMILY_INT) return kf_int_error(KF_ROW, scale.bits, g);
    if constexpr (IS_AFFINE) return kf_affine_error(KF_ROW, scale, g);
    return 0;
}

__device__ __forceinline__ extremes warp_range(kf_group g)
{
    extremes e = {0, 0};
    for (size_t i = threadIdx.x % 32; i < g.cols; i += 32)
        widen_range(&e, g.x[i], IS_AFFINE ? g.x[i] : kf_abs(g.x[i]));
    share_range(&e, 32);
    return e;
}

/* The best of the candidates lane, lane + 32, ... and then of all lanes. */
__device__ __forceinline__ kf_scale sweep(const kf_tensor *t, extremes e, kf_group g)
{
    int best = (int)threadIdx.x % 32;
    float least = error_of(t, candidate_at(t, e, g, best), g);
    for (int i = best + 32; i < CANDIDATES; i += 32) {
        float error = error_of(t, candidate_at(t, e, g, i), g);
        if (error < least) {
            least = error;
            best = i;
        }
    }
    for (int o = 16; o > 0; o /= 2) {
        float error = __shfl_xor_sync(~0u, least, o);
        int other = __shfl_xor_sync(~0u, best, o);
        if (error < least || (error == least && other < best)) {
            least = error;
            best = other;
        }
    }
    return candidate_at(t, e, g, best);
}

__global__ void __launch_bounds__(THREADS) choose_by_warps(const __grid_constant__ kf_job j)
{
    uint64_t n = j.lines * j.groups, step = (uint64_t)gridDim.x * (THREADS / 32);
    for (uint64_t i = (uint64_t)blockIdx.x * (THREADS / 32) + threadIdx.x / 32; i < n; i += step) {
        uint64_t line = i / j.groups;
        kf_tensor t = tensor_at(j, line);
        kf_group g = group_at(j, line, i - line * j.groups);
        extremes e = warp_range(g);
        kf_scale scale = {0, 0};
        if (e.hi > 0 || e.lo < 0)
            scale = sweep(&t, e, g);
        else if (KF_ROW.family != KERF_FAMILY_NVFP4) /* zeros: nothing to search */
            scale = candidate_at(&t, e, g, 0);
        if (threadIdx.x % 32 == 0) j.chosen[i] = scale;
    }
}

__global__ void __launch_bounds__(THREADS) choose_by_threads(const __grid_constant__ kf_job j)
{
    uint64_t n = j.lines * j.groups, step = (uint64_t)gridDim.x * THREADS;
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += step) {
        uint64_t line = i / j.groups;
        kf_tensor t = tensor_at(j, line);
        kf_group g = group_at(j, line, i - line * j.groups);
        j.chosen[i] = kf_choose(KF_ROW, KERF_ENC_MX_SEARCH, &t, g);
    }
}

template <int D> cudaError_t search_typed(const kf_job *j, cudaStream_t s)
{
    if constexpr (HAS_SEARCH) {
        uint64_t n = j->lines * j->groups, elements = j->lines * j->width;
        widen<D><<<at_most((elements + THREADS - 1) / THREADS, 1 << 20), THREADS, 0, s>>>(*j);
        if constexpr (KF_ROW.family == KERF_FAMILY_MX)
            choose_by_threads<<<at_most((n + THREADS - 1) / THREADS, 1 << 20), THREADS, 0, s>>>(*j);
        else
            choose_by_warps<<<at_most((n + THREADS / 32 - 1) / (THREADS / 32), 1 << 20), THREADS, 0,
                              s>>>(*j);
        return cudaGetLastError();
    }
    return cudaErrorInvalidValue;
}

} // namespace
#endif
