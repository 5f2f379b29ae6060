/* measure.cuh - what a matrix must know before it is encoded: one read of the source. Extremes are
 * merged by integer maxima, which for floats of one sign order like the floats and need no order
 * of arrival. The sum of absmax (nf4-dq) is exact: each block of threads adds mantissas by
 * exponent in shared memory and then into the fixed-point number of kerf_stats. */
#ifndef KERF_MEASURE_CUH
#define KERF_MEASURE_CUH

#include "block/stats.h"
#include "cuda/grid.cuh"
#include "cuda/group.cuh"

namespace
{

constexpr int EXPONENTS = IS_NESTED ? 256 : 1;

/* Mantissas of 24 bits in two halves, so that 2^20 of them cannot overflow 32 bits. */
struct mantissa_sums {
    unsigned low[EXPONENTS], high[EXPONENTS];
};

__device__ __forceinline__ void add_absmax(mantissa_sums *sums, float absmax)
{
    unsigned exponent = kf_bits(absmax) >> 23, mantissa = kf_sum_mantissa(absmax);
    atomicAdd(&sums->low[exponent], mantissa & 0xfff);
    atomicAdd(&sums->high[exponent], mantissa >> 12);
}

__device__ void add_to_limbs(uint64_t *sum, unsigned limb, unsigned long long value)
{
    for (; value && limb < KF_LIMBS; limb++) {
        unsigned long long old = atomicAdd((unsigned long long *)sum + limb, value);
        value = old + value < old; /* the carry, whoever else adds meanwhile */
    }
}

/* One thread per exponent. */
__device__ __forceinline__ void flush_sums(const mantissa_sums *sums, kerf_stats *stats)
{
    for (unsigned e = threadIdx.x; e < EXPONENTS; e += THREADS) {
        unsigned long long m = sums->low[e] + ((unsigned long long)sums->high[e] << 12);
        unsigned shift = kf_sum_shift(e);
        add_to_limbs(stats->sum, shift / 64, m << shift % 64);
        add_to_limbs(stats->sum, shift / 64 + 1, shift % 64 ? m >> (64 - shift % 64) : 0);
    }
}

__device__ __forceinline__ void merge_range(kerf_stats *s, float lo, float hi)
{
    float amax = fmaxf(-lo, hi);
    if (amax > 0) atomicMax((unsigned *)&s->amax, kf_bits(amax));
    if (lo < 0) atomicMax((unsigned *)&s->min, kf_bits(lo));
    if (hi > 0) atomicMax((unsigned *)&s->max, kf_bits(hi));
}

/* The absmax of groups that begin in this chunk, for the exact sum. All threads of a warp. */
__device__ __forceinline__ void add_group(const kf_job &j, mantissa_sums *sums, uint64_t i,
                                          const float *x, extremes e)
{
    kf_tensor none = no_tensor(j);
    share_range(&e, LANES);
    if (i % GROUP != 0 || i >= j.width) return;
    kf_scale absmax = choose_scale<KERF_F32, KERF_ENC_NF4_BNB_CPU>(
        j, &none, e, x, nullptr, i / GROUP * GROUP + GROUP <= j.width);
    add_absmax(sums, kf_float(absmax.bits));
}

/* Chunks of a thread on their way at once, elements of a block of threads meanwhile, and the blocks
 * of a multiprocessor. */
template <int D> constexpr int DEPTH = 128 / (CHUNK * source_bytes(D));
template <int D> constexpr unsigned MEASURED = DEPTH<D> *THREADS *CHUNK;
constexpr unsigned MEASURERS = 3;

/* A line is a matrix or the part of one. */
template <int D>
__global__ void __launch_bounds__(THREADS, MEASURERS)
    measure_lines(const __grid_constant__ kf_job j)
{
    __shared__ mantissa_sums sums;
    for (uint64_t line = blockIdx.y; line < j.lines; line += gridDim.y) {
        float lo = 0, hi = 0;
        if (IS_NESTED) {
            for (unsigned e = threadIdx.x; e < EXPONENTS; e += THREADS)
                sums.low[e] = sums.high[e] = 0;
            __syncthreads();
        }
        for (uint64_t i = (uint64_t)blockIdx.x * MEASURED<D>; i < j.width;
             i += (uint64_t)gridDim.x * MEASURED<D>) {
            constexpr unsigned APART = THREADS * CHUNK;
            raw_chunk<D> raw[DEPTH<D>];
            uint64_t at = i + threadIdx.x * CHUNK;
#pragma unroll
            for (int u = 0; u < DEPTH<D>; u++) raw[u] = load_raw<D>(j, line, at + u * APART);
#pragma unroll
            for (int u = 0; u < DEPTH<D>; u++) {
                float x[CHUNK];
                extremes e = {0, 0};
                settle_chunk<D>(j, line, at + u * APART, &raw[u], &e);
                widen_chunk<D>(raw[u], x);
#pragma unroll
                for (int k = 0; k < CHUNK; k++) {
                    lo = fminf(lo, x[k]);
                    hi = fmaxf(hi, x[k]);
                }
                if constexpr (IS_NESTED) add_group(j, &sums, at + u * APART, x, e);
            }
        }
        for (int o = 16; o > 0; o /= 2) {
            lo = fminf(lo, __shfl_xor_sync(~0u, lo, o));
            hi = fmaxf(hi, __shfl_xor_sync(~0u, hi, o));
        }
        if (threadIdx.x % 32 == 0) merge_range(&j.stats[line], lo, hi);
        if (IS_NESTED) {
            __syncthreads();
            flush_sums(&sums, &j.stats[line]);
            if (blockIdx.x == 0 && threadIdx.x == 0) j.stats[line].blocks += j.groups;
            __syncthreads();
        }
    }
}

/* Statistics to what encoders want of a matrix, and to the planes with one value per matrix (NULL:
 * somebody else writes them). A matrix that begins before the job has its values already. */
__global__ void __launch_bounds__(THREADS)
    prepare_matrices(const __grid_constant__ kf_job j, uint64_t matrices)
{
    uint64_t step = (uint64_t)gridDim.x * THREADS;
    for (uint64_t m = (uint64_t)blockIdx.x * THREADS + threadIdx.x; m < matrices; m += step) {
        kf_tensor t = kf_tensor_init(KF_ROW, j.encoder, &j.stats[m], j.dtype);
        if (IS_NESTED) t.offset = kf_stats_mean_block(&j.stats[m]);
        j.tensors[m] = t;
        if (m == 0 && j.first_line != 0) continue;
        uint8_t *const *p = j.plane;
        if (KF_ROW.geometry == KERF_GROUP_TENSOR && p[KERF_PLANE_SCALES])
            ((uint32_t *)p[KERF_PLANE_SCALES])[m] = t.bits;
        if (KF_ROW.geometry == KERF_GROUP_TENSOR && KF_ROW.zero == KERF_ZERO_CODE &&
            p[KERF_PLANE_ZEROS])
            p[KERF_PLANE_ZEROS][m] = (uint8_t)t.zero;
        if (KF_ROW.second == KERF_SECOND_TENSOR && p[KERF_PLANE_SECOND])
            ((float *)p[KERF_PLANE_SECOND])[m] = t.second;
        if (KF_ROW.zero == KERF_ZERO_F32 && p[KERF_PLANE_ZEROS])
            ((float *)p[KERF_PLANE_ZEROS])[m] = t.offset;
    }
}

template <int D> cudaError_t measure_typed(const kf_job *j, cudaStream_t s)
{
    dim3 grid = grid_of(j, MEASURED<D>);
    uint64_t least = j->width >> 25; /* so that no block adds more than 2^20 mantissas */
    unsigned most = MEASURERS * multiprocessors();
    grid.x = at_most(grid.x, least > most ? (unsigned)least : most);
    measure_lines<D><<<grid, THREADS, 0, s>>>(*j);
    return cudaGetLastError();
}

inline cudaError_t launch_prepare(const kf_job *j, uint64_t matrices, cudaStream_t s)
{
    prepare_matrices<<<at_most((matrices + THREADS - 1) / THREADS, 65535), THREADS, 0, s>>>(
        *j, matrices);
    return cudaGetLastError();
}

} // namespace
#endif
