/* gemv_nvfp4.cu - y = A b with both sides NVFP4, on a GPU.
 *
 * b stays, A streams. A thread owns a slice of 32 elements along k for as long as it lives: b's
 * codes as 8 words of four integers 2v and its two scales. It then takes slice after slice of rows
 * of A: 16 bytes of codes and 2 scales each. Threads of a row lie side by side, so a row is read in
 * one piece; a block of threads has as many such groups as fit, each on rows of its own, and works
 * on a contiguous run of rows of one matrix.
 *
 * Codes become integers without a table in memory: PRMT picks bytes of a table by nibble, and where
 * the nibble has its top bit set it repeats the top bit of the byte; so two tables give two bytes
 * whose sum is 2v (see `tables`), and both go into one chain of DP4A: a block's dot product,
 * exactly. That int fits fp32, and so does the product of two E4M3 scales.
 *
 * Loads of the next STAGES x R rows are in flight while one is multiplied. With constant weights
 * the first of them leave before griddepcontrol.wait, b and everything else after it. Sums of a row
 * meet by shuffles within a warp, R rows at once, and in shared memory between warps: no atomics,
 * one order.
 *
 * Scales in tiles: rows r, r + 32, r + 64, r + 96 of a tile have theirs side by side, so rows are
 * taken in that order, and one load brings the scales of R rows. */
#include "block/scale_tiles.h"

#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>

extern "C" {
#include "cuda/handle.h"
#include "gemv_nvfp4_plan.h"
}

namespace
{

enum { SLICE = 32, RED = 4096, RING_RED = 1024 /* floats of shared memory for partial sums */ };

struct job {
    const uint8_t *a, *sa, *b, *sb;
    const float *second_a, *second_b; /* or NULL */
    void *y;
    uint64_t sa_each, sb_each; /* bytes of the scales of a matrix, of a vector   */
    unsigned rows, places;     /* places: rows, those of the last tile padded    */
    unsigned cols, across;     /* across: tiles that lie side by side            */
    unsigned blocks, flush;    /* thread blocks of a matrix; places between sums */
    unsigned slices, stage;    /* threads of a row; bytes of a stage of the ring */
    unsigned ahead;            /* places that are on their way to L2             */
    float alpha;
    kerf_dtype type;
    bool b_tiled, early;
};

/* --- pieces ----------------------------------------------------------------------------------- */

__device__ __forceinline__ void launch_dependents()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ __forceinline__ void wait_for_inputs()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* What is read once; registers keep what they have unless `yes`. volatile: before or after the
 * wait, as written. */
__device__ __forceinline__ void load_codes(uint4 *v, const uint8_t *p, bool yes)
{
    asm volatile("{\n .reg .pred q;\n setp.ne.b32 q, %5, 0;\n"
                 " @q ld.global.nc.L1::no_allocate.L2::128B.v4.b32 {%0, %1, %2, %3}, [%4];\n}"
                 : "+r"(v->x), "+r"(v->y), "+r"(v->z), "+r"(v->w)
                 : "l"(p), "r"((int)yes));
}

__device__ __forceinline__ void load_two(uint32_t *v, const uint8_t *p, bool yes)
{
    asm volatile("{\n .reg .pred q;\n setp.ne.b32 q, %2, 0;\n @q ld.global.nc.u16 %0, [%1];\n}"
                 : "+r"(*v)
                 : "l"(p), "r"((int)yes));
}

template <int N> __device__ __forceinline__ void load_words(uint32_t *v, const uint8_t *p, bool yes)
{
    if constexpr (N == 4)
        asm volatile("{\n .reg .pred q;\n setp.ne.b32 q, %5, 0;\n"
                     " @q ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];\n}"
                     : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3])
                     : "l"(p), "r"((int)yes));
    else
        asm volatile("{\n .reg .pred q;\n setp.ne.b32 q, %3, 0;\n"
                     " @q ld.global.nc.v2.b32 {%0, %1}, [%2];\n}"
                     : "+r"(v[0]), "+r"(v[1])
                     : "l"(p), "r"((int)yes));
}

/* x, but not known to be the same in all threads: a uniform register would be copied into another
 * for each PRMT. */
__device__ __forceinline__ uint32_t kept(uint32_t x)
{
    uint32_t lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return x + (lane >> 5);
}

/* Codes with their signs turned; hidden, lest the compiler turns each half for itself. */
__device__ __forceinline__ uint32_t negated(uint32_t w)
{
    uint32_t r;
    asm("xor.b32 %0, %1, 0x88888888;" : "=r"(r) : "r"(w));
    return r;
}

