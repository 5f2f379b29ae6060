/* stream.c - panels in a small ring, and the three steps that chase each other around it.
 *
 * The ring has three slots, so that reading, computing and writing can each hold one. A slot goes
 * free -> filled -> done -> free; each step waits for its slots in order, which keeps panels in
 * order without a queue. Bands above the panel size get one slot, so that memory stays bounded.
 *
 * A crew has a slot for every worker, who takes the next panel and waits with it for his turn to
 * write: whoever is before him is at work on his own. */
#include "stream/panels.h"
#include "base/base.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

enum { RING = 3 };
#define WHOLE_PANELS UINT64_MAX
typedef enum slot_state { SLOT_FREE, SLOT_FILLED, SLOT_DONE } slot_state;

struct kf_stream {
    const kerf_geometry *geometry; /* NULL: plain bytes */
    kerf_dtype dense_type;
    uint64_t units, step, panels;
    uint64_t whole_step;    /* of what panels are parts of; `step`: of nothing */
    unsigned ring, workers; /* slots; 0: no crew */
    kf_panel *slot;
    unsigned char *kept; /* the whole tensor; NULL: panels have memory of their own */
    kerf_span whole[KERF_PLANES];
};

/* --- memory -------------------------------------------------------------------------------- */

static uint64_t dense_bytes(const kf_stream *s, uint64_t u0, uint64_t u1)
{
    if (!s->geometry) return u1 - u0;
    return kerf_band_elements(s->geometry, u0, u1).count * (kerf_dtype_bits(s->dense_type) / 8);
}

static uint64_t steps(uint64_t units, uint64_t step)
{
    return units / step + (units % step != 0);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Sets the spans of a slot to the bytes of panel i. */
static void shape_slot(const kf_stream *s, kf_panel *p, uint64_t i)
{
    const uint64_t parts = steps(s->whole_step, s->step), whole = i / parts * s->whole_step;
    p->index = i;
    p->u0 = whole + i % parts * s->step;
    p->u1 = least(least(p->u0 + s->step, whole + s->whole_step), s->units);
    p->dense.n = (size_t)dense_bytes(s, p->u0, p->u1);
    if (s->kept) p->dense.p = s->kept + dense_bytes(s, 0, p->u0);
    if (!s->geometry) return;
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        if (s->geometry->plane[k].band_bytes == 0) continue;
        p->plane[k].n = (size_t)kerf_band_bytes(s->geometry, k, p->u0, p->u1).count;
    }
}

/* Bands of equal size fill a panel best when it is the first: later ones are never larger. */
static kerf_status allocate_slot(const kf_stream *s, kf_panel *p, kerf_error *err)
{
    shape_slot(s, p, 0);
    if (!s->kept) KF_TRY(kf_allocate(&p->dense.p, p->dense.n, 1, err));
    for (kerf_plane_id k = 0; s->geometry && k < KERF_PLANES; k++) {
        if (s->geometry->plane[k].band_bytes == 0) {
            p->plane[k] = s->whole[k];
        } else {
            KF_TRY(kf_allocate(&p->plane[k].p, p->plane[k].n, 1, err));
        }
    }
    return KERF_OK;
}

static kerf_status allocate_whole(kf_stream *s, kerf_error *err)
{
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        const kerf_plane *plane = &s->geometry->plane[k];
        if (plane->dtype == KERF_DTYPE_NONE || plane->band_bytes != 0) continue;
        if (plane->bytes > KF_STREAM_WHOLE_BYTES) {
            return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE,
                           "%llu matrices in one tensor are too many",
                           (unsigned long long)s->geometry->matrices);
        }
        s->whole[k].n = (size_t)plane->bytes;
        KF_TRY(kf_allocate(&s->whole[k].p, s->whole[k].n, 1, err));
    }
    return KERF_OK;
}

