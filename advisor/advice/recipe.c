/* recipe.c - reads a recipe into rules and promises. advice_recipe.c writes one. */
#include <kerf/recipe.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "file/json/json_read.h"
#include "file/json/json_text.h"

/* What the public part points to: its texts are those of the document, but for origins. */
typedef struct recipe_memory {
    kerf_recipe public;
    json_t *doc;
    char *name;
    kerf_rule *rule;
    char **origin; /* [rules] "--recipe GLOB" */
    kerf_promise *promise;
} recipe_memory;

/* --- rules --------------------------------------------------------------------------------- */

static kerf_status read_codec(const char *name, size_t i, const char *text, kerf_codec *out,
                              kerf_error *err)
{
    *out = (kerf_codec){NULL, NULL};
    if (strcmp(text, "keep") == 0) return KERF_OK;
    kerf_status s = kerf_codec_find(text, out, err);
    if (s == KERF_OK) return s;
    char where[300];
    snprintf(where, sizeof where, "%.200s: rules[%zu]", name, i);
    return kf_fail_at(err, KERF_E_DATA, where);
}

static kerf_status add_rule(recipe_memory *r, const char *glob, kerf_codec codec, kerf_error *err)
{
    static const char prefix[] = "--recipe ";
    const size_t n = strlen(glob) + sizeof prefix;
    char *origin = kf_alloc(n, 1);
    if (!origin) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for the recipe");
    snprintf(origin, n, "%s%s", prefix, glob);
    r->origin[r->public.rules] = origin;
    r->rule[r->public.rules++] = (kerf_rule){glob, origin, codec};
    return KERF_OK;
}

static kerf_status read_rule(recipe_memory *r, size_t i, const json_t *rule, kerf_error *err)
{
    const char *name = r->name, *text = json_string_value(json_object_get(rule, "codec"));
    const json_t *tensors = json_object_get(rule, "tensors");
    kerf_codec codec;
    if (json_array_size(tensors) == 0 || !text) {
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "%.200s: rules[%zu] needs tensors, a list of patterns, and codec", name, i);
    }
    KF_TRY(read_codec(name, i, text, &codec, err));
    for (size_t k = 0; k < json_array_size(tensors); k++) {
        const char *glob = json_string_value(json_array_get(tensors, k));
        if (!glob || !*glob)
            return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                           "%.200s: rules[%zu]: tensors[%zu] is no pattern", name, i, k);
        KF_TRY(add_rule(r, glob, codec, err));
    }
    return KERF_OK;
}

static kerf_status read_rules(recipe_memory *r, kerf_error *err)
{
    const json_t *rules = json_object_get(r->doc, "rules");
    size_t globs = 0;
    if (json_array_size(rules) == 0) {
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "%.200s: rules must be a list with one rule at least", r->name);
    }
    for (size_t i = 0; i < json_array_size(rules); i++)
        globs += json_array_size(json_object_get(json_array_get(rules, i), "tensors"));
    KF_TRY(kf_allocate(&r->rule, globs, sizeof *r->rule, err));
    KF_TRY(kf_allocate(&r->origin, globs, sizeof *r->origin, err));
    r->public.rule = r->rule;
    for (size_t i = 0; i < json_array_size(rules); i++)
        KF_TRY(read_rule(r, i, json_array_get(rules, i), err));
    return KERF_OK;
}

/* --- promises ------------------------------------------------------------------------------ */

static kerf_status read_promises(recipe_memory *r, kerf_error *err)
{
    json_t *value, *all = json_object_get(json_object_get(r->doc, "promise"), "tensors");
    const char *tensor;
    KF_TRY(kf_allocate(&r->promise, json_object_size(all), sizeof *r->promise, err));
    r->public.promise = r->promise;
    json_object_foreach(all, tensor, value)
    {
        const json_t *codec = json_object_get(value, "codec"),
                     *bytes = json_object_get(value, "bytes"), *t2 = json_object_get(value, "t2");
        if (!json_is_string(codec) || !json_is_integer(bytes) || json_integer_value(bytes) < 0 ||
            !json_is_number(t2))
            return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                           "%.200s: the promise of %.200s needs codec, bytes and t2", r->name,
                           tensor);
        r->promise[r->public.promises++] =
            (kerf_promise){tensor, json_string_value(codec), (uint64_t)json_integer_value(bytes),
                           json_number_value(t2)};
    }
    return KERF_OK;
}

static kerf_status read_layout(recipe_memory *r, kerf_error *err)
{
    const json_t *layout = json_object_get(r->doc, "layout");
    const char *name = json_string_value(layout);
    if (!layout) return KERF_OK;
    r->public.layout = name ? kerf_layout_find(name) : NULL;
    if (r->public.layout) return KERF_OK;
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.200s: its layout is none that kerf knows",
                   r->name);
}

static kerf_status read_feedback(recipe_memory *r, kerf_error *err)
{
    const json_t *feedback = json_object_get(r->doc, "feedback");
    uint64_t *number = &r->public.feedback;
    if (!feedback || (kf_content_read(json_string_value(feedback), number) && *number))
        return KERF_OK;
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                   "%.200s: its feedback is no number of a calibration, 16 hexadecimal digits",
                   r->name);
}

/* --- open ---------------------------------------------------------------------------------- */

static kerf_status read_recipe(recipe_memory *r, const char *name, kerf_error *err)
{
    r->public.name = r->name = strdup(name);
    if (!r->name) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for the recipe");
    if (!kf_json_has_schema(r->doc, "kerf.recipe/1")) {
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.200s: its schema is not kerf.recipe/1",
                       name);
    }
    KF_TRY(read_layout(r, err));
    KF_TRY(read_feedback(r, err));
    KF_TRY(read_rules(r, err));
    return read_promises(r, err);
}

static kerf_status make_recipe(json_t *doc, const char *name, kerf_recipe **out, kerf_error *err)
{
    recipe_memory *r = NULL;
    kerf_status s = kf_allocate(&r, 1, sizeof *r, err);
    if (s != KERF_OK) {
        json_decref(doc);
        return s;
    }
    r->doc = doc;
    s = read_recipe(r, name, err);
    if (s == KERF_OK)
        *out = &r->public;
    else
        kerf_recipe_close(&r->public);
    return s;
}

kerf_status kerf_recipe_parse(const char *text, size_t n, const char *name, kerf_recipe **out,
                              kerf_error *err)
{
    json_t *doc;
    *out = NULL;
    KF_TRY(kf_json_parse(name, text, n, KF_JSON_STRICT, &doc, err));
    return make_recipe(doc, name, out, err);
}

kerf_status kerf_recipe_open(const char *path, kerf_recipe **out, kerf_error *err)
{
    json_t *doc;
    kerf_codec codec;
    *out = NULL;
    const kerf_status s = kf_json_read(path, KF_JSON_MAX_DOCUMENT_BYTES, KF_JSON_STRICT, &doc, err);
    if (s == KERF_E_IO && kerf_codec_find(path, &codec, NULL) == KERF_OK)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "recipe %.60s: that is a format, and no file of this name is here; a format "
                       "is asked for by -f %.60s, in Python format=\"%.60s\"",
                       path, path, path);
    KF_TRY(s);
    return make_recipe(doc, path, out, err);
}

void kerf_recipe_close(kerf_recipe *p)
{
    if (!p) return;
    recipe_memory *r = (recipe_memory *)p; /* its first member */
    for (size_t i = 0; i < p->rules; i++) free(r->origin[i]);
    free(r->origin);
    free(r->rule);
    free(r->promise);
    free(r->name);
    json_decref(r->doc);
    free(r);
}
