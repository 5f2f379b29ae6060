/* meeting.c - one lock and one condition for all that ranks tell each other: they are few, and meet
 * once a layer. */
#include "calibrate/meeting.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/base.h"
#include "base/work.h"

enum { ASK_MS = 20 }; /* between two questions of who waits whether the job is canceled */

typedef struct meeting meeting;

typedef struct attendant {
    meeting *m;
    kerf_ranks ranks;
    kerf_job job;
    kf_rank_call call;
    void *call_ctx;
    pthread_t thread;
    int has_thread;
    kerf_status status;
    kerf_error error;
    const void *offer; /* what it sends; NULL: nothing */
    size_t offered;
    unsigned to;
    uint64_t done, skipped; /* of its phase */
    unsigned phase;
} attendant;

struct meeting {
    const kerf_job *job; /* of all */
    unsigned ranks, arrived, left, through;
    pthread_mutex_t lock, telling;
    pthread_cond_t changed;
    size_t next;
    uint64_t round;
    int has_failed, is_canceled; /* canceled: then it has failed, too */
    unsigned char *sum;          /* of a combine */
    attendant *all;
};

static void fail(meeting *m)
{
    __atomic_store_n(&m->has_failed, 1, __ATOMIC_RELAXED); /* jobs read it without the lock */
}

/* --- waiting ------------------------------------------------------------------------------- */

static void wait_some(meeting *m)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += ASK_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_cond_timedwait(&m->changed, &m->lock, &until);
    if (!m->job || !m->job->cancel || !m->job->cancel(m->job->ctx)) return;
    m->is_canceled = 1;
    fail(m);
}

static kerf_status leave(meeting *m, kerf_error *err)
{
    const int failed = m->has_failed, canceled = m->is_canceled;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
    if (!failed) return KERF_OK;
    return kf_fail(err, KERF_E_CANCELED, KF_NOWHERE,
                   canceled ? "canceled" : "another rank has failed");
}

/* --- what ranks ask ------------------------------------------------------------------------ */

static kerf_status take_number(void *ctx, size_t count, size_t *i, kerf_error *err)
{
    meeting *m = ((attendant *)ctx)->m;
    pthread_mutex_lock(&m->lock);
    *i = m->next < count ? m->next++ : count;
    if (*i == count && ++m->through == m->ranks) m->next = m->through = 0;
    return leave(m, err);
}

/* The last to arrive ends the round; the last to leave makes room for the next. */
static kerf_status combine_bits(void *ctx, void *p, size_t n, kerf_error *err)
{
    meeting *m = ((attendant *)ctx)->m;
    const unsigned char *own = p;
    kerf_status status = KERF_OK;
    pthread_mutex_lock(&m->lock);
    while (m->left && !m->has_failed) wait_some(m);
    const uint64_t round = m->round;
    if (!m->has_failed && m->arrived == 0) status = kf_allocate(&m->sum, n + 1, 1, err);
    if (status != KERF_OK) fail(m);
    for (size_t i = 0; !m->has_failed && i < n; i++) m->sum[i] |= own[i];
    if (!m->has_failed && ++m->arrived == m->ranks) {
        m->round++;
        m->left = m->ranks;
        m->arrived = 0;
        pthread_cond_broadcast(&m->changed);
    }
    while (m->round == round && !m->has_failed) wait_some(m);
    if (!m->has_failed && n) memcpy(p, m->sum, n);
    if (!m->has_failed && --m->left == 0) {
        free(m->sum);
        m->sum = NULL;
    }
    const kerf_status others = leave(m, status == KERF_OK ? err : NULL);
    return status == KERF_OK ? others : status; /* without memory it is this rank that has failed */
}

static kerf_status send_bytes(void *ctx, unsigned to, const void *p, size_t n, kerf_error *err)
{
    attendant *a = ctx;
    meeting *m = a->m;
    pthread_mutex_lock(&m->lock);
    a->offer = p;
    a->offered = n;
    a->to = to;
    pthread_cond_broadcast(&m->changed);
    while (a->offer && !m->has_failed) wait_some(m);
    const int taken = !a->offer; /* then it is another's, whatever happens next */
    a->offer = NULL;
    const kerf_status s = leave(m, err);
    return taken ? KERF_OK : s;
}

