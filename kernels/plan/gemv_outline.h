/* gemv_outline.h - what a product on a GPU costs, in counts: for predictions without a GPU.
 *
 * Where time goes is seen here and not in the bytes: how often a block's threads go around to make
 * x ready, how many units the busiest warp has, whether a row ends within a unit. */
#ifndef KERF_GEMV_OUTLINE_H
#define KERF_GEMV_OUTLINE_H

#include "plan/gemv_division.h"
#include "plan/gemv_tuning.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kf_gemv_outline {
    kf_gemv_end end;           /* KF_GEMV_END_ANY: what follows is not filled in               */
    unsigned launches;         /* each of some columns and of all weights                      */
    unsigned per_sm, resident; /* blocks that a multiprocessor is meant to have, and has room for */
    unsigned team;             /* blocks that share rows, of few columns                       */
    unsigned before_x;         /* units of a warp that come before x, of few columns           */
    unsigned units;            /* of the warp that has most, of few columns, in a launch       */
    unsigned ahead;            /* units of a warp that are in flight, of few columns           */
    unsigned steps;            /* over K, each with a part of x                                */
    /* sums over the launches */
    double inputs; /* of x that a block makes ready, padding counted                           */
    double rounds; /* in which its threads do that                                             */
    double stages; /* of the warp that has most; of few columns, times the blocks that share its
                      multiprocessor */
} kf_gemv_outline;

/* One matrix of `rows` x `cols`, `columns` columns of bf16. KERF_E_NOSUP without a text: no such
 * machine, or no matrix-vector product. */
kerf_status kf_gemv_outline_of(const kerf_format *f, uint64_t rows, uint64_t cols, unsigned columns,
                               const kf_gemv_machine *m, kf_gemv_outline *out);

#ifdef __cplusplus
}
#endif
#endif
