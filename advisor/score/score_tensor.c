/* score_tensor.c - a crew over the parts of a tensor. A worker reads a part, and encodes and
 * measures it run by run in one codec after the other; sums and compression of a codec go on in the
 * order of parts, while others are at work on other codecs.
 *
 * Codecs that cut a tensor into the same bands are tried together. Statistics are those of the
 * source, and found once: save for the means of nested scales, they are the same for all codecs. */
#include "score/score_tensor.h"
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

#include "stream/encode_tensor.h"
#include "score/run_sums.h"
#include "stream/turns.h"

typedef struct trial {
    const score_candidate *candidate;
    kerf_geometry geometry;
    run_sums sums;
    kerf_span whole[KERF_PLANES]; /* planes with one value per matrix */
    kerf_stats *stats;            /* NULL: needs none                 */
    int owns_stats;               /* ... or the first that needs them */
} trial;

/* Of one worker: planes of a part in any of the codecs. */
typedef struct desk {
    kerf_span plane[KERF_PLANES];
} desk;

typedef struct pass {
    const score_job *job;
    kerf_geometry bands; /* that all trials share: no planes  */
    trial *trial;
    size_t trials;
    kf_stream *stream;
    desk *desk;           /* of each slot                     */
    kerf_exec exec;       /* of one call                      */
    kf_turns turns;       /* a queue for each trial           */
    pthread_mutex_t lock; /* of statistics                    */
} pass;

/* --- statistics ---------------------------------------------------------------------------- */

static int same_stats(const kerf_format *a, const kerf_format *b)
{
    return (a->second != KERF_SECOND_NESTED && b->second != KERF_SECOND_NESTED) || a->id == b->id;
}

static kerf_status open_stats(pass *r, trial *t, kerf_error *err)
{
    const kerf_format *f = t->geometry.format;
    if (!kerf_needs_stats(&t->geometry)) return KERF_OK;
    for (const trial *o = r->trial; o < t; o++)
        if (o->owns_stats && same_stats(o->geometry.format, f)) t->stats = o->stats;
    if (t->stats) return KERF_OK;
    if (t->geometry.matrices > KF_STREAM_WHOLE_BYTES / sizeof *t->stats)
        return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE, "%llu matrices in one tensor are too many",
                       (unsigned long long)t->geometry.matrices);
    t->owns_stats = 1;
    return kf_allocate(&t->stats, (size_t)t->geometry.matrices, sizeof *t->stats, err);
}

/* Statistics of a part, merged into those of the tensor. */
static kerf_status measure_part(pass *r, const trial *t, const kf_panel *p, kerf_error *err)
{
    const kerf_geometry *g = &t->geometry;
    kerf_stats *own = NULL;
    KF_TRY(kf_allocate(&own, (size_t)g->matrices, sizeof *own, err));
    kerf_status s =
        kerf_measure(g, p->u0, p->u1, kf_dense_of(p), r->job->weight->dtype, own, &r->exec, err);
    s = kf_explain_encode(r->job->weight->plane[0], s, err);
    pthread_mutex_lock(&r->lock);
    for (uint64_t m = p->u0 / g->bands_per_matrix;
         s == KERF_OK && m <= (p->u1 - 1) / g->bands_per_matrix; m++)
        kerf_stats_merge(&t->stats[m], &own[m]);
    pthread_mutex_unlock(&r->lock);
    free(own);
    return s;
}

static kerf_status measure_work(void *ctx, kf_panel *p, kerf_error *err)
{
    pass *r = ctx;
    for (const trial *t = r->trial; t < r->trial + r->trials; t++) {
        if (t->owns_stats) KF_TRY(measure_part(r, t, p, err));
        if (t->stats) KF_TRY(kf_work_add(r->job->progress, p->dense.n, err));
    }
    return KERF_OK;
}

static kerf_status read_work(void *ctx, kf_panel *p, kerf_error *err)
{
    const pass *r = ctx;
    return kf_read_dense(r->job->reader, r->job->weight->plane[0], &r->bands, p, err);
}

