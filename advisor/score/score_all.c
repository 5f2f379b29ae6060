/* score_all.c - hands out weights to a team; each of them is looked up in the cache by a digest of
 * its content, and measured in the codecs that the cache does not have. */
#include "score/score_all.h"

#include <kerf/feedback.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/work.h"
#include "score/imatrix_names.h"
#include "score/score_cache.h"
#include "score/score_tensor.h"
#include "stream/team.h"

typedef struct scoring {
    const kf_score_all_job *all;
    const kerf_reader *reader;
    kf_work work;
    pthread_mutex_t computing; /* of memory: the processor works on one weight at a time */
    kf_score_memory memory;
    pthread_mutex_t lock; /* of the cache and the counts */
    kf_score_cache cache;
    size_t scored, cached;
} scoring;

/* --- digests ------------------------------------------------------------------------------- */

/* Hash of what went before and of n bytes. */
static uint64_t chain(uint64_t before, const void *p, size_t n)
{
    uint64_t pair[2] = {before, kerf_hash(p, n)};
    return kerf_hash(pair, sizeof pair);
}

/* Of type, shape and elements of a weight, without its name. */
static kerf_status digest_weight(scoring *s, const kerf_weight *w, uint64_t *out, kerf_error *err)
{
    enum { PANEL = 8 << 20 };
    const kerf_tensor *stored = kerf_weight_dense(w);
    unsigned char *panel = NULL;
    uint64_t about[KERF_MAX_RANK + 2] = {(uint64_t)stored->dtype, w->shape.rank};
    memcpy(about + 2, w->shape.dim, w->shape.rank * sizeof *about);
    *out = kerf_hash(about, sizeof about);
    KF_TRY(kf_allocate(&panel, PANEL, 1, err));
    kerf_status status = KERF_OK;
    for (uint64_t at = 0; at < stored->bytes && status == KERF_OK; at += PANEL) {
        size_t n = (size_t)kf_min_u64(stored->bytes - at, PANEL);
        status = kerf_reader_read(s->reader, stored, at, panel, n, err);
        if (status == KERF_OK) *out = chain(*out, panel, n);
        if (status == KERF_OK) status = kf_work_add(&s->work, n, err);
    }
    free(panel);
    return status;
}

static kerf_status find_key(scoring *s, const kerf_weight *w, const float *importance,
                            const kf_gram_weights *g, int feedback, kerf_nan nan, kf_score_key *key,
                            kerf_error *err)
{
    *key = (kf_score_key){0};
    if (!s->cache.path) return KERF_OK;
    if (importance)
        key->importance = kerf_hash(importance, kf_last_dim(&w->shape) * sizeof *importance);
    if (g->gram)
        key->importance =
            chain(key->importance, g->gram, g->columns * g->columns * sizeof *g->gram);
    if (nan) key->importance = chain(key->importance, &nan, sizeof nan);
    if (feedback) key->importance = chain(key->importance, "feedback", 8);
    if (feedback > 1) key->importance = chain(key->importance, "again", 5);
    return digest_weight(s, w, &key->tensor, err);
}

/* --- one weight ---------------------------------------------------------------------------- */

/* Takes what the cache has, and lists the others. Returns how many these are. */
static size_t list_candidates(scoring *s, size_t weight, kf_score_key key, kf_score_candidate *out)
{
    const kf_score_all_job *all = s->all;
    kerf_score *score = &all->score[weight * all->codecs];
    size_t n = 0;
    pthread_mutex_lock(&s->lock);
    for (size_t c = 0; c < all->codecs; c++) {
        if (all->wanted && !all->wanted(all->ctx, weight, c)) continue;
        if (kf_score_cache_find(&s->cache, key, all->codec[c], &score[c]))
            s->cached++;
        else
            out[n++] = (kf_score_candidate){all->codec[c], &score[c]};
    }
    pthread_mutex_unlock(&s->lock);
    return n;
}

static void keep_scores(scoring *s, kf_score_key key, const kf_score_candidate *c, size_t n)
{
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < n; i++) kf_score_cache_add(&s->cache, key, c[i].codec, c[i].score);
    s->scored += n;
    pthread_mutex_unlock(&s->lock);
}

