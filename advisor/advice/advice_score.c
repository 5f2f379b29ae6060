/* advice_score.c - the error of every candidate on every tensor, measured on the bytes that
 * quantize would write, or found again by the digest of the tensor. */
#include <stdlib.h>
#include "base/base.h"
#include "progress.h"
#include <stdio.h>
#include <string.h>

#include "advice/advice.h"
#include "score/importance.h"
#include "score/score_cache.h"
#include "score/score_tensor.h"

typedef struct scoring {
    advice *advice;
    score_cache cache;
    score_room room;
    progress progress;
} scoring;

/* --- digests ------------------------------------------------------------------------------- */

enum { DIGEST_PANEL = 8 << 20 };

/* Hash of what went before and of n bytes. */
static uint64_t chain(uint64_t before, const void *p, size_t n)
{
    uint64_t pair[2] = {before, kerf_hash(p, n)};
    return kerf_hash(pair, sizeof pair);
}

static kerf_status digest_tensor(scoring *s, advice_tensor *t, kerf_error *err)
{
    const kerf_weight *w = t->weight;
    const kerf_tensor *stored = w->plane[0];
    unsigned char *panel = NULL;
    uint64_t about[KERF_MAX_RANK + 2] = {(uint64_t)w->dtype, w->shape.rank};
    memcpy(about + 2, w->shape.dim, w->shape.rank * sizeof *about);
    t->digest = kerf_hash(about, sizeof about);
    KF_TRY(kf_allocate(&panel, DIGEST_PANEL, 1, err));
    kerf_status status = KERF_OK;
    for (uint64_t at = 0; at < stored->bytes && status == KERF_OK; at += DIGEST_PANEL) {
        uint64_t left = stored->bytes - at;
        size_t n = left < DIGEST_PANEL ? (size_t)left : DIGEST_PANEL;
        status =
            kerf_reader_read(kerf_checkpoint_reader(s->advice->source), stored, at, panel, n, err);
        if (status == KERF_OK) t->digest = chain(t->digest, panel, n);
        if (status == KERF_OK) status = kf_work_add(&s->progress.work, n, err);
    }
    free(panel);
    return status;
}

/* --- one tensor ---------------------------------------------------------------------------- */

/* What the cache does not know is measured. */
static kerf_status score_candidates(scoring *s, advice_tensor *t, const float *importance,
                                    uint64_t importance_digest, kerf_error *err)
{
    advice *a = s->advice;
    const kerf_weight *w = t->weight;
    score_candidate *candidate = NULL;
    size_t n = 0;
    char text[64];
    KF_TRY(kf_allocate(&candidate, a->codecs.count, sizeof *candidate, err));
    for (size_t c = 0; c < a->codecs.count; c++) {
        const kerf_codec codec = a->codecs.item[c];
        if (!a->group[t->group].cost[c].possible) continue;
        if (score_cache_find(&s->cache, t->digest, importance_digest, codec, &t->score[c]))
            a->cached++;
        else
            candidate[n++] = (score_candidate){codec, &t->score[c]};
    }
    snprintf(text, sizeof text, "%zu formats", n);
    kf_work_item(&s->progress.work, w->name, text);
    const score_job job = {.room = &s->room,
                           .reader = kerf_checkpoint_reader(a->source),
                           .weight = w,
                           .candidate = candidate,
                           .count = n,
                           .options = {.importance = importance},
                           .exec = &a->exec,
                           .progress = &s->progress.work};
    kerf_status status = score_tensor(&job, err);
    for (size_t i = 0; i < n && status == KERF_OK; i++, a->scored++)
        score_cache_add(&s->cache, t->digest, importance_digest, candidate[i].codec,
                        candidate[i].score);
    free(candidate);
    return status;
}

static kerf_status score_one(scoring *s, advice_tensor *t, kerf_error *err)
{
    advice *a = s->advice;
    const kerf_weight *w = t->weight;
    float *importance = NULL;
    uint64_t digest = 0;
    KF_TRY(kf_allocate(&t->score, a->codecs.count, sizeof *t->score, err));
    if (s->cache.path) KF_TRY(digest_tensor(s, t, err));
    KF_TRY(importance_read(a->imatrix, w, &importance, err));
    if (importance) digest = kerf_hash(importance, w->shape.dim[w->shape.rank - 1] * sizeof(float));
    kerf_status status = score_candidates(s, t, importance, digest, err);
    free(importance);
    return status;
}

/* --- all of them --------------------------------------------------------------------------- */

/* A candidate is possible for a group when all members can be encoded so. What was asked for by
 * name and fits nowhere is an error. */
static kerf_status find_possible(advice *a, kerf_error *err)
{
    for (size_t c = 0; c < a->codecs.count; c++) {
        kerf_error why = {0};
        size_t possible = 0;
        for (size_t i = 0; i < a->groups; i++) {
            advice_group *g = &a->group[i];
            int all = 1;
            for (size_t m = 0; m < g->members && all; m++) {
                const kerf_weight *w = a->tensor[g->member[m]].weight;
                all = kerf_codec_check(a->codecs.item[c], &w->shape, w->dtype, &why) == KERF_OK;
            }
            g->cost[c].possible = all;
            possible += (size_t)all;
        }
        char name[64];
        if (possible == 0) {
            return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "-f %s: %.300s",
                           kerf_codec_name(a->codecs.item[c], name, sizeof name), why.text);
        }
    }
    return KERF_OK;
}

/* Bytes that progress counts: an upper bound, as what the cache knows is not encoded. */
static uint64_t work_bytes(const advice *a)
{
    uint64_t bytes = 0;
    for (size_t t = 0; t < a->tensors; t++) {
        const kerf_weight *w = a->tensor[t].weight;
        uint64_t passes = args_has(a->args, "cache") ? 1 : 0;
        for (size_t c = 0; c < a->codecs.count; c++) {
            kerf_geometry g;
            if (kerf_geometry_init(&g, a->codecs.item[c].format, &w->shape, NULL) != KERF_OK)
                continue;
            passes += kerf_needs_stats(&g) ? 2 : 1;
        }
        bytes += passes * kerf_weight_bytes(w);
    }
    return bytes;
}

kerf_status advice_score(advice *a, kerf_error *err)
{
    scoring s = {.advice = a};
    for (size_t i = 0; i < a->groups; i++) {
        KF_TRY(kf_allocate(&a->group[i].cost, a->codecs.count + 1, sizeof *a->group[i].cost, err));
    }
    KF_TRY(find_possible(a, err));
    KF_TRY(score_cache_open(&s.cache, args_value(a->args, "cache"), err));
    kerf_status status = progress_open(&s.progress, a->args, work_bytes(a), err);
    for (size_t t = 0; t < a->tensors && status == KERF_OK; t++) {
        status = score_one(&s, &a->tensor[t], err);
    }
    progress_close(&s.progress);
    score_room_close(&s.room);
    /* What was measured is worth keeping even when a later tensor failed. */
    kerf_status saved = score_cache_save(&s.cache, status == KERF_OK ? err : NULL);
    score_cache_close(&s.cache);
    return status == KERF_OK ? saved : status;
}
