/* forward_terms.cu - see forward_kernels.h: what products take, numbers as sums of bfloat16 ones.
 */
#include "cuda/forward/forward_kernels.h"

#include <cuda_bf16.h>

enum { THREADS = 256 };

/* The terms of x; what is left behind one that is no number is 0. */
static __device__ void split_number(float x, int terms, __nv_bfloat16 *out)
{
    for (int i = 0; i < terms; i++) {
        out[i] = __float2bfloat16_rn(x);
        const float near = __bfloat162float(out[i]);
        x = isfinite(near) ? x - near : 0.0f;
    }
}

static __device__ __nv_bfloat16 *numbers(kf_bf16 *p)
{
    return reinterpret_cast<__nv_bfloat16 *>(p);
}

/* Stores the terms of WIDE numbers that lie side by side; the last term that is not all 0. */
template <int TERMS, int WIDE>
static __device__ unsigned split_some(const kf_split &s, const float *x, uint64_t place)
{
    __nv_bfloat16 term[WIDE][TERMS];
    unsigned used = 0;
#pragma unroll
    for (int k = 0; k < WIDE; k++) split_number(x[k], TERMS, term[k]);
#pragma unroll
    for (int i = 0; i < TERMS; i++) {
        __nv_bfloat16 *to = numbers(s.out) + i * s.term_stride + place;
        int some = 0;
#pragma unroll
        for (int k = 0; k < WIDE; k++) some |= __bfloat162float(term[k][i]) != 0.0f;
        if (some) used = i + 1;
        if (WIDE == 4) {
            const __nv_bfloat162 two[2] = {__nv_bfloat162(term[0][i], term[1 % WIDE][i]),
                                           __nv_bfloat162(term[2 % WIDE][i], term[3 % WIDE][i])};
            *reinterpret_cast<uint2 *>(to) = *reinterpret_cast<const uint2 *>(two);
        } else {
            for (int k = 0; k < WIDE; k++) to[k] = term[k][i];
        }
    }
    return used;
}

/* A block has rows, a thread WIDE numbers at a time, 4 where all of them lie at multiples of 4. */
template <int TERMS, int WIDE>
static __global__ void __launch_bounds__(THREADS) split_rows(kf_split s)
{
    unsigned used = 0;
    for (uint64_t row = blockIdx.x; row < s.rows; row += gridDim.x)
        for (uint64_t k = WIDE * threadIdx.x; k < s.columns; k += WIDE * THREADS) {
            const float *from = s.x + row * s.x_stride + k;
            float x[WIDE];
            if (WIDE == 4) {
                const float4 four = *reinterpret_cast<const float4 *>(from);
                x[0] = four.x, x[1 % WIDE] = four.y, x[2 % WIDE] = four.z, x[3 % WIDE] = four.w;
            } else {
                for (int i = 0; i < WIDE; i++) x[i] = from[i];
            }
            const unsigned last = split_some<TERMS, WIDE>(s, x, row * s.out_stride + k);
            used = last > used ? last : used;
        }
    if (!s.used) return;
    for (int half = 16; half > 0; half /= 2) {
        const unsigned other = __shfl_down_sync(0xffffffffu, used, half);
        used = other > used ? other : used;
    }
    if (threadIdx.x % 32 == 0 && used) atomicMax(s.used, used);
}

template <int TERMS> static void start_split(const kf_split *s, cudaStream_t stream)
{
    const unsigned blocks = (unsigned)(s->rows < 65535 ? s->rows : 65535);
    const uint64_t all = s->columns | s->x_stride | s->out_stride | s->term_stride |
                         reinterpret_cast<uintptr_t>(s->x) / 4 |
                         reinterpret_cast<uintptr_t>(s->out) / 2;
    if (all % 4 == 0)
        split_rows<TERMS, 4><<<blocks, THREADS, 0, stream>>>(*s);
    else
        split_rows<TERMS, 1><<<blocks, THREADS, 0, stream>>>(*s);
}

extern "C" cudaError_t kf_split_run(const kf_split *s, cudaStream_t stream)
{
    switch (s->terms) {
    case 1: start_split<1>(s, stream); break;
    case 2: start_split<2>(s, stream); break;
    default: start_split<3>(s, stream); break;
    }
    return cudaGetLastError();
}

/* --- heads --------------------------------------------------------------------------------- */

/* A block has a token. */
static __global__ void __launch_bounds__(THREADS) split_heads(kf_heads h)
{
    const unsigned dim = (unsigned)h.dim, n = (unsigned)h.heads * dim;
    for (uint64_t token = blockIdx.x; token < h.rows * h.length; token += gridDim.x) {
        const uint64_t row = token / h.length, position = token % h.length;
        const float *x = h.x + token * h.x_stride;
        for (unsigned at = threadIdx.x; at < n; at += THREADS) {
            const unsigned k = at % dim, head = at / dim;
            __nv_bfloat16 term[KF_MOST_TERMS];
            split_number(x[head / (unsigned)h.group * dim + k], KF_MOST_TERMS, term);
            __nv_bfloat16 *to =
                numbers(h.out) +
                ((row * h.heads + head) * h.length + position) * ((unsigned)h.pairs * dim) + k;
            for (int i = 0; i < h.pairs; i++)
                to[i * dim] = h.term[i] == 0 ? term[0] : h.term[i] == 1 ? term[1] : term[2];
        }
    }
}

