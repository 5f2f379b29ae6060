/* advice_alpha.c - how much the error of a tensor matters: files of rules, and alpha of each
 * tensor, from these, from curves or from a calibration. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kerf/importance.h>
#include <kerf/words.h>

#include "advice/advice.h"
#include "base/globs.h"
#include "file/json/json_read.h"
#include "file/json/json_text.h"

/* --- a file of rules ----------------------------------------------------------------------- */

/* What the public part points to; its texts are those of the document. */
typedef struct alpha_memory {
    kerf_alphas public;
    json_t *doc;
    kerf_alpha_rule *rule;
} alpha_memory;

static int is_alpha(double x)
{
    return x > 0 && x < 1e12;
}

static kerf_status read_alphas(alpha_memory *m, const char *path, kerf_error *err)
{
    const char *glob;
    json_t *value, *alpha = json_object_get(m->doc, "alpha");
    if (!kf_json_has_schema(m->doc, "kerf.alpha/1") || json_object_size(alpha) == 0) {
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "%.200s: expected {\"schema\": \"kerf.alpha/1\", \"alpha\": {GLOB: NUMBER}}",
                       path);
    }
    KF_TRY(kf_allocate(&m->rule, json_object_size(alpha), sizeof *m->rule, err));
    m->public.rule = m->rule;
    json_object_foreach(alpha, glob, value)
    {
        double x = json_number_value(value);
        if (!is_alpha(x))
            return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                           "%.200s: alpha of %.100s must be a number above 0", path, glob);
        m->rule[m->public.rules++] = (kerf_alpha_rule){glob, x};
    }
    return KERF_OK;
}

kerf_status kerf_alphas_open(const char *path, kerf_alphas **out, kerf_error *err)
{
    alpha_memory *m = NULL;
    *out = NULL;
    KF_TRY(kf_allocate(&m, 1, sizeof *m, err));
    kerf_status s = kf_json_read(path, KF_JSON_MAX_TABLE_BYTES, KF_JSON_STRICT, &m->doc, err);
    if (s == KERF_OK) s = read_alphas(m, path, err);
    if (s == KERF_OK)
        *out = &m->public;
    else
        kerf_alphas_close(&m->public);
    return s;
}

void kerf_alphas_close(kerf_alphas *p)
{
    if (!p) return;
    alpha_memory *m = (alpha_memory *)p; /* its first member */
    free(m->rule);
    json_decref(m->doc);
    free(m);
}

/* --- alpha of each tensor ------------------------------------------------------------------ */

/* Curves fitted to perplexities of seven-billion-parameter models over their depth; they say that
 * the first and the last layers matter most. t: depth from 0 to 1. */
static double depth_curve(const char *name, double t)
{
    if (strstr(name, ".experts")) return 1 - 4.3 * t + 4.6 * t * t;
    if (strstr(name, "attn") || strstr(name, "attention")) return 1 - 2 * t + 1.5 * t * t;
    return 1 - 2.8 * t + 2.8 * t * t;
}

static void alpha_by_depth(kerf_advice *a)
{
    int last = 0;
    for (size_t i = 0; i < a->groups; i++)
        if (a->group[i].layer > last) last = a->group[i].layer;
    for (size_t t = 0; t < a->tensors; t++) {
        const kerf_advice_group *g = &a->group[a->tensor[t].group];
        if (g->layer < 0) continue;
        a->tensor[t].alpha = depth_curve(g->name, last ? (double)g->layer / last : 0);
    }
}

/* Every pattern must match some weight, one that is no candidate too, as those of rules must. */
static kerf_status check_patterns(const kf_globs *globs, const kf_advising *w, kerf_error *err)
{
    const kerf_advise_request *r = w->request;
    const kerf_weights *all = kerf_checkpoint_weights(w->source);
    char *known = NULL;
    KF_TRY(kf_allocate(&known, r->alpha_rules, 1, err));
    for (size_t k = 0; k < kerf_weights_count(all); k++) {
        const kerf_weight *x = kerf_weights_at(all, k);
        for (size_t i = r->alpha_rules;
             (i = kf_globs_last_of(globs, x->name, x->whole, i)) != KF_NO_GLOB;)
            known[i] = 1;
    }
    size_t i = 0;
    while (i < r->alpha_rules && known[i]) i++;
    free(known);
    if (i == r->alpha_rules) return KERF_OK;
    return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                   "alpha of %.200s matches no tensor; kerf inspect %.200s lists them",
                   r->alpha_rule[i].glob, w->advice->source);
}

static kerf_status alpha_by_rules(const kf_advising *w, kerf_error *err)
{
    kerf_advice *a = w->advice;
    const kerf_advise_request *r = w->request;
    for (size_t i = 0; i < r->alpha_rules; i++) {
        const kerf_alpha_rule *rule = &r->alpha_rule[i];
        if (!is_alpha(rule->alpha))
            return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "alpha of %.100s must be a number above 0",
                           rule->glob);
    }
    kf_globs globs;
    kerf_status s =
        kf_globs_open(&globs, r->alpha_rule, r->alpha_rules, sizeof *r->alpha_rule, err);
    if (s == KERF_OK) s = check_patterns(&globs, w, err);
    for (size_t t = 0; t < a->tensors && s == KERF_OK; t++) {
        const kerf_weight *x = a->tensor[t].weight;
        const size_t i = kf_globs_last_of(&globs, x->name, x->whole, r->alpha_rules);
        if (i != KF_NO_GLOB) a->tensor[t].alpha = r->alpha_rule[i].alpha;
    }
    kf_globs_close(&globs);
    return s;
}

