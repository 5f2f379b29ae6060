/* score_tensor.h - what one tensor loses in each of some codecs: all are tried on a part of it
 * while it is in the cache, so that it is read once. */
#ifndef KERF_SCORE_TENSOR_H
#define KERF_SCORE_TENSOR_H

#include <kerf/advisor.h>
#include <kerf/file.h>

#include "base/work.h"

typedef struct score_candidate {
    kerf_codec codec;
    kerf_score *score; /* set */
} score_candidate;

/* Memory that outlives a tensor, so that the next one finds it mapped: compression has megabytes
 * for each codec. So many codecs are tried together. */
typedef struct score_room {
    kerf_scorer *scorer[16];
} score_room;

void score_room_close(score_room *room);

typedef struct score_job {
    score_room *room; /* all jobs with it have the same level of compression */
    const kerf_reader *reader;
    const kerf_weight *weight; /* dense */
    const score_candidate *candidate;
    size_t count;
    kerf_scorer_options options;
    const kerf_exec *exec;
    kf_work *progress; /* by the bytes of the tensor for each codec, twice if it needs statistics */
} score_job;

/* Errors as of encode_tensor. */
kerf_status score_tensor(const score_job *job, kerf_error *err);

#endif
