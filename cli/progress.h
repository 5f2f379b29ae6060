/* progress.h - how far a long verb has come: a bar for people, JSON lines for programs. Standard
 * error only. Several threads may tell of their work at once. */
#ifndef KERF_PROGRESS_H
#define KERF_PROGRESS_H

#include "args.h"

typedef struct progress {
    int mode;                      /* 0 silent, 1 bar, 2 JSON lines                 */
    uint64_t total, done, skipped; /* bytes of work of this phase; skipped: of done */
    double started_s, phase_s, shown_s;
    int drawn;
    char what[64];
} progress;

/* Reads --progress; total: bytes of work that progress_add will count. */
kerf_status progress_open(progress *p, const args *a, uint64_t total, kerf_error *err);
void progress_tensor(progress *p, const char *name, const char *action); /* begins a tensor */
void progress_add(progress *p, uint64_t bytes);
void progress_skip(progress *p, uint64_t bytes); /* done before: counts for no rate */

/* Begins a phase with a bar of its own, of which progress_at says how much is done. */
void progress_phase(progress *p, const char *name, uint64_t total);
void progress_at(progress *p, uint64_t done, uint64_t total);

/* Says what became of --resume for an output: bytes that were found, or why none were. */
void progress_resume(progress *p, const char *path, uint64_t bytes, const char *why);

int progress_allows_text(const args *a); /* 0: standard error is for JSON alone */
double progress_close(progress *p);      /* clears the bar; returns the seconds since open */

double now_s(void); /* a clock that never goes back */

#endif
