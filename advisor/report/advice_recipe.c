/* advice_recipe.c - a choice as a recipe (kerf/recipe.h): a rule per group, and what each tensor
 * was measured at. advice/recipe.c reads recipes. */
#include <inttypes.h>
#include <kerf/words.h>
#include <stdio.h>

#include "report/report.h"

/* A pattern that matches this name alone. */
static json_t *pattern_of(const char *name)
{
    char out[2 * KERF_MAX_NAME_BYTES + 1];
    return json_string(kerf_glob_escape(name, out, sizeof out));
}

static json_t *rule_of(const kerf_advice *a, const kerf_advice_group *g)
{
    char name[64];
    json_t *tensors = json_array();
    if (g->glob[0]) kf_json_add(&tensors, json_string(g->glob));
    for (size_t m = 0; !g->glob[0] && m < g->members; m++)
        kf_json_add(&tensors, pattern_of(a->tensor[g->member[m]].weight->name));
    return json_pack("{s:o, s:s, s:o}", "tensors", tensors, "codec",
                     kerf_advice_codec_name(a, g->pick, name), "why", kf_json_path(g->reason));
}

static void add_promises(json_t **all, const kerf_advice *a, const kerf_advice_group *g)
{
    char name[64];
    for (size_t m = 0; m < g->members && g->pick < a->codecs; m++) {
        const kerf_advice_tensor *t = &a->tensor[g->member[m]];
        const kerf_score *s = &t->score[g->pick];
        kf_json_set(all, t->weight->name,
                    json_pack("{s:s, s:I, s:f}", "codec", kerf_advice_codec_name(a, g->pick, name),
                              "bytes", (json_int_t)s->bytes, "t2", kerf_score_t2(s)));
    }
}

json_t *kf_recipe_json(const kerf_advice *a)
{
    json_t *rules = json_array(), *promised = json_object();
    for (size_t i = 0; i < a->groups; i++) {
        kf_json_add(&rules, rule_of(a, &a->group[i]));
        add_promises(&promised, a, &a->group[i]);
    }
    kerf_advice_point p = kerf_advice_total(a);
    json_t *hardware = a->hardware ? json_string(a->hardware->name) : json_null();
    json_t *promise =
        json_pack("{s:f, s:f, s:f, s:f, s:o}", "bits", p.bits, "bytes", p.bytes + a->kept_bytes,
                  "loss", p.t2, "us", p.us + a->other_us, "tensors", promised);
    char feedback[24];
    snprintf(feedback, sizeof feedback, "%016" PRIx64, a->feedback);
    return json_pack("{s:s, s:s, s:o, s:s*, s:s*, s:s*, s:o, s:o, s:o, s:o}", "schema",
                     "kerf.recipe/1", "version", KERF_VERSION_TEXT, "source",
                     kf_json_path(a->source), "layout", a->layout ? a->layout->name : NULL,
                     "feedback", a->feedback ? feedback : NULL, "runtime",
                     a->runtime ? a->runtime->name : NULL, "hardware", hardware, "alpha",
                     kf_json_path(a->alpha_source), "rules", rules, "promise", promise);
}
