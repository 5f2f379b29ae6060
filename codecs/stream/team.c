/* team.c - a thread for each member of a team, which takes one item after the other (a weight,
 * mostly) until none is left. */
#include "stream/team.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/system.h"

typedef struct team_run {
    const kf_team_work *work;
    void *ctx;
    size_t count;
    pthread_mutex_t lock;
    size_t next, finished; /* items handed out; items that finish() has seen */
    char *done;            /* of an item: work() is over                      */
    size_t failed;         /* the first item that failed; count: none         */
    kerf_status status;
    kerf_error error;
} team_run;

typedef struct member_run {
    team_run *run;
    kerf_exec exec;
    pthread_t thread;
} member_run;

/* One more than there are processors. OpenMP's threads wait for work by spinning when there is a
 * processor for each of them, and take the processors from the threads that read and write
 * (measured: a third of the speed is left); when they are more, they sleep. */
static int default_threads(void)
{
    return kf_processors() + 1;
}

static member_run member_of(team_run *r, const kerf_exec *exec)
{
    member_run m = {.run = r, .exec = *exec};
    if (!m.exec.threads && !m.exec.device) m.exec.threads = default_threads();
    return m;
}

/* The next item, or `count` when there is none or one has failed. */
static size_t take_item(team_run *r)
{
    pthread_mutex_lock(&r->lock);
    size_t i = r->failed < r->count ? r->count : r->next;
    if (i < r->count) r->next++;
    pthread_mutex_unlock(&r->lock);
    return i;
}

static void note_failure(team_run *r, size_t i, kerf_status s, const kerf_error *error)
{
    if (i >= r->failed) return;
    r->failed = i;
    r->status = s;
    r->error = *error;
}

/* Finishes all items up to the first that is not done. */
static void item_done(team_run *r, size_t i, kerf_status s, kerf_error *error)
{
    pthread_mutex_lock(&r->lock);
    if (s != KERF_OK)
        note_failure(r, i, s, error);
    else
        r->done[i] = 1;
    while (r->finished < r->failed && r->finished < r->next && r->done[r->finished]) {
        i = r->finished++;
        s = r->work->finish ? r->work->finish(r->ctx, i, error) : KERF_OK;
        if (s != KERF_OK) note_failure(r, i, s, error);
    }
    pthread_mutex_unlock(&r->lock);
}

static void *work_off(void *ctx)
{
    const member_run *m = ctx;
    team_run *r = m->run;
    for (size_t i; (i = take_item(r)) < r->count;) {
        kerf_error error = {0};
        kerf_status s = r->work->work(r->ctx, i, &m->exec, &error);
        item_done(r, i, s, &error);
    }
    return NULL;
}

/* The calling thread is the first member; of the others, those that get a thread. */
static void run_members(team_run *r, const kerf_team *t, member_run *m)
{
    size_t n = 1;
    for (; n < t->count && n < r->count; n++) {
        m[n] = member_of(r, &t->member[n]);
        if (pthread_create(&m[n].thread, NULL, work_off, &m[n]) != 0) break;
    }
    m[0] = member_of(r, &t->member[0]);
    work_off(&m[0]);
    while (n-- > 1) pthread_join(m[n].thread, NULL);
}

kerf_status kf_team_run(const kerf_team *t, size_t count, const kf_team_work *w, void *ctx,
                        kerf_error *err)
{
    static const kerf_exec plain = {0};
    const kerf_team one = {&plain, 1};
    team_run r = {.work = w, .ctx = ctx, .count = count, .failed = count};
    member_run *members = NULL;
    if (!t || !t->count) t = &one;
    kerf_status s = kf_allocate(&r.done, count, 1, err);
    if (s == KERF_OK) s = kf_allocate(&members, t->count, sizeof *members, err);
    if (s == KERF_OK) {
        pthread_mutex_init(&r.lock, NULL);
        run_members(&r, t, members);
        pthread_mutex_destroy(&r.lock);
        s = r.status;
        if (s != KERF_OK && err) *err = r.error;
    }
    free(r.done);
    free(members);
    return s;
}
