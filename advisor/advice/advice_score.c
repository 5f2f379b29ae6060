/* advice_score.c - the error of every candidate on every tensor, measured on the bytes that
 * quantize would write, or found in the cache. */
#include <stdlib.h>

#include "advice/advice.h"
#include "score/score_all.h"
#include "stream/panels.h"

static int is_possible_for(const kerf_advice *a, const kerf_advice_group *g, kerf_codec c,
                           kerf_error *why)
{
    for (size_t m = 0; m < g->members; m++) {
        const kerf_weight *w = a->tensor[g->member[m]].weight;
        const kerf_dtype dtype = kerf_weight_dense(w)->dtype;
        kerf_geometry geometry;
        if (kf_stream_check(c, &w->shape, dtype, &geometry, why) != KERF_OK) return 0;
        if (a->layout && kerf_layout_check_weight(a->layout, c.format, w, why) != KERF_OK) return 0;
    }
    return 1;
}

/* Whether nobody asked for it by its name. */
static int is_optional(const kerf_advise_request *r, kerf_codec c)
{
    for (size_t i = 0; i < r->codecs; i++)
        if (r->codec[i].format == c.format && r->codec[i].encoder == c.encoder)
            return r->optional && r->optional[i];
    return 1; /* one of all that a layout takes */
}

/* A candidate is possible for a group when all members can be encoded so. One that fits nowhere is
 * left out, and is an error when it was asked for or nothing else is left. */
static kerf_status find_possible(kerf_advice *a, const kerf_advise_request *r, kerf_error *err)
{
    kerf_error why = {0};
    size_t kept = 0;
    char name[64];
    for (size_t c = 0; c < a->codecs; c++) {
        size_t possible = 0;
        for (size_t i = 0; i < a->groups; i++) {
            kerf_advice_group *g = &a->group[i];
            g->cost[kept].possible = is_possible_for(a, g, a->codec[c], &why);
            possible += (size_t)g->cost[kept].possible;
        }
        const int needed = !is_optional(r, a->codec[c]) || (kept == 0 && c + 1 == a->codecs);
        if (possible == 0 && needed)
            return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "-f %s: %.300s",
                           kerf_codec_name(a->codec[c], name, sizeof name), why.text);
        if (possible > 0) a->codec[kept++] = a->codec[c];
    }
    a->codecs = kept;
    for (size_t i = 0; i < a->groups; i++) a->group[i].cost[kept].possible = 0;
    return KERF_OK;
}

static int is_possible(const void *ctx, size_t tensor, size_t codec)
{
    const kerf_advice *a = ctx;
    return a->group[a->tensor[tensor].group].cost[codec].possible;
}

/* Scores of all tensors stand in one piece of memory, which that of the first tensor begins. */
kerf_status kf_advice_find_scores(const kf_advising *w, kerf_error *err)
{
    kerf_advice *a = w->advice;
    const kerf_team team = {w->exec, w->exec ? 1 : 0};
    const kerf_weight **weight = NULL;
    kerf_score *score = NULL;
    for (size_t i = 0; i < a->groups; i++)
        KF_TRY(kf_allocate(&a->group[i].cost, a->codecs + 1, sizeof *a->group[i].cost, err));
    KF_TRY(find_possible(a, w->request, err));
    KF_TRY(kf_allocate(&score, a->tensors * a->codecs, sizeof *score, err));
    for (size_t t = 0; t < a->tensors; t++) a->tensor[t].score = score + t * a->codecs;
    KF_TRY(kf_allocate(&weight, a->tensors, sizeof *weight, err));
    for (size_t t = 0; t < a->tensors; t++) weight[t] = a->tensor[t].weight;
    const kf_score_all_job all = {.source = w->source,
                                  .imatrix = kf_advice_imatrix(w->request),
                                  .calibration = w->request->calibration,
                                  .feedback = w->request->feedback,
                                  .weight = weight,
                                  .weights = a->tensors,
                                  .codec = a->codec,
                                  .codecs = a->codecs,
                                  .wanted = is_possible,
                                  .ctx = a,
                                  .cache = w->request->cache,
                                  .team = &team,
                                  .score = score};
    kerf_status s = kf_score_all(&all, w->job, &a->scored, &a->cached, err);
    free(weight);
    return s;
}
