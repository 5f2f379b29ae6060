/* gemv_division.h - how one matrix-vector product is divided among the blocks and warps of a GPU.
 *
 * What is decided here follows by arithmetic from the shape, the format's tiling and the machine,
 * so a program without a GPU can know it too: plans of a GPU are made of it
 * (cuda/gemv/gemv_device.c) and predictions are (gemv_outline.h). The only question that goes to a
 * device is how many clusters run there at once. */
#ifndef KERF_GEMV_DIVISION_H
#define KERF_GEMV_DIVISION_H

#include "plan/gemv_options.h"
#include "plan/gemv_tiling.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What there is to do. */
typedef struct kf_gemv_task {
    uint64_t cols;         /* of W                                                      */
    uint64_t weight_bytes; /* of all parts                                              */
    uint32_t tiles;        /* of all parts                                              */
    uint32_t columns;      /* of x                                                      */
    uint32_t together;     /* tiles that one block has: 2 with SwiGLU, gate and up; or 1 */
    int overlap;           /* the launch before this one may still run: x may come late */
    unsigned waves; /* blocks for each that the machine has room for; 0 stands for 1: where all rows
                       of a block find no room in it, more blocks have fewer each, and the later
                       ones begin as others end                                               */
    kf_gemv_options options;
} kf_gemv_task;

/* How tiles are dealt out. A team is a block, or the cluster of blocks that share rows. */
typedef struct kf_gemv_share {
    uint32_t tiles;                 /* of all parts                                           */
    uint32_t team_tiles, team_rest; /* of a team, counted as the task's `together`; the first
                                       `rest` teams have one more                             */
    uint32_t most;                  /* tiles of a team, at most                               */
} kf_gemv_share;

/* How a block's part is divided further. This and the share are parts of the job that a kernel
 * gets. Offsets are into the block's shared memory. */
typedef struct kf_gemv_division {
    uint32_t slots_at, rows_at, table_at;
    /* the kernel for few columns of x */
    int is_few;
    uint32_t stages;       /* of a row                                                         */
    uint32_t block_stages; /* of a block's step, at most: in a team its part of a row         */
    uint32_t x_at;         /* also of the kernel for nine columns and more                     */
    uint32_t before_x;     /* units of a warp that are fetched before x, of `ahead`            */
    uint32_t full_blocks;  /* so many blocks, the first ones, fetch all of their ring before x */
    /* the kernels for more */
    uint32_t slices;       /* of a row                                                         */
    uint32_t cluster;      /* blocks that share rows, of all three; with nine columns and more, and
                              of GGUF's blocks, a power of two                                 */
    uint32_t cluster_part; /* 65536 / cluster, rounded up: n / cluster is n * cluster_part >> 16 */
    uint32_t passes;       /* over the rows                                                    */
    uint32_t warps;        /* of a block that have slices                                      */
    uint32_t sums_at, own_at;
    uint32_t k_groups; /* nine columns and more: groups of warps of a block that divide its part
                          of K; 0: another kernel                                            */
    /* few columns again */
    uint32_t ahead; /* units of a warp that are in flight: KF_GEMV_AHEAD, of GGUF's blocks also 1 */
    uint32_t steps; /* over K, each with a part of x; of planes always 1 */
} kf_gemv_division;

/* How a kernel is launched. */
typedef struct kf_gemv_grid {
    unsigned blocks;
    unsigned shared_bytes; /* dynamic shared memory of a block                             */
    unsigned most_bytes;   /* ... and how much a block may have                            */
    unsigned solo_bytes;   /* so much that no two blocks of a launch share a multiprocessor,
                              and one of the next launch still fits; 0: no need, or no room */
    unsigned per_sm;       /* blocks that a multiprocessor is meant to have                */
    int overlap;           /* may begin before the kernel before it has ended              */
} kf_gemv_grid;

typedef struct kf_gemv_launch {
    kf_gemv_task task;
    kf_gemv_share share;
    kf_gemv_division division;
    kf_gemv_grid grid;
} kf_gemv_launch;

/* How many clusters of a launch run at once; -1: the device did not answer. */
typedef int (*kf_gemv_count)(void *ctx, const kf_gemv_launch *l);

typedef struct kf_gemv_machine kf_gemv_machine; /* gemv_tuning.h */

/* Fills in share, division and grid of a task. 1: done; 0: nothing fits; -1: `count` failed. */
int kf_gemv_divide(kf_gemv_launch *l, const kf_gemv_tiling *t, const kf_gemv_machine *m,
                   kf_gemv_count count, void *ctx);

/* Columns of x that the kernel for few is compiled for: 1, 2, 4, of GGUF's blocks also 8 and 16. */
unsigned kf_gemv_few(unsigned columns);

/* Work of the busiest warp: units where x has few columns; units, and steps of its cluster, where
 * it has nine and more. */
unsigned kf_gemv_few_units(const kf_gemv_launch *l);
double kf_gemv_wide_units(const kf_gemv_launch *l, const kf_gemv_machine *m);
uint32_t kf_gemv_wide_steps(const kf_gemv_launch *l);

/* --- whether a matrix is for the kernels for tiles -------------------------------------------- */

/* The rows of a matrix as they lie in memory. */
typedef struct kf_gemv_strides {
    uint64_t row_bytes;  /* from one row of codes to the next                  */
    uint64_t row_groups; /* scales from one row (of tiles, if shared) to the next */
    uint64_t zero_bytes; /* from one row of zero points to the next            */
} kf_gemv_strides;

/* Strides of a matrix of `cols` columns with geometry g; *is_tiled: whether the kernels for tiles
 * take it. */
kf_gemv_strides kf_gemv_strides_of(const kerf_format *f, const kerf_geometry *g, uint64_t cols,
                                   const kf_gemv_tiling *t, int *is_tiled);

/* The tiling by which a product with rows of `cols` columns is planned: without the kernels for
 * many columns of x where the matrix is not for them. */
kf_gemv_tiling kf_gemv_tiling_for(const kerf_format *f, uint64_t cols);

/* Whose kernels for tiles serve a format, as an index of kerf_format_at: its own, or another's. */
size_t kf_gemv_lender_of(const kerf_format *f);

/* Whether every row of scales begins at a multiple of what one copy takes of them. */
int kf_gemv_scales_in_pieces(const kf_gemv_strides *s, const kf_gemv_launch *l,
                             const kf_gemv_tiling *t);

/* Whether every row ends with a unit, of codes and of scales. */
int kf_gemv_ends_whole(const kf_gemv_strides *s, const kf_gemv_launch *l, const kf_gemv_tiling *t);

/* How rows end. */
typedef enum kf_gemv_end {
    KF_GEMV_END_WHOLE,  /* with a unit                                                     */
    KF_GEMV_END_X,      /* within one: what there is of it is counted out                  */
    KF_GEMV_END_SCALES, /* so that scales must be read a byte at a time                    */
    KF_GEMV_END_ANY,    /* not for the kernels for tiles                                   */
    KF_GEMV_ENDS
} kf_gemv_end;

kf_gemv_end kf_gemv_end_of(const kf_gemv_strides *s, const kf_gemv_launch *l,
                           const kf_gemv_tiling *t);

#ifdef __cplusplus
}
#endif
#endif
