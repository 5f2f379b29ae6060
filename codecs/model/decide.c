/* decide.c - one decision per tensor. What runtimes refuse to load quantized, or what costs far
 * more quality than it saves bytes, stays in its source type unless --tensor asks for it. */
#include "model/decide.h"
#include "base/base.h"
#include <stdio.h>

#include <kerf/words.h>
#include <stdlib.h>
#include <string.h>

#include "advice/recipe.h"

/* Names as Hugging Face checkpoints have them; the first match gives the reason. */
static const struct {
    const char *glob, *reason;
} keep_by_default[] = {
    {"*lm_head*", "output head"},
    {"*embed*", "embedding"},
    {"wte.weight", "embedding"},
    {"*.wte.weight", "embedding"},
    {"wpe.weight", "embedding"},
    {"*.wpe.weight", "embedding"},
    {"*norm*", "norm"},
    {"*.ln_[0-9f]*.weight", "norm"},
    {"*bias", "bias"},
    {"*e_score_correction_bias*", "router"},
    {"*router*", "router"},
    {"*.mlp.gate.*", "router"},
    {"*.block_sparse_moe.gate.*", "router"},
    {"*.feed_forward.gate.*", "router"},
    {"*shared_expert_gate*", "router"},
    {"*conv1d*", "convolution"},
    {"*visual*", "vision tower"},
    {"*vision_tower*", "vision tower"},
    {"*multi_modal_projector*", "vision tower"},
    {"*linear_attn.in_proj_[ab].*", "linear attention gate"},
    {"mtp.*", "multi-token prediction"},
    /* as llama.cpp names them in GGUF files */
    {"output.weight", "output head"},
    {"token_embd*", "embedding"},
    {"*_token_embd*", "embedding"},
    {"token_types.weight", "embedding"},
    {"position_embd*", "embedding"},
    {"blk.*.ffn_gate_inp*", "router"},
    {"blk.*.ffn_exp_probs_b*", "router"},
    {"blk.*.ffn_gate_tid2eid*", "router"},
    {"blk.*.shortconv.conv.*", "convolution"},
    {"blk.*.ssm_[ad]", "state space parameter"},
    {"blk.*.time_mix_*", "time mix"},
    {"blk.*.altup_*", "alternating updates"},
    {"blk.*.laurel_*", "residual layer"},
    {"blk.*.indexer.*", "attention index"},
    {"*attn_rel_b*", "relative positions"},
    {"per_layer_model_proj*", "embedding"},
    {"v.*", "vision tower"},
    {"mm.*", "vision tower"},
};

static int matches(const char *glob, const char *name)
{
    return kerf_glob_matches(glob, name);
}

/* A pattern for a stack of experts is one for each of them. */
static int matches_weight(const char *glob, const kerf_weight *w)
{
    return matches(glob, w->name) || (w->whole && matches(glob, w->whole));
}

kerf_status parse_codec(const char *text, kerf_codec *out, kerf_error *err)
{
    kerf_status s = kerf_codec_find(text, out, err);
    if (s == KERF_OK) return s;
    if (err) err->status = KERF_E_ARG;
    return KERF_E_ARG;
}

/* --- --tensor GLOB=FORMAT ------------------------------------------------------------------ */

typedef struct rule {
    const char *text;   /* as given, or the pattern     */
    const char *origin; /* "--tensor", "--recipe"       */
    char *glob;         /* its part before the last '=' */
    kerf_codec codec;   /* format NULL: keep            */
} rule;

typedef struct rules {
    rule *item;
    size_t count;
} rules;

static void rules_free(rules *r)
{
    for (size_t i = 0; i < r->count; i++) free(r->item[i].glob);
    free(r->item);
}

static kerf_status parse_rule(const char *text, rule *out, kerf_error *err)
{
    const char *equals = strrchr(text, '=');
    *out = (rule){.text = text, .origin = "--tensor"};
    if (!equals || equals == text) {
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "--tensor %.200s: expected GLOB=FORMAT[:ENCODER] or GLOB=keep", text);
    }
    if (strcmp(equals + 1, "keep") != 0) KF_TRY(parse_codec(equals + 1, &out->codec, err));
    out->glob = strndup(text, (size_t)(equals - text));
    return out->glob ? KERF_OK : kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for --tensor");
}

