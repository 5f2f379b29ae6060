/* verify.c - kerf_verify: every tensor of a source compared with its counterpart, by a team, and
 * held against its limits. */
#include <kerf/choose.h>
#include <kerf/verify.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/work.h"
#include "score/compare.h"
#include "stream/team.h"
#include "file/json/json_text.h"

typedef struct verifying {
    kerf_verification public;
    kerf_weights *source; /* experts arranged as those of the other checkpoint */
    const kerf_weights *other;
    kf_compare_job compare; /* but for exec */
    const kerf_limits *limits;
    int *nonfinite; /* of each row: equal numbers that are NaN or Inf */
    size_t limited; /* limits that a tensor has from there */
    kf_work work;
} verifying;

/* --- one row ------------------------------------------------------------------------------- */

static kerf_status compare_row(void *ctx, size_t i, const kerf_exec *exec, kerf_error *err)
{
    verifying *v = ctx;
    kerf_verify_row *row = &v->public.row[i];
    kf_compare_job compare = v->compare;
    compare.exec = exec;
    compare.all = v->source;
    compare.nonfinite = &v->nonfinite[i];
    row->weight = kerf_weights_at(v->source, i);
    row->other = kerf_weights_find(v->other, row->weight->name);
    /* scales of inputs and caches are left out with the quantization that they were made for */
    if (!row->other && (kerf_is_activation_scale(row->weight->name) ||
                        kerf_is_smoothing(v->source, v->compare.source, row->weight)))
        return kf_work_check(&v->work, err);
    if (!row->other) {
        snprintf(row->problem, sizeof row->problem, "is missing");
        return kf_work_check(&v->work, err);
    }
    kf_work_item(&v->work, row->weight->name, "verify");
    kerf_status s = kf_compare_weights(&compare, row, err);
    const char *name = row->weight->name;
    if (s == KERF_OK || !err || strncmp(err->text, name, strlen(name)) == 0)
        return s; /* it says where */
    return kf_fail_at(err, s, name);
}

static kerf_status count_row(void *ctx, size_t i, kerf_error *err)
{
    verifying *v = ctx;
    kerf_verification *p = &v->public;
    kerf_verify_row *row = &p->row[i];
    (void)err;
    p->rows = i + 1;
    p->problems += row->problem[0] != 0;
    p->equal += !row->measured && !row->problem[0];
    if (v->nonfinite[i] && p->nonfinite++ == 0) p->first_nonfinite = row->weight->name;
    const unsigned limits = kf_limits_of_row(v->limits, row);
    if (!row->measured) return KERF_OK;
    v->limited += limits;
    p->measured++;
    kerf_score_merge(&p->total, &row->score);
    for (unsigned f = 0; f < KERF_FIGURES; f++) {
        const double most = f == KERF_FIGURE_BPW ? kerf_bits_most(row->limit[f]) : row->limit[f];
        if (kerf_figure_of(&row->score, (kerf_figure)f) <= most) continue;
        row->over |= 1u << f;
        p->over++;
    }
    return KERF_OK;
}

/* --- what was quantized already ------------------------------------------------------------- */

static kerf_status score_row(void *ctx, size_t i, const kerf_exec *exec, kerf_error *err)
{
    verifying *v = ctx;
    kerf_verify_row *row = &v->public.row[i];
    kf_compare_job compare = v->compare;
    compare.exec = exec;
    if (!kf_is_equal_quantized(row)) return kf_work_check(&v->work, err);
    kf_work_item(&v->work, row->weight->name, "verify");
    return kf_score_equal(&compare, row, err);
}

static kerf_status add_row(void *ctx, size_t i, kerf_error *err)
{
    verifying *v = ctx;
    (void)err;
    kerf_score_merge(&v->public.total, &v->public.row[i].score);
    return KERF_OK;
}

/* Weights that have the codes of their source lost nothing, and are part of the whole as those are
 * that were encoded: kerf score counts both. Where nothing was measured the whole has no error, and
 * they need not be read again. */
static kerf_status total_equal(verifying *v, const kerf_team *team, kerf_error *err)
{
    static const kf_team_work work = {score_row, add_row};
    kerf_verification *p = &v->public;
    uint64_t bytes = 0;
    for (size_t i = 0; i < p->rows; i++)
        if (kf_is_equal_quantized(&p->row[i])) bytes += kerf_weight_bytes(p->row[i].weight);
    if (p->measured == 0 || bytes == 0) return KERF_OK;
    kf_work_phase(&v->work, "verify", bytes);
    p->total = (kerf_score){0};
    return kf_team_run(team, p->rows, &work, v, err);
}

/* --- all of them --------------------------------------------------------------------------- */

