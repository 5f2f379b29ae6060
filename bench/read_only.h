/* read_only.h - the kernels of bench/gemv_cuda.c that are not under test: what only reads, which is
 * the ceiling; what makes numbers; and the reference. All enqueue and return. */
#ifndef KERF_BENCH_READ_ONLY_H
#define KERF_BENCH_READ_ONLY_H

#include <kerf/codec.h>

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Ways to read: how many threads in a block, 16-byte loads in flight per thread, and blocks per
 * multiprocessor (0: as many as one pass takes). */
#define READ_WAYS 10
const char *read_way_name(int way);

/* Reads n bytes from a multiple of 16. chained: may start while the kernel before it runs, and does
 * all its loads before it waits for that. sink: 4 bytes that are (almost) never written. */
cudaError_t read_only(int way, const void *p, size_t n, int chained, void *sink, cudaStream_t s);

/* n numbers of type t: a bell of deviation `size`, runs of 64 scaled by 1/4 to 4 where `uneven`. */
cudaError_t fill_numbers(void *p, kerf_dtype t, size_t n, float size, int uneven, uint64_t seed,
                         cudaStream_t s);

/* fp16 or bf16 numbers rounded to E4M3 with a scale of one. */
cudaError_t to_e4m3(void *out, const void *in, kerf_dtype t, size_t n, cudaStream_t s);

/* y[c][r] in double, w as rows x cols of F32, x as columns x cols of type t. */
cudaError_t reference(double *y, const float *w, size_t rows, size_t cols, const void *x,
                      kerf_dtype t, unsigned columns, cudaStream_t s);

#ifdef __cplusplus
}
#endif
#endif
