/* score_tensor.c - scores one tensor in several codecs.
 *
 * On the processor, some workers share the tensor. A worker takes a part, encodes it in one codec
 * after the other and measures what each has lost, run by run (run_sums.h). The sums of a codec,
 * and the compression of its codes, must go in the order of the parts: each codec has a queue in
 * which a worker waits for its turn, while others are at work on other codecs.
 *
 * Codecs that cut a tensor into the same bands are scored in the same score_pass. A score_pass
 * begins with the statistics of the source that encoders need. They are the same for all codecs but
 * those with nested scales, so they are found once. */
#include "score/score_tensor.h"

#include <kerf/encode_matrix.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "score/run_sums.h"
#include "stream/crew.h"
#include "stream/encode_tensor.h"

/* One codec in a pass. */
typedef struct codec_lane {
    const kf_score_candidate *candidate;
    kerf_geometry geometry;
    kf_run_sums sums;
    kf_gram_sums gram;
    kerf_span whole[KERF_PLANES]; /* planes with one value per matrix                         */
    kerf_stats *stats;            /* of each matrix, maybe another lane's; NULL: needs none   */
    int owns_stats;               /* this lane measures them                                  */
} codec_lane;

/* Memory of one worker for the planes of a part, in one codec after the other. */
typedef struct plane_memory {
    kerf_span plane[KERF_PLANES];
} plane_memory;

typedef struct score_pass {
    const kf_score_job *job;
    kerf_geometry bands; /* those of every lane, without planes */
    codec_lane *lane;
    size_t lanes;
    kf_stream *stream;
    plane_memory *memory; /* [slots of the stream + 1]           */
    kerf_exec exec;       /* of each call                        */
    kf_turns turns;       /* a queue for each lane               */
    pthread_mutex_t lock; /* of statistics                       */
} score_pass;

static kerf_dtype source_type(const kf_score_job *job)
{
    return kerf_weight_dense(job->weight)->dtype;
}

/* --- statistics ---------------------------------------------------------------------------- */

static int same_stats(const kerf_format *a, const kerf_format *b)
{
    return (a->second != KERF_SECOND_NESTED && b->second != KERF_SECOND_NESTED) || a->id == b->id;
}

static kerf_status open_stats(score_pass *r, codec_lane *t, kerf_error *err)
{
    const kerf_format *f = t->geometry.format;
    if (!kerf_needs_stats(&t->geometry)) return KERF_OK;
    for (const codec_lane *o = r->lane; o < t; o++)
        if (o->owns_stats && same_stats(o->geometry.format, f)) t->stats = o->stats;
    if (t->stats) return KERF_OK;
    if (t->geometry.matrices > KF_STREAM_WHOLE_BYTES / sizeof *t->stats)
        return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE, "%llu matrices in one tensor are too many",
                       (unsigned long long)t->geometry.matrices);
    t->owns_stats = 1;
    return kf_allocate(&t->stats, (size_t)t->geometry.matrices, sizeof *t->stats, err);
}

/* Statistics of a part, merged into those of the tensor. */
static kerf_status measure_part(score_pass *r, const codec_lane *t, const kf_panel *p,
                                kerf_error *err)
{
    const kerf_geometry *g = &t->geometry;
    kerf_stats *own = NULL;
    KF_TRY(kf_allocate(&own, (size_t)g->matrices, sizeof *own, err));
    kerf_status s =
        kerf_measure(g, p->u0, p->u1, kf_dense_of(p), source_type(r->job), own, &r->exec, err);
    s = kf_explain_encode(kerf_weight_dense(r->job->weight), s, err);
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
    score_pass *r = ctx;
    for (const codec_lane *t = r->lane; t < r->lane + r->lanes; t++) {
        if (t->owns_stats) KF_TRY(measure_part(r, t, p, err));
        if (t->stats) KF_TRY(kf_work_add(r->job->progress, p->dense.n, err));
    }
    return KERF_OK;
}

static kerf_status read_work(void *ctx, kf_panel *p, kerf_error *err)
{
    const score_pass *r = ctx;
    return kf_read_dense(r->job->reader, kerf_weight_dense(r->job->weight), &r->bands, p, err);
}

/* --- one part in one codec ----------------------------------------------------------------- */