static kerf_status list_extras(verifying *v, kerf_error *err)
{
    kerf_verification *p = &v->public;
    const size_t count = kerf_weights_count(v->other);
    KF_TRY(kf_allocate(&p->extra, count, sizeof *p->extra, err));
    for (size_t i = 0; i < count; i++) {
        const kerf_weight *w = kerf_weights_at(v->other, i);
        const char *name = w->name;
        /* which come with a quantization, or are part of what was measured */
        if (!w->codec.format && kerf_is_activation_scale(name)) continue;
        if (kerf_is_smoothing(v->other, v->compare.other, w)) continue;
        if (!kerf_weights_find(v->source, name)) p->extra[p->extras++] = name;
    }
    p->problems += p->extras;
    return KERF_OK;
}

static const char *first_measured(const kerf_verification *p)
{
    size_t i = 0;
    while (!p->row[i].measured) i++;
    return p->row[i].weight->name;
}

static kerf_status verify(verifying *v, const kerf_team *team, kerf_error *err)
{
    static const kf_team_work work = {compare_row, count_row};
    kerf_verification *p = &v->public;
    uint64_t bytes = 0;
    KF_TRY(kf_weights_like(v->compare.source, v->other, &v->source, err));
    const size_t count = kerf_weights_count(v->source);
    KF_TRY(kf_limits_check(v->limits, v->source, p->source, err));
    KF_TRY(kf_allocate(&p->row, count, sizeof *p->row, err));
    KF_TRY(kf_allocate(&v->nonfinite, count, sizeof *v->nonfinite, err));
    for (size_t i = 0; i < count; i++) bytes += kerf_weight_bytes(kerf_weights_at(v->source, i));
    kf_work_phase(&v->work, "verify", bytes);
    KF_TRY(kf_team_run(team, count, &work, v, err));
    if (v->limits && p->measured && !v->limited)
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "the limits match none of the %zu tensors that were measured, the first of "
                       "which is %.200s; --write-limits FILE writes some that do",
                       p->measured, first_measured(p));
    KF_TRY(total_equal(v, team, err));
    KF_TRY(list_extras(v, err));
    KF_TRY(kerf_reader_check(v->compare.source, err));
    KF_TRY(kerf_reader_check(v->compare.other, err));
    p->passed = p->over == 0 && p->problems == 0;
    return KERF_OK;
}

kerf_status kerf_verify(const kerf_checkpoint *source, const kerf_checkpoint *other,
                        const kerf_verify_options *options, const kerf_team *team,
                        const kerf_job *job, kerf_verification **out, kerf_error *err)
{
    verifying *v = NULL;
    *out = NULL;
    KF_TRY(kf_allocate(&v, 1, sizeof *v, err));
    v->public.source = kerf_checkpoint_path(source);
    v->public.other = kerf_checkpoint_path(other);
    v->other = kerf_checkpoint_weights(other);
    v->limits = options ? options->limits : NULL;
    v->compare = (kf_compare_job){.source = kerf_checkpoint_reader(source),
                                  .other = kerf_checkpoint_reader(other),
                                  .by_value = options && options->by_value,
                                  .exact = options && options->exact,
                                  .moments = options ? options->moments : NULL,
                                  .progress = &v->work};
    kf_work_open(&v->work, job);
    kerf_status s = verify(v, team, err);
    kf_work_close(&v->work);
    if (s == KERF_OK)
        *out = &v->public;
    else
        kerf_verification_close(&v->public);
    return s;
}

void kerf_verification_close(kerf_verification *p)
{
    if (!p) return;
    verifying *v = (verifying *)p; /* its first member */
    if (v->source) kerf_weights_close(v->source);
    free(p->row);
    free(p->extra);
    free(v->nonfinite);
    free(v);
}

/* --- limits from what was measured --------------------------------------------------------- */

kerf_status kerf_verification_limits(const kerf_verification *v, char **text, size_t *n,
                                     kerf_error *err)
{
    static const double margin = 1.02;
    json_t *tensors = json_object();
    for (size_t i = 0; i < v->rows; i++) {
        if (!v->row[i].measured) continue;
        json_t *set = json_object();
        for (unsigned f = 0; f < KERF_FIGURES; f++) {
            double value = kerf_figure_of(&v->row[i].score, (kerf_figure)f) * margin;
            const char *name = kerf_figure_name((kerf_figure)f);
            if (isfinite(value)) kf_json_set(&set, name, json_real(value));
        }
        kf_json_set(&tensors, v->row[i].weight->name, set);
    }
    return kf_json_write(json_pack("{s:s, s:o}", "schema", "kerf.limits/1", "tensors", tensors),
                         JSON_INDENT(2), text, n, err);
}
