/* score_checkpoint.c - kerf_score_checkpoint: selects tensors, leaves out codecs that cannot encode
 * all of them where that is allowed, and adds up what was measured. */
#include <kerf/score.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "score/imatrix_names.h"
#include "score/score_all.h"

/* Why a codec cannot encode all that is scored. */
static kerf_status check_codec(const kerf_scores *s, kerf_codec codec, kerf_error *err)
{
    for (size_t i = 0; i < s->tensors; i++) {
        const kerf_weight *w = s->weight[i];
        kerf_status status = kerf_codec_check(codec, &w->shape, kerf_weight_dense(w)->dtype, err);
        if (status != KERF_OK) return kf_fail_at(err, status, w->name);
    }
    return KERF_OK;
}

static kerf_status take_codecs(kerf_scores *s, const kerf_score_request *r, kerf_error *err)
{
    KF_TRY(kf_allocate(&s->codec, r->codecs, sizeof *s->codec, err));
    KF_TRY(kf_allocate(&s->left_out, r->codecs, sizeof *s->left_out, err));
    for (size_t c = 0; c < r->codecs; c++) {
        kerf_error why = {0};
        kerf_status status = check_codec(s, r->codec[c], &why);
        if (status == KERF_OK) {
            s->codec[s->codecs++] = r->codec[c];
        } else if (status == KERF_E_NOSUP && r->required && !r->required[c]) {
            kerf_left_out *out = &s->left_out[s->left_outs++];
            out->codec = r->codec[c];
            snprintf(out->reason, sizeof out->reason, "%s", why.text);
        } else {
            if (err) *err = why;
            return status;
        }
    }
    if (s->codecs) return KERF_OK;
    return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "-f picks no format that can encode all of %.200s",
                   s->source);
}

static kerf_status take_tensors(kerf_scores *s, const kerf_checkpoint *source,
                                const kerf_score_request *r, kerf_error *err)
{
    kerf_selected selected;
    size_t named;
    s->considered = kerf_weights_count(kerf_checkpoint_weights(source));
    KF_TRY(kerf_select_weights(source, r->select, &selected, err));
    s->weight = selected.weight; /* handed over */
    s->tensors = selected.count;
    if (s->tensors == 0)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "%.200s: no tensor to score; --all-tensors takes norms and embeddings too",
                       s->source);
    return kf_importance_count(r->imatrix, s->weight, s->tensors, s->source, &named, err);
}

static kerf_status score(kerf_scores *s, const kerf_checkpoint *source, const kerf_score_request *r,
                         const kerf_team *team, const kerf_job *job, kerf_error *err)
{
    KF_TRY(take_tensors(s, source, r, err));
    KF_TRY(take_codecs(s, r, err));
    KF_TRY(kf_allocate(&s->score, s->tensors * s->codecs, sizeof *s->score, err));
    KF_TRY(kf_allocate(&s->total, s->codecs, sizeof *s->total, err));
    const kf_score_all_job all = {.source = source,
                                  .imatrix = r->imatrix,
                                  .feedback = r->feedback,
                                  .calibration = r->calibration,
                                  .weight = s->weight,
                                  .weights = s->tensors,
                                  .codec = s->codec,
                                  .codecs = s->codecs,
                                  .zstd_level = r->zstd_level,
                                  .team = team,
                                  .ranks = r->ranks,
                                  .score = s->score};
    KF_TRY(kf_score_all(&all, job, NULL, NULL, err));
    for (size_t i = 0; i < s->tensors * s->codecs; i++)
        kerf_score_merge(&s->total[i % s->codecs], &s->score[i]);
    return KERF_OK;
}

kerf_status kerf_score_checkpoint(const kerf_checkpoint *source, const kerf_score_request *request,
                                  const kerf_team *team, const kerf_job *job, kerf_scores **out,
                                  kerf_error *err)
{
    *out = NULL;
    kerf_scores *s = NULL;
    KF_TRY(kf_allocate(&s, 1, sizeof *s, err));
    s->source = kerf_checkpoint_path(source);
    s->imatrix = request->imatrix ? kerf_checkpoint_path(request->imatrix) : NULL;
    s->zstd_level = request->zstd_level;
    kerf_status status = score(s, source, request, team, job, err);
    if (status == KERF_OK)
        *out = s;
    else
        kerf_scores_close(s);
    return status;
}

void kerf_scores_close(kerf_scores *s)
{
    if (!s) return;
    free(s->weight);
    free(s->codec);
    free(s->score);
    free(s->total);
    free(s->left_out);
    free(s);
}