/* --- of a calibration ----------------------------------------------------------------------- */

const kerf_checkpoint *kf_advice_imatrix(const kerf_advise_request *r)
{
    if (r->imatrix || !r->calibration) return r->imatrix;
    return kerf_calibration_imatrix(r->calibration);
}

/* Noise can hide a small alpha: it is then what its error leaves possible. */
static double likely_alpha(kerf_alpha_value v)
{
    return v.value > v.error ? v.value : v.error;
}

static kerf_status alpha_by_calibration(kerf_advice *a, const kerf_calibration *c, size_t *found,
                                        kerf_error *err)
{
    double largest = 0;
    for (size_t t = 0; t < a->tensors; t++) {
        kerf_alpha_value v;
        KF_TRY(kerf_calibration_alpha(c, a->tensor[t].weight, &v, err));
        a->tensor[t].alpha = v.value == v.value ? likely_alpha(v) : -1;
        *found += v.value == v.value;
        if (a->tensor[t].alpha > largest) largest = a->tensor[t].alpha;
    }
    for (size_t t = 0; t < a->tensors; t++) {
        double *alpha = &a->tensor[t].alpha;
        if (*alpha < 0) *alpha = largest > 0 ? largest : 1;
        if (*alpha < 1e-9 * largest) *alpha = 1e-9 * largest; /* no tensor is for nothing */
    }
    return KERF_OK;
}

/* The last mean that was read: experts of a layer have one matrix for what comes from the router
 * and one for their last weights. */
typedef struct shared_input {
    int is_known, layer;
    double mean;
} shared_input;

/* Where errors are those of a Gram matrix of all experts, so must be what they are measured by: an
 * expert's own inputs may be far smaller, or unknown. NaN: it has none. */
static kerf_status find_shared(const kerf_calibration *c, const kerf_weight *w,
                               shared_input last[2], double *out, kerf_error *err)
{
    shared_input *s = &last[w->place.piece == KERF_PIECE_DOWN];
    *out = NAN;
    if (w->place.role != KERF_ROLE_EXPERT || w->shape.rank != 2 || !kerf_calibration_has_gram(c, w))
        return KERF_OK;
    if (!s->is_known || s->layer != w->place.layer)
        KF_TRY(kerf_calibration_gram_mean(c, w, &s->mean, err));
    s->is_known = 1;
    s->layer = w->place.layer;
    *out = s->mean;
    return KERF_OK;
}

/* The mean square of the inputs of each tensor. */
static kerf_status find_inputs(kerf_advice *a, const kerf_calibration *c, kerf_error *err)
{
    shared_input last[2] = {{0}};
    for (size_t t = 0; t < a->tensors; t++) {
        kerf_importance h;
        double sum = 0, shared;
        KF_TRY(find_shared(c, a->tensor[t].weight, last, &shared, err));
        KF_TRY(kerf_importance_read(kerf_calibration_imatrix(c), a->tensor[t].weight, 1, &h, err));
        for (uint64_t k = 0; k < h.count; k++) sum += (double)h.value[k];
        a->tensor[t].input = h.count ? sum / (double)h.count : 0;
        if (h.count && shared == shared) a->tensor[t].input = shared;
        kerf_importance_free(&h);
    }
    return KERF_OK;
}

static kerf_status take_calibration(kerf_advice *a, const kerf_advise_request *r, char *text,
                                    size_t size, kerf_error *err)
{
    const kerf_calibration *c = r->calibration;
    const kerf_calibration_about about = kerf_calibration_describe(c);
    size_t found = 0;
    if (!r->imatrix) KF_TRY(find_inputs(a, c, err));
    if (r->alpha != KERF_ALPHA_CALIBRATED || about.alphas == 0) return KERF_OK;
    KF_TRY(alpha_by_calibration(a, c, &found, err));
    snprintf(text, size,
             "%.300s: %s of the next token per error of a tensor, measured for %zu of "
             "%zu tensors",
             kerf_checkpoint_path(kerf_calibration_imatrix(c)),
             about.by_kl ? "KL" : "rise of the loss", found, a->tensors);
    return KERF_OK;
}

kerf_status kf_advice_find_alphas(const kf_advising *w, kerf_error *err)
{
    kerf_advice *a = w->advice;
    const kerf_advise_request *r = w->request;
    char source[512] = "1 for every tensor";
    for (size_t t = 0; t < a->tensors; t++) a->tensor[t].alpha = 1;
    if (r->alpha == KERF_ALPHA_DEPTH) {
        alpha_by_depth(a);
        snprintf(source, sizeof source, "built-in curves over depth, fitted to other models");
    } else if (r->alpha == KERF_ALPHA_RULES) {
        KF_TRY(alpha_by_rules(w, err));
        snprintf(source, sizeof source, "%.500s", r->alpha_name ? r->alpha_name : "by rules");
    }
    if (r->calibration) KF_TRY(take_calibration(a, r, source, sizeof source, err));
    a->alpha_source = strdup(source);
    return a->alpha_source ? KERF_OK
                           : kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for alpha");
}
