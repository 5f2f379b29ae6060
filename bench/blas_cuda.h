/* blas_cuda.h - cuBLAS and cublasLt as a baseline: Y = W X with dense fp16 weights, or with E4M3
 * weights and vectors. Loaded at run time, so that nothing links with them. */
#ifndef KERF_BENCH_BLAS_CUDA_H
#define KERF_BENCH_BLAS_CUDA_H

#include <cuda_runtime_api.h>
#include <stddef.h>

typedef enum blas_kind { BLAS_F16, BLAS_E4M3 } blas_kind;

#define BLAS_WAYS 12

/* A product of one size and all the ways that the libraries offer for it. */
typedef struct blas_product {
    blas_kind kind;
    int rows, cols, columns; /* E4M3: columns are a multiple of 16 */
    int add;                 /* y += W x                           */
    int ways;                /* fp16: the first is cublasGemmEx    */
    void *description, *a, *b, *c;
    struct {
        unsigned char bytes[128];
    } algorithm[BLAS_WAYS];
} blas_product;

/* 0, or why not. */
const char *blas_open(void);
const char *blas_plan(blas_product *out, blas_kind kind, int rows, int cols, int columns, int add);
/* w: rows x cols; x, y: columns vectors; y is fp16. w_scale, x_scale: on the device; for E4M3. */
const char *blas_run(const blas_product *p, int way, const void *w, const void *x, void *y,
                     const void *w_scale, const void *x_scale, cudaStream_t s);
void blas_free(blas_product *p);
int blas_version(void);

#endif
