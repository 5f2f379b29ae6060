/* compare.h - one weight of a source against the weight of the same name in another checkpoint. */
#ifndef KERF_COMPARE_H
#define KERF_COMPARE_H

#include <kerf/advisor.h>

#include <kerf/checkpoint.h>
#include "base/work.h"

typedef struct comparison {
    const kerf_weight *weight; /* of the source                                  */
    const kerf_weight *other;  /* NULL: missing                                  */
    int measured;              /* score holds figures                            */
    kerf_score score;
    char problem[160]; /* what is wrong besides figures; empty: nothing  */
} comparison;

typedef struct compare_job {
    const kerf_checkpoint *source, *other;
    int by_value; /* dense tensors may differ: measure them */
    const kerf_exec *exec;
    kf_work *progress;
} compare_job;

/* Fills out->score or out->problem for out->weight and out->other:
 *   dense and quantized   decoded and measured
 *   quantized and dense   must be its exact decoding
 *   the same kind         must be equal byte for byte, or measured when by_value */
kerf_status compare_weights(const compare_job *job, comparison *out, kerf_error *err);

#endif