static kerf_status open_slots(kf_stream *s, kerf_error *err)
{
    if (s->step == 0 || s->units == 0) return KERF_OK;
    const uint64_t whole = s->units / s->whole_step, rest = s->units % s->whole_step;
    s->panels = whole * steps(s->whole_step, s->step) + steps(rest, s->step);
    int big = dense_bytes(s, 0, s->step < s->units ? s->step : s->units) > KF_STREAM_PANEL_BYTES;
    const unsigned most = s->workers && !big ? s->workers : big ? 1 : RING;
    s->ring = s->panels < most ? (unsigned)s->panels : most;
    KF_TRY(kf_allocate(&s->slot, s->ring, sizeof *s->slot, err));
    for (unsigned i = 0; i < s->ring; i++) {
        s->slot[i].slot = i;
        KF_TRY(allocate_slot(s, &s->slot[i], err));
    }
    return KERF_OK;
}

/* Makes the room large enough; what was in it is of no use. */
static kerf_status keep_tensor(kf_stream *s, kf_room *room, kerf_error *err)
{
    const uint64_t bytes = dense_bytes(s, 0, s->units);
    if (bytes == 0 || bytes > KF_STREAM_KEPT_BYTES) return KERF_OK;
    if (room->n < bytes) {
        free(room->p);
        *room = (kf_room){NULL, 0};
        KF_TRY(kf_allocate(&room->p, (size_t)bytes, 1, err));
        room->n = (size_t)bytes;
    }
    s->kept = room->p;
    return KERF_OK;
}

/* Bands of a panel of about so many bytes. */
static uint64_t bands_of(const kf_stream *s, uint64_t band, uint64_t bytes)
{
    const uint64_t step = band && band < bytes ? bytes / band : 1;
    return least(step, s->units);
}

static void choose_steps(kf_stream *s, uint64_t band, uint64_t run)
{
    const uint64_t own = s->workers ? least(KF_STREAM_CREW_BYTES / s->workers, KF_STREAM_CREW_PANEL)
                                    : KF_STREAM_PANEL_BYTES;
    s->step = bands_of(s, band, run == WHOLE_PANELS ? KF_STREAM_PANEL_BYTES : own);
    s->whole_step = s->step;
    if (run == 0 || run == WHOLE_PANELS) return;
    const uint64_t runs = s->step / run;
    s->whole_step = bands_of(s, band, KF_STREAM_PANEL_BYTES);
    s->step = least(run * (runs ? runs : 1), s->whole_step);
}

/* run: 0, WHOLE_PANELS for a crew whose panels are as large as those of others, or as in
 * kf_stream_open_parts. */
static kerf_status open_panels(kf_stream **out, const kerf_geometry *g, kerf_dtype dense_type,
                               unsigned workers, uint64_t run, kf_room *room, kerf_error *err)
{
    *out = NULL;
    uint64_t band =
        g->bands ? dense_bytes(&(kf_stream){.geometry = g, .dense_type = dense_type}, 0, 1) : 1;
    if (band > KF_STREAM_BAND_BYTES) {
        return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE,
                       "one band of %s is %llu MiB here, above the limit of %llu MiB; use a format "
                       "with smaller groups, or keep this tensor",
                       g->format->name, (unsigned long long)(band >> 20),
                       (unsigned long long)(KF_STREAM_BAND_BYTES >> 20));
    }
    kf_stream *s = NULL;
    KF_TRY(kf_allocate(&s, 1, sizeof *s, err));
    s->geometry = g;
    s->dense_type = dense_type;
    s->units = g->bands;
    s->workers = workers;
    if (run == WHOLE_PANELS)
        s->workers = (unsigned)least(workers, KF_STREAM_CREW_BYTES / KF_STREAM_PANEL_BYTES);
    choose_steps(s, band, run);
    kerf_status status = room ? keep_tensor(s, room, err) : KERF_OK;
    if (status == KERF_OK) status = allocate_whole(s, err);
    if (status == KERF_OK) status = open_slots(s, err);
    if (status != KERF_OK) {
        kf_stream_close(s);
        return status;
    }
    *out = s;
    return KERF_OK;
}

kerf_status kf_stream_open(kf_stream **out, const kerf_geometry *g, kerf_dtype dense_type,
                           kerf_error *err)
{
    return open_panels(out, g, dense_type, 0, 0, NULL, err);
}

kerf_status kf_stream_open_parts(kf_stream **out, const kerf_geometry *g, kerf_dtype dense_type,
                                 unsigned workers, uint64_t run, kerf_error *err)
{
    return open_panels(out, g, dense_type, workers, run ? run : WHOLE_PANELS, NULL, err);
}

