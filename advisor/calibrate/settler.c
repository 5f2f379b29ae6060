/* settler.c - a thread with one layer at a time. */
#include "calibrate/settler.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/base.h"

struct kf_settler {
    kerf_writer *writer;
    int threads;
    const kerf_job *job;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    int has_thread, is_stopped;
    kf_found_sums found; /* that it works on */
    kerf_status status;
    kerf_error error;
};

static void drop(kf_found_sums found)
{
    kerf_gpu_sums_free(found.there);
    kf_collector_close(found.sums);
}

kerf_status kf_settle(kf_found_sums found, kerf_writer *w, int threads, const kerf_job *job,
                      kerf_error *err)
{
    kerf_status s = found.there ? kerf_gpu_sums_settle(found.there, threads, err) : KERF_OK;
    if (s == KERF_OK) s = kf_collector_write(found.sums, w, job, err);
    kf_collector_close(found.sums);
    return s;
}

static void *settle_all(void *ctx)
{
    kf_settler *s = ctx;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->found.sums && !s->is_stopped) pthread_cond_wait(&s->changed, &s->lock);
        if (!s->found.sums) break;
        const kf_found_sums found = s->found;
        pthread_mutex_unlock(&s->lock);
        kerf_error error = {0};
        const kerf_status status = kf_settle(found, s->writer, s->threads, s->job, &error);
        pthread_mutex_lock(&s->lock);
        if (status != KERF_OK) {
            s->status = status;
            s->error = error;
        }
        s->found = (kf_found_sums){0};
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

kerf_status kf_settler_open(kerf_writer *w, int threads, const kerf_job *job, kf_settler **out,
                            kerf_error *err)
{
    kf_settler *s = NULL;
    KF_TRY(kf_allocate(&s, 1, sizeof *s, err));
    *out = s;
    s->writer = w;
    s->threads = threads;
    s->job = job;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->has_thread = pthread_create(&s->thread, NULL, settle_all, s) == 0;
    if (!s->has_thread) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no thread for sums");
    return KERF_OK;
}

kerf_status kf_settler_give(kf_settler *s, kf_found_sums found, kerf_error *err)
{
    pthread_mutex_lock(&s->lock);
    while (s->found.sums) pthread_cond_wait(&s->changed, &s->lock);
    const kerf_status status = s->status;
    if (status == KERF_OK) {
        s->found = found;
        pthread_cond_broadcast(&s->changed);
    } else if (err) {
        *err = s->error;
    }
    pthread_mutex_unlock(&s->lock);
    if (status != KERF_OK) drop(found);
    return status;
}

kerf_status kf_settler_finish(kf_settler *s, kerf_error *err)
{
    pthread_mutex_lock(&s->lock);
    while (s->found.sums) pthread_cond_wait(&s->changed, &s->lock);
    const kerf_status status = s->status;
    if (status != KERF_OK && err) *err = s->error;
    pthread_mutex_unlock(&s->lock);
    return status;
}

void kf_settler_close(kf_settler *s)
{
    if (!s) return;
    pthread_mutex_lock(&s->lock);
    s->is_stopped = 1;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (s->has_thread) pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
