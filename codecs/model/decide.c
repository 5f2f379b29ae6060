/* decide.c - one decision per weight: what a rule says, what the selection keeps, what the layout
 * of the output can hold. */
#include "model/decide.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/globs.h"
#include "model/select.h"

/* All that a decision rests on. */
typedef struct request {
    const kerf_checkpoint *source;
    const kerf_select *select;
    const kerf_rule *rule;
    size_t rules;
    kf_globs globs; /* of the rules */
    kerf_codec base;
    const kerf_layout *layout;
} request;

static const char *origin_of(const kerf_rule *r)
{
    return r->origin ? r->origin : r->glob;
}

/* The last rule before rule `before` for a weight; a pattern for a stack of experts is one for each
 * of them. */
static size_t last_rule(const request *q, const kerf_weight *w, size_t before)
{
    const size_t own = kf_globs_last(&q->globs, w->name, before);
    const size_t whole = w->whole ? kf_globs_last(&q->globs, w->whole, before) : KF_NO_GLOB;
    if (own == KF_NO_GLOB || whole == KF_NO_GLOB) return own == KF_NO_GLOB ? whole : own;
    return own > whole ? own : whole;
}

/* Sets d->codec by the last rule that matches; *found says whether one did. */
static kerf_status apply_rules(const request *q, kerf_decision *d, int *found, kerf_error *err)
{
    const kerf_weight *w = d->weight;
    const size_t i = last_rule(q, w, q->rules);
    *found = i != KF_NO_GLOB;
    if (!*found) return KERF_OK;
    const kerf_rule *r = &q->rule[i];
    char text[96];
    const char *why = kf_select_obstacle(w, text, sizeof text);
    if (r->codec.format && why) {
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "%.110s: %.200s cannot be quantized: %s",
                       origin_of(r), w->name, why);
    }
    d->codec = r->codec;
    snprintf(d->reason, sizeof d->reason, "%s", origin_of(r));
    return KERF_OK;
}

/* Every rule must match some weight. */
static kerf_status check_rules(const request *q, kerf_error *err)
{
    char *matches = NULL;
    kerf_status s = KERF_OK;
    KF_TRY(kf_allocate(&matches, q->rules, 1, err));
    for (size_t k = 0; k < kerf_weights_count(q->source->weights); k++) {
        const kerf_weight *w = kerf_weights_at(q->source->weights, k);
        for (size_t i = q->rules; (i = last_rule(q, w, i)) != KF_NO_GLOB;) matches[i] = 1;
    }
    for (size_t i = 0; i < q->rules && s == KERF_OK; i++)
        if (!matches[i]) s = kf_glob_check(q->source, origin_of(&q->rule[i]), q->rule[i].glob, err);
    free(matches);
    return s;
}

static kerf_status decide_one(const request *q, kerf_decision *d, kerf_error *err)
{
    char text[96];
    int found = 0;
    KF_TRY(apply_rules(q, d, &found, err));
    if (found) return KERF_OK;
    const char *why = kf_select_reason(q->select, d->weight, text, sizeof text);
    if (!why && !q->base.format) why = "not in the recipe";
    if (why)
        snprintf(d->reason, sizeof d->reason, "%s", why);
    else
        d->codec = q->base;
    return KERF_OK;
}

/* What the layout of the output has no place for is kept, unless a rule asks for it by name. */
static kerf_status fit_layout(const request *q, kerf_decision *d, kerf_error *err)
{
    kerf_error why = {.text = ""};
    const kerf_weight *w = d->weight;
    if (w->codec.format && w->layout != q->layout) {
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "%.200s is quantized already, in layout %s: convert it first, or ask for "
                       "--layout %s",
                       w->name, w->layout->name, w->layout->name);
    }
    if (!d->codec.format || q->layout == kerf_layout_at(0)) return KERF_OK;
    KF_TRY(kerf_layout_check(q->layout, d->codec.format, err));
    if (kerf_layout_check_tensor(q->layout, d->codec.format, w->name, &w->shape, &why) == KERF_OK) {
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
static kerf_status check_names(const request *q, const kerf_decision *d, kerf_error *err)
{
    char name[KERF_MAX_NAME_BYTES + 32];
    kerf_weight w = *d->weight;
    kerf_entry entry;
    kerf_plane_id plane;
    w.codec = d->codec;
    w.geometry = d->geometry;
    for (size_t i = 0; kerf_layout_entry(q->layout, &w, i, name, sizeof name, &entry, &plane);
         i++) {
        if (strcmp(name, w.name) != 0 && kerf_reader_find(q->source->reader, name)) {
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
    KF_TRY(check_rules(q, err));
    KF_TRY(kf_select_check(q->source, q->select, err));
    size_t count = kerf_weights_count(q->source->weights);
    KF_TRY(kf_allocate(&out->item, count, sizeof *out->item, err));
    for (; out->count < count; out->count++) {
        kerf_decision *d = &out->item[out->count];
        d->weight = kerf_weights_at(q->source->weights, out->count);
        KF_TRY(decide_one(q, d, err));
        KF_TRY(fit_layout(q, d, err));
        if (!d->codec.format) continue;
        const kerf_shape *shape = &d->weight->shape;
        kerf_status s = kerf_codec_check(d->codec, shape, d->weight->dtype, err);
        if (s == KERF_OK) s = kerf_geometry_init(&d->geometry, d->codec.format, shape, err);
        if (s != KERF_OK) return kf_fail_at(err, s, d->weight->name);
        KF_TRY(check_names(q, d, err));
        out->quantized++;
    }
    return KERF_OK;
}

kerf_status kf_decide(const kerf_checkpoint *c, const kerf_select *select, const kerf_rule *rules,
                      size_t count, kerf_codec base, const kerf_layout *layout, kf_decisions *out,
                      kerf_error *err)
{
    static const kerf_select usual = {0};
    request q = {.source = c,
                 .select = select ? select : &usual,
                 .rule = rules,
                 .rules = count,
                 .base = base,
                 .layout = layout};
    *out = (kf_decisions){0};
    kerf_status s = kf_globs_open(&q.globs, rules, count, sizeof *rules, err);
    if (s == KERF_OK) s = decide_all(&q, out, err);
    kf_globs_close(&q.globs);
    if (s != KERF_OK) kf_decisions_free(out);
    return s;
}

void kf_decisions_free(kf_decisions *d)
{
    free(d->item);
    *d = (kf_decisions){0};
}
