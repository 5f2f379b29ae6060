/* limits.c - reads limits files, and finds the limits of a tensor. Writing one is the matter of
 * verify, which knows what was measured. */
#include <kerf/verify.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/globs.h"
#include "file/json/json_read.h"
#include "file/json/json_text.h"
#include "score/compare.h"

static double max_error(const kerf_score *s)
{
    return s->max_error;
}

static double bias_magnitude(const kerf_score *s)
{
    return fabs(kerf_score_bias(s));
}

static const struct {
    const char *name;
    double (*of)(const kerf_score *s);
} figures[KERF_FIGURES] = {
    [KERF_FIGURE_T2] = {"t2", kerf_score_t2},
    [KERF_FIGURE_MAX_ERROR] = {"max_error", max_error},
    [KERF_FIGURE_BIAS] = {"bias", bias_magnitude},
    [KERF_FIGURE_CLIP_SHARE] = {"clip_share", kerf_score_clip_share},
    [KERF_FIGURE_BPW] = {"bpw", kerf_score_bpw},
    [KERF_FIGURE_REST_T2] = {"rest_t2", kerf_score_rest_t2},
    [KERF_FIGURE_ZERO_SHARE] = {"zero_share", kerf_score_zero_share},
    [KERF_FIGURE_LOST_SHARE] = {"lost_share", kerf_score_lost_share},
};

const char *kerf_figure_name(kerf_figure f)
{
    return f < KERF_FIGURES ? figures[f].name : NULL;
}

double kerf_figure_of(const kerf_score *s, kerf_figure f)
{
    return f < KERF_FIGURES ? figures[f].of(s) : NAN;
}

/* --- read ---------------------------------------------------------------------------------- */

/* Limits of the tensors that a pattern matches; NAN: the figure is not named. */
typedef struct rule {
    const char *glob;
    double limit[KERF_FIGURES];
} rule;

struct kerf_limits {
    rule *rule; /* "default" first, with the pattern "*" */
    size_t rules;
    kf_globs globs; /* of the rules */
};

/* Reads {"t2": 0.02, ...}; `where`: the key that has it. */
static kerf_status read_set(const char *file, const char *where, json_t *set, rule *out,
                            kerf_error *err)
{
    const char *key;
    json_t *value;
    if (!json_is_object(set)) {
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.200s: \"%.100s\" must be an object", file,
                       where);
    }
    json_object_foreach(set, key, value)
    {
        size_t f = 0;
        while (f < KERF_FIGURES && strcmp(figures[f].name, key) != 0) f++;
        if (f == KERF_FIGURES) {
            return kf_fail(
                err, KERF_E_DATA, KF_NOWHERE,
                "%.200s: \"%.100s\": unknown figure \"%.40s\"; known: t2, max_error, bias, "
                "clip_share, bpw, rest_t2, zero_share, lost_share",
                file, where, key);
        }
        if (!json_is_number(value) || json_number_value(value) < 0) {
            return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                           "%.200s: \"%.100s\": %.40s must be a number, 0 or more", file, where,
                           key);
        }
        out->limit[f] = json_number_value(value);
    }
    return KERF_OK;
}

static kerf_status add_rule(kerf_limits *l, const char *file, const char *where, const char *glob,
                            json_t *set, kerf_error *err)
{
    rule *r = &l->rule[l->rules];
    for (size_t f = 0; f < KERF_FIGURES; f++) r->limit[f] = NAN;
    r->glob = strdup(glob);
    if (!r->glob) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for limits");
    l->rules++;
    return read_set(file, where, set, r, err);
}

/* A file that limits nothing would pass whatever it is held against. */
static kerf_status check_any(const kerf_limits *l, const char *file, kerf_error *err)
{
    for (size_t i = 0; i < l->rules; i++)
        for (size_t f = 0; f < KERF_FIGURES; f++)
            if (!isnan(l->rule[i].limit[f])) return KERF_OK;
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                   "%.200s: limits nothing; --write-limits FILE writes some, and without --limits "
                   "those of each format hold",
                   file);
}

