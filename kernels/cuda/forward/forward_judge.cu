/* forward_judge.cu - see forward_kernels.h: what logits say of the next token. A block has a
 * position; sums are doubles, added up as a tree. */
#include "cuda/forward/forward_kernels.h"

enum { THREADS = 256 };

/* The largest logit, the first of those that are equal. */
struct likeliest {
    float value;
    unsigned at;
};

static __device__ likeliest better(likeliest a, likeliest b)
{
    return b.value > a.value || (b.value == a.value && b.at < a.at) ? b : a;
}

static __device__ likeliest find_likeliest(const float *x, unsigned n)
{
    __shared__ likeliest part[THREADS];
    likeliest mine = {x[threadIdx.x < n ? threadIdx.x : 0], threadIdx.x < n ? threadIdx.x : 0};
    for (unsigned i = threadIdx.x; i < n; i += THREADS) mine = better(mine, likeliest{x[i], i});
    __syncthreads(); /* `part` may still be read */
    part[threadIdx.x] = mine;
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            part[threadIdx.x] = better(part[threadIdx.x], part[threadIdx.x + half]);
    }
    __syncthreads();
    return part[0];
}

static __device__ double add_all(double x)
{
    __shared__ double part[THREADS];
    __syncthreads();
    part[threadIdx.x] = x;
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    __syncthreads();
    return part[0];
}

static __global__ void __launch_bounds__(THREADS)
    judge_rows(kf_rows a, kf_rows b, const uint32_t *next, kf_likely *out)
{
    const uint64_t row = blockIdx.x;
    const unsigned n = (unsigned)a.columns;
    const uint32_t follows = next[row];
    const float *x = a.p + row * a.stride, *y = b.p ? b.p + row * b.stride : x;
    if (follows == KF_NOTHING_FOLLOWS) return;
    const likeliest top_x = find_likeliest(x, n), top_y = b.p ? find_likeliest(y, n) : top_x;
    double sum_x = 0, sum_y = 0, gap = 0;
    for (unsigned i = threadIdx.x; i < n; i += THREADS) {
        const float p = x[i] - top_x.value, e = expf(p);
        sum_x += (double)e;
        if (!b.p) continue;
        const float q = y[i] - top_y.value;
        sum_y += (double)expf(q);
        gap += (double)e * (double)(p - q);
    }
    sum_x = add_all(sum_x);
    if (b.p) {
        sum_y = add_all(sum_y);
        gap = add_all(gap);
    }
    if (threadIdx.x) return;
    kf_likely k = {(float)(log(sum_x) + (double)(top_x.value - x[follows])), 0, 0, 0};
    if (b.p) {
        k.other = (float)(log(sum_y) + (double)(top_y.value - y[follows]));
        k.kl = (float)(gap / sum_x - (log(sum_x) - log(sum_y)));
        k.agrees = top_x.at == top_y.at;
    }
    out[row] = k;
}

extern "C" cudaError_t kf_judge_run(kf_rows a, kf_rows b, const uint32_t *next, kf_likely *out,
                                    cudaStream_t stream)
{
    judge_rows<<<(unsigned)a.rows, THREADS, 0, stream>>>(a, b, next, out);
    return cudaGetLastError();
}
