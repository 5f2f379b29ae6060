/* gemv_job.h - what one launch of the matrix-vector product works on, and the launches that every
 * row of formats.def has. */
#ifndef KERF_GEMV_JOB_H
#define KERF_GEMV_JOB_H

#include "plan/gemv_division.h"

#include <kerf/gemv.h>

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One matrix of those that share x. */
typedef struct kf_gemv_matrix {
    const uint8_t *plane[KERF_PLANES];
    const uint8_t *bias, *residual;
    uint8_t *y;
    uint64_t y_stride; /* elements */
    uint32_t rows;
    uint32_t tiles; /* of 16 rows, of the parts up to and with this one */
} kf_gemv_matrix;

typedef struct kf_gemv_job {
    kf_gemv_matrix part[KERF_GEMV_PARTS];
    const uint8_t *x;
    uint64_t x_stride; /* elements */
    kf_gemv_strides strides;
    uint32_t cols, columns, parts;
    float alpha;
    kerf_dtype x_type, y_type;
    int swiglu, constant_weights;
    kf_gemv_share share;
    int aligned;    /* codes begin at multiples of 16 bytes             */
    int words;      /* rows of scales begin at multiples of 4 bytes     */
    int pieces;     /* ... and of what one copy takes of them           */
    int zero_words; /* the same of zero points                          */
    int whole;      /* rows end with a unit, and all copies are aligned */
    int x_wide;     /* every vector of x is aligned                     */
    kf_gemv_division division;
} kf_gemv_job;

typedef struct kf_gemv_launches {
    /* Prepares the device for a launch like this; *clusters: how many run at once. */
    cudaError_t (*prepare)(const kf_gemv_job *j, const kf_gemv_grid *g, int *clusters);
    cudaError_t (*tiles)(const kf_gemv_job *j, const kf_gemv_grid *g, cudaStream_t s);
    /* Any format and shape, an element at a time; NULL for shuffled codes. */
    cudaError_t (*any)(const kf_gemv_job *j, const kf_gemv_grid *g, cudaStream_t s);
    const struct kf_gemv_launches *shuffled; /* the same for shuffled codes; NULL: none such */
} kf_gemv_launches;

/* Shuffles n words in device memory, or brings them back. */
cudaError_t kf_shuffle_words(uint32_t *words, size_t n, int back, cudaStream_t stream);

#define KERF_FORMAT(ID, ...) extern const kf_gemv_launches kf_gemv_launches_##ID;
#include <kerf/formats.def>
#undef KERF_FORMAT

#ifdef __cplusplus
}
#endif
#endif