/* --- one part in one codec ----------------------------------------------------------------- */

static int has_wholes(const trial *t)
{
    size_t n = 0;
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) n += t->whole[k].n;
    return n > 0;
}

/* Planes of a part on the desk; those with one value per matrix are written there, too, as other
 * workers read what the tensor has. */
static kerf_status lay_out(desk *d, const trial *t, kf_panel *p, kerf_error *err)
{
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        const size_t n = (size_t)kerf_band_bytes(&t->geometry, k, p->u0, p->u1).count;
        if (d->plane[k].n < n) {
            free(d->plane[k].p);
            d->plane[k] = (kerf_span){NULL, 0};
            KF_TRY(kf_allocate(&d->plane[k].p, n, 1, err));
            d->plane[k].n = n;
        }
        p->plane[k] = (kerf_span){d->plane[k].p, n};
    }
    return KERF_OK;
}

static kerf_status encode_bands(const pass *r, const trial *t, const kf_panel *p, kerf_error *err)
{
    const kerf_weight *w = r->job->weight;
    kerf_status s = kerf_encode(&t->geometry, t->candidate->codec.encoder, t->stats, p->u0, p->u1,
                                kf_dense_of(p), w->dtype, p->plane, &r->exec, err);
    return kf_explain_encode(w->plane[0], s, err);
}

/* Values that a matrix has once are written by whoever encodes its first band. They are needed
 * everywhere, and parts are not done in order. */
static kerf_status find_wholes(pass *r, kf_panel *p, kerf_error *err)
{
    for (trial *t = r->trial; t < r->trial + r->trials; t++) {
        if (!has_wholes(t)) continue;
        KF_TRY(lay_out(&r->desk[0], t, p, err));
        for (kerf_plane_id k = 0; k < KERF_PLANES; k++)
            if (t->whole[k].n) p->plane[k] = t->whole[k];
        KF_TRY(encode_bands(r, t, p, err));
    }
    return KERF_OK;
}

static kerf_status find_all_wholes(pass *r, kerf_error *err)
{
    const uint64_t size = kerf_dtype_bits(r->job->weight->dtype) / 8;
    int any = 0;
    for (size_t i = 0; i < r->trials; i++) any |= has_wholes(&r->trial[i]);
    kerf_status s = KERF_OK;
    for (uint64_t m = 0; any && m < r->bands.matrices && s == KERF_OK; m++) {
        kf_panel p = {.u0 = m * r->bands.bands_per_matrix};
        p.u1 = p.u0 + 1;
        p.dense.n = (size_t)(kerf_band_elements(&r->bands, p.u0, p.u1).count * size);
        KF_TRY(kf_allocate(&p.dense.p, p.dense.n, 1, err));
        s = read_work(r, &p, err);
        if (s == KERF_OK) s = find_wholes(r, &p, err);
        free(p.dense.p);
    }
    return s;
}

static kerf_status try_runs(const pass *r, const trial *t, const kf_panel *p,
                            kerf_score run[MOST_RUNS], kerf_error *err)
{
    kf_panel at;
    for (size_t i = 0; run_at(&t->sums, p, i, &at); i++) {
        KF_TRY(encode_bands(r, t, &at, err));
        for (kerf_plane_id k = 0; k < KERF_PLANES; k++)
            if (t->whole[k].n) at.plane[k] = t->whole[k];
        KF_TRY(run_score(&t->sums, &at, r->job->weight->dtype, r->job->options.importance, &r->exec,
                         &run[i], err));
    }
    return KERF_OK;
}

/* *go is 0 when a part before this one has failed. */
static kerf_status try_part(pass *r, trial *t, const kf_panel *dense, int *go, kerf_error *err)
{
    kerf_score run[MOST_RUNS];
    kf_panel p = *dense;
    const size_t queue = (size_t)(t - r->trial);
    KF_TRY(lay_out(&r->desk[p.slot], t, &p, err));
    KF_TRY(try_runs(r, t, &p, run, err));
    *go = kf_turns_wait(&r->turns, queue, p.index);
    if (!*go) return KERF_OK;
    const kerf_span codes = p.plane[KERF_PLANE_CODES];
    KF_TRY(run_sums_add(&t->sums, r->stream, &p, run, (kerf_cspan){codes.p, codes.n}, err));
    kf_turns_pass(&r->turns, queue);
    KF_TRY(kf_work_add(r->job->progress, p.dense.n, err));
    return KERF_OK;
}