/* Four nibbles at the low end of w become bytes of a table, which PRMT picks; where a nibble has
 * its top bit set, eight copies of the top bit of that byte. */
template <uint32_t HIGH> __device__ __forceinline__ uint32_t pick(uint32_t low, uint32_t w)
{
    uint32_t r;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(low), "n"(HIGH), "r"(w));
    return r;
}

/* For twice the number of a code as two addends:
 *   plus    of the code       2|v| + 1 (0 for 0) for positive codes, 0 for negative ones
 *   minus   of its negative   -1 (0 for 0) for positive codes, -2|v| for negative ones */
constexpr uint32_t PLUS_LOW = 0x04030200, PLUS_HIGH = 0x0d090705;
constexpr uint32_t MINUS_LOW = 0xfdfeff00, MINUS_HIGH = 0xf4f8fafc;
struct tables {
    uint32_t plus, minus;
};

/* 2v of four codes. */
__device__ __forceinline__ uint32_t signed_bytes(uint32_t w)
{
    return __vadd4(pick<PLUS_HIGH>(PLUS_LOW, w), pick<MINUS_HIGH>(MINUS_LOW, w ^ 0x8888));
}

__device__ __forceinline__ int dot_word(tables t, uint32_t w, uint32_t b0, uint32_t b1, int sum)
{
    uint32_t n = negated(w);
    sum = __dp4a((int)pick<PLUS_HIGH>(t.plus, w), (int)b0, sum);
    sum = __dp4a((int)pick<MINUS_HIGH>(t.minus, n), (int)b0, sum);
    sum = __dp4a((int)pick<PLUS_HIGH>(t.plus, w >> 16), (int)b1, sum);
    return __dp4a((int)pick<MINUS_HIGH>(t.minus, n >> 16), (int)b1, sum);
}

/* Four times the dot product of 16 codes with the numbers of b, whose bytes are 2v. */
__device__ __forceinline__ float dot_block(tables t, uint32_t w0, uint32_t w1, const uint32_t b[4])
{
    return __int2float_rn(dot_word(t, w1, b[2], b[3], dot_word(t, w0, b[0], b[1], 0)));
}

__device__ __forceinline__ float2 two_scales(uint32_t codes)
{
    __half2_raw h = __nv_cvt_fp8x2_to_halfraw2((__nv_fp8x2_storage_t)codes, __NV_E4M3);
    return __half22float2(__half2(h));
}

/* A slice of b: 2v in bytes, and a quarter of its scales. */
struct slice {
    uint32_t v[8];
    float scale[2];
};

__device__ __forceinline__ void load_slice(slice *s, const job &j, unsigned matrix, unsigned at,
                                           bool yes)
{
    *s = slice{};
    if (!yes) return;
    uint4 w = *(const uint4 *)(j.b + (uint64_t)matrix * (j.cols / 2) + 16 * at);
    unsigned block = 2 * at;
    uint64_t place = j.b_tiled ? kf_tiled_place(0, block, j.across) : block;
    float2 f = two_scales(*(const uint16_t *)(j.sb + matrix * j.sb_each + place));
    const uint32_t words[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        s->v[2 * i] = signed_bytes(words[i]);
        s->v[2 * i + 1] = signed_bytes(words[i] >> 16);
    }
    s->scale[0] = 0.25f * f.x;
    s->scale[1] = 0.25f * f.y;
}

/* --- rows ------------------------------------------------------------------------------------- */

/* Which row has this place in the order of work. */
template <bool TILED> __device__ __forceinline__ unsigned row_at(unsigned place)
{
    return TILED ? (place & ~127u) + (place & 3) * 32 + (place >> 2 & 31) : place;
}

/* R rows from a place on, this thread's slice of them. In tiles R is 2 or 4 and divides `place`. */
template <int R> struct rows {
    uint4 codes[R];
    alignas(16) uint32_t scales[R]; /* TILED: a row's four */
};

/* What a thread knows of its matrix. */
struct place_of {
    const uint8_t *a, *sa; /* at this thread's slice of row 0, place 0 */
    unsigned end;          /* places                                   */
    bool active;           /* the slice is inside the row              */
};

