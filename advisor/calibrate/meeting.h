/* meeting.h - ranks (kerf/ranks.h) that are threads of this process, one for each GPU: what they
 * send to each other is one copy in memory. */
#ifndef KERF_MEETING_H
#define KERF_MEETING_H

#include <kerf/job.h>
#include <kerf/ranks.h>

/* What every rank does. job: for its progress, which becomes part of that of all, and to ask
 * whether to go on: also when another rank has failed. */
typedef kerf_status (*kf_rank_call)(void *ctx, const kerf_ranks *r, const kerf_job *job,
                                    kerf_error *err);

/* Makes the call in `ranks` threads; the calling thread is rank 0, whose phases are those of all.
 * Whoever waits for another asks every few milliseconds whether the job is canceled. When a rank
 * fails, all end: *failed is it, of several the lowest, and the status is its own. */
kerf_status kf_meeting_run(unsigned ranks, kf_rank_call call, void *ctx, const kerf_job *job,
                           unsigned *failed, kerf_error *err);

#endif
