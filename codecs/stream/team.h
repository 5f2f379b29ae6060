/* team.h - the items of a call, mostly tensors, shared by the members of a team. */
#ifndef KERF_STREAM_TEAM_H
#define KERF_STREAM_TEAM_H

#include <kerf/job.h>

typedef struct kf_team_work {
    /* Item i, by any member; several at a time when the team is larger than one. */
    kerf_status (*work)(void *ctx, size_t i, const kerf_exec *exec, kerf_error *err);
    /* After work, in the order of the items, one at a time; NULL: nothing is left to do. */
    kerf_status (*finish)(void *ctx, size_t i, kerf_error *err);
} kf_team_work;

/* Items [0, count). After a failure no item is begun; the status is that of the first that failed,
 * in the order of items. t: as kerf_team describes it, NULL included. */
kerf_status kf_team_run(const kerf_team *t, size_t count, const kf_team_work *w, void *ctx,
                        kerf_error *err);

#endif
