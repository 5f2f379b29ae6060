/* kernel_job.h - what one launch works on, and the launches that every row of formats.def has.
 *
 * A job is `lines` runs of `width` elements, one after the other in the source and in every plane.
 * A line is the longest run that is cut into groups without a remainder: everything (no value per
 * matrix), a matrix, or, where rows end in a short group or own their scale, a row. */
#ifndef KERF_CUDA_KERNEL_JOB_H
#define KERF_CUDA_KERNEL_JOB_H

#include "block/spec.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kf_job {
    uint64_t lines, width;
    uint64_t code_bytes, groups, zero_bytes; /* of a line                                     */
    uint64_t first_line;                     /* place of line 0 within its matrix             */
    uint64_t lines_per_matrix;               /* 1: a line is a matrix                         */
    uint64_t bands, first_band, bands_per_matrix; /* TILE: bands are rows of tiles            */
    uint8_t *dense;              /* source or target                              */
    uint64_t offset;             /* of the first element, for `bad`               */
    uint8_t *plane[KERF_PLANES]; /* per-matrix ones: at the matrix of line 0      */
    kerf_stats *stats;           /* at the matrix of line 0                       */
    kf_tensor *tensors;          /* likewise                                      */
    kf_scale *chosen;            /* searched scales, one per group                */
    float *floats;               /* searches: the elements; nf4-dq: absmax        */
    unsigned long long *word;    /* first bad element, or clipped elements        */
    uint32_t least, largest;     /* clip: codes of the extremes                   */
    kerf_dtype dtype;
    kerf_nan nan;
    int encoder;
} kf_job;

struct kf_feedback_job;

/* Launches of one format. Each enqueues on the stream and returns what cudaGetLastError says. Blocks
 * of two levels have decode alone; the others are NULL. */
typedef struct kf_launches {
    cudaError_t (*measure)(const kf_job *j, cudaStream_t s); /* adds to stats                 */
    cudaError_t (*prepare)(const kf_job *j, uint64_t matrices, cudaStream_t s); /* -> tensors  */
    cudaError_t (*search)(const kf_job *j, cudaStream_t s); /* -> floats, chosen              */
    cudaError_t (*encode)(const kf_job *j, cudaStream_t s);
    cudaError_t (*decode)(const kf_job *j, cudaStream_t s);
    cudaError_t (*clip)(const kf_job *j, cudaStream_t s); /* adds to word                     */
    /* One block of columns with error feedback (feedback_job.h). */
    cudaError_t (*round_block)(const struct kf_feedback_job *f, cudaStream_t s);
} kf_launches;

#define KERF_FORMAT(ID, ...) extern const kf_launches kf_launches_##ID;
#include <kerf/formats.def>
#undef KERF_FORMAT

#ifdef __cplusplus
}
#endif
#endif
