/* gemv_column_x.cuh - up to four columns of x in shared memory, as halves in the order of the codes
 * that they meet: [column][stage][octet][quarter], where an octet is 8 elements of a quarter of a
 * stage.
 *
 * A thread starts all of its loads before it uses the first result, so that x costs one trip to the
 * second level of the cache. Copies of weights that were started before delay x; those that are
 * started after it arrive while x is put in order, so that is when the rest of the ring is filled.
 * Asynchronous copies of x, put in order in shared memory, took 5 us instead of 2. As in
 * gemv_x.cuh, x is never read through the read-only path, and what is not fp16 is brought to it by
 * a power of two.
 */
#ifndef KERF_GEMV_COLUMN_X_CUH
#define KERF_GEMV_COLUMN_X_CUH

#include "cuda/gemv/gemv_multiply.cuh"
#if KF_BLOCKS
#include "cuda/few/blocks_unit.cuh"
#else
#include "cuda/few/gemv_quarters.cuh"
#endif
#include "cuda/gemv/gemv_x.cuh"

namespace
{

constexpr int X_STAGE = STAGE_CODES * 2; /* bytes of x */

/* N columns of x are that many pairs, the last of which may be half of one. */
template <int N> constexpr int PAIRS = (N + 1) / 2;

/* Whether they fill the columns of tensor cores, of one or of two (blocks_eight.cuh). */
template <int N> constexpr bool IS_FULL = N >= KF_GEMV_EIGHT;

/* Bytes of x that a lane of these reads at once. */
constexpr uint32_t FULL_PIECE = TILING.by_octets ? 16 : 8;

/* Octets of x that a lane reads ahead: as many as there are registers for. */
template <int N> constexpr int X_AHEAD = N < 3 ? 4 : SCALING == KF_SCALES_IN_CODES ? 1 : 2;

/* What a lane knows throughout. */
struct column_worker {
    uint32_t place;  /* own_place() */
    uint32_t live;   /* whether the lane has a part of x */
    uint32_t x;      /* where it is */
    uint32_t x_pair; /* from a pair of columns to the next */
    uint32_t lane;
    uint32_t table;   /* the lane's copy */
    uint32_t zero[2]; /* of planes: minus_1024() of rows g and g + 8 */
    float offset;
    bool apart; /* nf4-dq: rows have an odd number of groups: beside.next */
    /* of blocks with minima */
    uint32_t sums, sums_column; /* sums of x, and from those of a column to the next's */
    bool is_odd;                /* something in x is not finite */
    bool by_words;              /* of blocks of half words: whether rows begin at words */
};

/* Place i of x in shared memory has the octet that begins with this element:
 * [stage][octet][quarter], but of eight columns and more as they come. */
template <int N> __device__ __forceinline__ uint32_t element_at(uint32_t i)
{
    return IS_FULL<N> ? i * 8 : octet_at(i);
}

/* Elements at the end of a column, or not aligned, or of 32 bits. */
__device__ __noinline__ uint4 octet_slowly(const kf_gemv_job &j, uint32_t column, uint32_t k,
                                           float factor)
{
    float v[8];
    for (int e = 0; e < 8; e++)
        v[e] = column < j.columns && k + e < j.cols ? x_at(j, column * j.x_stride + k + e) : 0.0f;
    uint32_t w[4];
#pragma unroll
    for (int e = 0; e < 4; e++) {
        __half2 h = __floats2half2_rn(v[2 * e] * factor, v[2 * e + 1] * factor);
        w[e] = *(uint32_t *)&h;
    }
    put_in_order(w);
    return {w[0], w[1], w[2], w[3]};
}

/* Octets of a thread and a column that are loaded before the first is used: few, where that is all
 * of x. More take registers from what surrounds them: of several columns they have a function of
 * their own, since what the compiler moves to local memory here it would read again in the loop.
 */
template <int N> constexpr int FEW = N >= 8 ? 1 : N == 4 ? 2 : 4;
template <int N> constexpr int BATCH = N == 1 ? 8 : 16 / N;
static_assert(THREADS % (4 * OCTETS) == 0, "a thread's octets are of different stages, and alike");

/* From one column of N to the next, so that those that are read together meet in no bank. */
template <int N> __device__ __forceinline__ uint32_t column_bytes(const kf_gemv_job &j)
{
    constexpr uint32_t gap = IS_FULL<N> ? TILING.full_gap : KF_GEMV_GAP;
    return j.division.block_stages * (STAGE_CODES * 2) + gap;
}

/* An octet of fp16, or of bfloat16 by its column's power of two, as halves in order. */
template <bool HALF> __device__ __forceinline__ uint4 halves_of(uint4 v, bf16_power power)
{
    uint32_t w[4] = {v.x, v.y, v.z, v.w};
    if (!HALF)
#pragma unroll
        for (int e = 0; e < 4; e++) w[e] = power.halves(w[e]);
    put_in_order(w);
    return {w[0], w[1], w[2], w[3]};
}

/* A thread's part of N columns of x: every THREADS-th octet, from its own on. */
template <int N> struct x_part {
    uint32_t place, element; /* of the first octet */
    uint32_t end;            /* of the block's part of a column */
    uint32_t to;             /* address in shared memory */
    uint32_t octets;         /* of a column */
    const uint8_t *from;

    template <bool PAIR>
    __device__ __forceinline__ void aim(const kf_gemv_job &j, stage_span stages, uint32_t x,
                                        uint32_t thread)
    {
        place = thread;
        element = stages.first * STAGE_CODES + element_at<N>(thread);
        end = PAIR ? min(j.cols, stages.end * STAGE_CODES) : j.cols;
        to = x + thread * 16;
        octets = stages.count() * (STAGE_CODES / 8);
        from = j.x + (uint64_t)element * 2;
    }
    /* Whether x has octet u of column c: of four columns the last may be missing, of eight three.
     */
    __device__ __forceinline__ bool has(const kf_gemv_job &j, uint32_t c, uint32_t u) const
    {
        return element + u * (THREADS * 8) < end &&
               (IS_FULL<N> ? c < j.columns : c + 1 < N || N < 4 || j.columns == N);
    }
    __device__ __forceinline__ const uint4 *source(const kf_gemv_job &j, uint32_t c,
                                                   uint32_t u) const
    {
        return (const uint4 *)(from + c * j.x_stride * 2 + u * (THREADS * 16));
    }
    __device__ __forceinline__ void pass()
    {
        constexpr uint32_t places = BATCH<N> * THREADS;
        place += places;
        element += places * 8;
        to += places * 16;
        from += places * 16;
    }

    template <int M>
    __device__ __forceinline__ void load(const kf_gemv_job &j, uint4 (&v)[N][M]) const
    {
#pragma unroll
        for (int i = 0; i < N * M; i++) {
            int c = i / M, u = i % M;
            v[c][u] = {0, 0, 0, 0};
            if (has(j, c, u)) v[c][u] = __ldcg(source(j, c, u));
        }
    }
    /* Whether the block has as many octets that the u-th of a thread may be one. */
    __device__ __forceinline__ bool reaches(int u) const
    {
        return u * THREADS < octets;
    }
    __device__ __forceinline__ uint32_t at(const kf_gemv_job &j, int c, int u) const
    {
        return to + c * column_bytes<N>(j) + u * (THREADS * 16);
    }
    /* As it came. */
    template <int M>
    __device__ __forceinline__ void keep(const kf_gemv_job &j, const uint4 (&v)[N][M]) const
    {
#pragma unroll
        for (int i = 0; i < N * M; i++)
            if (place + i % M * THREADS < octets) put_piece(at(j, i / M, i % M), v[i / M][i % M]);
    }
    /* In order, as halves. */
    template <bool HALF, int M>
    __device__ __forceinline__ void put(const kf_gemv_job &j, const uint32_t *largest,
                                        const uint4 (&v)[N][M]) const
    {
#pragma unroll
        for (int c = 0; c < N; c++) {
            const bf16_power power(HALF ? 0 : largest[c]);
#pragma unroll
            for (int u = 0; u < M; u++) {
                if (!HALF && !reaches(u)) break;
                if (place + u * THREADS < octets)
                    put_piece(at(j, c, u), halves_of<HALF>(v[c][u], power));
            }
        }
    }
    /* What all passes kept. */
    __device__ __forceinline__ void put_kept(const kf_gemv_job &j, const uint32_t *largest) const
    {
        constexpr uint32_t AHEAD = 4;
#pragma unroll 1
        for (int c = 0; c < N; c++) {
            const bf16_power power(largest[c]);
            uint32_t own = at(j, c, 0);
#pragma unroll 1
            for (uint32_t i = place; i < octets;
                 i += AHEAD * THREADS, own += AHEAD * THREADS * 16) {
                uint4 v[AHEAD];
#pragma unroll
                for (uint32_t u = 0; u < AHEAD; u++)
                    if (i + u * THREADS < octets) v[u] = shared_piece(own + u * THREADS * 16);
#pragma unroll
                for (uint32_t u = 0; u < AHEAD; u++)
                    if (i + u * THREADS < octets)
                        put_piece(own + u * THREADS * 16, halves_of<false>(v[u], power));
            }
        }
    }
};

/* Adds what a thread has seen of each column to the largest of all. */
template <int N, int M>
__device__ __forceinline__ void measure_batch(const x_part<N> &p, uint32_t (&most)[N],
                                              const uint4 (&v)[N][M])
{
#pragma unroll
    for (int u = 0; u < M; u++) {
        if (!p.reaches(u)) break;
#pragma unroll
        for (int c = 0; c < N; c++) most[c] = larger_halves(most[c], v[c][u]);
    }
}
template <int N>
__device__ __forceinline__ void meet_largest(const uint32_t (&most)[N], uint32_t *largest)
{
#pragma unroll
    for (int c = 0; c < N; c++) {
        uint32_t of_warp = __reduce_max_sync(0xffffffffu, larger_half(most[c]));
        if (threadIdx.x % 32 == 0 && of_warp) atomicMax(largest + c, of_warp);
    }
    __syncthreads();
}

/* fp32, and what is not aligned. */
template <int N>
__device__ __noinline__ void stage_slowly(const kf_gemv_job &j, x_part<N> p, uint32_t *largest)
{
    if (j.x_type != KERF_F16) {
        for (uint32_t c = 0; c < j.columns; c++) measure_x(j, c, largest + c);
        __syncthreads();
    }
#pragma unroll 1
    for (uint32_t c = 0, to = p.to; c < N; c++, to += column_bytes<N>(j)) {
        float factor = kf_exp2(x_shift(largest[c]));
#pragma unroll 1
        for (uint32_t i = p.place; i < p.octets; i += THREADS)
            put_piece(
                to + (i - p.place) * 16,
                octet_slowly(j, c, p.element - element_at<N>(p.place) + element_at<N>(i), factor));
    }
}

/* Whether bfloat16 is too large for its power of two, or not finite. */
template <int N> __device__ __forceinline__ bool is_beyond(const uint32_t *largest)
{
    bool is = false;
#pragma unroll
    for (int c = 0; c < N; c++) is |= !bf16_power::fits(largest[c]);
    return is;
}

/* It goes slowly then, once more. */
template <int N, bool PART>
__device__ __noinline__ void stage_anew(const kf_gemv_job &j, stage_span stages, uint32_t x,
                                        uint32_t *largest)
{
    x_part<N> p;
    p.template aim<PART>(j, stages, x, threadIdx.x);
    __syncthreads();
    if (threadIdx.x < N) largest[threadIdx.x] = 0;
    __syncthreads();
    stage_slowly(j, p, largest);
}

/* Batch by batch, each one trip: all of it is asked for before the first is used. Returns
 * is_beyond(). */
template <int N>
__device__ __noinline__ bool stage_batches(const kf_gemv_job &j, x_part<N> p, uint32_t *largest)
{
    constexpr uint32_t PLACES = BATCH<N> * THREADS;
    uint4 v[N][BATCH<N>];
    if (j.x_type == KERF_F16) {
        for (uint32_t done = 0; done < p.octets; done += PLACES, p.pass()) {
            p.load(j, v);
            __syncwarp();
            p.template put<true>(j, largest, v);
        }
        return false;
    }
    uint32_t most[N] = {};
    x_part<N> q = p;
    for (uint32_t done = 0; done < p.octets; done += PLACES, q.pass()) {
        q.load(j, v);
        __syncwarp();
        measure_batch(q, most, v);
        q.keep(j, v);
    }
    meet_largest(most, largest);
    p.put_kept(j, largest);
    return is_beyond<N>(largest);
}

/* x in one batch: `more` is done while it arrives. Returns is_beyond(). */
template <int M, int N, typename More>
__device__ __forceinline__ bool stage_batch(const kf_gemv_job &j, const x_part<N> &p,
                                            uint32_t *largest, More more)
{
    uint4 v[N][M];
    p.load(j, v);
    more();
    if (j.x_type == KERF_F16) {
        p.template put<true>(j, largest, v);
        return false;
    }
    uint32_t most[N] = {};
    measure_batch(p, most, v);
    meet_largest(most, largest);
    p.template put<false>(j, largest, v);
    return is_beyond<N>(largest);
}

/* x of the whole block, in order; from `largest`, zeros before, follows what its numbers were
 * multiplied by: x_shift() of each column. `more` starts the copies of the rest of the ring. All
 * threads take part. Returns is_beyond(): stage_anew() has to follow. */
template <int N, typename More>
__device__ __forceinline__ bool stage_column(const kf_gemv_job &j, const x_part<N> &p,
                                             uint32_t *largest, More more)
{
    bool wide = j.x_wide && j.x_type != KERF_F32 && j.cols % 8 == 0;
    if (wide && p.octets <= FEW<N> * THREADS) return stage_batch<FEW<N>>(j, p, largest, more);
    if (N == 1 && wide && p.octets <= BATCH<N> * THREADS)
        return stage_batch<BATCH<N>>(j, p, largest, more);
    bool beyond = false;
    if (wide) beyond = stage_batches(j, p, largest);
    more();
    if (!wide) stage_slowly(j, p, largest);
    return beyond;
}

} // namespace

#endif