/* Points the planes of a part to memory of this worker. That goes for planes with one value per
 * matrix, too: encoding writes them, while other workers read those of the lane. */
static kerf_status point_planes(plane_memory *d, const codec_lane *t, kf_panel *p, kerf_error *err)
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

static kerf_status encode_bands(const score_pass *r, const codec_lane *t, const kf_panel *p,
                                kerf_error *err)
{
    const kerf_weight *w = r->job->weight;
    kerf_status s = kerf_encode(&t->geometry, t->candidate->codec.encoder, t->stats, p->u0, p->u1,
                                kf_dense_of(p), source_type(r->job), p->plane, &r->exec, err);
    return kf_explain_encode(kerf_weight_dense(w), s, err);
}

/* What the Gram matrix says of each run of a part, by which sums are the same for any number of
 * workers; run NULL: there is no such matrix. */
typedef struct weighed_runs {
    kf_gram_sums *run;
    size_t count;
} weighed_runs;

static kerf_status weigh_runs(const kf_score_job *job, const kerf_geometry *g, const kf_panel *p,
                              int signal, weighed_runs *out, kerf_error *err)
{
    kf_gram_weights weights = job->gram;
    weights.signal = signal;
    const kf_run_sums cut = {.geometry = g, .run = kerf_score_run(g)};
    kerf_cspan planes[KERF_PLANES];
    kf_panel at;
    *out = (weighed_runs){0};
    if (!job->gram.gram) return KERF_OK;
    out->count = (size_t)(cut.run ? kf_div_up(p->u1 - p->u0, cut.run) : 1);
    KF_TRY(kf_allocate(&out->run, out->count, sizeof *out->run, err));
    for (size_t i = 0; kf_run_at(&cut, p, i, &at); i++) {
        kf_planes_of(&at, planes);
        const kf_rest_job rows = {g, at.u0, at.u1, planes, kf_dense_of(&at), source_type(job)};
        KF_TRY(kf_work_check(job->progress, err));
        KF_TRY(kf_gram_score(&rows, &weights, &out->run[i], err));
    }
    return KERF_OK;
}

static void add_weighed(kf_gram_sums *into, weighed_runs *w)
{
    for (size_t i = 0; i < w->count; i++) kf_gram_merge(into, &w->run[i]);
    free(w->run);
    *w = (weighed_runs){0};
}

static kerf_status try_runs(const score_pass *r, const codec_lane *t, const kf_panel *p,
                            kerf_score run[KF_MOST_RUNS], kerf_error *err)
{
    const int together = r->exec.feedback != NULL; /* as many rows as there are at once: panels.c */
    kf_panel at;
    if (together) KF_TRY(encode_bands(r, t, p, err));
    for (size_t i = 0; kf_run_at(&t->sums, p, i, &at); i++) {
        KF_TRY(kf_work_check(r->job->progress, err));
        if (!together) KF_TRY(encode_bands(r, t, &at, err));
        for (kerf_plane_id k = 0; k < KERF_PLANES; k++)
            if (t->whole[k].n) at.plane[k] = t->whole[k];
        KF_TRY(kf_run_score(&t->sums, &at, source_type(r->job), r->job->options.importance,
                            &r->exec, &run[i], err));
    }
    return KERF_OK;
}

static kerf_status weigh_part(const score_pass *r, const codec_lane *t, const kf_panel *p,
                              weighed_runs *out, kerf_error *err)
{
    kf_panel all = *p;
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++)
        if (t->whole[k].n) all.plane[k] = t->whole[k];
    /* the source is the same for all lanes, and so are its runs */
    return weigh_runs(r->job, &t->geometry, &all, t == r->lane, out, err);
}

/* *go: 0 when a part before this one has failed, so that its turn never comes. */
static kerf_status add_part(score_pass *r, codec_lane *t, kf_panel *p, const kerf_score *run,
                            weighed_runs *weighed, int *go, kerf_error *err)
{
    const size_t queue = (size_t)(t - r->lane);
    *go = kf_turns_wait(&r->turns, queue, p->index);
    if (!*go) return KERF_OK;
    const kerf_span codes = p->plane[KERF_PLANE_CODES];
    KF_TRY(kf_run_sums_add(&t->sums, r->stream, p, run, (kerf_cspan){codes.p, codes.n}, err));
    add_weighed(&t->gram, weighed);
    kf_turns_pass(&r->turns, queue);
    return kf_work_add(r->job->progress, p->dense.n, err);
}