/* Rules of a recipe come first, so that --tensor overrules them. r: all zeros without one. */
static kerf_status parse_rules(const args *a, const recipe *r, rules *out, kerf_error *err)
{
    size_t given = 0, written = 0;
    const char *glob;
    kerf_codec codec;
    kerf_status s = KERF_OK;
    while (args_value_at(a, "tensor", given)) given++;
    while (recipe_rule_at(r, written, &glob, &codec)) written++;
    *out = (rules){0};
    KF_TRY(kf_allocate(&out->item, written + given, sizeof *out->item, err));
    for (size_t i = 0; i < written && s == KERF_OK; i++) {
        recipe_rule_at(r, i, &glob, &codec);
        char *copy = strdup(glob);
        if (!copy)
            s = kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for the recipe");
        else
            out->item[out->count++] = (rule){copy, "--recipe", copy, codec};
    }
    for (size_t i = 0; i < given && s == KERF_OK; i++) {
        s = parse_rule(args_value_at(a, "tensor", i), &out->item[out->count], err);
        if (s == KERF_OK) out->count++;
    }
    if (s != KERF_OK) rules_free(out);
    return s;
}

/* --- one tensor ---------------------------------------------------------------------------- */

/* Why this tensor cannot be quantized at all, or NULL. */
static const char *obstacle(const kerf_weight *w, char *text, size_t size)
{
    char format[64];
    if (w->codec.format) {
        snprintf(text, size, "already %s", weight_format(w, format, sizeof format));
        return text;
    }
    if (is_float(w->dtype)) return NULL;
    snprintf(text, size, "type %s", weight_format(w, format, sizeof format));
    return text;
}

static const char *match_option(const args *a, const char *which, const kerf_weight *w)
{
    const char *glob;
    for (size_t i = 0; (glob = args_value_at(a, which, i)) != NULL; i++) {
        if (matches_weight(glob, w)) return glob;
    }
    return NULL;
}

/* Rows that are shorter than the blocks of most formats: convolutions, mostly. */
enum { SHORT_ROW = 16 };

static const char *default_reason(const kerf_weight *w)
{
    for (size_t i = 0; i < sizeof keep_by_default / sizeof *keep_by_default; i++) {
        if (matches(keep_by_default[i].glob, w->name)) return keep_by_default[i].reason;
    }
    if (w->shape.rank < 2) return "1-D";
    return w->shape.dim[w->shape.rank - 1] < SHORT_ROW ? "short rows" : NULL;
}

/* Sets d->codec by the last --tensor that matches; *found says whether one did. */
static kerf_status apply_rules(decision *d, const rules *r, int *found, kerf_error *err)
{
    const kerf_weight *w = d->weight;
    *found = 0;
    for (size_t i = r->count; i-- > 0;) {
        if (!matches_weight(r->item[i].glob, w)) continue;
        char text[96];
        const char *why = obstacle(w, text, sizeof text);
        if (r->item[i].codec.format && why) {
            return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "%s %.100s: %.200s cannot be quantized: %s",
                           r->item[i].origin, r->item[i].text, w->name, why);
        }
        d->codec = r->item[i].codec;
        snprintf(d->reason, sizeof d->reason, "%s %s", r->item[i].origin, r->item[i].text);
        *found = 1;
        return KERF_OK;
    }
    return KERF_OK;
}

/* All that a decision rests on. */
typedef struct request {
    const checkpoint *source;
    const args *args;
    rules rules;
    kerf_codec base;
    const kerf_layout *layout;
    int all_tensors;
} request;

static kerf_status decide_one(const request *r, decision *d, kerf_error *err)
{
    const args *a = r->args;
    const kerf_weight *w = d->weight;
    const char *glob;
    const char *why;
    char text[96];
    int found = 0;
    KF_TRY(apply_rules(d, &r->rules, &found, err));
    if (found) return KERF_OK;
    if ((why = obstacle(w, text, sizeof text)) != NULL) {
        snprintf(d->reason, sizeof d->reason, "%s", why);
    } else if ((glob = match_option(a, "keep", w)) != NULL) {
        snprintf(d->reason, sizeof d->reason, "--keep %s", glob);
    } else if (args_has(a, "only") && !match_option(a, "only", w)) {
        snprintf(d->reason, sizeof d->reason, "not in --only");
    } else if (!r->all_tensors && (why = default_reason(w)) != NULL) {
        snprintf(d->reason, sizeof d->reason, "%s", why);
    } else {
        d->codec = r->base;
        if (!r->base.format) snprintf(d->reason, sizeof d->reason, "not in the recipe");
    }
    return KERF_OK;
}

