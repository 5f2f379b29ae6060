/* ring.c - panels in a ring of three slots, so that reading, computing and writing can each hold
 * one.
 *
 * A slot goes free -> filled -> done -> free. Each step runs in a thread of its own (work: in the
 * calling one) and waits for its slots in order, which keeps panels in order without a queue. */
#include "stream/ring.h"

#include <pthread.h>

#include "stream/slots.h"

typedef enum slot_state { SLOT_FREE, SLOT_FILLED, SLOT_DONE } slot_state;

typedef struct ring {
    kf_stream *stream;
    const kf_steps *steps;
    void *ctx;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    slot_state state[KF_RING];
    kerf_status status; /* of the first failure */
    kerf_error error;
} ring;

/* Waits until slot i is in `state`; 0 when the run has failed meanwhile. */
static int await_slot(ring *r, unsigned slot, slot_state state)
{
    pthread_mutex_lock(&r->lock);
    while (r->status == KERF_OK && r->state[slot] != state) pthread_cond_wait(&r->moved, &r->lock);
    int go = r->status == KERF_OK;
    pthread_mutex_unlock(&r->lock);
    return go;
}

static void leave_slot(ring *r, unsigned slot, slot_state state, kerf_status status,
                       const kerf_error *error)
{
    pthread_mutex_lock(&r->lock);
    r->state[slot] = state;
    if (status != KERF_OK && r->status == KERF_OK) {
        r->status = status;
        r->error = *error;
    }
    pthread_cond_broadcast(&r->moved);
    pthread_mutex_unlock(&r->lock);
}

/* One step over all panels: waits for state `from`, leaves state `to`. */
static void run_step(ring *r, kf_step step, slot_state from, slot_state to)
{
    kf_stream *s = r->stream;
    for (uint64_t i = 0; i < s->panels; i++) {
        unsigned slot = (unsigned)(i % s->slots);
        if (!await_slot(r, slot, from)) return;
        if (from == SLOT_FREE) kf_shape_slot(s, &s->slot[slot], i);
        kerf_error error = {0};
        kerf_status status = step ? step(r->ctx, &s->slot[slot], &error) : KERF_OK;
        leave_slot(r, slot, to, status, &error);
        if (status != KERF_OK) return;
    }
}

static void *read_all(void *ctx)
{
    ring *r = ctx;
    run_step(r, r->steps->read, SLOT_FREE, SLOT_FILLED);
    return NULL;
}

static void *write_all(void *ctx)
{
    ring *r = ctx;
    run_step(r, r->steps->write, SLOT_DONE, SLOT_FREE);
    return NULL;
}

static kerf_status run_threads(ring *r, kerf_error *err)
{
    pthread_t reader, writer;
    kerf_error none = {0};
    kf_fail(&none, KERF_E_NOMEM, KF_NOWHERE, "no threads");
    int has_reader = pthread_create(&reader, NULL, read_all, r) == 0;
    int has_writer = has_reader && pthread_create(&writer, NULL, write_all, r) == 0;
    if (!has_writer) leave_slot(r, 0, SLOT_FREE, KERF_E_NOMEM, &none);
    run_step(r, r->steps->work, SLOT_FILLED, SLOT_DONE);
    if (has_reader) pthread_join(reader, NULL);
    if (has_writer) pthread_join(writer, NULL);
    if (r->status != KERF_OK && err) *err = r->error;
    return r->status;
}

kerf_status kf_run_ring(kf_stream *s, const kf_steps *steps, void *ctx, kerf_error *err)
{
    ring r = {.stream = s, .steps = steps, .ctx = ctx};
    pthread_mutex_init(&r.lock, NULL);
    pthread_cond_init(&r.moved, NULL);
    kerf_status status = run_threads(&r, err);
    pthread_cond_destroy(&r.moved);
    pthread_mutex_destroy(&r.lock);
    return status;
}
