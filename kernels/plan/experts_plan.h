/* experts_plan.h - a plan of a mixture-of-experts layer, and the GPU's part of it. A build without
 * CUDA has these functions too; there they refuse. */
#ifndef KERF_EXPERTS_PLAN_H
#define KERF_EXPERTS_PLAN_H

#include "plan/gemv_tiling.h"

#include <kerf/gemv_experts.h>

struct kf_gemv_machine; /* gemv_tuning.h */

/* One kind of matrix of an expert. */
typedef struct kf_experts_matrix {
    uint64_t rows, cols;
    kerf_geometry geometry;
} kf_experts_matrix;

struct kerf_gemv_experts {
    kerf_gemv_experts_shape shape; /* with defaults put in                     */
    kf_experts_matrix in, down;    /* of one expert; in: gate, up, or both     */
    int stacks;                    /* of gate and up: 1 or 2                   */
    uint64_t h_stride;             /* elements of a column of h, of 16 bytes   */
    size_t workspace;
    double bound[2];
    const char *backend;
    void *state; /* of the device, allocated by it */
};

/* Checks everything about plan->shape, puts in defaults, and fills in what follows from it alone.
 */
kerf_status kf_gemv_experts_check(kerf_gemv_experts *plan, kerf_error *err);

/* Fills state, bound and backend; everything about the shape is checked. as: the machine for which
 * the layer is divided; NULL: the device itself. */
kerf_status kf_experts_device_plan(kerf_gemv_experts *plan, kerf_device *device,
                                   const struct kf_gemv_machine *as, kerf_error *err);

/* kerf_gemv_experts_plan_create that divides the layer as for another machine, whose blocks have no
 * more shared memory than the device's: for tests. NULL: the device itself. */
KERF_CHECK kerf_status kf_gemv_experts_plan_create_as(kerf_gemv_experts **out,
                                                      const kerf_gemv_experts_shape *shape,
                                                      const kerf_exec *exec,
                                                      const struct kf_gemv_machine *as,
                                                      kerf_error *err);

/* Enqueues; every span is checked and strides are what they stand for. */
kerf_status kf_experts_device_run(const kerf_gemv_experts *plan, const kerf_gemv_experts_args *args,
                                  void *stream, kerf_error *err);

/* Kernels for tiles: experts_one.cuh; experts_few.cuh; experts_tiles.cuh. */
typedef enum kf_experts_kind {
    KF_EXPERTS_ONE,
    KF_EXPERTS_FEW_TOKENS,
    KF_EXPERTS_BY_SLICES,
} kf_experts_kind;

/* --- how the shared memory of a block is divided -----------------------------------------------
 */

/* Tokens that one product takes, of the eight columns of a tensor core. */
enum { KF_EXPERTS_SHARE = 4 };

/* Shared memory of a block: the bytes of kf_experts_groups, and of finding them. */
enum { KF_EXPERTS_LISTS = 4 * 1024, KF_EXPERTS_SCRATCH = 5 * 1024 };

/* Items whose sums are there at once, and warps of a block, at most: cuda/experts/experts_y.cuh. */
enum { KF_EXPERTS_TURNS = 3, KF_EXPERTS_WARPS = 8 };

/* Tokens of a group in the kernel for few: columns of one product; FOURS: where more pay. */
enum { KF_EXPERTS_FEW = 2, KF_EXPERTS_FOURS = 4 };

/* Tokens that a group may have: four of GGUF's blocks, which take long to decode. */
KF_TILING unsigned kf_experts_few_most(kf_gemv_tiling t)
{
    return t.way == KF_WAY_BLOCKS ? KF_EXPERTS_FOURS : KF_EXPERTS_FEW;
}

/* Whether a format has the kernel by slices: those that the other two do not take; those of 8 bits,
 * which they do not always make faster; and those with a table, which finds no room beside their
 * rings in blocks of 99 KiB. GGUF's blocks do not. */
KF_TILING int kf_experts_has_slices(kf_spec s)
{
    const kf_gemv_tiling t = kf_gemv_tiling_of(s);
    return t.has_many && (!t.has_few || t.bits >= 8 || t.table);
}

/* So many bytes, up to whole lines: parts of shared memory begin at multiples of 128. */
KF_TILING unsigned kf_experts_whole(unsigned bytes)
{
    return (bytes + 127) / 128 * 128;
}

