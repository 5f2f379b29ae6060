/* experts_job.h - what the two launches of a mixture-of-experts layer work on, and the launches
 * that every row of formats.def has. */
#ifndef KERF_EXPERTS_JOB_H
#define KERF_EXPERTS_JOB_H

#include "cuda/gemv/gemv_job.h"
#include "plan/experts_plan.h"

#include <kerf/gemv_experts.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Slots of all tokens; tokens that one product takes, of the eight columns of a tensor core. */
enum { KF_EXPERTS_SLOTS = KERF_EXPERTS_TOKENS * KERF_EXPERTS_TOP_K, KF_EXPERTS_SHARE = 4 };

/* Shared memory of a block: the bytes of kf_experts_groups, and of finding them. */
enum { KF_EXPERTS_LISTS = 3 * 1024 + 512, KF_EXPERTS_SCRATCH = 3 * 1024 };

typedef struct kf_experts_stack {
    const uint8_t *plane[KERF_PLANES];
    uint64_t stride[KERF_PLANES]; /* bytes */
    const uint8_t *bias;
    uint32_t rows; /* of an expert's matrix */
} kf_experts_stack;

/* One of the two launches. */
typedef struct kf_experts_job {
    kf_gemv_job lay; /* how matrices lie: strides, cols, aligned, words, zero_words, whole */
    kf_experts_stack stack[2]; /* gate and up, or down once */
    uint32_t first[2];         /* row of the first tile in either */
    uint32_t step;             /* rows from a tile to the next: 16, or 32 where rows alternate */
    uint32_t tiles, out;       /* of 16 rows of what comes out; how many rows that are */
    uint32_t slices;           /* of a row of weights */
    const uint8_t *x; /* of tokens; of the columns of groups, one after another, for down */
    uint8_t *y;
    uint64_t x_stride, y_stride; /* elements */
    kerf_dtype x_type, y_type, bias_type;
    int x_wide; /* rows of x begin at multiples of 16 bytes */
    /* routes */
    const int32_t *ids;
    const float *weights;
    uint32_t experts, tokens, top_k;
    /* after the product */
    int alternating, clamped;
    float limit;
    /* a block's shared memory */
    uint32_t warps, depth;
    uint32_t share;             /* tokens that one product takes                          */
    uint32_t x_pitch, x_at;     /* bytes of a column of x; where they begin in a slot     */
    uint32_t slot;              /* bytes of a slot of a warp's ring: weights, and x       */
    uint32_t sums_at, sum_cols; /* sums of warps; columns of a warp's                     */
    uint32_t zeros_at, lists_at, table_at;
} kf_experts_job;

typedef struct kf_experts_grid {
    unsigned blocks, threads, shared_bytes;
    int overlap; /* may begin before the kernel before it has ended */
} kf_experts_grid;

/* which: 0 gate and up, 1 down. */
typedef struct kf_experts_launches {
    /* Blocks that a multiprocessor holds; 0: not compiled for this device. */
    cudaError_t (*prepare)(int which, const kf_experts_grid *g, unsigned most_bytes, int *blocks);
    cudaError_t (*tiles)(int which, const kf_experts_job *j, const kf_experts_grid *g,
                         cudaStream_t s);
    cudaError_t (*any)(int which, const kf_experts_job *j, const kf_experts_grid *g,
                       cudaStream_t s);
} kf_experts_launches;

#define KERF_FORMAT(ID, ...) extern const kf_experts_launches kf_experts_launches_##ID;
#include <kerf/formats.def>
#undef KERF_FORMAT

#ifdef __cplusplus
}
#endif
#endif