int kf_stream_ends_panel(const kf_stream *s, uint64_t u1)
{
    return u1 == s->units || u1 % s->whole_step == 0;
}

unsigned kf_stream_slots(const kf_stream *s)
{
    return s->ring;
}

kerf_status kf_stream_open_crew(kf_stream **out, const kerf_geometry *g, kerf_dtype dense_type,
                                unsigned workers, kf_room *room, kerf_error *err)
{
    return open_panels(out, g, dense_type, workers, 0, room, err);
}

int kf_stream_keeps(const kf_stream *s)
{
    return s->kept != NULL;
}

unsigned kf_stream_crew_size(int threads)
{
    enum { WAITING = 2 };
    cpu_set_t cpus;
    if (threads > 0) return (unsigned)threads;
    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0) return 1 + WAITING;
    return (unsigned)CPU_COUNT(&cpus) + WAITING;
}

kerf_status kf_stream_open_bytes(kf_stream **out, uint64_t bytes, kerf_error *err)
{
    *out = NULL;
    kf_stream *s = NULL;
    KF_TRY(kf_allocate(&s, 1, sizeof *s, err));
    s->units = bytes;
    s->step = s->whole_step = KF_STREAM_PANEL_BYTES;
    kerf_status status = open_slots(s, err);
    if (status != KERF_OK) {
        kf_stream_close(s);
        return status;
    }
    *out = s;
    return KERF_OK;
}

void kf_stream_close(kf_stream *s)
{
    if (!s) return;
    for (unsigned i = 0; s->slot && i < s->ring; i++) {
        if (!s->kept) free(s->slot[i].dense.p);
        for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
            if (s->slot[i].plane[k].p != s->whole[k].p) free(s->slot[i].plane[k].p);
        }
    }
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) free(s->whole[k].p);
    free(s->slot);
    free(s);
}

kerf_span kf_stream_whole(const kf_stream *s, kerf_plane_id p)
{
    return s->whole[p];
}

/* --- the ring ------------------------------------------------------------------------------ */

typedef struct run {
    kf_stream *stream;
    const kf_steps *steps;
    void *ctx;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    slot_state state[RING];
    kerf_status status; /* of the first failure */
    kerf_error error;
} run;

/* Waits until slot i is in `state`; 0 when the run has failed meanwhile. */
static int await_slot(run *r, unsigned slot, slot_state state)
{
    pthread_mutex_lock(&r->lock);
    while (r->status == KERF_OK && r->state[slot] != state) pthread_cond_wait(&r->moved, &r->lock);
    int go = r->status == KERF_OK;
    pthread_mutex_unlock(&r->lock);
    return go;
}

static void leave_slot(run *r, unsigned slot, slot_state state, kerf_status status,
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
static void run_step(run *r, kf_step step, slot_state from, slot_state to)
{
    kf_stream *s = r->stream;
    for (uint64_t i = 0; i < s->panels; i++) {
        unsigned slot = (unsigned)(i % s->ring);
        if (!await_slot(r, slot, from)) return;
        if (from == SLOT_FREE) shape_slot(s, &s->slot[slot], i);
        kerf_error error = {0};
        kerf_status status = step ? step(r->ctx, &s->slot[slot], &error) : KERF_OK;
        leave_slot(r, slot, to, status, &error);
        if (status != KERF_OK) return;
    }
}

static void *read_all(void *ctx)
{
    run *r = ctx;
    run_step(r, r->steps->read, SLOT_FREE, SLOT_FILLED);
    return NULL;
}

static void *write_all(void *ctx)
{
    run *r = ctx;
    run_step(r, r->steps->write, SLOT_DONE, SLOT_FREE);
    return NULL;
}

static kerf_status run_threads(run *r, kerf_error *err)
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

/* --- the crew ------------------------------------------------------------------------------ */

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
        shape_slot(c->stream, w->panel, i);
        if (steps->read) s = steps->read(c->ctx, w->panel, &error);
        if (s == KERF_OK && steps->work) s = steps->work(c->ctx, w->panel, &error);
        if (s != KERF_OK && steps->lost) steps->lost(c->ctx, i);
        if (!await_turn(c, i)) break;
        if (s == KERF_OK && steps->write) s = steps->write(c->ctx, w->panel, &error);
        end_turn(c, s, &error);
    }
    return NULL;
}

