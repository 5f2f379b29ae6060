/* work.h - one long call on its way: counts what is done, tells the program of it, and asks
 * whether to go on. Any thread may use it; a zeroed kf_work is silent and never canceled. */
#ifndef KERF_BASE_WORK_H
#define KERF_BASE_WORK_H

#include <kerf/job.h>
#include <pthread.h>

#include "base/base.h"

typedef struct kf_work {
    const kerf_job *job; /* NULL: nobody listens */
    pthread_mutex_t lock;
    uint64_t done, total, skipped; /* of this phase, in bytes */
} kf_work;

/* job may be NULL; it must live until kf_work_close. */
void kf_work_open(kf_work *w, const kerf_job *job);
void kf_work_close(kf_work *w);

void kf_work_phase(kf_work *w, const char *name, uint64_t total); /* begins; done is 0 again */
void kf_work_item(kf_work *w, const char *name, const char *action);
void kf_work_skip(kf_work *w, uint64_t bytes); /* done before: counts for no rate */
void kf_work_resume(kf_work *w, const char *path, uint64_t bytes, const char *why);

/* Adds bytes that are done. KERF_E_CANCELED: the program has stopped the call. */
kerf_status kf_work_add(kf_work *w, uint64_t bytes, kerf_error *err);
/* The same with both sums given. */
kerf_status kf_work_at(kf_work *w, uint64_t done, uint64_t total, kerf_error *err);
/* Only asks. */
kerf_status kf_work_check(const kf_work *w, kerf_error *err);
kerf_status kf_job_check(const kerf_job *job, kerf_error *err);

#endif