static kerf_status receive_bytes(void *ctx, unsigned from, void *p, size_t n, kerf_error *err)
{
    const attendant *a = ctx;
    meeting *m = a->m;
    attendant *other = &m->all[from];
    pthread_mutex_lock(&m->lock);
    while ((!other->offer || other->to != a->ranks.rank) && !m->has_failed) wait_some(m);
    if (!m->has_failed && other->offered != n) fail(m); /* both must mean the same */
    if (!m->has_failed) {
        memcpy(p, other->offer, n);
        other->offer = NULL;
    }
    return leave(m, err);
}

/* --- the job ------------------------------------------------------------------------------- */

static int is_canceled(void *ctx)
{
    const meeting *m = ((attendant *)ctx)->m;
    if (__atomic_load_n(&m->has_failed, __ATOMIC_RELAXED)) return 1;
    return m->job && m->job->cancel && m->job->cancel(m->job->ctx);
}

/* Phases and items are those of rank 0; what is done is that of all who are in its phase. */
static void hear(void *ctx, const kerf_event *e)
{
    attendant *a = ctx;
    meeting *m = a->m;
    kerf_event all = *e;
    pthread_mutex_lock(&m->telling);
    if (e->kind == KERF_EVENT_PHASE) a->phase++;
    if (e->kind != KERF_EVENT_RESUME) {
        a->done = e->done;
        a->skipped = e->skipped;
        all.done = all.skipped = 0;
        for (unsigned i = 0; i < m->ranks; i++) {
            if (m->all[i].phase != m->all[0].phase) continue;
            all.done += m->all[i].done;
            all.skipped += m->all[i].skipped;
        }
        if (all.done > all.total) all.done = all.total;
    }
    if (a->ranks.rank == 0 || (e->kind == KERF_EVENT_PROGRESS && a->phase == m->all[0].phase))
        m->job->tell(m->job->ctx, &all);
    pthread_mutex_unlock(&m->telling);
}

/* --- all of it ----------------------------------------------------------------------------- */

static void *attend(void *ctx)
{
    attendant *a = ctx;
    meeting *m = a->m;
    a->status = a->call(a->call_ctx, &a->ranks, &a->job, &a->error);
    pthread_mutex_lock(&m->lock);
    if (a->status != KERF_OK) fail(m);
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

static void start_all(meeting *m, kf_rank_call call, void *ctx)
{
    for (unsigned i = 0; i < m->ranks; i++) {
        attendant *a = &m->all[i];
        a->m = m;
        a->ranks =
            (kerf_ranks){i, m->ranks, take_number, combine_bits, send_bytes, receive_bytes, a};
        a->job = (kerf_job){m->job && m->job->tell ? hear : NULL, is_canceled, a};
        a->call = call;
        a->call_ctx = ctx;
    }
    for (unsigned i = 1; i < m->ranks; i++) {
        attendant *a = &m->all[i];
        a->has_thread = pthread_create(&a->thread, NULL, attend, a) == 0;
        if (a->has_thread) continue;
        pthread_mutex_lock(&m->lock);
        a->status = kf_fail(&a->error, KERF_E_NOMEM, KF_NOWHERE, "no thread for a rank");
        fail(m);
        pthread_mutex_unlock(&m->lock);
    }
}

/* The first that failed of itself; else any. */
static kerf_status result_of(const meeting *m, unsigned *failed, kerf_error *err)
{
    const attendant *first = NULL;
    for (unsigned i = m->ranks; i-- > 0;) {
        const attendant *a = &m->all[i];
        if (a->status == KERF_OK) continue;
        if (!first || a->status != KERF_E_CANCELED || first->status == KERF_E_CANCELED) first = a;
    }
    *failed = first ? first->ranks.rank : 0;
    if (!first) return KERF_OK;
    if (err) *err = first->error;
    return first->status;
}

kerf_status kf_meeting_run(unsigned ranks, kf_rank_call call, void *ctx, const kerf_job *job,
                           unsigned *failed, kerf_error *err)
{
    meeting m = {.job = job, .ranks = ranks};
    *failed = 0;
    KF_TRY(kf_allocate(&m.all, ranks, sizeof *m.all, err));
    pthread_mutex_init(&m.lock, NULL);
    pthread_mutex_init(&m.telling, NULL);
    pthread_cond_init(&m.changed, NULL);
    start_all(&m, call, ctx);
    attend(&m.all[0]);
    for (unsigned i = 1; i < ranks; i++)
        if (m.all[i].has_thread) pthread_join(m.all[i].thread, NULL);
    const kerf_status s = result_of(&m, failed, err);
    free(m.sum);
    free(m.all);
    pthread_cond_destroy(&m.changed);
    pthread_mutex_destroy(&m.telling);
    pthread_mutex_destroy(&m.lock);
    return s;
}
