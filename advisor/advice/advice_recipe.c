/* advice_recipe.c - a choice as a recipe: a rule per group, and what each tensor was measured at.
 */
#include <string.h>

#include "advice/advice.h"

/* Writes a name so that a shell pattern takes it literally. */
static json_t *literal(const char *name)
{
    char out[2 * KERF_MAX_NAME_BYTES + 1];
    size_t n = 0;
    for (; *name && n + 2 < sizeof out; name++) {
        if (strchr("*?[]\\", *name)) out[n++] = '\\';
        out[n++] = *name;
    }
    out[n] = 0;
    return json_string(out);
}

static json_t *rule_of(const advice *a, const advice_group *g)
{
    char name[64];
    json_t *tensors = json_array();
    if (g->glob[0]) json_array_append_new(tensors, json_string(g->glob));
    for (size_t m = 0; !g->glob[0] && m < g->members; m++) {
        json_array_append_new(tensors, literal(a->tensor[g->member[m]].weight->name));
    }
    return json_pack("{s:o, s:s, s:s}", "tensors", tensors, "codec",
                     advice_codec_name(a, g->pick, name), "why", g->reason);
}

json_t *advice_recipe(const advice *a)
{
    json_t *rules = json_array(), *promised = json_object();
    char name[64];
    for (size_t i = 0; i < a->groups; i++) {
        const advice_group *g = &a->group[i];
        json_array_append_new(rules, rule_of(a, g));
        for (size_t m = 0; m < g->members && g->pick < a->codecs.count; m++) {
            const advice_tensor *t = &a->tensor[g->member[m]];
            const kerf_score *s = &t->score[g->pick];
            json_object_set_new(promised, t->weight->name,
                                json_pack("{s:s, s:I, s:f}", "codec",
                                          advice_codec_name(a, g->pick, name), "bytes",
                                          (json_int_t)s->bytes, "t2", kerf_score_t2(s)));
        }
    }
    advice_point p = advice_total(a);
    json_t *hardware = a->machine.hardware ? json_string(a->machine.hardware->name) : json_null();
    json_t *promise =
        json_pack("{s:f, s:f, s:f, s:f, s:o}", "bits", p.bits, "bytes", p.bytes + a->kept_bytes,
                  "loss", p.t2, "us", p.us + a->other_us, "tensors", promised);
    return json_pack("{s:s, s:s, s:o, s:o, s:s, s:o, s:o}", "schema", "kerf.recipe/1", "version",
                     KERF_VERSION_TEXT, "source", json_path(kerf_checkpoint_path(a->source)),
                     "hardware", hardware, "alpha", a->alpha_source, "rules", rules, "promise",
                     promise);
}
