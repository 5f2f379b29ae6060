/* gemv_weights.h - quantized matrices in the memory of the GPU for bench/gemv_cuda.c: as many
 * copies as fill a gigabyte, each an allocation of its own with numbers of its own, and what some
 * of their rows mean. */
#ifndef KERF_BENCH_GEMV_WEIGHTS_H
#define KERF_BENCH_GEMV_WEIGHTS_H

#include <kerf/cuda.h>
#include <kerf/gemv.h>

#include <cuda_runtime_api.h>

#define SAMPLED_ROWS 48

extern kerf_device *bench_gpu;
extern cudaStream_t bench_stream;
extern kerf_error bench_error;

void bench_fail(const char *what, const char *why) __attribute__((noreturn));
void bench_need(kerf_status s, const char *what);
void bench_need_cuda(cudaError_t e, const char *what);
void *bench_room(size_t n); /* host memory, zeroed */
void *bench_device_room(size_t n);

/* One matrix of an allocation: where its planes are. */
typedef struct placed {
    kerf_geometry g;
    size_t offset[KERF_PLANES], end;
} placed;

/* A matrix whose planes begin at `from` of an allocation. */
placed place(const kerf_format *f, uint64_t rows, uint64_t cols, size_t from);
void place_spans(const placed *m, const void *base, kerf_cspan out[KERF_PLANES]);
/* Encodes random numbers of about this deviation into it. */
void place_numbers(const placed *m, void *base, float size, uint64_t seed);

/* A format, and whether its codes are shuffled for the GPU: "nvfp4-shuffled". */
typedef struct variant {
    const kerf_format *format;
    int shuffled;
    char name[32];
} variant;

/* Shuffles the codes of a matrix where they are. */
void place_shuffled(const placed *m, void *base);

typedef struct weights {
    const kerf_format *format;
    const char *name;
    unsigned flags; /* of a plan */
    uint64_t rows, cols;
    placed m;
    void **copy;
    int copies;
    /* Some rows of the first copy, decoded on the device by the codec. */
    uint64_t row[SAMPLED_ROWS];
    size_t sampled;
    float *values;
} weights;

weights weights_new(const variant *v, uint64_t rows, uint64_t cols, double total_bytes);
void weights_free(weights *w);

/* What y of the sampled rows must be: columns x sampled, in double. Freed by the caller. */
double *weights_exact(const weights *w, const void *x, kerf_dtype t, unsigned columns);

#endif
