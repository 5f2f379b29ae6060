/* nest.cuh - the second level of nf4-dq: the absmax of 256 blocks become 8-bit codes about their
 * mean, when all of them are known. */
#ifndef KERF_NEST_CUH
#define KERF_NEST_CUH

#include "cuda/group.cuh"

namespace
{

constexpr unsigned NEST_RUNS = THREADS / 32; /* of a block of threads at a time */

/* A warp takes a run of 256. The middles between the map's entries are in the order of a search:
 * behind node n come 2 n and 2 n + 1, so that a level is side by side, in banks of its own. */
__global__ void __launch_bounds__(THREADS) nest_scales(const __grid_constant__ kf_job j)
{
    constexpr int EACH = KF_NEST_BLOCKS / 32;
    static_assert(THREADS == KF_NEST_BLOCKS, "a thread writes one middle");
    __shared__ float middles[THREADS];
    float offset = j.tensors->offset;
    if (unsigned n = threadIdx.x) {
        unsigned level = 31 - __clz(n), i = (2 * (n - (1 << level)) + 1) * (128 >> level);
        middles[n] = (kf_map_entry(i - 1) + kf_map_entry(i)) * 0.5f;
    }
    __syncthreads();
    uint64_t run = (uint64_t)blockIdx.x * NEST_RUNS + threadIdx.x / 32;
    for (; run * KF_NEST_BLOCKS < j.groups; run += (uint64_t)gridDim.x * NEST_RUNS) {
        uint64_t first = run * KF_NEST_BLOCKS + threadIdx.x % 32;
        bool whole = j.groups - run * KF_NEST_BLOCKS >= KF_NEST_BLOCKS;
        float c[EACH], second = 0;
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            c[k] = first + 32 * k < j.groups ? j.floats[first + 32 * k] - offset : 0;
            second = fmaxf(second, fabsf(c[k]));
        }
        second = __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(second)));
        float divisor = kf_max(second, KF_NF4_LEAST), inverse = 1.0f / divisor;
        unsigned n[EACH];
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            c[k] = whole ? c[k] * inverse : c[k] / divisor;
            c[k] = kf_min(kf_max(-1.0f, c[k]), 1.0f);
            n[k] = 1;
        }
#pragma unroll
        for (int level = 0; level < 8; level++)
#pragma unroll
            for (int k = 0; k < EACH; k++) n[k] = 2 * n[k] + (c[k] > middles[n[k]]);
#pragma unroll
        for (int k = 0; k < EACH; k++)
            if (first + 32 * k < j.groups)
                j.plane[KERF_PLANE_SCALES][first + 32 * k] = (uint8_t)n[k]; /* 256 + code */
        if (threadIdx.x % 32 == 0) ((float *)j.plane[KERF_PLANE_SECOND])[run] = second;
    }
}

} // namespace
#endif
