/* progress.h - how far a long verb has come: a bar for people, JSON lines for programs. Standard
 * error only. Calls come from one thread. */
#ifndef KERF_PROGRESS_H
#define KERF_PROGRESS_H

#include "args.h"

typedef struct progress {
    int mode;             /* 0 silent, 1 bar, 2 JSON lines */
    uint64_t total, done; /* bytes of work                 */
    double started_s, shown_s;
    int drawn;
    char what[64];
} progress;

/* Reads --progress; total: bytes of work that progress_add will count. */
kerf_status progress_open(progress *p, const args *a, uint64_t total, kerf_error *err);
void progress_tensor(progress *p, const char *name, const char *action); /* begins a tensor */
void progress_add(progress *p, uint64_t bytes);
double progress_close(progress *p); /* clears the bar; returns the seconds since open */

double now_s(void); /* a clock that never goes back */

#endif
