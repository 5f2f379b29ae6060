/* progress.h - how far a long verb has come: a bar for people, JSON lines for programs. Standard
 * error only. Several threads may tell of their work at once. */
#ifndef KERF_PROGRESS_H
#define KERF_PROGRESS_H

#include <kerf/job.h>

#include "args.h"
#include "base/work.h"

typedef struct progress {
    int mode; /* 0 silent, 1 bar, 2 JSON lines */
    double started_s, phase_s, shown_s;
    int drawn;
    char what[64];
    kerf_event last; /* the counters as they were told last */
    kerf_job job;    /* what the library is given           */
    kf_work work;
} progress;

/* Reads --progress. */
kerf_status progress_open(progress *p, const args *a, uint64_t total, kerf_error *err);
int progress_allows_text(const args *a); /* 0: standard error is for JSON alone */
double progress_close(progress *p);      /* clears the bar; returns the seconds since open */

double now_s(void); /* a clock that never goes back */

#endif
