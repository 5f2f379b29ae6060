/* gemv_outline.h - how the matrix-vector product on a GPU divides a shape: what a plan decides by
 * arithmetic alone, so that a machine without a GPU can know it too.
 *
 * Where a time comes from is seen here and not in the bytes: how often a block's threads go around
 * to make x ready, how many stages the busiest warp has, whether a row ends within a stage. Plans
 * are made of this (cuda/gemv_device.c), and predictions are (advisor). */
#ifndef KERF_GEMV_OUTLINE_H
#define KERF_GEMV_OUTLINE_H

#include <kerf/codec.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Warps of a block, rows of a tile. */
enum { KF_GEMV_WARPS = 8, KF_GEMV_TILE = 16 };

/* Of the kernel for nine columns of x and more: warps of a block, units that a warp has on their
 * way, bytes of 32 inputs of all columns in shared memory. */
enum { KF_GEMV_WIDE_WARPS = 16, KF_GEMV_WIDE_DEPTH = 2, KF_GEMV_WIDE_X = 1040 };

/* Of the kernel for few columns of x: how many it takes, units that a warp has on their way, and
 * bytes between columns, which set them half a row of banks apart. */
enum { KF_GEMV_FEW = 4, KF_GEMV_AHEAD = 2, KF_GEMV_GAP = 64 };

/* How the kernels for tiles take a format; all zeros where they do not. */
typedef struct kf_gemv_tiling {
    unsigned bits;         /* of a code                                           */
    unsigned stage_codes;  /* of a row of a unit, for few columns of x            */
    unsigned stage_ring;   /* bytes of shared memory, for all warps; 0: none such */
    unsigned stage_scales; /* bytes of scales of a row of a unit, in one copy     */
    unsigned slice_codes;  /* the same for more                                   */
    unsigned slice_unit;   /* bytes of 16 rows of that, with their scales         */
    unsigned slice_ring;   /* for one warp                                        */
    unsigned slice_scales;
    unsigned table_bytes; /* of shared memory                                    */
    double rounding;      /* what weights lose: relative                         */
} kf_gemv_tiling;

/* What the device is. */
typedef struct kf_gemv_machine {
    unsigned multiprocessors;
    unsigned most_shared; /* bytes of dynamic shared memory that a block may have */
    int has_clusters;
    int has_wgmma; /* sm_90a */
} kf_gemv_machine;

typedef struct kf_gemv_layout {
    /* what there is to do */
    uint32_t tiles;   /* of all parts                               */
    uint32_t columns; /* of x                                       */
    uint32_t pair;    /* tiles that stay together: 2 with SwiGLU, else 1 */
    int overlap;      /* with the launch ahead of it: x may be late         */
    uint64_t cols;
    /* what was decided: see kf_gemv_job */
    int is_column; /* the kernel for one column of x, two or four */
    uint32_t stages, slices;
    uint32_t cluster; /* blocks that share rows: of few columns one or two */
    uint32_t passes, warps, team_tiles, team_rest, most;
    uint32_t early, eager_blocks, x_at, sums_at, own_at, slots_at, rows_at, table_at;
    uint32_t side; /* of nine columns and more: groups of warps of a block that divide K; 0: the
                      kernel for fewer, or where there is no such */
    unsigned blocks, shared_bytes;
    unsigned per_sm; /* blocks that a multiprocessor is meant to have */
    /* of that kernel: shared memory that no two blocks share one with; 0: no need, or no room */
    unsigned apart_bytes;
} kf_gemv_layout;

/* Whether two blocks share rows where x has few columns: where that saves time, or, so that tests
 * see them on small matrices too, never or wherever a row has two stages. For the whole process;
 * plans keep what they were made with. */
typedef enum kf_gemv_pairing {
    KF_GEMV_PAIR_BY_GAIN,
    KF_GEMV_PAIR_NEVER,
    KF_GEMV_PAIR_ALWAYS
} kf_gemv_pairing;
void kf_gemv_set_pairing(kf_gemv_pairing p);

/* Likewise: nine columns and more by the kernel for them wherever it can, on one cluster, so that
 * more than 256 rows have several steps. */
void kf_gemv_set_wide(int always);

/* How many clusters of a layout run at once; -1: cannot be asked. */
typedef int (*kf_gemv_count)(void *ctx, const kf_gemv_layout *l);

/* Fills in what is decided. 1: done; 0: nothing fits; -1: `count` failed. weight_bytes: of all
 * parts. */
int kf_gemv_lay_out(kf_gemv_layout *l, const kf_gemv_tiling *t, const kf_gemv_machine *m,
                    uint64_t weight_bytes, kf_gemv_count count, void *ctx);

/* --- without a device ------------------------------------------------------------------------- */

/* The tiling that the kernels of a format are compiled with, and the machine that an architecture
 * is ("sm_90"); all zeros for what is not known. */
kf_gemv_tiling kf_gemv_tiling_of(const kerf_format *f);
kf_gemv_machine kf_gemv_machine_of(const char *arch, unsigned multiprocessors);

/* How rows end. */
typedef enum kf_gemv_end {
    KF_GEMV_END_WHOLE,  /* with a stage                                                      */
    KF_GEMV_END_X,      /* within one: what there is of it is counted out                    */
    KF_GEMV_END_SCALES, /* so that scales must be read a byte at a time                      */
    KF_GEMV_END_ANY,    /* a shape for the kernel that takes all: what follows is not filled */
    KF_GEMV_ENDS
} kf_gemv_end;

typedef struct kf_gemv_outline {
    kf_gemv_end end;
    unsigned per_sm, resident; /* blocks that a multiprocessor is meant to have, and has room for */
    unsigned pairs;            /* whether two blocks share rows, of few columns                   */
    unsigned early;            /* units of a warp that come before x, of few columns              */
    unsigned units;            /* of the warp that has most, of few columns                       */
    double inputs;             /* of x that a block makes ready, padding counted                  */
    double rounds;             /* in which its threads do that                                    */
    double stages; /* of the warp that has most; of few columns, times the blocks that share its
                      multiprocessor */
} kf_gemv_outline;

/* One matrix, `columns` columns of bf16. KERF_E_NOSUP without a text: no such machine, or no
 * matrix-vector product. */
kerf_status kf_gemv_outline_of(const kerf_format *f, uint64_t rows, uint64_t cols, unsigned columns,
                               const kf_gemv_machine *m, kf_gemv_outline *out);

#ifdef __cplusplus
}
#endif
#endif
