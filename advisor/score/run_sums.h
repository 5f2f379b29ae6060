/* run_sums.h - how several workers score one tensor, so that its sums do not depend on how many
 * they are. A worker has a part of a panel and cuts it into runs, which are a fixed number of
 * bands. Each run is summed by itself. Then runs are added up to panels, and panels to the tensor,
 * in their order. */
#ifndef KERF_RUN_SUMS_H
#define KERF_RUN_SUMS_H

#include <kerf/score.h>

#include "stream/panels.h"

enum { KF_MOST_RUNS = 8 }; /* of one part */

typedef struct kf_run_sums {
    const kerf_geometry *geometry;
    uint64_t run;        /* bands of a run; 0: a part is one run, whatever its size */
    kerf_scorer *scorer; /* adds up panels                                          */
    kerf_score panel;    /* sums of the parts of this panel so far                  */
} kf_run_sums;

/* *out: run r of part p, with spans of its own bands alone. 0 past the last run. */
int kf_run_at(const kf_run_sums *s, const kf_panel *p, size_t r, kf_panel *out);
/* Scores one run: its planes against its dense elements. Several workers may do this at a time. */
kerf_status kf_run_score(const kf_run_sums *s, const kf_panel *run, kerf_dtype dtype,
                         const float *importance, const kerf_exec *exec, kerf_score *out,
                         kerf_error *err);
/* Adds the runs of part p; parts must come in their order. codes: of the part. */
kerf_status kf_run_sums_add(kf_run_sums *s, const kf_stream *of, const kf_panel *p,
                            const kerf_score *run, kerf_cspan codes, kerf_error *err);

#endif
