/* decide.c - one decision per weight: what a rule says, what the selection keeps, what the layout
 * of the output can hold. */
#include "model/decide.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "layout/arranging.h"
#include "layout/foreign.h"
#include "layout/layout.h"
#include "model/rules.h"
#include "stream/panels.h"

/* All that a decision rests on. */
typedef struct request {
    const kerf_checkpoint *source;
    const kerf_select *select;
    kf_rules rules;
    kerf_codec base;
    const kerf_layout *layout;
} request;

/* Sets d->codec by the last rule that takes the weight; *found says whether one did. What an option
 * leaves out is not for a recipe to take. */
static kerf_status apply_rules(const request *q, kerf_decision *d, int *found, size_t *spared,
                               kerf_error *err)
{
    const kerf_weight *w = d->weight;
    const size_t i = kf_rules_find(&q->rules, w, spared);
    *found = i != KF_NO_GLOB;
    if (!*found) return KERF_OK;
    const kerf_rule *r = &q->rules.rule[i];
    const char *origin = kf_rule_origin(r);
    char text[96];
    *found = !kf_is_of_recipe(origin) || !kf_select_option(q->select, w, text, sizeof text);
    if (!*found) return KERF_OK;
    const char *why = kf_select_obstacle(w, text, sizeof text);
    if (r->codec.format && why) {
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "%.110s: %.200s cannot be quantized: %s",
                       origin, w->name, why);
    }
    if (!kf_select_empty(w)) d->codec = r->codec;
    snprintf(d->reason, sizeof d->reason, "%s", kf_select_empty(w) ? kf_select_empty(w) : origin);
    return KERF_OK;
}

/* A matrix that a rule would have taken, had it matched nothing else. */
static void count_spared(const request *q, const kerf_weight *w, size_t rule, kf_decisions *out)
{
    if (rule == KF_NO_GLOB || kf_select_rank(w) != KF_RANK_KEPT) return;
    if (out->spared++) return;
    out->first_spared = w->name;
    out->spared_by = kf_rule_origin(&q->rules.rule[rule]);
}

static kerf_status decide_one(const request *q, kerf_decision *d, kf_decisions *out,
                              kerf_error *err)
{
    char text[96];
    int found = 0;
    size_t spared;
    KF_TRY(apply_rules(q, d, &found, &spared, err));
    if (found) return KERF_OK;
    count_spared(q, d->weight, spared, out);
    const char *why = kf_select_reason(q->select, d->weight, text, sizeof text);
    if (!why && !q->base.format) why = "not in the recipe";
    if (why)
        snprintf(d->reason, sizeof d->reason, "%s", why);
    else
        d->codec = q->base;
    return KERF_OK;
}

/* As much of a text as fits: whole clauses, or whole words of the first. */
static void give_reason(kerf_decision *d, const char *text)
{
    const size_t room = sizeof d->reason - 1;
    size_t n = strlen(text), clauses = 0;
    for (const char *at = text; (at = strstr(at, "; ")) && (size_t)(at - text) <= room; at++)
        clauses = (size_t)(at - text);
    if (n > room) n = clauses ? clauses : room;
    while (n > 0 && text[n] && !strchr(" ;", text[n])) n--;
    snprintf(d->reason, sizeof d->reason, "%.*s", (int)n, text);
}

/* The encoder of the same name, or the default one. */
static const kerf_encoder *encoder_like(const kerf_format *f, const kerf_encoder *e)
{
    for (size_t i = 0; i < kerf_encoder_count(f); i++)
        if (strcmp(kerf_encoder_at(f, i)->name, e->name) == 0) return kerf_encoder_at(f, i);
    return kerf_encoder_at(f, 0);
}

/* A quantized weight that the layout of the output has in the same form. */
static int is_there(const request *q, const kerf_weight *w)
{
    return w->layout == q->layout && kf_layout_holds(q->layout, w);
}

/* What the source has quantized in another layout is dense where it is kept. */
static void keep(const request *q, kerf_decision *d)
{
    const kerf_weight *w = d->weight;
    d->codec = (kerf_codec){0};
    d->decoded = w->codec.format && w->decoded && !is_there(q, w);
}

