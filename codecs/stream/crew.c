/* crew.c - panels taken by workers. Each takes the next panel, reads it and works on it, and waits
 * for its turn to write it: those before it are at work on theirs. */
#include "stream/crew.h"

#include <stdlib.h>

#include "stream/slots.h"

typedef struct crew {
    kf_stream *stream;
    const kf_steps *steps;
    void *ctx;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    uint64_t next, written; /* panels that were taken, and that have passed all steps */
    kerf_status status;     /* of the first panel that failed */
    kerf_error error;
} crew;

typedef struct worker {
    crew *crew;
    kf_panel *panel;
} worker;

/* The next panel; 0 when there is none, or when one has failed. */
static int take_panel(crew *c, uint64_t *i)
{
    pthread_mutex_lock(&c->lock);
    int go = c->status == KERF_OK && c->next < c->stream->panels;
    if (go) *i = c->next++;
    pthread_mutex_unlock(&c->lock);
    return go;
}

/* Waits until all panels before i are written; 0 when one of them has failed. */
static int await_turn(crew *c, uint64_t i)
{
    pthread_mutex_lock(&c->lock);
    while (c->status == KERF_OK && c->written != i) pthread_cond_wait(&c->moved, &c->lock);
    int go = c->status == KERF_OK;
    pthread_mutex_unlock(&c->lock);
    return go;
}

static void end_turn(crew *c, kerf_status status, const kerf_error *error)
{
    pthread_mutex_lock(&c->lock);
    if (status != KERF_OK) {
        c->status = status;
        c->error = *error;
    }
    c->written++;
    pthread_cond_broadcast(&c->moved);
    pthread_mutex_unlock(&c->lock);
}

static void *take_panels(void *ctx)
{
    worker *w = ctx;
    crew *c = w->crew;
    const kf_steps *steps = c->steps;
    for (uint64_t i; take_panel(c, &i);) {
        kerf_error error = {0};
        kerf_status s = KERF_OK;
        kf_shape_slot(c->stream, w->panel, i);
        if (steps->read) s = steps->read(c->ctx, w->panel, &error);
        if (s == KERF_OK && steps->work) s = steps->work(c->ctx, w->panel, &error);
        if (s != KERF_OK && steps->lost) steps->lost(c->ctx, i);
        if (!await_turn(c, i)) break;
        if (s == KERF_OK && steps->write) s = steps->write(c->ctx, w->panel, &error);
        end_turn(c, s, &error);
    }
    return NULL;
}

/* The calling thread is one of the workers; of the others there are as many as get a thread. */
kerf_status kf_run_crew(kf_stream *s, const kf_steps *steps, void *ctx, kerf_error *err)
{
    crew c = {.stream = s, .steps = steps, .ctx = ctx};
    worker *w = NULL;
    pthread_t *thread = NULL;
    unsigned started = 1;
    kerf_status status = kf_allocate(&w, s->slots, sizeof *w, err);
    if (status == KERF_OK) status = kf_allocate(&thread, s->slots, sizeof *thread, err);
    if (status == KERF_OK) {
        pthread_mutex_init(&c.lock, NULL);
        pthread_cond_init(&c.moved, NULL);
        for (unsigned i = 0; i < s->slots; i++) w[i] = (worker){&c, &s->slot[i]};
        while (started < s->slots &&
               pthread_create(&thread[started], NULL, take_panels, &w[started]) == 0)
            started++;
        take_panels(&w[0]);
        for (unsigned i = 1; i < started; i++) pthread_join(thread[i], NULL);
        pthread_cond_destroy(&c.moved);
        pthread_mutex_destroy(&c.lock);
        status = c.status;
        if (status != KERF_OK && err) *err = c.error;
    }
    free(thread);
    free(w);
    return status;
}

/* --- turns ---------------------------------------------------------------------------------
 * One lock for all queues: a turn is long, and few wait for it. */

kerf_status kf_turns_open(kf_turns *t, size_t queues, kerf_error *err)
{
    *t = (kf_turns){.failed = UINT64_MAX};
    KF_TRY(kf_allocate(&t->next, queues ? queues : 1, sizeof *t->next, err));
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->moved, NULL);
    return KERF_OK;
}

void kf_turns_close(kf_turns *t)
{
    if (!t->next) return;
    pthread_cond_destroy(&t->moved);
    pthread_mutex_destroy(&t->lock);
    free(t->next);
    t->next = NULL;
}

int kf_turns_wait(kf_turns *t, size_t q, uint64_t panel)
{
    pthread_mutex_lock(&t->lock);
    while (t->next[q] != panel && t->failed > panel) pthread_cond_wait(&t->moved, &t->lock);
    int go = t->next[q] == panel;
    pthread_mutex_unlock(&t->lock);
    return go;
}

void kf_turns_pass(kf_turns *t, size_t q)
{
    pthread_mutex_lock(&t->lock);
    t->next[q]++;
    pthread_cond_broadcast(&t->moved);
    pthread_mutex_unlock(&t->lock);
}

void kf_turns_fail(kf_turns *t, uint64_t panel)
{
    pthread_mutex_lock(&t->lock);
    if (panel < t->failed) t->failed = panel;
    pthread_cond_broadcast(&t->moved);
    pthread_mutex_unlock(&t->lock);
}