/* Bytes of a unit in the kernels that go by stages, with a word of scales more in each row, and one
 * that a lane may read behind the last. */
KF_TILING unsigned kf_experts_unit(kf_gemv_tiling t)
{
    unsigned scales = !t.has_groups ? 0 : t.is_shared ? 64 : KF_GEMV_TILE * (t.stage_row + 4) + 4;
    if (t.way == KF_WAY_BLOCKS) return kf_experts_whole(t.stage_unit);
    return kf_experts_whole(KF_GEMV_TILE * t.stage + scales);
}

typedef struct kf_experts_room {
    unsigned share, warps, depth, blocks; /* blocks: of a multiprocessor, meant */
    unsigned x_pitch, slot;
    unsigned sums_at, sum_cols, zeros_at, lists_at, table_at, bytes;
} kf_experts_room;

/* What it follows from. */
typedef struct kf_experts_need {
    unsigned mats, unit, x_bytes, zeros, table; /* bytes, but mats                   */
    unsigned columns;        /* whose sums are there; 0: as many as share weights        */
    unsigned lists, scratch; /* bytes                                               */
    unsigned most_shared;    /* of a block                                          */
} kf_experts_need;

/* By slices, with so many tokens for a product; prefers two blocks for a multiprocessor to one,
 * then more warps, then a deeper ring. 0: nothing fits. */
int kf_experts_divide(kf_experts_room *out, const kf_experts_need *need, unsigned share);

/* --- several tokens -----------------------------------------------------------------------------
 */

/* What a launch has to do, and the machine that it runs on. */
typedef struct kf_experts_few_need {
    int is_down;
    unsigned share;                       /* columns of a product                        */
    unsigned tokens;                      /* of a group, at most; 0: as many             */
    int is_tight;                         /* parts may be small: what is tried at last   */
    unsigned tiles, slices, groups;       /* of what comes out; stages of a row; at most */
    unsigned unit, x_stage, table, lists; /* bytes */
    unsigned x_sums;                      /* ... of a stage: sums of x over groups; 0: none */
    unsigned multiprocessors, most_shared;
} kf_experts_few_need;

typedef struct kf_experts_few_room {
    unsigned blocks; /* of the launch, of which a multiprocessor has one or two: beside */
    unsigned beside;
    unsigned chunks, chunk_stages, most_items;
    unsigned x_pitch, x_at, backs_at, x_sums_at, lists_at, table_at, sums_at, bytes;
} kf_experts_few_room;

/* The upper half of n x this is n / d, as long as n x d has 32 bits; 0 stands for a d of 1. */
KF_TILING uint32_t kf_inverse(uint32_t d)
{
    return (uint32_t)(((UINT64_C(1) << 32) + d - 1) / d);
}

/* How many blocks there are, what is a part of their work, and what lies where. 0: nothing fits. */
int kf_experts_few_divide(kf_experts_few_room *out, const kf_experts_few_need *need);

/* Tokens of a group in a layer of which both launches have these needs, share apart: what the
 * format may have, where slots are more than experts, with two bits and with six and more also
 * where they are as many, and x of so many tokens has room in two blocks for a multiprocessor; or
 * KF_EXPERTS_FEW. */
unsigned kf_experts_few_share(const kf_experts_few_need need[2], kf_gemv_tiling t, unsigned tokens,
                              unsigned top_k, unsigned experts);

/* --- one token ----------------------------------------------------------------------------------
 */

/* What a launch for one token has to do, and the machine that it runs on. */
typedef struct kf_experts_one_need {
    int is_down;
    unsigned tiles, slices, top_k; /* of what comes out; stages of a row; experts at most  */
    unsigned unit, x_stage, table; /* bytes */
    unsigned x_sums;               /* ... of a stage: sums of x over groups; 0: none       */
    unsigned multiprocessors, most_shared;
    int has_clusters;
} kf_experts_one_need;

typedef struct kf_experts_one_room {
    unsigned team, blocks; /* of a team; of the launch */
    unsigned x_at, backs_at, x_sums_at, sums_at, runs_at, mail_at, table_at, bytes;
} kf_experts_one_room;

/* How many blocks there are, how many share rows, and what lies where. 0: nothing fits. */
int kf_experts_one_divide(kf_experts_one_room *out, const kf_experts_one_need *need);

#endif