/* What the layout has no place for is kept, but where its own quantizer has another format for such
 * rows. */
static void fall_back(const request *q, kerf_decision *d, const char *why)
{
    const kerf_format *f = kf_layout_fallback(q->layout, d->codec.format);
    const kerf_weight *w = d->weight;
    d->asked = d->codec.format;
    if (!f || kerf_layout_check_weight(q->layout, f, w, NULL) != KERF_OK) {
        keep(q, d);
        give_reason(d, why);
        return;
    }
    d->codec = (kerf_codec){f, encoder_like(f, d->codec.encoder)};
    snprintf(d->reason, sizeof d->reason, "%s takes no rows of %llu", d->asked->name,
             (unsigned long long)kf_last_dim(&w->shape));
}

/* What the layout of the output has no place for is kept, unless a rule asks for it by name. */
static kerf_status fit_layout(const request *q, kerf_decision *d, kerf_error *err)
{
    kerf_error why = {.text = ""};
    const kerf_weight *w = d->weight;
    if (w->codec.format && w->codec.format == d->codec.format && is_there(q, w)) {
        char format[64];
        d->codec = (kerf_codec){0};
        snprintf(d->reason, sizeof d->reason, "already %s",
                 kerf_weight_format(w, format, sizeof format));
    }
    if (!d->codec.format) keep(q, d);
    if (w->codec.format && !w->decoded && w->layout == q->layout && !is_there(q, w))
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "%.200s is quantized, and loaders of layout %s take no quantized %s: kerf "
                       "dequantize makes a source of it",
                       w->name, w->layout->name, kf_layout_lacks(q->layout, w));
    if (w->codec.format && !w->decoded && w->layout != q->layout) {
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "%.200s is quantized already, in layout %s: convert it first, or ask for "
                       "--layout %s, and it stays as it is; kerf dequantize makes a source of it",
                       w->name, w->layout->name, w->layout->name);
    }
    if (!d->codec.format || q->layout == kerf_layout_at(0)) return KERF_OK;
    KF_TRY(kerf_layout_check(q->layout, d->codec.format, err));
    if (kerf_layout_check_weight(q->layout, d->codec.format, w, &why) == KERF_OK) return KERF_OK;
    if (d->reason[0]) {
        const int is_recipe = kf_is_of_recipe(d->reason);
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "%.100s: %.130s cannot be quantized: %.130s; %s%.130s%s", d->reason, w->name,
                       why.text,
                       is_recipe ? "a recipe that fits: kerf advise --layout " : "--tensor '",
                       is_recipe ? q->layout->name : w->name,
                       is_recipe ? "" : "=keep' behind it leaves it as it is");
    }
    fall_back(q, d, why.text);
    return KERF_OK;
}

/* Tensors of a weight that is decoded on the way in are gone. */
static int is_part(const kerf_weight *w, const kerf_tensor *t)
{
    const kerf_tensor *part;
    int found = 0;
    for (size_t i = 0; (part = kf_foreign_part(w, i)); i++) found |= part == t;
    for (size_t i = 0; i < KERF_PLANES; i++) found |= w->codec.format && w->plane[i] == t;
    for (size_t i = 0; i < KERF_EXTRAS; i++) found |= w->codec.format && w->extra[i] == t;
    return found;
}

/* A plane must not take the name of another tensor of the source. */
static kerf_status check_names(const request *q, const kerf_decision *d, kerf_error *err)
{
    char name[KERF_MAX_NAME_BYTES + 32];
    kerf_weight w = *d->weight;
    kerf_entry entry;
    kerf_plane_id plane;
    w.codec = d->codec;
    for (size_t i = 0; kerf_layout_entry(q->layout, &w, i, name, sizeof name, &entry, &plane);
         i++) {
        const kerf_tensor *there = kerf_reader_find(q->source->reader, name);
        if (strcmp(name, w.name) != 0 && there && !is_part(d->weight, there)) {
            return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                           "%.200s: its quantized form needs the name %.220s, which "
                           "the source uses already; keep it with --keep",
                           d->weight->name, name);
        }
    }
    return KERF_OK;
}