/* A crew that cannot be hired in full is smaller: the calling thread always belongs to it. */
static kerf_status run_crew(kf_stream *s, const kf_steps *steps, void *ctx, kerf_error *err)
{
    crew c = {.stream = s, .steps = steps, .ctx = ctx};
    worker *w = NULL;
    pthread_t *thread = NULL;
    unsigned hired = 1;
    kerf_status status = kf_allocate(&w, s->ring, sizeof *w, err);
    if (status == KERF_OK) status = kf_allocate(&thread, s->ring, sizeof *thread, err);
    if (status == KERF_OK) {
        pthread_mutex_init(&c.lock, NULL);
        pthread_cond_init(&c.moved, NULL);
        for (unsigned i = 0; i < s->ring; i++) w[i] = (worker){&c, &s->slot[i]};
        while (hired < s->ring && pthread_create(&thread[hired], NULL, take_panels, &w[hired]) == 0)
            hired++;
        take_panels(&w[0]);
        for (unsigned i = 1; i < hired; i++) pthread_join(thread[i], NULL);
        pthread_cond_destroy(&c.moved);
        pthread_mutex_destroy(&c.lock);
        status = c.status;
        if (status != KERF_OK && err) *err = c.error;
    }
    free(thread);
    free(w);
    return status;
}

static kerf_status run_alone(kf_stream *s, const kf_steps *steps, void *ctx, kerf_error *err)
{
    kf_panel *p = &s->slot[0];
    for (uint64_t i = 0; i < s->panels; i++) {
        shape_slot(s, p, i);
        if (steps->read) KF_TRY(steps->read(ctx, p, err));
        if (steps->work) KF_TRY(steps->work(ctx, p, err));
        if (steps->write) KF_TRY(steps->write(ctx, p, err));
    }
    return KERF_OK;
}

kerf_status kf_stream_run(kf_stream *s, const kf_steps *steps, void *ctx, kerf_error *err)
{
    if (s->ring <= 1) return run_alone(s, steps, ctx, err);
    if (s->workers) return run_crew(s, steps, ctx, err);
    run r = {.stream = s, .steps = steps, .ctx = ctx};
    pthread_mutex_init(&r.lock, NULL);
    pthread_cond_init(&r.moved, NULL);
    kerf_status status = run_threads(&r, err);
    pthread_cond_destroy(&r.moved);
    pthread_mutex_destroy(&r.lock);
    return status;
}

/* --- shared steps -------------------------------------------------------------------------- */

kerf_status kf_read_dense(const kerf_reader *r, const kerf_tensor *t, const kerf_geometry *g,
                          kf_panel *p, kerf_error *err)
{
    uint64_t first = kerf_band_elements(g, p->u0, p->u1).offset;
    return kerf_reader_read(r, t, first * (kerf_dtype_bits(t->dtype) / 8), p->dense.p, p->dense.n,
                            err);
}

kerf_status kf_read_planes(const kerf_reader *r, const kerf_weight *w, kf_panel *p, kerf_error *err)
{
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        if (w->geometry.plane[k].band_bytes == 0) continue;
        uint64_t offset = kerf_band_bytes(&w->geometry, k, p->u0, p->u1).offset;
        KF_TRY(kerf_weight_read(r, w, k, offset, p->plane[k].p, p->plane[k].n, err));
    }
    return KERF_OK;
}

kerf_status kf_read_whole_planes(const kerf_reader *r, const kerf_weight *w, const kf_stream *s,
                                 kerf_error *err)
{
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        kerf_span whole = kf_stream_whole(s, k);
        if (whole.n) KF_TRY(kerf_weight_read(r, w, k, 0, whole.p, whole.n, err));
    }
    return KERF_OK;
}

void kf_planes_of(const kf_panel *p, kerf_cspan out[KERF_PLANES])
{
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        out[k] = (kerf_cspan){p->plane[k].p, p->plane[k].n};
    }
}

kerf_cspan kf_dense_of(const kf_panel *p)
{
    return (kerf_cspan){p->dense.p, p->dense.n};
}