extern "C" cudaError_t kf_heads_run(const kf_heads *h, cudaStream_t stream)
{
    const uint64_t n = h->rows * h->length;
    split_heads<<<(unsigned)(n < 65535 ? n : 65535), THREADS, 0, stream>>>(*h);
    return cudaGetLastError();
}

/* --- the softmax --------------------------------------------------------------------------- */

/* Of all threads of a block, as a tree; every thread gets it. */
static __device__ float reduce(float *part, float x, int is_sum)
{
    for (int half = 16; half > 0; half /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, x, half);
        x = is_sum ? x + other : x > other ? x : other;
    }
    __syncthreads(); /* `part` may still be read */
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
    __syncthreads();
    x = part[0];
    for (int i = 1; i < THREADS / 32; i++) x = is_sum ? x + part[i] : x > part[i] ? x : part[i];
    return x;
}

static __device__ float scaled(const kf_soften &s, float x)
{
    x *= s.scale;
    return s.cap > 0 ? s.cap * tanhf(x / s.cap) : x;
}

/* A block has a query of a head; keys that it does not see get 0. KEPT: so many scores a thread
 * keeps in registers, which are all of them; 0: it reads them again. */
template <int TERMS, int KEPT>
static __global__ void __launch_bounds__(THREADS) soften_rows(kf_soften s)
{
    __shared__ float part[THREADS / 32];
    const uint64_t query = blockIdx.x, head = blockIdx.y, t = s.q0 + query;
    const unsigned from =
        (unsigned)(s.window && t + 1 > s.window && t + 1 - s.window > s.k0 ? t + 1 - s.window - s.k0
                                                                           : 0);
    const unsigned to = (unsigned)(t + 1 - s.k0), keys = (unsigned)s.keys;
    const uint64_t row = (head * s.queries + query) * s.stride;
    const float *score = s.score + row;
    float top = s.sinks ? s.sinks[head] : -INFINITY, sum = 0, kept[KEPT ? KEPT : 1];
#pragma unroll
    for (int i = 0; i < KEPT; i++) {
        const unsigned j = i * THREADS + threadIdx.x;
        kept[i] = j >= from && j < to ? scaled(s, score[j]) : -INFINITY;
        top = kept[i] > top ? kept[i] : top;
    }
    for (unsigned j = from + threadIdx.x; !KEPT && j < to; j += THREADS) {
        const float x = scaled(s, score[j]);
        top = x > top ? x : top;
    }
    top = reduce(part, top, 0);
#pragma unroll
    for (int i = 0; i < KEPT; i++) {
        kept[i] = expf(kept[i] - top);
        sum += kept[i];
    }
    for (unsigned j = from + threadIdx.x; !KEPT && j < to; j += THREADS)
        sum += expf(scaled(s, score[j]) - top);
    sum = reduce(part, sum, 1);
    if (s.sinks) sum += expf(s.sinks[head] - top);
#pragma unroll
    for (int i = 0; i < (KEPT ? KEPT : 1); i++)
        for (unsigned j = i * THREADS + threadIdx.x; j < keys; j += KEPT ? keys : THREADS) {
            const int sees = j >= from && j < to;
            const float x = KEPT ? kept[i] : sees ? expf(scaled(s, score[j]) - top) : 0.0f;
            __nv_bfloat16 term[TERMS];
            split_number(x / sum, TERMS, term);
            for (int k = 0; k < TERMS; k++)
                numbers(s.out)[k * s.heads * s.queries * s.stride + row + j] = term[k];
        }
}

template <int TERMS> static void start_soften(const kf_soften *s, cudaStream_t stream)
{
    const dim3 grid((unsigned)s->queries, (unsigned)s->heads);
    if (s->keys <= 2 * THREADS)
        soften_rows<TERMS, 2><<<grid, THREADS, 0, stream>>>(*s);
    else if (s->keys <= 8 * THREADS)
        soften_rows<TERMS, 8><<<grid, THREADS, 0, stream>>>(*s);
    else
        soften_rows<TERMS, 0><<<grid, THREADS, 0, stream>>>(*s);
}

extern "C" cudaError_t kf_soften_run(const kf_soften *s, cudaStream_t stream)
{
    switch (s->terms) {
    case 1: start_soften<1>(s, stream); break;
    case 2: start_soften<2>(s, stream); break;
    default: start_soften<3>(s, stream); break;
    }
    return cudaGetLastError();
}
