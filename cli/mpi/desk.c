/* desk.c - what the library asks of other ranks, as messages: any thread may ask, the main thread
 * alone sends and receives them. */
#include "desk.h"

#include <string.h>
#include <time.h>

enum { SHOW_US = 200000 };

static desk *own_desk; /* of this process, for the hooks of company */

/* --- progress ------------------------------------------------------------------------------ */

static void hear(const kerf_job *job, kerf_event *e)
{
    desk *d = own_desk;
    if (e->kind == KERF_EVENT_RESUME) return;
    if (e->kind == KERF_EVENT_PHASE) {
        atomic_store(&d->done, 0);
        atomic_store(&d->skipped, 0);
        atomic_fetch_add(&d->phase, 1);
    } else {
        atomic_store(&d->done, e->done);
        atomic_store(&d->skipped, e->skipped);
    }
    atomic_store(&d->total, e->total);
    atomic_store(&d->job, job);
    if (e->kind == KERF_EVENT_PHASE) return;
    e->done += atomic_load(&d->others_done);
    e->skipped += atomic_load(&d->others_skipped);
    if (e->done > e->total) e->done = e->total;
}

static int is_stopped(void *ctx)
{
    (void)ctx;
    return atomic_load(&own_desk->is_stopped);
}

/* What others do is shown by rank 0 while it waits. */
static void show(desk *d)
{
    const kerf_job *job = atomic_load(&d->job);
    const uint64_t total = atomic_load(&d->total);
    const kerf_event e = {.kind = KERF_EVENT_PROGRESS,
                          .done = atomic_load(&d->done),
                          .total = total,
                          .skipped = atomic_load(&d->skipped)};
    if (d->ranks.rank == 0 && job && total) job->tell(job->ctx, &e);
}

/* --- waiting ------------------------------------------------------------------------------- */

static void wait_for(pthread_cond_t *what, pthread_mutex_t *lock, long us)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += us * 1000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(what, lock, &until);
}

int desk_wait(desk *d, long us)
{
    pthread_mutex_lock(&d->lock);
    if (d->state != ASKED && d->has_ended != 1) wait_for(&d->asked, &d->lock, us);
    const int waits = d->state == SENT;
    pthread_mutex_unlock(&d->lock);
    return waits;
}

/* --- questions ----------------------------------------------------------------------------- */

static kerf_status ask(void *ctx, letter_kind kind, uint64_t number, void *p, size_t n,
                       uint64_t *answer, kerf_error *err)
{
    desk *d = ctx;
    pthread_mutex_lock(&d->lock);
    d->question = (letter){.kind = (int)kind, .number = number};
    d->p = p;
    d->n = n;
    d->state = ASKED;
    pthread_cond_signal(&d->asked);
    while (d->state != ANSWERED) {
        wait_for(&d->answered, &d->lock, SHOW_US);
        show(d);
    }
    d->state = QUIET;
    const letter l = d->answer;
    pthread_mutex_unlock(&d->lock);
    if (answer) *answer = l.number;
    if (l.kind == GO) return KERF_OK;
    return kerf_fail(err, KERF_E_CANCELED, "another rank has failed");
}

static kerf_status take(void *ctx, size_t count, size_t *i, kerf_error *err)
{
    uint64_t number = 0;
    const kerf_status s = ask(ctx, ASK_TAKE, count, NULL, 0, &number, err);
    *i = (size_t)number;
    return s;
}

static kerf_status combine(void *ctx, void *p, size_t n, kerf_error *err)
{
    return ask(ctx, ASK_COMBINE, 0, p, n, NULL, err);
}

static kerf_status send(void *ctx, unsigned to, const void *p, size_t n, kerf_error *err)
{
    void *bytes;
    memcpy(&bytes, &p, sizeof p); /* they are only read */
    return ask(ctx, ASK_SEND, to, bytes, n, NULL, err);
}

static kerf_status receive(void *ctx, unsigned from, void *p, size_t n, kerf_error *err)
{
    return ask(ctx, ASK_RECEIVE, from, p, n, NULL, err);
}

/* --- the desk ------------------------------------------------------------------------------ */

void desk_open(desk *d, unsigned rank, unsigned ranks)
{
    memset(d, 0, sizeof *d);
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->asked, NULL);
    pthread_cond_init(&d->answered, NULL);
    d->ranks = (kerf_ranks){rank, ranks, take, combine, send, receive, d};
    own_desk = d;
    company = (struct company){&d->ranks, hear, is_stopped, 0};
}

void desk_end(desk *d, int result, const kerf_error *err)
{
    pthread_mutex_lock(&d->lock);
    d->end = (letter){.kind = TELL_END, .status = result};
    snprintf(d->end.text, sizeof d->end.text, "%s", err->text);
    d->has_ended = 1;
    pthread_cond_signal(&d->asked);
    pthread_mutex_unlock(&d->lock);
}
