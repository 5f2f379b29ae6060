/* score_checkpoint.c - kerf_score_checkpoint: selects tensors, leaves out codecs that cannot encode
 * all of them where that is allowed, and adds up what was measured. */
#include <kerf/score.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/work.h"
#include "score/imatrix_names.h"
#include "score/score_all.h"
#include "score/score_folder.h"
#include "stream/panels.h"

/* Why a codec cannot encode all that is scored. */
static kerf_status check_codec(const kerf_scores *s, kerf_codec codec, kerf_error *err)
{
    for (size_t i = 0; i < s->tensors; i++) {
        const kerf_weight *w = s->weight[i];
        kerf_geometry g;
        kerf_status status =
            kf_stream_check(codec, &w->shape, kerf_weight_dense(w)->dtype, &g, err);
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
        } else if ((status == KERF_E_NOSUP || status == KERF_E_LIMIT) && r->required &&
                   !r->required[c]) {
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
                       kerf_checkpoint_quantized(source)
                           ? "%.200s: no tensor to score, what could be is quantized: kerf "
                             "dequantize makes a source of it"
                           : "%.200s: no tensor to score; --all-tensors takes norms and "
                             "embeddings too",
                       s->source);
    return kf_importance_count(r->imatrix, s->weight, s->tensors, s->source, &named, err);
}

/* --- what is measured ---------------------------------------------------------------------- */

/* Scores that are also kept: those of other parts, and those that a run before has written, are not
 * measured. */
typedef struct keeping {
    kerf_scores *scores;
    kf_score_folder folder;
    size_t *index; /* of the weights that are measured */
    const kerf_weight **weight;
    size_t weights, found;
    kerf_score *score; /* [weights][codecs] */
} keeping;

static kerf_status choose_weights(keeping *k, kerf_error *err)
{
    kerf_scores *s = k->scores;
    KF_TRY(kf_allocate(&k->index, s->tensors, sizeof *k->index, err));
    KF_TRY(kf_allocate(&k->weight, s->tensors, sizeof *k->weight, err));
    s->measured = 0;
    for (size_t i = 0; i < s->tensors; i++) {
        if (kf_score_folder_elsewhere(&k->folder, i)) continue;
        s->measured++;
        if (kf_score_folder_found(&k->folder, i)) {
            k->found++;
            continue;
        }
        k->weight[k->weights] = s->weight[i];
        k->index[k->weights++] = i;
    }
    return kf_allocate(&k->score, k->weights * s->codecs, sizeof *k->score, err);
}

static kerf_status keep_weight(void *to, size_t i, kerf_error *err)
{
    keeping *k = to;
    const size_t codecs = k->scores->codecs, at = k->index[i];
    memcpy(k->scores->score + at * codecs, k->score + i * codecs, codecs * sizeof *k->score);
    return kf_score_folder_put(&k->folder, at, err);
}

/* What a run before has written is read back, unless only a part is asked for. */
static kerf_status read_back(const keeping *k, const kerf_score_request *r, kerf_error *err)
{
    kerf_scores *kept = NULL;
    const kerf_scores *s = k->scores;
    if (r->parts || k->found == 0) return KERF_OK;
    KF_TRY(kerf_scores_open(r->path, &kept, err));
    memcpy(s->score, kept->score, s->tensors * s->codecs * sizeof *s->score);
    kerf_scores_close(kept);
    return KERF_OK;
}

static void tell_resume(const keeping *k, const kerf_score_request *r, const kerf_job *job)
{
    kf_work work;
    const char *why = NULL;
    const uint64_t bytes = kerf_writer_found(k->folder.writer, &why);
    if (!r->resume || (!bytes && !why)) return;
    kf_work_open(&work, job);
    kf_work_resume(&work, r->path, bytes, why);
    kf_work_close(&work);
}

static kerf_status find_work(const kf_score_all_job *all, uint64_t **work, kerf_error *err)
{
    KF_TRY(kf_allocate(work, all->weights, sizeof **work, err));
    for (size_t i = 0; i < all->weights; i++) (*work)[i] = kf_score_work(all, i);
    return KERF_OK;
}

static kerf_status measure_some(keeping *k, const kf_score_all_job *all,
                                const kerf_score_request *r, const kerf_job *job, kerf_error *err)
{
    kf_score_all_job some = *all;
    tell_resume(k, r, job);
    KF_TRY(choose_weights(k, err));
    some.weight = k->weight;
    some.weights = k->weights;
    some.score = k->score;
    some.finished = keep_weight;
    some.to = k;
    return kf_score_all(&some, job, NULL, NULL, err);
}

/* Ranks measure all, and rank 0 writes it. */
static kerf_status measure_together(keeping *k, const kf_score_all_job *all, const kerf_job *job,
                                    kerf_error *err)
{
    KF_TRY(kf_score_all(all, job, NULL, NULL, err));
    for (size_t i = 0; k->folder.writer && i < k->scores->tensors; i++)
        KF_TRY(kf_score_folder_put(&k->folder, i, err));
    return KERF_OK;
}

static kerf_status measure_and_keep(keeping *k, const kf_score_all_job *all,
                                    const kerf_score_request *r, const kerf_job *job,
                                    kerf_error *err)
{
    uint64_t *work = NULL;
    const kerf_ranks *ranks = r->ranks;
    KF_TRY(find_work(all, &work, err));
    kerf_status s = KERF_OK;
    if (!ranks || ranks->rank == 0)
        s = kf_score_folder_create(&k->folder, k->scores, all->source, r, work, all->team, job,
                                   err);
    free(work);
    if (s == KERF_OK)
        s = ranks ? measure_together(k, all, job, err) : measure_some(k, all, r, job, err);
    if (s == KERF_OK) s = kf_score_folder_commit(&k->folder, err);
    if (s == KERF_OK && ranks) s = ranks->combine(ranks->ctx, NULL, 0, err);
    return s == KERF_OK ? read_back(k, r, err) : s;
}

static kerf_status measure(kerf_scores *s, const kf_score_all_job *all, const kerf_score_request *r,
                           const kerf_job *job, kerf_error *err)
{
    keeping k = {.scores = s};
    if (r->parts && (r->ranks || !r->path))
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "part %u/%u: parts are for processes without MPI, and need a folder (-o) in "
                       "which they are kept",
                       r->part, r->parts);
    if (!r->path) return kf_score_all(all, job, NULL, NULL, err);
    kerf_status status = measure_and_keep(&k, all, r, job, err);
    kf_score_folder_close(&k.folder);
    free(k.index);
    free(k.weight);
    free(k.score);
    return status;
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
    s->measured = s->tensors;
    KF_TRY(measure(s, &all, r, job, err));
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
