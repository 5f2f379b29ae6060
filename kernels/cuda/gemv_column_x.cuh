/* gemv_column_x.cuh - one column of x in shared memory, as halves in the order of the codes that
 * they meet: [stage][octet][quarter], where an octet is 8 elements of a quarter of a stage.
 *
 * A thread loads what it will put down before it looks at any of it, since all of x is one trip to
 * the second level of the cache away. What is asked for before x stands in its way, and what is
 * asked for behind it arrives while x is put in order: that is when the rest of the ring is filled.
 * As in gemv_x.cuh, x is never read through the read-only path, and what is not fp16 is brought to
 * it by a power of two. */
#ifndef KERF_GEMV_COLUMN_X_CUH
#define KERF_GEMV_COLUMN_X_CUH

#include "cuda/gemv_multiply.cuh"
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

/* Octets of a thread that are loaded before the first is used: few, where that is all of x. */
constexpr int FEW = 4, BATCH = 8;
static_assert(THREADS % (4 * OCTETS) == 0, "a thread's octets are of different stages, and alike");

/* A thread's part of x: octets in places THREADS apart. */
struct x_part {
    uint32_t place, element; /* of the first octet; all that is left of x begins at them */
    uint32_t to;             /* address in shared memory */
    const uint8_t *from;

    __device__ __forceinline__ void aim(const kf_gemv_job &j, uint32_t x, uint32_t thread)
    {
        place = thread;
        element = octet_at(thread);
        to = x + thread * 16;
        from = j.x + (uint64_t)element * 2;
    }
    __device__ __forceinline__ void pass()
    {
        place += BATCH * THREADS;
        element += BATCH * THREADS * 8;
        to += BATCH * THREADS * 16;
        from += BATCH * THREADS * 16;
    }

    template <int N> __device__ __forceinline__ void load(const kf_gemv_job &j, uint4 (&v)[N]) const
    {
#pragma unroll
        for (uint32_t u = 0; u < N; u++) {
            v[u] = {0, 0, 0, 0};
            if (element + u * (THREADS * 8) < j.cols)
                v[u] = __ldcg((const uint4 *)(from + u * (THREADS * 16)));
        }
    }

    template <bool HALF, int N>
    __device__ __forceinline__ void put(const kf_gemv_job &j, uint32_t octets, float factor,
                                        const uint4 (&v)[N]) const
    {
#pragma unroll
        for (uint32_t u = 0; u < N; u++) {
            uint32_t w[4] = {v[u].x, v[u].y, v[u].z, v[u].w};
            if (!HALF)
#pragma unroll
                for (int e = 0; e < 4; e++) w[e] = half_pair(j, w[e], factor);
            put_in_order(w);
            if (place + u * THREADS < octets)
                put_piece(to + u * (THREADS * 16), {w[0], w[1], w[2], w[3]});
        }
    }
};

/* fp32, and what lies askew. */
__device__ __forceinline__ float stage_slowly(const kf_gemv_job &j, const x_part &p,
                                              uint32_t octets, uint32_t *largest)
{
    float factor = 1, back = 1;
    if (j.x_type != KERF_F16) {
        measure_x(j, largest);
        __syncthreads();
        factor = kf_exp2(x_shift(*largest));
        back = kf_exp2(-x_shift(*largest));
    }
#pragma unroll 1
    for (uint32_t i = p.place, to = p.to; i < octets; i += THREADS, to += THREADS * 16)
        put_piece(to, octet_slowly(j, octet_at(i), factor));
    return back;
}

template <int N> __device__ __forceinline__ uint32_t largest_of(uint32_t most, const uint4 (&v)[N])
{
#pragma unroll
    for (int u = 0; u < N; u++)
        most = larger_bf16(larger_bf16(larger_bf16(larger_bf16(most, v[u].x), v[u].y), v[u].z),
                           v[u].w);
    return most;
}

/* The exponent that bf16 is brought to fp16 by, from what each thread has seen. */
__device__ __forceinline__ int shift_of_all(uint32_t most, uint32_t *largest)
{
    most = __reduce_max_sync(0xffffffffu, most);
    if (threadIdx.x % 32 == 0 && most) atomicMax(largest, most);
    __syncthreads();
    return x_shift(*largest);
}

/* More than a batch, and what is not of 16 bits or lies askew. */
__device__ __noinline__ float stage_others(const kf_gemv_job &j, x_part p, uint32_t octets,
                                           uint32_t *largest)
{
    if (!j.x_wide || j.x_type == KERF_F32 || j.cols % 8 != 0)
        return stage_slowly(j, p, octets, largest);
    uint4 v[BATCH];
    float factor = 1, back = 1;
    if (j.x_type == KERF_BF16) {
        uint32_t most = 0;
        for (x_part q = p; octets > q.place; q.pass()) {
            q.load(j, v);
            most = largest_of(most, v);
        }
        int shift = shift_of_all(most, largest);
        factor = kf_exp2(shift);
        back = kf_exp2(-shift);
    }
    for (; octets > p.place; p.pass()) {
        p.load(j, v);
        if (j.x_type == KERF_F16)
            p.put<true>(j, octets, 1, v);
        else
            p.put<false>(j, octets, factor, v);
    }
    return back;
}

/* x in one batch: `more` is done while it is on its way. */
template <int N, typename More>
__device__ __forceinline__ float stage_batch(const kf_gemv_job &j, const x_part &p, uint32_t octets,
                                             uint32_t *largest, More more)
{
    uint4 v[N];
    p.load(j, v);
    more();
    if (j.x_type == KERF_F16) {
        p.put<true>(j, octets, 1, v);
        return 1;
    }
    int shift = shift_of_all(largest_of(0, v), largest);
    p.put<false>(j, octets, kf_exp2(shift), v);
    return kf_exp2(-shift);
}

/* x of the whole block, in order; returns the factor that makes up for what its numbers were
 * multiplied by. All threads take part. */
template <typename More>
__device__ __forceinline__ float stage_column(const kf_gemv_job &j, const x_part &p,
                                              uint32_t octets, uint32_t *largest, More more)
{
    if (octets <= BATCH * THREADS && j.x_wide && j.x_type != KERF_F32 && j.cols % 8 == 0) {
        if (octets <= FEW * THREADS) return stage_batch<FEW>(j, p, octets, largest, more);
        return stage_batch<BATCH>(j, p, octets, largest, more);
    }
    more();
    return stage_others(j, p, octets, largest);
}

} // namespace

#endif