static kerf_status score_candidates(scoring *s, size_t weight, const kf_gram_weights *g,
                                    const kerf_exec *exec, kerf_error *err)
{
    const kf_score_all_job *all = s->all;
    const kerf_weight *w = all->weight[weight];
    kf_score_candidate *candidate = NULL;
    kf_score_key key;
    char text[64];
    KF_TRY(find_key(s, w, g->importance, g, exec->feedback ? s->all->feedback : 0, exec->nan, &key,
                    err));
    KF_TRY(kf_allocate(&candidate, all->codecs, sizeof *candidate, err));
    const size_t n = list_candidates(s, weight, key, candidate);
    snprintf(text, sizeof text, "%zu formats", n);
    if (n == 1) kerf_codec_name(candidate->codec, text, sizeof text);
    kf_work_item(&s->work, w->name, text);
    const kf_score_job job = {.memory = &s->memory,
                              .reader = s->reader,
                              .weight = w,
                              .candidate = candidate,
                              .count = n,
                              .options = {g->importance, all->zstd_level},
                              .gram = *g,
                              .exec = exec,
                              .progress = &s->work};
    if (!exec->device) pthread_mutex_lock(&s->computing);
    kerf_status status = kf_score_tensor(&job, err);
    if (!exec->device) pthread_mutex_unlock(&s->computing);
    if (status == KERF_OK) keep_scores(s, key, candidate, n);
    free(candidate);
    return status;
}

static kerf_status score_weight(void *ctx, size_t i, const kerf_exec *exec, kerf_error *err)
{
    scoring *s = ctx;
    const kerf_weight *w = s->all->weight[i];
    kerf_importance columns, all;
    kerf_gram gram = {0};
    kerf_exec own = *exec;
    KF_TRY(kerf_importance_read(s->all->imatrix, w, 1, &columns, err));
    kerf_status status = kerf_importance_read(s->all->imatrix, w, 0, &all, err);
    own.importance =
        all.value; /* encoders take that of each expert, errors are weighed by column */
    own.importances = all.count;
    if (status == KERF_OK && s->all->calibration && columns.value)
        status = kerf_calibration_gram(s->all->calibration, w, &gram, err);
    const kf_gram_weights weights = {gram.value, columns.value, gram.columns, 1, 0};
    kerf_feedback *feedback = NULL;
    if (status == KERF_OK && s->all->feedback && gram.value)
        status = kerf_feedback_make(gram.value, gram.columns, KERF_FEEDBACK_DAMPING, exec->threads,
                                    s->work.job, &feedback, err);
    if (feedback && s->all->feedback > 1)
        status = kerf_feedback_again(feedback, gram.value, KERF_FEEDBACK_DAMPING, err);
    own.feedback = feedback;
    if (status == KERF_OK) status = score_candidates(s, i, &weights, &own, err);
    kerf_feedback_free(feedback);
    kerf_gram_free(&gram);
    kerf_importance_free(&columns);
    kerf_importance_free(&all);
    return status;
}

/* --- all of them --------------------------------------------------------------------------- */

uint64_t kf_score_work(const kf_score_all_job *all, size_t weight)
{
    uint64_t passes = all->cache ? 1 : 0;
    const kerf_shape *shape = &all->weight[weight]->shape;
    for (size_t c = 0; c < all->codecs; c++) {
        kerf_geometry g;
        if (kerf_geometry_init(&g, all->codec[c].format, shape, NULL) != KERF_OK) continue;
        passes += kerf_needs_stats(&g) ? 2 : 1;
    }
    return passes * kerf_weight_bytes(all->weight[weight]);
}

static uint64_t work_bytes(const kf_score_all_job *all)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < all->weights; i++) bytes += kf_score_work(all, i);
    return bytes;
}

static kerf_status finish_weight(void *ctx, size_t i, kerf_error *err)
{
    const scoring *s = ctx;
    return s->all->finished ? s->all->finished(s->all->to, i, err) : KERF_OK;
}

/* --- by several processes ------------------------------------------------------------------ */

typedef struct batch {
    scoring *s;
    const size_t *order; /* weights, the largest first */
} batch;