static kerf_status try_part(score_pass *r, codec_lane *t, const kf_panel *dense, int *go,
                            kerf_error *err)
{
    kerf_score run[KF_MOST_RUNS];
    weighed_runs weighed = {0};
    kf_panel p = *dense;
    KF_TRY(point_planes(&r->memory[p.slot], t, &p, err));
    KF_TRY(try_runs(r, t, &p, run, err));
    kerf_status s = weigh_part(r, t, &p, &weighed, err);
    if (s == KERF_OK) s = add_part(r, t, &p, run, &weighed, go, err);
    free(weighed.run);
    return s;
}

static kerf_status try_work(void *ctx, kf_panel *p, kerf_error *err)
{
    score_pass *r = ctx;
    kerf_status s = KERF_OK;
    int go = 1;
    for (size_t i = 0; i < r->lanes && s == KERF_OK && go; i++)
        s = try_part(r, &r->lane[i], p, &go, err);
    return s;
}

static void try_lost(void *ctx, uint64_t index)
{
    score_pass *r = ctx;
    kf_turns_fail(&r->turns, index);
}

/* --- one score_pass ------------------------------------------------------------------------------
 */

static kerf_status open_lane(score_pass *r, codec_lane *t, kerf_error *err)
{
    const kerf_geometry *g = t->sums.geometry = &t->geometry;
    t->sums.run = kerf_score_run(g);
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        if (g->plane[k].band_bytes != 0 || g->plane[k].bytes == 0) continue;
        t->whole[k].n = (size_t)g->plane[k].bytes;
        KF_TRY(kf_allocate(&t->whole[k].p, t->whole[k].n, 1, err));
    }
    KF_TRY(open_stats(r, t, err));
    kerf_scorer **scorer = &r->job->memory->scorer[t - r->lane];
    kerf_status s = *scorer ? kerf_scorer_reopen(*scorer, g, &r->job->options, err)
                            : kerf_scorer_open(g, &r->job->options, scorer, err);
    t->sums.scorer = *scorer;
    return s;
}

static void close_lane(codec_lane *t)
{
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) free(t->whole[k].p);
    if (t->owns_stats) free(t->stats);
}

static kerf_status open_pass(score_pass *r, kerf_error *err)
{
    const kerf_exec *exec = r->job->exec;
    r->bands = r->lane->geometry;
    memset(r->bands.plane, 0, sizeof r->bands.plane);
    r->exec = *exec;
    KF_TRY(kf_turns_open(&r->turns, r->lanes, err));
    for (size_t i = 0; i < r->lanes; i++) KF_TRY(open_lane(r, &r->lane[i], err));
    const unsigned workers = kf_stream_crew_size(exec->threads);
    KF_TRY(kf_stream_open_parts(&r->stream, &r->bands, source_type(r->job), workers,
                                kerf_score_run(&r->bands), exec->feedback != NULL, err));
    if (kf_stream_slots(r->stream) > 1)
        r->exec.threads = 1;
    else if (workers > 1) /* the tensor is one part: its threads are those of each call */
        for (size_t i = 0; i < r->lanes; i++) r->lane[i].sums.run = 0;
    return kf_allocate(&r->memory, kf_stream_slots(r->stream) + 1, sizeof *r->memory, err);
}

static void close_pass(score_pass *r)
{
    for (size_t i = 0; r->memory && i < kf_stream_slots(r->stream) + 1; i++)
        for (kerf_plane_id k = 0; k < KERF_PLANES; k++) free(r->memory[i].plane[k].p);
    free(r->memory);
    kf_stream_close(r->stream);
    for (size_t i = 0; i < r->lanes; i++) close_lane(&r->lane[i]);
    kf_turns_close(&r->turns);
}