template <int R, bool TILED>
__device__ __forceinline__ void load_rows(rows<R> *q, const job &j, const place_of &t,
                                          unsigned place)
{
    unsigned row = row_at<TILED>(place);
#pragma unroll
    for (int i = 0; i < R; i++) {
        unsigned r = row + i * (TILED ? 32 : 1);
        bool yes = t.active && place + i < t.end && (!TILED || r < j.rows);
        load_codes(&q->codes[i], t.a + (uint64_t)r * (j.cols / 2), yes);
        if (!TILED) load_two(&q->scales[i], t.sa + (uint64_t)r * (j.cols / 16), yes);
    }
    if constexpr (TILED) {
        uint64_t tile = (uint64_t)(place / 128) * j.across * 512;
        load_words<R>(q->scales, t.sa + tile + (place & 127) * 4, t.active && place < t.end);
    }
}

/* Asks for rows to be brought to L2, one a lane (job.ahead; not yet run on hardware, and 0). In
 * tiles scales are left out: threads ask for theirs by themselves. */
template <bool TILED>
__device__ __forceinline__ void prefetch_rows(const job &j, unsigned matrix, unsigned place,
                                              unsigned end, unsigned lane)
{
#if __CUDA_ARCH__ >= 900
    unsigned row = row_at<TILED>(place + lane), bytes = j.cols / 2;
    if (place + lane >= end || (TILED && row >= j.rows)) return;
    uint64_t at = (uint64_t)matrix * j.rows + row;
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(j.a + at * bytes), "r"(bytes)
                 : "memory");
    bytes = j.cols / 16;
    if (!TILED && bytes % 16 == 0)
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(j.sa + at * bytes),
                     "r"(bytes)
                     : "memory");
#endif
}

/* A thread's scales in tiles. */
__device__ __forceinline__ void prefetch_scales(const job &j, const place_of &t, unsigned place)
{
    if (t.active && place < t.end)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(
                         t.sa + (uint64_t)(place / 128) * j.across * 512 + (place & 127) * 4)
                     : "memory");
}

/* Sums of this thread's slice. second: the slice is the right half of a tile. */
template <int R, bool TILED>
__device__ __forceinline__ void multiply_rows(float p[R], const rows<R> &q, const slice &b,
                                              tables bytes, unsigned second)
{
#pragma unroll
    for (int i = 0; i < R; i++) {
        const uint4 w = q.codes[i];
        float2 s = two_scales(TILED ? q.scales[i] >> second : q.scales[i]);
        p[i] = __fmul_rn(dot_block(bytes, w.x, w.y, b.v), __fmul_rn(s.x, b.scale[0]));
        p[i] = __fmaf_rn(dot_block(bytes, w.z, w.w, b.v + 4), __fmul_rn(s.y, b.scale[1]), p[i]);
    }
}

/* p[0] becomes the warp's sum of p[i] for the i that the upper bits of the lane spell. */
template <int R> __device__ __forceinline__ void sum_over_warp(float p[R], unsigned lane)
{
    int half = 16;
#pragma unroll
    for (int n = R / 2; n >= 1; n /= 2, half /= 2) {
        bool upper = lane & half;
#pragma unroll
        for (int i = 0; i < n; i++) {
            float keep = upper ? p[n + i] : p[i], give = upper ? p[i] : p[n + i];
            p[i] = keep + __shfl_xor_sync(~0u, give, half);
        }
    }
#pragma unroll
    for (; half >= 1; half /= 2) p[0] += __shfl_xor_sync(~0u, p[0], half);
}

__device__ __forceinline__ void store(const job &j, unsigned matrix, unsigned row, float sum)
{
    float v = __fmul_rn(sum, j.alpha);
    if (j.second_b) v = __fmul_rn(v, j.second_b[matrix]);
    if (j.second_a) v = __fmul_rn(v, j.second_a[matrix]);
    uint64_t at = (uint64_t)matrix * j.rows + row;
    if (j.type == KERF_F16)
        ((__half *)j.y)[at] = __float2half_rn(v);
    else if (j.type == KERF_BF16)
        ((__nv_bfloat16 *)j.y)[at] = __float2bfloat16_rn(v);
    else
        ((float *)j.y)[at] = v;
}

/* Sums over the warps of a row, which lie `flush` apart, and out with them. */
template <bool TILED>
__device__ __forceinline__ void finish_rows(const job &j, unsigned matrix, const float *partial,
                                            unsigned from, unsigned n, unsigned warps,
                                            unsigned threads)
{
    unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
    for (unsigned i = thread; i < n; i += threads) {
        float sum = partial[i];
        for (unsigned w = 1; w < warps; w++) sum += partial[w * j.flush + i];
        unsigned row = row_at<TILED>(from + i);
        if (!TILED || row < j.rows) store(j, matrix, row, sum);
    }
}

