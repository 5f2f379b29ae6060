/* advise.c - kerf_advise: checks a request, and takes it through the steps of advice.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advice/advice.h"

static const struct {
    const char *layout, *list;
} offered[] = {
#define KERF_CANDIDATES(layout, list) {layout, list},
#include "advice/candidates.def"
#undef KERF_CANDIDATES
};

const char *kerf_advise_candidates(void)
{
    return offered[0].list;
}

const char *kerf_advise_candidates_for(const kerf_layout *l, const kerf_runtime *r)
{
    const char *layout = l ? l->name : r ? r->layout : "";
    for (size_t i = 1; i < sizeof offered / sizeof *offered; i++)
        if (strcmp(offered[i].layout, layout) == 0) return offered[i].list;
    return offered[0].list;
}

/* --- the request --------------------------------------------------------------------------- */

static kerf_status check_numbers(const kerf_advise_request *r, kerf_error *err)
{
    const double number[] = {r->budget.bits, r->budget.bytes, r->budget.us, r->budget.tokens_per_s,
                             r->budget.t2,   r->batch,        r->context};
    for (size_t i = 0; i < sizeof number / sizeof *number; i++) {
        if (number[i] >= 0 && number[i] < 1e300) continue;
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "a budget, batch or context is below 0 or no number");
    }
    return KERF_OK;
}

static kerf_status check_request(const kerf_advise_request *r, kerf_error *err)
{
    const kerf_budget *b = &r->budget;
    const int timed = b->us > 0 || b->tokens_per_s > 0 || r->minimise == KERF_PRICE_TIME;
    KF_TRY(check_numbers(r, err));
    if (timed && !r->hardware)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "limits on time need --hardware NAME");
    if (b->tokens_per_s > 0 && !r->model)
        return kf_fail(
            err, KERF_E_ARG, KF_NOWHERE,
            "tok/s needs a model whose sizes its config.json says, beside the weights or "
            "by --config FILE: matrices alone are no step");
    if (!(b->bits > 0 || b->bytes > 0 || b->us > 0 || b->tokens_per_s > 0 || b->t2 > 0))
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "advise: --budget is missing");
    if (r->minimise == KERF_PRICE_LOSS && b->t2 > 0)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "a limit on t2 needs --minimise bytes or --minimise time");
    if (r->minimise == KERF_PRICE_BYTES && (b->bits > 0 || b->bytes > 0))
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "--minimise bytes does not go with a limit on bits or bytes");
    if (r->alpha == KERF_ALPHA_CALIBRATED && !r->calibration)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "alpha of a calibration, and there is none");
    if (r->codecs == 0) return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "there is no candidate");
    return KERF_OK;
}

static kerf_status take_request(kerf_advice *a, const kerf_advise_request *r, kerf_error *err)
{
    a->budget = r->budget;
    a->layout = r->layout;
    a->runtime = r->runtime;
    a->only = SIZE_MAX;
    if (r->runtime && !r->layout) a->layout = kerf_layout_find(r->runtime->layout);
    a->minimise = r->minimise;
    a->nested = r->nested;
    a->hardware = r->hardware;
    a->batch = r->batch > 0 ? r->batch : 1;
    a->context = r->context > 0 ? r->context : 4096;
    a->has_model = r->model != NULL;
    if (r->made) snprintf(a->made, sizeof a->made, "%s", r->made);
    if (r->model) a->model = *r->model;
    a->gpus = r->gpus > 1 ? r->gpus : 1;
    a->expert_parallel = a->gpus > 1 && r->expert_parallel;
    if (a->gpus > 1 && !r->hardware)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "%u GPUs, and no hardware to predict for",
                       a->gpus);
    if (a->gpus > 1 && !r->model)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "%.200s: %u GPUs need a model whose sizes its config.json says, beside the "
                       "weights or by --config FILE: they divide it",
                       a->source, a->gpus);
    KF_TRY(kf_allocate(&a->codec, r->codecs + kerf_format_count(), sizeof *a->codec, err));
    memcpy(a->codec, r->codec, r->codecs * sizeof *a->codec);
    a->codecs = r->codecs;
    return KERF_OK;
}

/* --- what layout and runtime take ------------------------------------------------------------- */

