/* score_tensor.h - what one tensor loses in each of some codecs. They are tried together on one
 * part of the tensor after the other, so that it is read once. */
#ifndef KERF_SCORE_TENSOR_H
#define KERF_SCORE_TENSOR_H

#include <kerf/score.h>

#include "base/work.h"
#include "score/score_gram.h"

typedef struct kf_score_candidate {
    kerf_codec codec;
    kerf_score *score; /* the result */
} kf_score_candidate;

enum { KF_SCORED_TOGETHER = 16 }; /* codecs in one pass over a tensor */

/* Memory that is used again for the next tensor: compression needs megabytes for each codec. */
typedef struct kf_score_memory {
    kerf_scorer *scorer[KF_SCORED_TOGETHER];
} kf_score_memory;

void kf_score_memory_close(kf_score_memory *memory); /* all zeros are fine */

typedef struct kf_score_job {
    kf_score_memory *memory; /* of jobs one after the other, with the same level of compression */
    const kerf_reader *reader;
    const kerf_weight *weight; /* dense */
    const kf_score_candidate *candidate;
    size_t count;
    kerf_scorer_options options;
    kf_gram_weights gram; /* all zeros: errors are weighed by column alone */
    const kerf_exec *exec;
    kf_work
        *progress; /* counts the tensor's bytes for each codec, twice where that needs statistics */
} kf_score_job;

/* Errors as of kf_encode_tensor. */
kerf_status kf_score_tensor(const kf_score_job *job, kerf_error *err);

#endif