/* --- kernels ---------------------------------------------------------------------------------- */

template <int R, int STAGES, int THREADS, int RESIDENT, bool TILED>
__global__ void __launch_bounds__(THREADS, RESIDENT) multiply(const __grid_constant__ job j)
{
    __shared__ float partial[RED];
    launch_dependents();
    const unsigned matrix = blockIdx.x / j.blocks, block = blockIdx.x % j.blocks;
    const unsigned at = threadIdx.x, lane = at % 32, warps = blockDim.x / 32;
    const unsigned step = R * blockDim.y, first = threadIdx.y * R;
    const unsigned unit = TILED ? 4 : 1; /* places of a tile that belong together */
    const unsigned units = j.places / unit;
    const unsigned begin = (unsigned)((uint64_t)units * block / j.blocks) * unit;
    const unsigned end = (unsigned)((uint64_t)units * (block + 1) / j.blocks) * unit;

    place_of t;
    t.active = at * SLICE < j.cols;
    t.end = end;
    t.a = j.a + (uint64_t)matrix * j.rows * (j.cols / 2) + 16 * at;
    t.sa = j.sa + matrix * j.sa_each + (TILED ? at / 2 * 512 : 2 * at);
    asm volatile("" : "+l"(t.a), "+l"(t.sa)); /* one sum, not the terms of it */
    if (!j.early) wait_for_inputs();
    rows<R> q[STAGES] = {}; /* stays zero in threads beyond the end of a row */
    const tables bytes = {kept(PLUS_LOW), kept(MINUS_LOW)};
#pragma unroll
    for (int s = 0; s < STAGES; s++) load_rows<R, TILED>(&q[s], j, t, begin + first + s * step);
    const bool asks = threadIdx.y == 0 && at < 32;
    const unsigned all = step * STAGES; /* places that this block has asked for as registers */
    if (j.ahead) {
        unsigned to = min(begin + all + j.ahead, end);
        for (unsigned p = begin + all; asks && p < to; p += 32)
            prefetch_rows<TILED>(j, matrix, p, to, lane);
        for (unsigned p = begin + all + first; TILED && at % 2 == 0 && p < to; p += step)
            prefetch_scales(j, t, p);
    }
    if (j.early) wait_for_inputs();
    slice b;
    load_slice(&b, j, matrix, at, t.active);

    for (unsigned from = begin; from < end; from += j.flush) {
        unsigned to = min(from + j.flush, end);
        for (unsigned place = from + first; place < to; place += STAGES * step) {
#pragma unroll
            for (int s = 0; s < STAGES; s++) {
                unsigned here = place + s * step;
                if (here >= to) break;
                float p[R];
                if (j.ahead) {
                    unsigned then = here + STAGES * step + j.ahead;
                    if (asks) prefetch_rows<TILED>(j, matrix, then, min(then + step, end), lane);
                    if (TILED && at % 2 == 0) prefetch_scales(j, t, then);
                }
                multiply_rows<R, TILED>(p, q[s], b, bytes, at % 2 * 16);
                load_rows<R, TILED>(&q[s], j, t, here + STAGES * step);
                sum_over_warp<R>(p, lane);
                if (lane % (32 / R) == 0)
                    partial[at / 32 * j.flush + here - from + lane / (32 / R)] = p[0];
            }
        }
        __syncthreads();
        finish_rows<TILED>(j, matrix, partial, from, to - from, warps, blockDim.x * blockDim.y);
        __syncthreads();
    }
}

/* --- kernels with a ring ---------------------------------------------------------------------- */

#if __CUDA_ARCH__ >= 900

__device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

__device__ __forceinline__ void init_barrier(uint64_t *b, unsigned count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(count)
                 : "memory");
}

__device__ __forceinline__ void wait_barrier(uint64_t *b, unsigned phase)
{
    uint32_t done;
    do {
        asm volatile("{\n .reg .pred p;\n"
                     " mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     " selp.b32 %0, 1, 0, p;\n}"
                     : "=r"(done)
                     : "r"(shared_address(b)), "r"(phase)
                     : "memory");
    } while (!done);
}

__device__ __forceinline__ void arrive(uint64_t *b)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}

__device__ __forceinline__ void expect_bytes(uint64_t *b, uint32_t n)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)),
                 "r"(n)
                 : "memory");
}

__device__ __forceinline__ void copy_in(void *to, const void *from, uint32_t n, uint64_t *b)
{
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
        "[%3];" ::"r"(shared_address(to)),
        "l"(from), "r"(n), "r"(shared_address(b))
        : "memory");
}