static kerf_status read_document(kerf_limits *l, const char *file, json_t *doc, kerf_error *err)
{
    const char *key;
    json_t *value, *tensors = json_object_get(doc, "tensors");
    if (!kf_json_has_schema(doc, "kerf.limits/1"))
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.200s: \"schema\" must be \"kerf.limits/1\"",
                       file);
    KF_TRY(kf_allocate(&l->rule, json_object_size(tensors) + 1, sizeof *l->rule, err));
    json_object_foreach(doc, key, value)
    {
        if (strcmp(key, "schema") == 0 || strcmp(key, "default") == 0) continue;
        if (strcmp(key, "tensors") == 0 && json_is_object(value)) continue;
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "%.200s: \"%.100s\": expected the objects \"default\" and \"tensors\"", file,
                       key);
    }
    value = json_object_get(doc, "default");
    if (value) KF_TRY(add_rule(l, file, "default", "*", value, err));
    json_object_foreach(tensors, key, value) KF_TRY(add_rule(l, file, key, key, value, err));
    KF_TRY(check_any(l, file, err));
    KF_TRY(kf_globs_open(&l->globs, l->rule, l->rules, sizeof *l->rule, err));
    /* kerf_verification_limits writes names as they are, which need not match themselves. */
    l->globs.takes_equal = 1;
    return KERF_OK;
}

static kerf_status make_limits(json_t *doc, const char *file, kerf_limits **out, kerf_error *err)
{
    kerf_status s = kf_allocate(out, 1, sizeof **out, err);
    if (s == KERF_OK) s = read_document(*out, file, doc, err);
    json_decref(doc);
    if (s == KERF_OK) return s;
    kerf_limits_close(*out);
    *out = NULL;
    return s;
}

kerf_status kerf_limits_parse(const char *text, size_t n, const char *name, kerf_limits **out,
                              kerf_error *err)
{
    json_t *doc;
    *out = NULL;
    KF_TRY(kf_json_parse(name, text, n, KF_JSON_STRICT, &doc, err));
    return make_limits(doc, name, out, err);
}

kerf_status kerf_limits_open(const char *path, kerf_limits **out, kerf_error *err)
{
    json_t *doc;
    *out = NULL;
    KF_TRY(kf_json_read(path, KF_JSON_MAX_TABLE_BYTES, KF_JSON_STRICT, &doc, err));
    return make_limits(doc, path, out, err);
}

void kerf_limits_close(kerf_limits *l)
{
    if (!l) return;
    for (size_t i = 0; i < l->rules; i++) free((char *)l->rule[i].glob);
    kf_globs_close(&l->globs);
    free(l->rule);
    free(l);
}

size_t kerf_limits_count(const kerf_limits *l)
{
    return l ? l->rules : 0;
}

/* --- find ---------------------------------------------------------------------------------- */

/* t2 of normally distributed numbers, by element (kerf score on 2^20 of them; tests/cli/score.sh
 * has the published figures); of integers in groups of 32 to 128. */
static const double normal_t2[] = {
    [KERF_ELEM_F32] = 1e-15,   [KERF_ELEM_F16] = 4.4e-8,  [KERF_ELEM_BF16] = 2.8e-6,
    [KERF_ELEM_E4M3] = 7.1e-4, [KERF_ELEM_E5M2] = 2.8e-3, [KERF_ELEM_E2M3] = 7.9e-4,
    [KERF_ELEM_E3M2] = 2.8e-3, [KERF_ELEM_E2M1] = 1.3e-2, [KERF_ELEM_MXI8] = 5.8e-5,
    [KERF_ELEM_NF4] = 8.5e-3,  [KERF_ELEM_S8] = 4.3e-5,   [KERF_ELEM_S4] = 1.4e-2,
    [KERF_ELEM_S2] = 1.5e-1,   [KERF_ELEM_U4] = 1.1e-2,   [KERF_ELEM_U2] = 1.4e-1,
};