static kerf_status score_ordered(void *ctx, size_t i, const kerf_exec *exec, kerf_error *err)
{
    const batch *b = ctx;
    return score_weight(b->s, b->order[i], exec, err);
}

typedef struct sized {
    uint64_t bytes;
    size_t index;
} sized;

static int largest_first(const void *pa, const void *pb)
{
    const sized *a = pa, *b = pb;
    if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
    return a->index < b->index ? -1 : 1;
}

static kerf_status order_weights(const kf_score_all_job *all, size_t *order, kerf_error *err)
{
    sized *by = NULL;
    KF_TRY(kf_allocate(&by, all->weights, sizeof *by, err));
    for (size_t i = 0; i < all->weights; i++) by[i] = (sized){kerf_weight_bytes(all->weight[i]), i};
    qsort(by, all->weights, sizeof *by, largest_first);
    for (size_t i = 0; i < all->weights; i++) order[i] = by[i].index;
    free(by);
    return KERF_OK;
}

/* As many weights at a time as the team has members. What a rank has not measured is zeros, so that
 * the scores of all are put together bit by bit. */
static kerf_status score_taken(scoring *s, size_t *order, kerf_error *err)
{
    static const kf_team_work work = {score_ordered, NULL};
    const kf_score_all_job *all = s->all;
    const kerf_ranks *r = all->ranks;
    const size_t step = all->team && all->team->count ? all->team->count : 1,
                 steps = (all->weights + step - 1) / step;
    KF_TRY(order_weights(all, order, err));
    for (;;) {
        size_t i = 0;
        KF_TRY(r->take(r->ctx, steps, &i, err));
        if (i >= steps) break;
        const size_t left = all->weights - i * step;
        batch b = {s, order + i * step};
        KF_TRY(kf_team_run(all->team, left < step ? left : step, &work, &b, err));
    }
    return r->combine(r->ctx, all->score, all->weights * all->codecs * sizeof *all->score, err);
}

static kerf_status score_together(scoring *s, kerf_error *err)
{
    size_t *order = NULL;
    KF_TRY(kf_allocate(&order, s->all->weights, sizeof *order, err));
    const kerf_status status = score_taken(s, order, err);
    free(order);
    return status;
}

/* Scores of parts of two models are neither a result nor kept. */
static kerf_status check_sources(const kf_score_all_job *all, kerf_error *err)
{
    KF_TRY(kerf_reader_check(kerf_checkpoint_reader(all->source), err));
    return all->imatrix ? kerf_reader_check(kerf_checkpoint_reader(all->imatrix), err) : KERF_OK;
}

kerf_status kf_score_all(const kf_score_all_job *all, const kerf_job *job, size_t *scored,
                         size_t *cached, kerf_error *err)
{
    static const kf_team_work work = {score_weight, finish_weight};
    scoring s = {.all = all, .reader = kerf_checkpoint_reader(all->source)};
    const int moments = all->calibration && kerf_calibration_describe(all->calibration).grams > 0;
    if (all->feedback && !moments)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "error feedback needs the Gram matrices of a calibration: kerf calibrate "
                       "--gram makes one, and --calibration CAL names it");
    KF_TRY(kf_score_cache_open(&s.cache, all->cache, err));
    pthread_mutex_init(&s.computing, NULL);
    pthread_mutex_init(&s.lock, NULL);
    kf_work_open(&s.work, job);
    kf_work_phase(&s.work, "score", work_bytes(all));
    kerf_status status =
        all->ranks ? score_together(&s, err) : kf_team_run(all->team, all->weights, &work, &s, err);
    kf_work_close(&s.work);
    pthread_mutex_destroy(&s.lock);
    pthread_mutex_destroy(&s.computing);
    kf_score_memory_close(&s.memory);
    kerf_error *later = status == KERF_OK ? err : NULL;
    kerf_status saved = check_sources(all, later);
    /* What was measured is worth keeping also when a later weight failed. */
    if (saved == KERF_OK) saved = kf_score_cache_save(&s.cache, later);
    kf_score_cache_close(&s.cache);
    if (scored) *scored = s.scored;
    if (cached) *cached = s.cached;
    return status == KERF_OK ? saved : status;
}
