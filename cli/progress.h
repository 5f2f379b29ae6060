/* progress.h - how far a long verb has come, as the library tells it: a bar for people, JSON lines
 * for programs. On standard error only. */
#ifndef KERF_PROGRESS_H
#define KERF_PROGRESS_H

#include <kerf/job.h>

#include "args.h"

typedef struct progress {
    int mode; /* 0 silent, 1 bar, 2 JSON lines */
    double started_s, phase_s, shown_s;
    int drawn;
    int verbose; /* a line for every tensor */
    char what[64];
    kerf_event last; /* the counters as they were told last */
    kerf_job job;    /* what the library is given           */
} progress;

/* Reads --progress. p must stay where it is until progress_close: the job points to it. */
kerf_status progress_open(progress *p, const args *a, kerf_error *err);
int progress_allows_text(const args *a); /* 0: standard error is for JSON alone */
double progress_pause(progress *p);      /* clears the bar until it moves; seconds since open */
double progress_close(progress *p);      /* clears the bar; returns the seconds since open */

double now_s(void); /* a clock that never goes back */

#endif