/* 16 bytes by an ordinary thread; arrive_later: its earlier ones count as one arrival once there.
 */
__device__ __forceinline__ void copy_16(void *to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from)
                 : "memory");
}

__device__ __forceinline__ void arrive_later(uint64_t *b)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(b))
                 : "memory");
}

__device__ __forceinline__ void meet(unsigned threads)
{
    asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory");
}

/* The last warp: brings stage after stage of rows, as soon as one is free. */
template <int STAGES, bool TILED>
__device__ __forceinline__ void fill_ring(const job &j, uint8_t *ring, uint64_t *full,
                                          uint64_t *empty, unsigned matrix, unsigned begin,
                                          unsigned end, unsigned step)
{
    const unsigned row_bytes = j.cols / 2, scale_bytes = j.cols / 16, lane = threadIdx.x % 32;
    const uint8_t *a = j.a + (uint64_t)matrix * j.rows * row_bytes;
    const uint8_t *sa = j.sa + matrix * j.sa_each;
    unsigned s = 0, phase = 1;
    for (unsigned place = begin; place < end; place += step) {
        uint8_t *to = ring + s * j.stage;
        unsigned n = min(step, end - place);
        wait_barrier(&empty[s], phase); /* at once in the first round */
        if (TILED) {
            unsigned rows = 0, four = (n + 3) / 4;
            for (unsigned i = lane; i < n; i += 32) rows += row_at<true>(place + i) < j.rows;
            rows = __reduce_add_sync(~0u, rows);
            if (lane == 0) expect_bytes(&full[s], rows * row_bytes);
            __syncwarp();
            for (unsigned i = lane; i < n; i += 32) {
                unsigned row = row_at<true>(place + i);
                if (row < j.rows)
                    copy_in(to + i * row_bytes, a + (uint64_t)row * row_bytes, row_bytes, &full[s]);
            }
            to += step * row_bytes;
            for (unsigned u = 0; u < four; u++) {
                unsigned at = place + 4 * u;
                const uint8_t *tile = sa + (uint64_t)(at / 128) * j.across * 512 + (at & 127) * 4;
                for (unsigned i = lane; i < j.across; i += 32)
                    copy_16(to + (u * j.across + i) * 16, tile + i * 512);
            }
            arrive_later(&full[s]);
        } else if (lane == 0) {
            expect_bytes(&full[s], n * (row_bytes + scale_bytes));
            copy_in(to, a + (uint64_t)place * row_bytes, n * row_bytes, &full[s]);
            copy_in(to + step * row_bytes, sa + (uint64_t)place * scale_bytes, n * scale_bytes,
                    &full[s]);
        }
        if (++s == STAGES) s = 0, phase ^= 1;
    }
}

template <int R, bool TILED>
__device__ __forceinline__ void take_rows(rows<R> *q, const job &j, const uint8_t *stage,
                                          unsigned first, unsigned step, unsigned slice)
{
    const uint8_t *scales = stage + step * (j.cols / 2);
#pragma unroll
    for (int i = 0; i < R; i++) {
        q->codes[i] = *(const uint4 *)(stage + (first + i) * (j.cols / 2) + 16 * slice);
        if (!TILED)
            q->scales[i] = *(const uint16_t *)(scales + (first + i) * (j.cols / 16) + 2 * slice);
    }
    if constexpr (TILED) { /* R is 2 or 4: of the same four rows */
        const uint8_t *p = scales + (first / 4 * j.across + slice / 2) * 16 + first % 4 * 4;
        if constexpr (R == 4)
            *(uint4 *)q->scales = *(const uint4 *)p;
        else
            *(uint2 *)q->scales = *(const uint2 *)p;
    }
}
#endif

/* Not chosen for any shape: not yet run on hardware. As multiply, but rows come through shared
 * memory, by the copy engine: a warp asks for STAGES steps ahead, the others need no registers or
 * instructions for what is on its way. */