/* What the layout of the output has no place for is kept, unless it was asked for by name. */
static kerf_status fit_layout(const request *r, decision *d, kerf_error *err)
{
    kerf_error why = {.text = ""};
    const kerf_weight *w = d->weight;
    if (w->codec.format && w->layout != r->layout) {
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "%.200s is quantized already, in layout %s: convert it first, or ask for "
                       "--layout %s",
                       w->name, w->layout->name, w->layout->name);
    }
    if (!d->codec.format || r->layout == kerf_layout_at(0)) return KERF_OK;
    KF_TRY(kerf_layout_check(r->layout, d->codec.format, err));
    if (kerf_layout_check_tensor(r->layout, d->codec.format, w->name, &w->shape, &why) == KERF_OK) {
        return KERF_OK;
    }
    if (d->reason[0]) {
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "%.100s: %.150s cannot be quantized: %.150s",
                       d->reason, w->name, why.text);
    }
    d->codec = (kerf_codec){0};
    snprintf(d->reason, sizeof d->reason, "%.90s", why.text);
    return KERF_OK;
}

/* A plane must not take the name of another tensor of the source. */
static kerf_status check_names(const request *r, const decision *d, kerf_error *err)
{
    char name[KERF_MAX_NAME_BYTES + 32];
    kerf_weight w = *d->weight;
    kerf_entry entry;
    kerf_plane_id plane;
    w.codec = d->codec;
    w.geometry = d->geometry;
    for (size_t i = 0; kerf_layout_entry(r->layout, &w, i, name, sizeof name, &entry, &plane);
         i++) {
        if (strcmp(name, w.name) != 0 && kerf_reader_find(r->source->reader, name)) {
            return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                           "%.200s: its quantized form needs the name %.220s, which "
                           "the source uses already; keep it with --keep",
                           d->weight->name, name);
        }
    }
    return KERF_OK;
}

/* --- all tensors --------------------------------------------------------------------------- */

static kerf_status check_glob(const checkpoint *c, const char *which, const char *glob,
                              kerf_error *err)
{
    for (size_t i = 0; i < kerf_weights_count(c->weights); i++) {
        if (matches_weight(glob, kerf_weights_at(c->weights, i))) return KERF_OK;
    }
    return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                   "--%s %.200s matches no tensor; kerf inspect %.200s lists them", which, glob,
                   c->path);
}

static kerf_status check_globs(const request *r, kerf_error *err)
{
    static const char *const options[] = {"keep", "only"};
    for (size_t i = 0; i < r->rules.count; i++) {
        KF_TRY(check_glob(r->source, r->rules.item[i].origin + 2, r->rules.item[i].glob, err));
    }
    for (size_t k = 0; k < 2; k++) {
        const char *glob;
        for (size_t i = 0; (glob = args_value_at(r->args, options[k], i)) != NULL; i++) {
            KF_TRY(check_glob(r->source, options[k], glob, err));
        }
    }
    return KERF_OK;
}

static kerf_status decide_all(const request *r, decisions *out, kerf_error *err)
{
    KF_TRY(check_globs(r, err));
    size_t count = kerf_weights_count(r->source->weights);
    KF_TRY(kf_allocate(&out->item, count, sizeof *out->item, err));
    for (; out->count < count; out->count++) {
        decision *d = &out->item[out->count];
        d->weight = kerf_weights_at(r->source->weights, out->count);
        KF_TRY(decide_one(r, d, err));
        if (r->layout) KF_TRY(fit_layout(r, d, err));
        if (!d->codec.format) continue;
        const kerf_shape *shape = &d->weight->shape;
        kerf_status s = kerf_codec_check(d->codec, shape, d->weight->dtype, err);
        if (s == KERF_OK) s = kerf_geometry_init(&d->geometry, d->codec.format, shape, err);
        if (s != KERF_OK) return kf_fail_at(err, s, d->weight->name);
        if (r->layout) KF_TRY(check_names(r, d, err));
        out->quantized++;
    }
    return KERF_OK;
}

kerf_status decide(const checkpoint *c, const args *a, kerf_codec base, const kerf_layout *layout,
                   int all_tensors, decisions *out, kerf_error *err)
{
    request r = {
        .source = c, .args = a, .base = base, .layout = layout, .all_tensors = all_tensors};
    *out = (decisions){0};
    recipe rec = {0};
    const char *path = args_value(a, "recipe");
    if (path) KF_TRY(recipe_open(&rec, path, err));
    kerf_status s = parse_rules(a, &rec, &r.rules, err);
    recipe_close(&rec);
    KF_TRY(s);
    s = decide_all(&r, out, err);
    rules_free(&r.rules);
    if (s != KERF_OK) decisions_free(out);
    return s;
}

void decisions_free(decisions *d)
{
    free(d->item);
    *d = (decisions){0};
}
