/* gemv_job.h - what one launch of the matrix-vector product works on, and the launches that every
 * row of formats.def has. */
#ifndef KERF_GEMV_JOB_H
#define KERF_GEMV_JOB_H

#include "plan/gemv_outline.h"

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
    uint64_t row_bytes, row_groups, zero_bytes;
    uint32_t cols, columns, parts;
    float alpha;
    kerf_dtype x_type, y_type;
    int swiglu, constant_weights;
    /* of both kernels for tiles of 16 rows */
    uint32_t tiles;                       /* of all parts                                     */
    uint32_t team_tiles, team_rest;       /* of a block or cluster; the first `rest` have one */
                                          /* more: pairs of gate and up, with swiglu          */
    uint32_t most;                        /* tiles of a block or cluster, at most             */
    int aligned;                          /* codes begin at multiples of 16 bytes             */
    int words;                            /* rows of scales begin at multiples of 4 bytes     */
    int zero_words;                       /* the same of zero points                          */
    int whole;                            /* rows end with a unit, and all copies are aligned */
    int x_wide;                           /* every vector of x is aligned                     */
    uint32_t slots_at, rows_at, table_at; /* offsets in shared memory                   */
    /* of the kernel for one column of x, two or four */
    int is_column;
    uint32_t stages;       /* of a row */
    uint32_t block_stages; /* of a block, at most: two share rows where cluster is 2 */
    uint32_t x_at;
    uint32_t early;        /* units of a warp that are asked for before x, of KF_GEMV_AHEAD */
    uint32_t eager_blocks; /* so many blocks, the first, ask for all of them before x */
    /* of the kernel for several */
    uint32_t slices;  /* of a row                                           */
    uint32_t cluster; /* blocks that share rows, a power of two; of both    */
    uint32_t passes;  /* over the rows                                      */
    uint32_t warps;   /* of a block that have slices                        */
    uint32_t sums_at, own_at;
    uint32_t side; /* of nine columns and more: groups of warps that divide the block's part of K */
} kf_gemv_job;

typedef struct kf_gemv_grid {
    unsigned blocks, shared_bytes, most_bytes; /* of dynamic shared memory: used, and there */
    unsigned apart_bytes;                      /* see kf_gemv_layout                        */
    int overlap; /* may begin before the kernel ahead of it on the stream is complete */
} kf_gemv_grid;

typedef struct kf_gemv_launches {
    kf_gemv_tiling tiling;
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