template <int R, int STAGES, bool TILED>
__global__ void __launch_bounds__(544, 2) multiply_ring(const __grid_constant__ job j)
{
#if __CUDA_ARCH__ >= 900
    extern __shared__ __align__(128) uint8_t ring[];
    __shared__ float partial[RING_RED];
    __shared__ uint64_t full[STAGES], empty[STAGES];
    const unsigned threads = blockDim.x - 32, consumers = threads / 32;
    launch_dependents();
    if (threadIdx.x == 0)
        for (int s = 0; s < STAGES; s++) {
            init_barrier(&full[s], TILED ? 33 : 1);
            init_barrier(&empty[s], consumers);
        }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    const unsigned matrix = blockIdx.x / j.blocks, block = blockIdx.x % j.blocks;
    const unsigned group = threadIdx.x / j.slices, at = threadIdx.x % j.slices;
    const unsigned lane = at % 32, warps = j.slices / 32;
    const unsigned step = R * (threads / j.slices), first = group * R;
    const unsigned unit = TILED ? 4 : 1, units = j.places / unit;
    const unsigned begin = (unsigned)((uint64_t)units * block / j.blocks) * unit;
    const unsigned end = (unsigned)((uint64_t)units * (block + 1) / j.blocks) * unit;
    __syncthreads();
    if (!j.early) wait_for_inputs();
    if (threadIdx.x >= threads) {
        fill_ring<STAGES, TILED>(j, ring, full, empty, matrix, begin, end, step);
        return;
    }

    const bool active = at * SLICE < j.cols;
    rows<R> q = {}; /* stays zero in threads beyond the end of a row */
    const tables bytes = {kept(PLUS_LOW), kept(MINUS_LOW)};
    if (j.early) wait_for_inputs();
    slice b;
    load_slice(&b, j, matrix, at, active);

    unsigned s = 0, phase = 0;
    for (unsigned from = begin; from < end; from += j.flush) {
        unsigned to = min(from + j.flush, end);
        for (unsigned place = from; place < to; place += step) {
            unsigned here = place + first;
            float p[R];
            wait_barrier(&full[s], phase);
            if (active) take_rows<R, TILED>(&q, j, ring + s * j.stage, first, step, at);
            multiply_rows<R, TILED>(p, q, b, bytes, at % 2 * 16);
            __syncwarp();
            if (lane == 0) arrive(&empty[s]);
            sum_over_warp<R>(p, lane);
            if (lane % (32 / R) == 0 && here < to)
                partial[at / 32 * j.flush + here - from + lane / (32 / R)] = p[0];
            if (++s == STAGES) s = 0, phase ^= 1;
        }
        meet(threads);
        finish_rows<TILED>(j, matrix, partial, from, to - from, warps, threads);
        meet(threads);
    }
#endif
}

__device__ __forceinline__ uint2 load_block(const uint8_t *p)
{
    uint2 v = {0, 0};
    for (int i = 0; i < 4; i++) {
        v.x |= (uint32_t)p[i] << 8 * i;
        v.y |= (uint32_t)p[i + 4] << 8 * i;
    }
    return v;
}

/* Any alignment, any number of blocks: a warp for a row, a lane for a block. */
template <bool TILED>
__global__ void __launch_bounds__(256) multiply_any(const __grid_constant__ job j)
{
    wait_for_inputs();
    const unsigned lane = threadIdx.x % 32, blocks = j.cols / 16;
    const unsigned matrix = blockIdx.x / j.blocks;
    const unsigned row = blockIdx.x % j.blocks * 8 + threadIdx.x / 32;
    if (row >= j.rows) return;
    const uint8_t *a = j.a + ((uint64_t)matrix * j.rows + row) * (j.cols / 2);
    const uint8_t *b = j.b + (uint64_t)matrix * (j.cols / 2);
    float sum = 0;
    for (unsigned i = lane; i < blocks; i += 32) {
        uint64_t pa = TILED ? kf_tiled_place(row, i, j.across) : (uint64_t)row * blocks + i;
        uint64_t pb = j.b_tiled ? kf_tiled_place(0, i, j.across) : i;
        uint2 x = load_block(a + 8 * i), y = load_block(b + 8 * i);
        const uint32_t v[4] = {signed_bytes(y.x), signed_bytes(y.x >> 16), signed_bytes(y.y),
                               signed_bytes(y.y >> 16)};
        uint32_t both = j.sa[matrix * j.sa_each + pa] | j.sb[matrix * j.sb_each + pb] << 8;
        float2 s = two_scales(both);
        sum = __fmaf_rn(dot_block(tables{PLUS_LOW, MINUS_LOW}, x.x, x.y, v),
                        __fmul_rn(s.x, __fmul_rn(0.25f, s.y)), sum);
    }
    sum_over_warp<1>(&sum, lane);
    if (lane == 0) store(j, matrix, row, sum);
}

/* --- variants --------------------------------------------------------------------------------- */

typedef void (*kernel)(job);

struct variant {
    const char *name;
    unsigned rows, stages, threads;
    bool ring;
    kernel plain, tiled;
};

