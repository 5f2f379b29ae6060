/* run_sums.h - the score of a tensor by a crew. Its sums are those that one worker finds who scores
 * panel by panel: runs are added up to panels, and panels to the tensor, in their order. */
#ifndef KERF_RUN_SUMS_H
#define KERF_RUN_SUMS_H

#include <kerf/advisor.h>

#include "stream/panels.h"

enum { MOST_RUNS = 8 }; /* of a part of a panel */

typedef struct run_sums {
    const kerf_geometry *geometry;
    uint64_t run; /* bands; 0: parts are not cut, but scored in one call */
    kerf_scorer *scorer;
    kerf_score panel; /* what is known of the one at hand */
} run_sums;

/* The bands of run r of a part, and where they begin in its spans; 0 past the last run. */
int run_at(const run_sums *s, const kf_panel *p, size_t r, kf_panel *out);
/* What `run` loses: planes and dense elements of its bands. May be called by several workers. */
kerf_status run_score(const run_sums *s, const kf_panel *run, kerf_dtype dtype,
                      const float *importance, const kerf_exec *exec, kerf_score *out,
                      kerf_error *err);
/* Adds the runs of part p, in the order of parts; codes: of the part. */
kerf_status run_sums_add(run_sums *s, const kf_stream *of, const kf_panel *p, const kerf_score *run,
                         kerf_cspan codes, kerf_error *err);

#endif
