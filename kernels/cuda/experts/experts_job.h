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

/* Slots of all tokens. */
enum { KF_EXPERTS_SLOTS = KERF_EXPERTS_TOKENS * KERF_EXPERTS_TOP_K };

/* Counts of a launch of down for several tokens: blocks that have left all of their sums, and tiles
 * of y that are added up. */
enum { KF_EXPERTS_LEFT, KF_EXPERTS_ADDED, KF_EXPERTS_COUNTS };

/* One kind of matrix of all experts. */
typedef struct kf_experts_planes {
    const uint8_t *plane[KERF_PLANES];
    uint64_t stride[KERF_PLANES]; /* bytes */
    const uint8_t *bias;
} kf_experts_planes;

/* One of the two launches. What comes first is needed first, and all of it is small: the first read
 * of each 64 bytes of a kernel's parameters takes as long as one of the second level of the cache.
 */
typedef struct kf_experts_job {
    /* routes, and a block's shared memory */
    const int32_t *ids;
    const float *weights;
    uint32_t experts, tokens, top_k;
    uint32_t share; /* tokens that one product takes                          */
    uint32_t lists_at, sums_at, zeros_at, table_at;
    uint32_t warps, depth, slot; /* of a ring: slots of a warp, bytes of a slot: weights, and x */
    uint32_t x_pitch, x_at;      /* bytes of a column of x; where they begin in a slot */
    uint32_t raw_at;             /* ... and scales that are copied as they lie; 0: none are */
    uint32_t tiles, slices;      /* of 16 rows of what comes out; of a row of weights   */
    /* several tokens (experts_few.cuh); slices are stages then */
    uint32_t chunks, chunk_stages; /* pieces of rows of h whose sums are apart; stages of one */
    uint32_t most_items;           /* of a part                                               */
    uint32_t by_blocks, by_tiles, by_stages; /* kf_inverse() of the launch's, tiles, chunk_stages */
    /* one token (experts_one.cuh); slices are stages then, too */
    uint32_t is_down, team;              /* blocks that share rows */
    uint32_t backs_at, runs_at, mail_at; /* factors of stages of x; which warps have a result; sums
                                          * that blocks send each other */
    /* weights, as gemv_job.h has it */
    uint32_t cols, rows; /* of an expert's matrix */
    kf_gemv_strides strides;
    uint32_t copy_rows; /* of codes, bytes: from a lane's copy of a unit to its next */
    uint32_t first[2];  /* row of the first tile of gate and of up */
    uint32_t step;      /* rows from a tile to the next: 16, or 32 where rows alternate */
    int aligned, words, zero_words;
    int plain_scales;           /* rows of scales begin at multiples of what a copy takes */
    kf_experts_planes stack[2]; /* gate and up, or down once */
    const uint8_t *x; /* of tokens; of the columns of groups, one after another, for down */
    uint64_t x_stride, y_stride; /* elements */
    uint8_t *y;
    /* Several tokens: what each column adds to y, and counts, which gate and up makes zero. */
    float *parts;
    uint32_t *counts;
    kerf_dtype x_type, y_type, bias_type;
    int x_wide; /* rows of x begin at multiples of 16 bytes */
    /* after the product */
    uint32_t sum_cols; /* columns of a warp's sums          */
    uint32_t out;      /* how many rows come out            */
    int alternating, clamped;
    float limit;
    uint32_t x_sums_at; /* GGUF's blocks with minima: sums of x over groups, of each stage */
} kf_experts_job;

typedef struct kf_experts_grid {
    unsigned blocks, threads, shared_bytes;
    unsigned team; /* blocks of a cluster, or 1 */
    kf_experts_kind kind;
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
    /* The same for several tokens in groups of up to KF_EXPERTS_FOURS, and for shuffled codes; any
     * of theirs is NULL. NULL: the row has none such. */
    const struct kf_experts_launches *fours, *shuffled;
} kf_experts_launches;

#define KERF_FORMAT(ID, ...) extern const kf_experts_launches kf_experts_launches_##ID;
#include <kerf/formats.def>
#undef KERF_FORMAT

#ifdef __cplusplus
}
#endif
#endif
