/* recipe.c - reads a recipe, and holds what was written against its promise. */
#include "advice/recipe.h"
#include "base/base.h"
#include "progress.h"
#include <stdio.h>

#include <kerf/words.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_RECIPE_BYTES = 256 << 20 };

/* Sums do not depend on threads or backends; the last digits may on how a file was edited. Where
 * a layout makes fused layers share a scale that they were scored without, errors move a little. */
#define PROMISE_TOLERANCE 1e-9
#define SHARED_TOLERANCE 0.05

/* --- read ---------------------------------------------------------------------------------- */

static kerf_status check_rule(const recipe *r, size_t i, const json_t *rule, kerf_error *err)
{
    const json_t *tensors = json_object_get(rule, "tensors");
    const char *codec = json_string_value(json_object_get(rule, "codec"));
    if (json_array_size(tensors) == 0 || !codec) {
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "%.200s: rules[%zu] needs tensors, a list of patterns, and codec", r->path,
                       i);
    }
    for (size_t k = 0; k < json_array_size(tensors); k++) {
        const char *glob = json_string_value(json_array_get(tensors, k));
        if (glob && *glob) continue;
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "%.200s: rules[%zu]: tensors[%zu] is no pattern", r->path, i, k);
    }
    kerf_codec parsed;
    if (strcmp(codec, "keep") == 0) return KERF_OK;
    kerf_status s = kerf_codec_find(codec, &parsed, err);
    if (s == KERF_OK) return s;
    char where[300];
    snprintf(where, sizeof where, "%.200s: rules[%zu]", r->path, i);
    return kf_fail_at(err, KERF_E_DATA, where);
}

static kerf_status check_recipe(const recipe *r, kerf_error *err)
{
    const char *key, *schema = json_string_value(json_object_get(r->doc, "schema"));
    const json_t *rules = json_object_get(r->doc, "rules");
    json_t *value, *promise = json_object_get(json_object_get(r->doc, "promise"), "tensors");
    if (!schema || strcmp(schema, "kerf.recipe/1") != 0) {
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.200s: its schema is not kerf.recipe/1",
                       r->path);
    }
    if (json_array_size(rules) == 0) {
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "%.200s: rules must be a list with one rule at least", r->path);
    }
    for (size_t i = 0; i < json_array_size(rules); i++) {
        KF_TRY(check_rule(r, i, json_array_get(rules, i), err));
    }
    json_object_foreach(promise, key, value)
    {
        if (json_is_string(json_object_get(value, "codec")) &&
            json_is_integer(json_object_get(value, "bytes")) &&
            json_is_number(json_object_get(value, "t2"))) {
            continue;
        }
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "%.200s: the promise of %.200s needs codec, bytes and t2", r->path, key);
    }
    return KERF_OK;
}

kerf_status recipe_open(recipe *r, const char *path, kerf_error *err)
{
    json_error_t why;
    struct stat st;
    *r = (recipe){.path = path};
    if (stat(path, &st) != 0)
        return kf_fail(err, KERF_E_IO, KF_NOWHERE, "%.200s: no such file", path);
    if (st.st_size > MAX_RECIPE_BYTES) {
        return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE, "%.200s: larger than 256 MiB", path);
    }
    r->doc = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    if (!r->doc)
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.200s:%d: %.160s", path, why.line, why.text);
    kerf_status s = check_recipe(r, err);
    if (s != KERF_OK) recipe_close(r);
    return s;
}

void recipe_close(recipe *r)
{
    json_decref(r->doc);
    *r = (recipe){0};
}

int recipe_rule_at(const recipe *r, size_t i, const char **glob, kerf_codec *codec)
{
    const json_t *rules = json_object_get(r->doc, "rules");
    for (size_t k = 0; k < json_array_size(rules); k++) {
        const json_t *rule = json_array_get(rules, k);
        const json_t *tensors = json_object_get(rule, "tensors");
        if (i >= json_array_size(tensors)) {
            i -= json_array_size(tensors);
            continue;
        }
        *glob = json_string_value(json_array_get(tensors, i));
        *codec = (kerf_codec){NULL, NULL};
        const char *name = json_string_value(json_object_get(rule, "codec"));
        return strcmp(name, "keep") == 0 || kerf_codec_find(name, codec, NULL) == KERF_OK;
    }
    return 0;
}

/* --- promise ------------------------------------------------------------------------------- */

typedef struct check {
    const recipe *recipe;
    const args *args;
    compare_job job;
    const kerf_checkpoint *source, *output;
    size_t kept_promises, broken, edited;
    char first[400]; /* what broke first */
} check;

static void note_broken(check *c, const char *tensor, const char *what, double promised, double got)
{
    if (c->broken++) return;
    snprintf(c->first, sizeof c->first, "%.200s: %s was promised as %.10g and is %.10g", tensor,
             what, promised, got);
}