static kerf_status check_format(const kerf_advice *a, const kerf_format *f, kerf_error *err)
{
    KF_TRY(kerf_layout_check(a->layout, f, err));
    if (!a->runtime) return KERF_OK;
    return kerf_runtime_check(a->runtime, a->layout, f, a->hardware, NULL, err);
}

/* All formats that they take, each with its default encoder, for a list of which nothing was left.
 */
static kerf_status offer_formats(kerf_advice *a, kerf_error *err)
{
    kerf_error why = {0};
    for (size_t i = 0; i < kerf_format_count(); i++) {
        const kerf_format *f = kerf_format_at(i);
        if (f->scale == KERF_SCALE_NONE || check_format(a, f, &why) != KERF_OK) continue;
        a->codec[a->codecs++] = (kerf_codec){f, kerf_encoder_at(f, 0)};
    }
    if (a->codecs > 0) return KERF_OK;
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "%s has no format from layout %s%s%s: %.200s",
                   a->runtime ? a->runtime->title : "kerf", a->layout->name,
                   a->hardware ? " on " : "", a->hardware ? a->hardware->name : "", why.text);
}

/* Leaves out optional candidates that do not fit; others that do not are a mistake. */
static kerf_status fit_candidates(kerf_advice *a, const kerf_advise_request *r, kerf_error *err)
{
    size_t kept = 0;
    if (!a->layout) return KERF_OK;
    for (size_t i = 0; i < r->codecs; i++) {
        kerf_error why = {0};
        const kerf_status s = check_format(a, r->codec[i].format, &why);
        if (s == KERF_OK) {
            a->codec[kept++] = r->codec[i];
        } else if (!r->optional || !r->optional[i]) {
            if (err) *err = why;
            return s;
        }
    }
    a->codecs = kept;
    return kept ? KERF_OK : offer_formats(a, err);
}

/* --- advice -------------------------------------------------------------------------------- */

static kerf_status advise(kf_advising *w, kerf_error *err)
{
    KF_TRY(check_request(w->request, err));
    if (w->request->calibration)
        KF_TRY(kerf_calibration_check(w->request->calibration, w->source, err));
    KF_TRY(take_request(w->advice, w->request, err));
    if (w->request->calibration && w->request->feedback) {
        kerf_moments moments;
        KF_TRY(kerf_calibration_moments(w->request->calibration, &moments, err));
        if (w->request->feedback > 1) kerf_moments_again(&moments);
        w->advice->feedback = moments.contents;
    }
    KF_TRY(fit_candidates(w->advice, w->request, err));
    if (w->advice->layout) {
        KF_TRY(kerf_checkpoint_arrange(w->source, w->advice->layout, &w->advice->arranged, err));
        w->source = w->advice->arranged;
    }
    KF_TRY(kf_advice_find_groups(w, err));
    KF_TRY(kf_advice_find_alphas(w, err));
    KF_TRY(kf_advice_find_scores(w, err));
    KF_TRY(kf_advice_find_costs(w, err));
    KF_TRY(kf_advice_choose(w, err));
    return kf_advice_measure(w, err);
}

kerf_status kerf_advise(const kerf_checkpoint *source, const kerf_advise_request *request,
                        const kerf_exec *exec, const kerf_job *job, kerf_advice **out,
                        kerf_error *err)
{
    kf_advising w = {.source = source, .request = request, .exec = exec, .job = job};
    *out = NULL;
    KF_TRY(kf_allocate(&w.advice, 1, sizeof *w.advice, err));
    w.advice->source = kerf_checkpoint_path(source);
    kerf_status s = advise(&w, err);
    if (s == KERF_OK)
        *out = w.advice;
    else
        kerf_advice_close(w.advice);
    return s;
}

void kerf_advice_close(kerf_advice *a)
{
    if (!a) return;
    for (size_t i = 0; i < a->groups; i++) {
        free(a->group[i].member);
        free(a->group[i].cost);
    }
    if (a->tensors) free(a->tensor[0].score); /* of all tensors */
    free(a->group);
    free(a->tensor);
    free(a->codec);
    free(a->alpha_source);
    kerf_checkpoint_close(a->arranged);
    free(a);
}