static kerf_status try_work(void *ctx, kf_panel *p, kerf_error *err)
{
    pass *r = ctx;
    kerf_status s = KERF_OK;
    int go = 1;
    for (size_t i = 0; i < r->trials && s == KERF_OK && go; i++)
        s = try_part(r, &r->trial[i], p, &go, err);
    return s;
}

static void try_lost(void *ctx, uint64_t index)
{
    pass *r = ctx;
    kf_turns_fail(&r->turns, index);
}

/* --- one pass ------------------------------------------------------------------------------ */

static kerf_status open_trial(pass *r, trial *t, kerf_error *err)
{
    const kerf_geometry *g = t->sums.geometry = &t->geometry;
    t->sums.run = kerf_score_run(g);
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        if (g->plane[k].band_bytes != 0 || g->plane[k].bytes == 0) continue;
        t->whole[k].n = (size_t)g->plane[k].bytes;
        KF_TRY(kf_allocate(&t->whole[k].p, t->whole[k].n, 1, err));
    }
    KF_TRY(open_stats(r, t, err));
    kerf_scorer **scorer = &r->job->room->scorer[t - r->trial];
    kerf_status s = *scorer ? kerf_scorer_reopen(*scorer, g, &r->job->options, err)
                            : kerf_scorer_open(g, &r->job->options, scorer, err);
    t->sums.scorer = *scorer;
    return s;
}

static void close_trial(trial *t)
{
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) free(t->whole[k].p);
    if (t->owns_stats) free(t->stats);
}

static kerf_status open_pass(pass *r, kerf_error *err)
{
    const kerf_exec *exec = r->job->exec;
    r->bands = r->trial->geometry;
    memset(r->bands.plane, 0, sizeof r->bands.plane);
    r->exec = *exec;
    KF_TRY(kf_turns_open(&r->turns, r->trials, err));
    for (size_t i = 0; i < r->trials; i++) KF_TRY(open_trial(r, &r->trial[i], err));
    const unsigned workers = kf_stream_crew_size(exec->threads);
    KF_TRY(kf_stream_open_parts(&r->stream, &r->bands, r->job->weight->dtype, workers,
                                kerf_score_run(&r->bands), err));
    if (kf_stream_slots(r->stream) > 1)
        r->exec.threads = 1;
    else if (workers > 1) /* all that there is: work for the threads of one call */
        for (size_t i = 0; i < r->trials; i++) r->trial[i].sums.run = 0;
    return kf_allocate(&r->desk, kf_stream_slots(r->stream) + 1, sizeof *r->desk, err);
}

static void close_pass(pass *r)
{
    for (size_t i = 0; r->desk && i < kf_stream_slots(r->stream) + 1; i++)
        for (kerf_plane_id k = 0; k < KERF_PLANES; k++) free(r->desk[i].plane[k].p);
    free(r->desk);
    kf_stream_close(r->stream);
    for (size_t i = 0; i < r->trials; i++) close_trial(&r->trial[i]);
    kf_turns_close(&r->turns);
}

static kerf_status run_pass(pass *r, kerf_error *err)
{
    static const kf_steps measure = {read_work, measure_work, NULL, NULL},
                          try = {read_work, try_work, NULL, try_lost};
    int measures = 0;
    for (size_t i = 0; i < r->trials; i++) measures |= r->trial[i].owns_stats;
    if (measures) KF_TRY(kf_stream_run(r->stream, &measure, r, err));
    if (r->bands.bands) KF_TRY(find_all_wholes(r, err));
    KF_TRY(kf_stream_run(r->stream, &try, r, err));
    for (size_t i = 0; i < r->trials; i++) {
        trial *t = &r->trial[i];
        KF_TRY(kerf_scorer_finish(t->sums.scorer, t->candidate->score, err));
    }
    return KERF_OK;
}

