/* gemv_shuffle.cu - words of codes change their order where they are. */
#include "cuda/gemv/gemv_job.h"
#include "plan/gemv_shuffle.h"

enum { SHUFFLE_THREADS = 256, SHUFFLE_BLOCKS = 4096 };

/* static, for nvcc gives what an unnamed namespace holds a name that others can link with. */
static __global__ void __launch_bounds__(SHUFFLE_THREADS)
    shuffle_words(uint32_t *words, size_t n, int back)
{
    size_t step = (size_t)gridDim.x * SHUFFLE_THREADS;
    for (size_t i = (size_t)blockIdx.x * SHUFFLE_THREADS + threadIdx.x; i < n; i += step)
        words[i] = back ? kf_unshuffle_word(words[i]) : kf_shuffle_word(words[i]);
}

extern "C" cudaError_t kf_shuffle_words(uint32_t *words, size_t n, int back, cudaStream_t stream)
{
    size_t blocks = (n + SHUFFLE_THREADS - 1) / SHUFFLE_THREADS;
    if (n == 0) return cudaSuccess;
    unsigned grid = blocks < SHUFFLE_BLOCKS ? (unsigned)blocks : SHUFFLE_BLOCKS;
    shuffle_words<<<grid, SHUFFLE_THREADS, 0, stream>>>(words, n, back);
    return cudaGetLastError();
}