/* Whether something else than the promised codec was asked for. */
static int is_edited(const check *c, const char *name, const char *codec)
{
    const char *glob, *rule;
    kerf_codec found, asked = {NULL, NULL};
    char text[KERF_MAX_NAME_BYTES + 64];
    for (size_t i = 0; recipe_rule_at(c->recipe, i, &glob, &found); i++) {
        if (kerf_glob_matches(glob, name)) asked = found;
    }
    for (size_t i = 0; (rule = args_value_at(c->args, "tensor", i)) != NULL; i++) {
        snprintf(text, sizeof text, "%.*s", (int)(strrchr(rule, '=') - rule), rule);
        if (kerf_glob_matches(text, name)) return 1;
    }
    return !asked.format || strcmp(codec, kerf_codec_name(asked, text, sizeof text)) != 0;
}

/* Whether w, which was written, is what the promise speaks of. GGUF files do not say which encoder
 * chose their blocks, and those of two formats are alike there: what was asked for decides. */
static kerf_status is_promised(const check *c, const kerf_weight *w, const char *codec, int *same,
                               kerf_error *err)
{
    char text[64];
    kerf_codec promised;
    kerf_weight planes = *w;
    unsigned foreign;
    *same = w->codec.format && strcmp(codec, kerf_weight_format(w, text, sizeof text)) == 0;
    if (*same || !w->codec.format || !w->plane[0]->block_type) return KERF_OK;
    KF_TRY(kerf_codec_find(codec, &promised, err));
    KF_TRY(kerf_weight_fit(kerf_checkpoint_reader(c->output), kerf_layout_at(0), &planes, &foreign,
                           err));
    *same = promised.format == w->codec.format || promised.format == planes.codec.format;
    *same = *same && !is_edited(c, w->name, codec);
    return KERF_OK;
}

static kerf_status check_tensor(check *c, const char *name, const json_t *promise, kerf_error *err)
{
    comparison pair = {.weight = kerf_weights_find(kerf_checkpoint_weights(c->source), name),
                       .other = kerf_weights_find(kerf_checkpoint_weights(c->output), name)};
    const char *codec = json_string_value(json_object_get(promise, "codec"));
    double bytes = (double)json_integer_value(json_object_get(promise, "bytes"));
    double t2 = json_number_value(json_object_get(promise, "t2"));
    int same;
    if (!pair.weight || !pair.other) {
        if (c->broken++ == 0) snprintf(c->first, sizeof c->first, "%.200s is not there", name);
        return KERF_OK;
    }
    KF_TRY(is_promised(c, pair.other, codec, &same, err));
    if (!same) {
        c->edited++;
        return KERF_OK;
    }
    KF_TRY(compare_weights(&c->job, &pair, err));
    double got = kerf_score_t2(&pair.score);
    int shares = kerf_layout_shares_scale(pair.other->layout, pair.other->codec.format);
    double tolerance = shares ? SHARED_TOLERANCE : PROMISE_TOLERANCE;
    if (pair.problem[0] || !pair.measured) {
        if (c->broken++ == 0) {
            snprintf(c->first, sizeof c->first, "%.200s %.150s", name, pair.problem);
        }
    } else if ((double)pair.score.bytes != bytes) {
        note_broken(c, name, "bytes", bytes, (double)pair.score.bytes);
    } else if (!(fabs(got - t2) <= tolerance * t2)) {
        note_broken(c, name, "t2", t2, got);
    } else {
        c->kept_promises++;
    }
    return KERF_OK;
}

static kerf_status check_promises(check *c, kerf_error *err)
{
    const char *name;
    json_t *value;
    json_t *all = json_object_get(json_object_get(c->recipe->doc, "promise"), "tensors");
    json_object_foreach(all, name, value) KF_TRY(check_tensor(c, name, value, err));
    return KERF_OK;
}

int recipe_check(const char *path, const kerf_checkpoint *source, const char *output,
                 const kerf_exec *exec, const args *a, kerf_error *err)
{
    recipe r = {0};
    kerf_checkpoint *written = NULL;
    progress bar = {0};
    check c = {
        .recipe = &r,
        .args = a,
        .source = source,
    };
    c.job = (compare_job){.source = source, .exec = exec, .progress = &bar.work};
    kerf_status s = recipe_open(&r, path, err);
    if (s == KERF_OK) s = kerf_checkpoint_open(output, &written, err);
    c.output = c.job.other = written;
    if (s == KERF_OK) s = check_promises(&c, err);
    kerf_checkpoint_close(written);
    recipe_close(&r);
    if (s != KERF_OK) return s;
    const char *mode = args_value(a, "progress");
    if (!mode || strcmp(mode, "json") != 0) {
        fprintf(stderr, "%s: %zu tensors measured as promised, %zu not, %zu edited since\n", path,
                c.kept_promises, c.broken, c.edited);
    }
    if (c.broken == 0) return EXIT_OK;
    char text[sizeof c.first];
    fprintf(stderr, "kerf: %s: %s\n", output, kerf_text_printable(c.first, text, sizeof text));
    return EXIT_MISMATCH;
}