static kerf_status decide_all(const request *q, kf_decisions *out, kerf_error *err)
{
    KF_TRY(kf_rules_check(&q->rules, q->source, &out->idle, &out->first_idle, err));
    KF_TRY(kf_select_check(q->source, q->select, err));
    size_t count = kerf_weights_count(q->source->weights);
    KF_TRY(kf_allocate(&out->item, count, sizeof *out->item, err));
    for (; out->count < count; out->count++) {
        kerf_decision *d = &out->item[out->count];
        d->weight = kerf_weights_at(q->source->weights, out->count);
        KF_TRY(decide_one(q, d, out, err));
        KF_TRY(fit_layout(q, d, err));
        if (!d->codec.format) continue;
        const kerf_shape *shape = &d->weight->shape;
        kerf_geometry g;
        kerf_status s =
            kf_stream_check(d->codec, shape, kerf_weight_dense(d->weight)->dtype, &g, err);
        if (s != KERF_OK) return kf_fail_at(err, s, d->weight->name);
        KF_TRY(check_names(q, d, err));
        out->quantized++;
    }
    return KERF_OK;
}

/* Formats of as many bits that the layout holds this weight in. */
static void name_fitting(const request *q, const kerf_decision *d, char *out, size_t size)
{
    size_t n = 0;
    out[0] = 0;
    for (size_t i = 0; i < kerf_format_count() && n < size; i++) {
        const kerf_format *f = kerf_format_at(i);
        const int is_like = f != d->asked && f->bits == d->asked->bits &&
                            f->element == d->asked->element && f->zero == d->asked->zero;
        if (!is_like || kerf_layout_check(q->layout, f, NULL) != KERF_OK ||
            kerf_layout_check_weight(q->layout, f, d->weight, NULL) != KERF_OK)
            continue;
        n += (size_t)snprintf(out + n, size - n, "%s%s", n ? " or -f " : "-f ", f->name);
    }
}

/* Experts whose layer is one module to loaders, of which the layout can hold some. What the model
 * consists of is not left as it is without a word. */
static kerf_status check_experts(const request *q, const kf_decisions *all, kerf_error *err)
{
    char fitting[160];
    const char *last = "";
    size_t asked = 0; /* bytes of last: the layer that was looked through */
    for (size_t i = 0; i < all->count; i++) {
        const kerf_decision *d = &all->item[i];
        const size_t n = d->asked && !d->codec.format ? kf_before_expert(d->weight->name, NULL) : 0;
        if (!n || (n == asked && strncmp(last, d->weight->name, n) == 0)) continue;
        last = d->weight->name;
        asked = n;
        size_t k = 0;
        while (k < all->count &&
               !(all->item[k].codec.format && strncmp(all->item[k].weight->name, last, n) == 0))
            k++;
        if (k == all->count) continue;
        name_fitting(q, d, fitting, sizeof fitting);
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "%.150s: %.130s, and all experts of a layer are one module to its loaders: "
                       "%s%s--keep '*%s*' leaves all of them as they are",
                       last, d->reason, fitting, fitting[0] ? " takes them, " : "",
                       kf_experts_mark);
    }
    return KERF_OK;
}

/* Layers that runtimes merge have one format or none: with one that the layout cannot hold, those
 * that no rule asks for are kept. */
static void keep_merged(const request *q, kf_decisions *all)
{
    const kerf_weight *member[KERF_FUSED_MOST];
    for (size_t i = 0; i < all->count; i++) {
        const kerf_decision *one = &all->item[i];
        if (!one->asked || one->codec.format) continue;
        const size_t n = kerf_fused_group(q->source->weights, one->weight, member);
        for (size_t k = 0; k < n; k++) {
            kerf_decision *d = &all->item[member[k] - all->item[0].weight];
            if (!d->codec.format || d->reason[0]) continue;
            d->asked = d->codec.format;
            keep(q, d);
            give_reason(d, "merged with a layer that the layout cannot hold");
            all->quantized--;
        }
    }
}

static int is_decoded(const kerf_decision *d)
{
    return kf_foreign_form(d->weight) ||
           (d->weight->codec.format && (d->codec.format || d->decoded));
}

