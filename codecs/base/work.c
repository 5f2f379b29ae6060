/* work.c - the counters of a long call, and the two questions that it has for its program. */
#include "base/work.h"

void kf_work_open(kf_work *w, const kerf_job *job)
{
    *w = (kf_work){.job = job};
    pthread_mutex_init(&w->lock, NULL);
}

void kf_work_close(kf_work *w)
{
    pthread_mutex_destroy(&w->lock);
}

/* Fills in the counters and tells; under the lock. */
static void tell(kf_work *w, kerf_event e, int has_counters)
{
    if (!w->job || !w->job->tell) return;
    if (has_counters) {
        e.done = w->done;
        e.total = w->total;
        e.skipped = w->skipped;
    }
    w->job->tell(w->job->ctx, &e);
}

void kf_work_phase(kf_work *w, const char *name, uint64_t total)
{
    pthread_mutex_lock(&w->lock);
    w->total = total;
    w->done = w->skipped = 0;
    tell(w, (kerf_event){.kind = KERF_EVENT_PHASE, .what = name}, 1);
    pthread_mutex_unlock(&w->lock);
}

void kf_work_item(kf_work *w, const char *name, const char *action)
{
    pthread_mutex_lock(&w->lock);
    tell(w, (kerf_event){.kind = KERF_EVENT_ITEM, .what = name, .action = action}, 1);
    pthread_mutex_unlock(&w->lock);
}

void kf_work_resume(kf_work *w, const char *path, uint64_t bytes, const char *why)
{
    pthread_mutex_lock(&w->lock);
    tell(w, (kerf_event){.kind = KERF_EVENT_RESUME, .what = path, .action = why, .done = bytes}, 0);
    pthread_mutex_unlock(&w->lock);
}

static void add(kf_work *w, uint64_t bytes, uint64_t skipped)
{
    pthread_mutex_lock(&w->lock);
    w->done += bytes;
    w->skipped += skipped;
    if (w->done > w->total) w->total = w->done;
    tell(w, (kerf_event){.kind = KERF_EVENT_PROGRESS}, 1);
    pthread_mutex_unlock(&w->lock);
}

void kf_work_skip(kf_work *w, uint64_t bytes)
{
    add(w, bytes, bytes);
}

kerf_status kf_work_add(kf_work *w, uint64_t bytes, kerf_error *err)
{
    add(w, bytes, 0);
    return kf_work_check(w, err);
}

kerf_status kf_work_at(kf_work *w, uint64_t done, uint64_t total, kerf_error *err)
{
    pthread_mutex_lock(&w->lock);
    w->done = done;
    w->total = total;
    tell(w, (kerf_event){.kind = KERF_EVENT_PROGRESS}, 1);
    pthread_mutex_unlock(&w->lock);
    return kf_work_check(w, err);
}

int kerf_cancel_flag(void *ctx)
{
    return __atomic_load_n((const int *)ctx, __ATOMIC_RELAXED);
}

kerf_status kf_job_check(const kerf_job *job, kerf_error *err)
{
    if (!job || !job->cancel || !job->cancel(job->ctx)) return KERF_OK;
    return kf_fail(err, KERF_E_CANCELED, KF_NOWHERE, "canceled");
}

kerf_status kf_work_check(const kf_work *w, kerf_error *err)
{
    return kf_job_check(w->job, err);
}