#define VARIANT(R, S, T, N, registers)                                                \
    {                                                                                 \
#R " rows x " #S ", " #T " threads, " registers " registers", R, S, T, false, \
            multiply < R, S, T, N, false>, multiply < R, S, T, N, true>               \
    }
#define RING(R, S)                                                                \
    {                                                                             \
#R " rows x " #S ", ring", R, S, 512, true, multiply_ring < R, S, false>, \
            multiply_ring < R, S, true>                                           \
    }

const variant variants[] = {
    VARIANT(4, 1, 1024, 1, "64"),
    VARIANT(2, 1, 512, 3, "40"),
    VARIANT(2, 2, 1024, 1, "64"),
    VARIANT(4, 3, 512, 1, "128"),
    RING(4, 2),
    RING(4, 3),
    RING(4, 6),
    RING(2, 6),
    RING(2, 12),
};
enum { VARIANTS = sizeof variants / sizeof variants[0] };

/* --- host ------------------------------------------------------------------------------------- */

/* What was best of all that has been measured: bench/notes-gemv-nvfp4.md. */
static kf_nvfp4_tuning choose(const kerf_gemv_nvfp4_shape *s)
{
    return s->cols > 16384 ? kf_nvfp4_tuning{0, 1024, 0, 0} : kf_nvfp4_tuning{0, 512, 0, 0};
}

/* Rows and their scales in steps of the copy engine's 16 bytes, and all of a ring in a block. */
static bool fits_ring(const kerf_gemv_nvfp4 *p, const kf_nvfp4_launch *l, unsigned step,
                      int largest)
{
    bool tiled = p->shape.a_scales == KERF_SCALES_TILES;
    return (tiled ? step % 4 == 0 : p->shape.cols % 256 == 0) && l->ring <= (unsigned)largest;
}

static kerf_status plan_launch(kerf_gemv_nvfp4 *p, kf_nvfp4_tuning t, kerf_error *err)
{
    const variant *v = &variants[t.variant];
    kf_nvfp4_launch *l = &p->launch;
    bool tiled = p->shape.a_scales == KERF_SCALES_TILES;
    uint64_t places = tiled ? (p->shape.rows + 127) / 128 * 128 : p->shape.rows;
    uint64_t batch = p->shape.batch ? p->shape.batch : 1;
    int resident = 0, processors = 0, largest = 0, major = 0;
    KF_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, p->ordinal),
            "asking a GPU for its properties");
    KF_CUDA(cudaDeviceGetAttribute(&largest, cudaDevAttrMaxSharedMemoryPerBlockOptin, p->ordinal),
            "asking a GPU for its properties");
    KF_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, p->ordinal),
            "asking a GPU for its properties");
    *l = kf_nvfp4_launch{};
    l->variant = t.variant;
    l->slices = (unsigned)((p->shape.cols / SLICE + 31) / 32 * 32);
    if (t.threads > v->threads) t.threads = v->threads;
    l->groups = l->slices < t.threads ? t.threads / l->slices : 1;
    unsigned step = v->rows * l->groups;
    l->flush =
        (v->ring ? RING_RED : RED) / (l->slices / 32) / (step * v->stages) * (step * v->stages);
    const void *k = (const void *)(tiled ? v->tiled : v->plain);
    if (v->ring) {
        unsigned across = (unsigned)((p->shape.cols / 16 + KF_TILE_COLS - 1) / KF_TILE_COLS);
        unsigned codes = step * (unsigned)(p->shape.cols / 2);
        l->stage = (codes + (step + 3) / 4 * across * 16 + 127) / 128 * 128;
        l->ring = l->stage * v->stages;
        if (!fits_ring(p, l, step, largest - 8192) || l->slices > v->threads || major < 9 ||
            !l->flush)
            return plan_launch(p, kf_nvfp4_tuning{0, t.threads, t.resident, t.ahead}, err);
        KF_CUDA(cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)l->ring),
                "asking for shared memory");
    }
    KF_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                &resident, k, (int)(l->slices * l->groups) + (v->ring ? 32 : 0), l->ring),
            "asking for the occupancy of a kernel");
    if (t.resident && (int)t.resident < resident) resident = (int)t.resident;
    uint64_t blocks = (uint64_t)resident * processors / batch;
    uint64_t most = (places + step - 1) / step;
    if (blocks > most) blocks = most;
    l->blocks_per_matrix = blocks ? (unsigned)blocks : 1;
    return KERF_OK;
}