static kerf_status try_together(const score_job *job, trial *trials, size_t count, kerf_error *err)
{
    pass r = {.job = job, .trial = trials, .trials = count};
    pthread_mutex_init(&r.lock, NULL);
    kerf_status s = open_pass(&r, err);
    if (s != KERF_OK)
        s = kf_fail_at(err, s, job->weight->name);
    else
        s = run_pass(&r, err);
    close_pass(&r);
    pthread_mutex_destroy(&r.lock);
    return s;
}

/* --- by a device: one codec after the other ------------------------------------------------ */

typedef struct look {
    const score_job *job;
    kerf_scorer *scorer;
} look;

static kerf_status look_at_panel(void *ctx, kf_panel *p, kerf_error *err)
{
    const look *l = ctx;
    kerf_cspan planes[KERF_PLANES];
    kf_planes_of(p, planes);
    return kerf_scorer_add(l->scorer, p->u0, p->u1, planes, kf_dense_of(p), l->job->weight->dtype,
                           l->job->exec, err);
}

static kerf_status score_alone(const score_job *job, const score_candidate *c, kerf_error *err)
{
    kerf_geometry g;
    look l = {.job = job};
    KF_TRY(kerf_geometry_init(&g, c->codec.format, &job->weight->shape, err));
    KF_TRY(kerf_scorer_open(&g, &job->options, &l.scorer, err));
    kf_encode_job encode = {.reader = job->reader,
                            .tensor = job->weight->plane[0],
                            .geometry = &g,
                            .encoder = c->codec.encoder,
                            .exec = job->exec,
                            .progress = job->progress,
                            .look = look_at_panel,
                            .look_ctx = &l};
    kerf_status s = kf_encode_tensor(&encode, err);
    if (s == KERF_OK) s = kerf_scorer_finish(l.scorer, c->score, err);
    kerf_scorer_close(l.scorer);
    return s;
}

/* --- all of them --------------------------------------------------------------------------- */

static int same_bands(const kerf_geometry *a, const kerf_geometry *b)
{
    return a->bands == b->bands && a->bands_per_matrix == b->bands_per_matrix &&
           a->band_rows == b->band_rows && a->band_cols == b->band_cols && a->cols == b->cols;
}

enum { MOST_TOGETHER = sizeof(score_room) / sizeof(kerf_scorer *) };

void score_room_close(score_room *room)
{
    for (size_t i = 0; i < MOST_TOGETHER; i++) kerf_scorer_close(room->scorer[i]);
    *room = (score_room){{NULL}};
}

/* Some that are cut as the first one come first. Returns how many there are. */
static size_t gather(trial *t, size_t count)
{
    size_t n = 1;
    for (size_t i = 1; i < count && n < MOST_TOGETHER; i++) {
        if (!same_bands(&t->geometry, &t[i].geometry)) continue;
        trial other = t[n];
        t[n++] = t[i];
        t[i] = other;
    }
    return n;
}

kerf_status score_tensor(const score_job *job, kerf_error *err)
{
    trial *t = NULL;
    kerf_status s = KERF_OK;
    for (size_t i = 0; job->exec->device && i < job->count; i++)
        KF_TRY(score_alone(job, &job->candidate[i], err));
    if (job->exec->device) return KERF_OK;
    KF_TRY(kf_allocate(&t, job->count, sizeof *t, err));
    for (size_t i = 0; i < job->count && s == KERF_OK; i++) {
        t[i].candidate = &job->candidate[i];
        s = kerf_geometry_init(&t[i].geometry, t[i].candidate->codec.format, &job->weight->shape,
                               err);
    }
    for (size_t i = 0, n; i < job->count && s == KERF_OK; i += n) {
        n = gather(t + i, job->count - i);
        s = try_together(job, t + i, n, err);
    }
    free(t);
    return s;
}
