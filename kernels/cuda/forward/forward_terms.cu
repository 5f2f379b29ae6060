/* forward_terms.cu - see forward_kernels.h: what products take, numbers as sums of bfloat16 ones. */
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

/* A block has rows, a thread two neighbours. */
template <int TERMS>
static __global__ void __launch_bounds__(THREADS) split_rows(kf_split s)
{
    unsigned used = 0;
    for (uint64_t row = blockIdx.x; row < s.rows; row += gridDim.x)
        for (uint64_t k = 2 * threadIdx.x; k < s.columns; k += 2 * THREADS) {
            const float *x = s.x + row * s.x_stride + k;
            const int two = k + 1 < s.columns;
            __nv_bfloat16 a[TERMS], b[TERMS];
            split_number(x[0], TERMS, a);
            split_number(two ? x[1] : 0.0f, TERMS, b);
            for (int i = 0; i < TERMS; i++) {
                __nv_bfloat16 *to = numbers(s.out) + i * s.term_stride + row * s.out_stride + k;
                if (two && (row * s.out_stride + k) % 2 == 0 && s.term_stride % 2 == 0)
                    *reinterpret_cast<__nv_bfloat162 *>(to) = __nv_bfloat162(a[i], b[i]);
                else {
                    to[0] = a[i];
                    if (two) to[1] = b[i];
                }
                if (__bfloat162float(a[i]) != 0.0f || __bfloat162float(b[i]) != 0.0f)
                    used = i + 1 > (int)used ? i + 1 : used;
            }
        }
    if (!s.used) return;
    for (int half = 16; half > 0; half /= 2) {
        const unsigned other = __shfl_down_sync(0xffffffffu, used, half);
        used = other > used ? other : used;
    }
    if (threadIdx.x % 32 == 0 && used) atomicMax(s.used, used);
}

extern "C" cudaError_t kf_split_run(const kf_split *s, cudaStream_t stream)
{
    const unsigned blocks = (unsigned)(s->rows < 65536 ? s->rows : 65536);
    switch (s->terms) {
    case 1: split_rows<1><<<blocks, THREADS, 0, stream>>>(*s); break;
    case 2: split_rows<2><<<blocks, THREADS, 0, stream>>>(*s); break;
    default: split_rows<3><<<blocks, THREADS, 0, stream>>>(*s); break;
    }
    return cudaGetLastError();
}

/* --- heads --------------------------------------------------------------------------------- */

static __global__ void __launch_bounds__(THREADS) split_heads(kf_heads h)
{
    const uint64_t n = h.rows * h.length * h.heads * h.dim;
    for (uint64_t at = (uint64_t)blockIdx.x * THREADS + threadIdx.x; at < n;
         at += (uint64_t)gridDim.x * THREADS) {
        const uint64_t k = at % h.dim, head = at / h.dim % h.heads;
        const uint64_t token = at / h.dim / h.heads, row = token / h.length;
        __nv_bfloat16 term[KF_MOST_TERMS];
        split_number(h.x[token * h.x_stride + head / h.group * h.dim + k], KF_MOST_TERMS, term);
        __nv_bfloat16 *to = numbers(h.out) +
                            ((row * h.heads + head) * h.length + token % h.length) *
                                ((uint64_t)h.pairs * h.dim) +
                            k;
        for (int i = 0; i < h.pairs; i++)
            to[i * h.dim] = h.term[i] == 0 ? term[0] : h.term[i] == 1 ? term[1] : term[2];
    }
}

extern "C" cudaError_t kf_heads_run(const kf_heads *h, cudaStream_t stream)
{
    const uint64_t blocks = (h->rows * h->length * h->heads * h->dim + THREADS - 1) / THREADS;
    split_heads<<<(unsigned)(blocks < 65536 ? blocks : 65536), THREADS, 0, stream>>>(*h);
    return cudaGetLastError();
}

/* --- the softmax --------------------------------------------------------------------------- */

static __device__ float reduce(float *part, float x, int is_sum)
{
    __syncthreads();
    part[threadIdx.x] = x;
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            const float a = part[threadIdx.x], b = part[threadIdx.x + half];
            part[threadIdx.x] = is_sum ? a + b : a > b ? a : b;
        }
    }
    __syncthreads();
    return part[0];
}

static __device__ float scaled(const kf_soften &s, float x)
{
    x *= s.scale;
    return s.cap > 0 ? s.cap * tanhf(x / s.cap) : x;
}

/* A block has a query of a head; keys that it does not see get 0. */
template <int TERMS> static __global__ void __launch_bounds__(THREADS) soften_rows(kf_soften s)
{
    __shared__ float part[THREADS];
    const uint64_t query = blockIdx.x, head = blockIdx.y, t = s.q0 + query;
    const uint64_t from = s.window && t + 1 > s.window && t + 1 - s.window > s.k0
                              ? t + 1 - s.window - s.k0
                              : 0;
    const uint64_t to = t + 1 - s.k0, row = (head * s.queries + query) * s.stride;
    const float *score = s.score + row;
    float top = s.sinks ? s.sinks[head] : -INFINITY, sum = 0;
    for (uint64_t j = from + threadIdx.x; j < to; j += THREADS) {
        const float x = scaled(s, score[j]);
        top = x > top ? x : top;
    }
    top = reduce(part, top, 0);
    for (uint64_t j = from + threadIdx.x; j < to; j += THREADS)
        sum += expf(scaled(s, score[j]) - top);
    sum = reduce(part, sum, 1);
    if (s.sinks) sum += expf(s.sinks[head] - top);
    for (uint64_t j = threadIdx.x; j < s.keys; j += THREADS) {
        __nv_bfloat16 term[TERMS];
        split_number(j >= from && j < to ? expf(scaled(s, score[j]) - top) / sum : 0.0f, TERMS,
                     term);
        for (int i = 0; i < TERMS; i++)
            numbers(s.out)[i * s.heads * s.queries * s.stride + row + j] = term[i];
    }
}

extern "C" cudaError_t kf_soften_run(const kf_soften *s, cudaStream_t stream)
{
    const dim3 grid((unsigned)s->queries, (unsigned)s->heads);
    switch (s->terms) {
    case 1: soften_rows<1><<<grid, THREADS, 0, stream>>>(*s); break;
    case 2: soften_rows<2><<<grid, THREADS, 0, stream>>>(*s); break;
    default: soften_rows<3><<<grid, THREADS, 0, stream>>>(*s); break;
    }
    return cudaGetLastError();
}