/* A weight that is decoded: the first n bytes of a name, and an end. */
static int is_decoded_weight(const request *q, const kf_decisions *all, const char *name, size_t n,
                             const char *end)
{
    const kerf_weight *w = kf_expert_find(q->source->weights, name, n, end);
    return w && is_decoded(&all->item[w - all->item[0].weight]);
}

/* A module whose weight is decoded: "X" of "X.input_scale"; a stack "X" of "X_input_scale", or the
 * experts that were in it, of which the first stands for all. */
static int is_decoded_module(const request *q, const kf_decisions *all, const char *name)
{
    const char *end = kf_has_suffix(name, "_input_scale") ? "_input_scale" : "_activation_scale";
    const char *dot = strrchr(name, '.'), *experts = strstr(name, kf_experts_mark);
    if (dot && is_decoded_weight(q, all, name, (size_t)(dot - name), ".weight")) return 1;
    if (!kf_has_suffix(name, end)) return 0;
    if (is_decoded_weight(q, all, name, strlen(name) - strlen(end), "")) return 1;
    for (int i = 0; experts && i < KF_SINGLES; i++) {
        char first[64];
        const size_t n = (size_t)(experts - name) + strlen(kf_experts_mark);
        snprintf(first, sizeof first, "0.%s.weight", kf_single_end(i));
        if (is_decoded_weight(q, all, name, n, first)) return 1;
    }
    return 0;
}

/* Scales of caches, and what is said of the file as a whole, belong to no weight. */
static int is_of_all(const char *name)
{
    static const char *const ends[] = {
        "k_scale",    "v_scale",      "q_scale",      "kv_scale",
        "prob_scale", "k_zero_point", "v_zero_point", "kv_cache_scaling_factor",
        "scaled_fp8"};
    const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (strcmp(last, ends[i]) == 0) return 1;
    return 0;
}

/* Scales of inputs and caches go with the quantization that they were made for. */
static void drop_scales(const request *q, kf_decisions *all)
{
    size_t decoded = 0;
    for (size_t i = 0; i < all->count; i++) decoded += is_decoded(&all->item[i]) ? 1 : 0;
    for (size_t i = 0; decoded && i < all->count; i++) {
        kerf_decision *d = &all->item[i];
        const char *name = d->weight->name;
        const int is_smoothing =
            kerf_is_smoothing(q->source->weights, q->source->reader, d->weight);
        if (d->codec.format || d->weight->codec.format) continue;
        if (!kerf_is_activation_scale(name) && !is_smoothing) continue;
        d->dropped = is_of_all(name) || is_decoded_module(q, all, name);
        if (d->dropped) snprintf(d->reason, sizeof d->reason, "left out with what it scaled");
    }
}

kerf_status kf_decide(const kerf_checkpoint *c, const kerf_select *select, const kerf_rule *rules,
                      size_t count, kerf_codec base, const kerf_layout *layout, kf_decisions *out,
                      kerf_error *err)
{
    static const kerf_select usual = {0};
    request q = {.source = c, .select = select ? select : &usual, .base = base, .layout = layout};
    *out = (kf_decisions){.layout = layout};
    kerf_status s = kf_rules_open(&q.rules, c, q.select, rules, count, err);
    if (s == KERF_OK) s = decide_all(&q, out, err);
    if (s == KERF_OK && out->count && layout != kerf_layout_at(0)) keep_merged(&q, out);
    if (s == KERF_OK && kerf_layout_experts(layout) == KERF_EXPERTS_SINGLE)
        s = check_experts(&q, out, err);
    if (s == KERF_OK && out->count) drop_scales(&q, out);
    kf_rules_close(&q.rules);
    if (s != KERF_OK) kf_decisions_free(out);
    return s;
}

kerf_geometry kf_decision_geometry(const kerf_decision *d)
{
    const kerf_weight as = {.codec = d->codec, .shape = d->weight->shape};
    return kerf_weight_geometry(&as);
}

void kf_decisions_free(kf_decisions *d)
{
    free(d->item);
    *d = (kf_decisions){0};
}
