/* eval_limits.c - what a candidate of kerf_eval may lose, from a file. */
#include <kerf/eval.h>

#include <math.h>
#include <string.h>

#include "file/json/json_read.h"
#include "file/json/json_text.h"

const char *kerf_eval_figure_name(kerf_eval_figure f)
{
    static const char *const names[KERF_EVAL_FIGURES] = {"kl", "kl_p99", "flips",
                                                         "perplexity_rise"};
    return (unsigned)f < KERF_EVAL_FIGURES ? names[f] : NULL;
}

static kerf_status read_limit(const char *path, const char *key, const json_t *value,
                              kerf_eval_limits *out, kerf_error *err)
{
    unsigned f = 0;
    while (f < KERF_EVAL_FIGURES && strcmp(key, kerf_eval_figure_name((kerf_eval_figure)f)) != 0)
        f++;
    if (f == KERF_EVAL_FIGURES)
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "%.200s: no figure \"%.60s\"; there are kl, kl_p99, flips and "
                       "perplexity_rise",
                       path, key);
    if (!json_is_number(value) || json_number_value(value) < 0)
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.200s: %s must be a number of 0 or more",
                       path, key);
    out->most[f] = json_number_value(value);
    return KERF_OK;
}

kerf_status kerf_eval_limits_read(const char *path, kerf_eval_limits *out, kerf_error *err)
{
    json_t *doc, *value;
    const char *key;
    for (unsigned f = 0; f < KERF_EVAL_FIGURES; f++) out->most[f] = INFINITY;
    KF_TRY(kf_json_read(path, KF_JSON_MAX_CONFIG_BYTES, KF_JSON_STRICT, &doc, err));
    kerf_status s = KERF_OK;
    if (!kf_json_has_schema(doc, "kerf.eval-limits/1"))
        s = kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                    "%.200s: expected {\"schema\": \"kerf.eval-limits/1\", \"kl\": NUMBER}", path);
    json_object_foreach(doc, key, value)
    {
        if (s == KERF_OK && strcmp(key, "schema") != 0) s = read_limit(path, key, value, out, err);
    }
    const int is_empty = json_object_size(doc) < 2;
    json_decref(doc);
    if (s == KERF_OK && is_empty)
        s = kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                    "%.200s: limits nothing; there are kl, kl_p99, flips and perplexity_rise",
                    path);
    return s;
}