static kerf_status run_pass(score_pass *r, kerf_error *err)
{
    static const kf_steps measure = {read_work, measure_work, NULL, NULL},
                          try = {read_work, try_work, NULL, try_lost};
    int measures = 0;
    for (size_t i = 0; i < r->lanes; i++) measures |= r->lane[i].owns_stats;
    if (measures) KF_TRY(kf_stream_run(r->stream, &measure, r, err));
    for (const codec_lane *t = r->lane; t < r->lane + r->lanes; t++)
        KF_TRY(kerf_encode_matrix_values(&t->geometry, t->candidate->codec.encoder, t->stats,
                                         source_type(r->job), t->whole, err));
    KF_TRY(kf_stream_run(r->stream, &try, r, err));
    for (size_t i = 0; i < r->lanes; i++) {
        codec_lane *t = &r->lane[i];
        KF_TRY(kerf_scorer_finish(t->sums.scorer, t->candidate->score, err));
        t->gram.signal = r->lane->gram.signal;
        t->gram.plain_signal = r->lane->gram.plain_signal;
        kf_gram_apply(&t->gram, t->candidate->score);
    }
    return KERF_OK;
}

static kerf_status try_together(const kf_score_job *job, codec_lane *lane, size_t count,
                                kerf_error *err)
{
    score_pass r = {.job = job, .lane = lane, .lanes = count};
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

/* --- by a GPU: one codec after the other ---------------------------------------------------- */

typedef struct panel_look {
    const kf_score_job *job;
    kerf_scorer *scorer;
    const kerf_geometry *geometry;
    kf_gram_sums gram;
} panel_look;

static kerf_status look_at_panel(void *ctx, kf_panel *p, kerf_error *err)
{
    panel_look *l = ctx;
    kerf_cspan planes[KERF_PLANES];
    weighed_runs weighed;
    kerf_status s = weigh_runs(l->job, l->geometry, p, 1, &weighed, err);
    add_weighed(&l->gram, &weighed);
    if (s != KERF_OK) return s;
    kf_planes_of(p, planes);
    return kerf_scorer_add(l->scorer, p->u0, p->u1, planes, kf_dense_of(p), source_type(l->job),
                           l->job->exec, err);
}

static kerf_status score_alone(const kf_score_job *job, const kf_score_candidate *c,
                               kerf_error *err)
{
    kerf_geometry g;
    panel_look l = {.job = job};
    KF_TRY(kerf_geometry_init(&g, c->codec.format, &job->weight->shape, err));
    l.geometry = &g;
    KF_TRY(kerf_scorer_open(&g, &job->options, &l.scorer, err));
    kf_encode_job encode = {.reader = job->reader,
                            .tensor = kerf_weight_dense(job->weight),
                            .geometry = &g,
                            .encoder = c->codec.encoder,
                            .exec = job->exec,
                            .work = job->progress,
                            .look = look_at_panel,
                            .look_ctx = &l};
    kerf_status s = kf_encode_tensor(&encode, err);
    if (s == KERF_OK) s = kerf_scorer_finish(l.scorer, c->score, err);
    if (s == KERF_OK) kf_gram_apply(&l.gram, c->score);
    kerf_scorer_close(l.scorer);
    return s;
}

/* --- all of them --------------------------------------------------------------------------- */

static int same_bands(const kerf_geometry *a, const kerf_geometry *b)
{
    return a->bands == b->bands && a->bands_per_matrix == b->bands_per_matrix &&
           a->band_rows == b->band_rows && a->band_cols == b->band_cols && a->cols == b->cols;
}

void kf_score_memory_close(kf_score_memory *memory)
{
    for (size_t i = 0; i < KF_SCORED_TOGETHER; i++) kerf_scorer_close(memory->scorer[i]);
    *memory = (kf_score_memory){{NULL}};
}

/* Moves lanes that are cut into the same bands as the first one to the front, at most as many as
 * fit into a pass. Returns how many. */
static size_t gather(codec_lane *t, size_t count)
{
    size_t n = 1;
    for (size_t i = 1; i < count && n < KF_SCORED_TOGETHER; i++) {
        if (!same_bands(&t->geometry, &t[i].geometry)) continue;
        codec_lane other = t[n];
        t[n++] = t[i];
        t[i] = other;
    }
    return n;
}

kerf_status kf_score_tensor(const kf_score_job *job, kerf_error *err)
{
    codec_lane *t = NULL;
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
