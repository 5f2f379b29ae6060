/* gemv_column_x.cuh - one column of x in shared memory, as halves in the order of the codes that
 * they meet: [stage][octet][quarter], where an octet is 8 elements of a quarter of a stage.
 *
 * A thread loads what it will put down before it looks at any of it, since all of x is one trip to
 * the second level of the cache away, and nothing else can be done meanwhile. As in gemv_x.cuh, x
 * is never read through the read-only path, and what is not fp16 is brought to it by a power of
 * two. */
#ifndef KERF_GEMV_COLUMN_X_CUH
#define KERF_GEMV_COLUMN_X_CUH

#include "cuda/gemv_quarters.cuh"
#include "cuda/gemv_x.cuh"

namespace
{

/* Place i of x in shared memory has the octet that begins with element: [stage][octet][quarter]. */
__device__ __forceinline__ uint32_t octet_at(uint32_t i)
{
    uint32_t t = i % 4, o = i / 4 % OCTETS, stage = i / (4 * OCTETS);
    if (TWISTED) o = (o / PIECE_OCTETS ^ exchanged(t)) * PIECE_OCTETS + o % PIECE_OCTETS;
    return stage * STAGE_CODES + t * QUARTER_CODES + o * 8;
}

/* Elements at the end of x, or askew, or of 32 bits. */
__device__ __noinline__ uint4 octet_slowly(const kf_gemv_job &j, uint32_t k, float factor)
{
    float v[8];
    for (int e = 0; e < 8; e++) v[e] = k + e < j.cols ? x_at(j, k + e) : 0.0f;
    uint32_t w[4];
#pragma unroll
    for (int e = 0; e < 4; e++) {
        __half2 h = __floats2half2_rn(v[2 * e] * factor, v[2 * e + 1] * factor);
        w[e] = *(uint32_t *)&h;
    }
    put_in_order(w);
    return {w[0], w[1], w[2], w[3]};
}

constexpr int BATCH = 4; /* octets of a thread that are loaded before the first is used */

__device__ __forceinline__ void load_batch(const kf_gemv_job &j, uint32_t first, uint32_t octets,
                                           uint4 v[BATCH])
{
#pragma unroll
    for (int u = 0; u < BATCH; u++) {
        uint32_t i = first + u * THREADS, k = octet_at(i);
        v[u] = {0, 0, 0, 0};
        if (i < octets && k < j.cols) v[u] = __ldcg((const uint4 *)((const uint16_t *)j.x + k));
    }
}

/* x of the whole block, in order; returns the factor that makes up for what its numbers were
 * multiplied by. All threads take part, and wait for each other in the end. */
__device__ __forceinline__ float stage_column(const kf_gemv_job &j, uint4 *to, uint32_t octets,
                                              uint32_t *largest)
{
    bool plain = j.x_wide && j.x_type != KERF_F32 && j.cols % 8 == 0;
    bool is_half = j.x_type == KERF_F16;
    float factor = 1, back = 1;
    uint4 v[BATCH];
    if (plain) load_batch(j, threadIdx.x, octets, v);
    if (!is_half) {
        if (plain) {
            uint32_t most = 0;
            for (uint32_t first = threadIdx.x; first < octets; first += BATCH * THREADS) {
                if (first != threadIdx.x) load_batch(j, first, octets, v);
#pragma unroll
                for (int u = 0; u < BATCH; u++)
                    most = larger_bf16(
                        larger_bf16(larger_bf16(larger_bf16(most, v[u].x), v[u].y), v[u].z),
                        v[u].w);
            }
            most = __reduce_max_sync(0xffffffffu, most);
            if (threadIdx.x % 32 == 0 && most) atomicMax(largest, most);
            if (octets > BATCH * THREADS) load_batch(j, threadIdx.x, octets, v);
        } else {
            measure_x(j, largest);
        }
        __syncthreads();
        factor = kf_exp2(x_shift(*largest));
        back = kf_exp2(-x_shift(*largest));
    }
    if (plain) {
        for (uint32_t first = threadIdx.x; first < octets; first += BATCH * THREADS) {
            if (first != threadIdx.x) load_batch(j, first, octets, v);
#pragma unroll
            for (int u = 0; u < BATCH; u++) {
                uint32_t i = first + u * THREADS;
                uint32_t w[4] = {v[u].x, v[u].y, v[u].z, v[u].w};
                if (!is_half)
#pragma unroll
                    for (int k = 0; k < 4; k++) w[k] = half_pair(j, w[k], factor);
                put_in_order(w);
                if (i < octets) to[i] = {w[0], w[1], w[2], w[3]};
            }
        }
    } else {
        for (uint32_t i = threadIdx.x; i < octets; i += THREADS)
            to[i] = octet_slowly(j, octet_at(i), factor);
    }
    __syncthreads();
    return back;
}

} // namespace

#endif
