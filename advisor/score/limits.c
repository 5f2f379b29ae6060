/* limits.c - reads, applies and writes limits files. */
#include "score/limits.h"
#include "base/base.h"
#include <stdio.h>

#include <kerf/words.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <kerf/file.h>

static double bias_magnitude(const kerf_score *s)
{
    return fabs(kerf_score_bias(s));
}
static double max_error(const kerf_score *s)
{
    return s->max_error;
}

const figure limited_figures[FIGURES] = {
    {"t2", kerf_score_t2},    {"max_error", max_error},
    {"bias", bias_magnitude}, {"clip_share", kerf_score_clip_share},
    {"bpw", kerf_score_bpw},
};

/* --- read ---------------------------------------------------------------------------------- */

static int is_figure(const char *name)
{
    for (size_t f = 0; f < FIGURES; f++) {
        if (strcmp(limited_figures[f].name, name) == 0) return 1;
    }
    return 0;
}

static kerf_status check_set(const char *path, const char *where, json_t *set, kerf_error *err)
{
    const char *key;
    json_t *value;
    if (!json_is_object(set)) {
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.200s: \"%.100s\" must be an object", path,
                       where);
    }
    json_object_foreach(set, key, value)
    {
        if (!is_figure(key)) {
            return kf_fail(
                err, KERF_E_DATA, KF_NOWHERE,
                "%.200s: \"%.100s\": unknown figure \"%.40s\"; known: t2, max_error, bias, "
                "clip_share, bpw",
                path, where, key);
        }
        if (!json_is_number(value) || json_number_value(value) < 0) {
            return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                           "%.200s: \"%.100s\": %.40s must be a number, 0 or more", path, where,
                           key);
        }
    }
    return KERF_OK;
}

static kerf_status check_document(const char *path, json_t *doc, kerf_error *err)
{
    const char *schema = json_string_value(json_object_get(doc, "schema"));
    if (!schema || strcmp(schema, "kerf.limits/1") != 0) {
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.200s: \"schema\" must be \"kerf.limits/1\"",
                       path);
    }
    const char *key;
    json_t *value;
    json_object_foreach(doc, key, value)
    {
        if (strcmp(key, "schema") == 0) continue;
        if (strcmp(key, "default") == 0) {
            KF_TRY(check_set(path, key, value, err));
            continue;
        }
        if (strcmp(key, "tensors") != 0 || !json_is_object(value)) {
            return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                           "%.200s: \"%.100s\": expected the objects \"default\" and \"tensors\"",
                           path, key);
        }
        const char *pattern;
        json_t *set;
        json_object_foreach(value, pattern, set) KF_TRY(check_set(path, pattern, set, err));
    }
    return KERF_OK;
}

kerf_status limits_open(limits *l, const char *path, kerf_error *err)
{
    *l = (limits){0};
    if (!path) {
        l->doc = json_pack("{s:{s:f}}", "default", "t2", LIMIT_T2_BUILTIN);
        return l->doc ? KERF_OK : kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for limits");
    }
    FILE *in = fopen(path, "rb");
    if (!in) return kf_fail(err, KERF_E_IO, KF_NOWHERE, "%.200s: cannot be opened", path);
    json_error_t where;
    l->doc = json_loadf(in, JSON_REJECT_DUPLICATES, &where);
    fclose(in);
    if (!l->doc) {
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.200s: line %d: %.150s", path, where.line,
                       where.text);
    }
    kerf_status s = check_document(path, l->doc, err);
    if (s != KERF_OK) limits_close(l);
    return s;
}

void limits_close(limits *l)
{
    json_decref(l->doc);
    *l = (limits){0};
}

/* --- apply --------------------------------------------------------------------------------- */

double limit_of(const limits *l, const char *tensor, size_t f)
{
    const char *name = limited_figures[f].name;
    json_t *found = json_object_get(json_object_get(l->doc, "default"), name);
    const char *pattern;
    json_t *set;
    json_object_foreach(json_object_get(l->doc, "tensors"), pattern, set)
    {
        json_t *value = json_object_get(set, name);
        int hit = strcmp(pattern, tensor) == 0 || kerf_glob_matches(pattern, tensor);
        if (value && hit) found = value;
    }
    return found ? json_number_value(found) : INFINITY;
}

/* --- write --------------------------------------------------------------------------------- */

json_t *limits_measured(const kerf_score *s)
{
    json_t *set = json_object();
    for (size_t f = 0; f < FIGURES; f++) {
        double value = limited_figures[f].of(s) * LIMIT_MARGIN;
        if (isfinite(value)) json_object_set_new(set, limited_figures[f].name, json_real(value));
    }
    return set;
}

kerf_status limits_write(const char *path, json_t *tensors, int overwrite, kerf_error *err)
{
    json_t *doc = json_pack("{s:s, s:O}", "schema", "kerf.limits/1", "tensors", tensors);
    char *text = doc ? json_dumps(doc, JSON_INDENT(2)) : NULL;
    kerf_status s = text ? kerf_file_replace(path, text, strlen(text), overwrite, err)
                         : kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for limits");
    free(text);
    json_decref(doc);
    return s;
}