static bool aligned(const void *p, unsigned to)
{
    return (uintptr_t)p % to == 0;
}

static bool is_fast(const job &j, bool a_tiled, bool ring)
{
    return aligned(j.a, 16) && aligned(j.b, 16) && aligned(j.sa, a_tiled || ring ? 16 : 2) &&
           aligned(j.sb, 2);
}

static cudaError_t launch(kernel k, const job &j, unsigned blocks, dim3 threads, unsigned shared,
                          cudaStream_t s)
{
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t c = {};
    c.gridDim = dim3(blocks);
    c.blockDim = threads;
    c.dynamicSmemBytes = shared;
    c.stream = s;
    c.attrs = &early;
    c.numAttrs = j.early;
    return cudaLaunchKernelEx(&c, k, j);
}

} // namespace

extern "C" const char *kf_nvfp4_cuda_variant(unsigned i)
{
    return i < VARIANTS ? variants[i].name : NULL;
}

extern "C" kerf_status kf_nvfp4_cuda_plan(kerf_gemv_nvfp4 *p, kerf_device *device,
                                          const kf_nvfp4_tuning *tuning, kerf_error *err)
{
    uint64_t steps = p->shape.cols / 512 + 64;
    p->on_gpu = 1;
    p->ordinal = kf_gpu_of(device)->ordinal;
    p->fast = p->shape.cols % SLICE == 0 && p->shape.cols <= 1024 * SLICE && p->shape.cols > 0;
    p->bound = (double)steps * 0x1p-24;
    if (p->shape.rows > UINT32_MAX - 4096 || p->shape.batch * ((p->shape.rows + 7) / 8) > INT32_MAX)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "%llu x %llu rows are too many for one launch",
                       (unsigned long long)p->shape.batch, (unsigned long long)p->shape.rows);
    KF_CUDA(cudaSetDevice(p->ordinal), "choosing a GPU");
    return p->fast ? plan_launch(p, tuning ? *tuning : choose(&p->shape), err) : KERF_OK;
}

extern "C" kerf_status kf_nvfp4_cuda_run(const kerf_gemv_nvfp4 *p, const kerf_gemv_nvfp4_args *x,
                                         void *stream, kerf_error *err)
{
    const kerf_gemv_nvfp4_shape *s = &p->shape;
    const kf_nvfp4_launch *l = &p->launch;
    bool tiled = s->a_scales == KERF_SCALES_TILES;
    job j = {};
    j.a = (const uint8_t *)x->a[KERF_PLANE_CODES].p;
    j.sa = (const uint8_t *)x->a[KERF_PLANE_SCALES].p;
    j.b = (const uint8_t *)x->b[KERF_PLANE_CODES].p;
    j.sb = (const uint8_t *)x->b[KERF_PLANE_SCALES].p;
    j.second_a = (const float *)x->a[KERF_PLANE_SECOND].p;
    j.second_b = (const float *)x->b[KERF_PLANE_SECOND].p;
    j.y = x->y.p;
    j.sa_each = p->a_scales_each;
    j.sb_each = p->b_scales_each;
    j.rows = (unsigned)s->rows;
    j.places = tiled ? (j.rows + 127) / 128 * 128 : j.rows;
    j.cols = (unsigned)s->cols;
    j.across = (j.cols / 16 + KF_TILE_COLS - 1) / KF_TILE_COLS;
    j.alpha = x->alpha == 0 ? 1 : x->alpha;
    j.type = s->y;
    j.b_tiled = s->b_scales == KERF_SCALES_TILES;
    j.early = s->flags & KERF_GEMV_CONSTANT_WEIGHTS;
    bool fast = p->fast && is_fast(j, tiled, l->ring);
    kernel k = tiled ? multiply_any<true> : multiply_any<false>;
    j.blocks = fast ? l->blocks_per_matrix : (j.rows + 7) / 8;
    j.flush = l->flush;
    j.slices = l->slices;
    j.stage = l->stage;
    j.ahead = l->ahead;
    dim3 threads(256);
    if (fast) {
        k = tiled ? variants[l->variant].tiled : variants[l->variant].plain;
        threads = l->ring ? dim3(l->slices * l->groups + 32) : dim3(l->slices, l->groups);
    }
    KF_CUDA(cudaSetDevice(p->ordinal), "choosing a GPU");
    KF_CUDA(launch(k, j, j.blocks * (unsigned)s->batch, threads, fast ? l->ring : 0,
                   (cudaStream_t)stream),
            "starting a kernel");
    return KERF_OK;
}