double kerf_limit_t2(const kerf_format *f)
{
    const double margin = 16, wide = 0.05;
    if (!f || f->element >= sizeof normal_t2 / sizeof *normal_t2) return KERF_LIMIT_T2;
    const int is_integer = f->element == KERF_ELEM_S8 || f->element == KERF_ELEM_S4 ||
                           f->element == KERF_ELEM_S2 || f->element == KERF_ELEM_U4 ||
                           f->element == KERF_ELEM_U2;
    const int is_wide = f->geometry == KERF_GROUP_ROW || f->geometry == KERF_GROUP_TENSOR;
    double limit = margin * normal_t2[f->element];
    if (is_integer && is_wide) limit = fmax(2 * limit, wide);
    return fmin(limit, KERF_LIMIT_T2);
}

static unsigned find_limits(const kerf_limits *l, const char *tensor, const char *whole,
                            const kerf_format *format, double out[KERF_FIGURES])
{
    for (size_t f = 0; f < KERF_FIGURES; f++) out[f] = INFINITY;
    if (!l) out[KERF_FIGURE_T2] = kerf_limit_t2(format);
    if (!l) out[KERF_FIGURE_REST_T2] = KERF_LIMIT_T2;
    if (!l) out[KERF_FIGURE_LOST_SHARE] = 0;
    size_t i = l ? l->rules : KF_NO_GLOB;
    unsigned set = 0; /* figures: a later rule overrules an earlier one */
    while (l && set != (1u << KERF_FIGURES) - 1 &&
           (i = kf_globs_last_of(&l->globs, tensor, whole, i)) != KF_NO_GLOB) {
        const rule *r = &l->rule[i];
        for (size_t f = 0; f < KERF_FIGURES; f++) {
            if (isnan(r->limit[f]) || set >> f & 1u) continue;
            out[f] = r->limit[f];
            set |= 1u << f;
        }
    }
    return (unsigned)__builtin_popcount(set);
}

unsigned kerf_limits_of(const kerf_limits *l, const char *tensor, const kerf_format *format,
                        double out[KERF_FIGURES])
{
    return find_limits(l, tensor, NULL, format, out);
}

unsigned kf_limits_of_row(const kerf_limits *l, kerf_verify_row *row)
{
    const kerf_weight *w = row->weight;
    return find_limits(l, w->name, w->whole, row->other ? row->other->codec.format : NULL,
                       row->limit);
}

/* --- patterns ------------------------------------------------------------------------------ */

/* Notes which rules match a weight; how many more than before. */
static size_t mark_rules(const kerf_limits *l, const kerf_weight *w, char *known)
{
    size_t more = 0;
    for (size_t i = l->rules;
         (i = kf_globs_last_of(&l->globs, w->name, w->whole, i)) != KF_NO_GLOB;) {
        more += !known[i];
        known[i] = 1;
    }
    return more;
}

kerf_status kf_limits_check(const kerf_limits *l, const kerf_weights *source, const char *path,
                            kerf_error *err)
{
    const size_t count = kerf_weights_count(source);
    if (!l || count == 0) return KERF_OK;
    char *known = NULL;
    KF_TRY(kf_allocate(&known, l->rules, 1, err));
    size_t matching = 0, i = 0;
    for (; i < count && matching < l->rules; i++)
        matching += mark_rules(l, kerf_weights_at(source, i), known);
    for (i = 0; i < l->rules && known[i]; i++) {
    }
    free(known);
    if (i == l->rules || matching == 0) return KERF_OK; /* none at all: kerf_verify says so */
    return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                   "the limits for %.200s match no tensor; kerf inspect %.200s lists them",
                   l->rule[i].glob, path);
}
