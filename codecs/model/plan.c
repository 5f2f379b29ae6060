/* plan.c - decides for all weights, and declares the output: its header is known before a byte of a
 * tensor is read. */
#include "model/plan.h"

#include <stdlib.h>
#include <string.h>

#include <kerf/feedback.h>
#include <kerf/importance.h>

#include "base/base.h"
#include "layout/block_weights.h"
#include "model/arrange_experts.h"
#include "model/not_a_model.h"

int kf_plan_feedback(const kerf_plan *p, const kerf_decision *d)
{
    const kerf_moments *m = p->to.moments;
    if (!m || !d->codec.format) return 0;
    const kerf_geometry g = kf_decision_geometry(d);
    return kerf_feedback_fits(&g) && m->has(m->ctx, d->weight);
}

kerf_weight kf_plan_weight(const kerf_plan *p, const kerf_decision *d)
{
    kerf_weight w = *d->weight;
    if (d->dropped) w = (kerf_weight){.name = ""};
    if (d->decoded) w.codec = (kerf_codec){0};
    if (!d->codec.format) return w;
    w.codec = d->codec;
    w.layout = p->layout;
    w.feedback = kf_plan_feedback(p, d) ? p->to.moments->contents : 0;
    /* other layouts have one order of axes, which their loaders know */
    if (p->layout != kerf_layout_at(0)) w.stored.rank = 0;
    return w;
}

size_t kf_plan_group(const kerf_plan *p, size_t i, size_t out[KERF_FUSED_MOST])
{
    const kerf_weight *member[KERF_FUSED_MOST];
    const kerf_weight *first = p->decided.item[0].weight; /* weights lie in one array */
    size_t n = kerf_fused_group(p->source->weights, p->decided.item[i].weight, member);
    for (size_t k = 0; k < n; k++) out[k] = (size_t)(member[k] - first);
    return n;
}

/* Runtimes that merge layers into one matrix load all of them in one format or none. */
static kerf_status check_groups(const kerf_plan *p, kerf_error *err)
{
    if (p->layout == kerf_layout_at(0)) return KERF_OK;
    for (size_t i = 0; i < p->decided.count; i++) {
        size_t member[KERF_FUSED_MOST], n = kf_plan_group(p, i, member);
        const kerf_decision *one = &p->decided.item[i];
        for (size_t k = 0; k < n; k++) {
            const kerf_decision *other = &p->decided.item[member[k]];
            if (other->codec.format == one->codec.format) continue;
            return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                           "%.150s and %.150s are one matrix to the loaders of layout %s: quantize "
                           "both to one format, or keep both",
                           one->weight->name, other->weight->name, p->layout->name);
        }
    }
    return KERF_OK;
}

/* Encoders that weigh errors need something to weigh them by; where none of them does, an imatrix
 * that was given changes nothing, and that is said. */
static kerf_status check_importance(kerf_plan *p, kerf_error *err)
{
    int is_used = p->to.moments || p->to.inputs.largest || p->to.cached.largest;
    for (size_t i = 0; i < p->decided.count; i++) {
        const kerf_decision *d = &p->decided.item[i];
        const char *format = d->codec.format ? d->codec.format->name : NULL;
        if (!format || !kerf_takes_importance(d->codec.encoder)) continue;
        const kerf_format *asked = d->asked ? d->asked : d->codec.format; /* which people know */
        if (!p->to.imatrix)
            return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                           "%s:%s weighs errors by the importance of columns: give --imatrix FILE, "
                           "or take %s:%s",
                           asked->name, d->codec.encoder->name, asked->name,
                           asked->default_encoder);
        is_used = 1;
        if (kerf_importance_names(p->to.imatrix, d->weight)) continue;
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "%.150s has no entry for %.150s: --tensor '%.100s=%s:%s' takes an encoder "
                       "that needs none",
                       kerf_checkpoint_path(p->to.imatrix), d->weight->name, d->weight->name,
                       format, d->codec.format->default_encoder);
    }
    if (!p->to.imatrix || is_used || !p->decided.quantized) return KERF_OK;
    return kf_notes_unused(&p->notes, &p->decided, err);
}

/* Says how many weights are encoded without error feedback although the plan asks for it. A plan
 * in which all are is refused. */
static kerf_status note_feedback(kerf_plan *p, kerf_error *err)
{
    size_t with = 0, without = 0;
    const kerf_decision *first = NULL;
    const kerf_moments *m = p->to.moments;
    for (size_t i = 0; m && i < p->decided.count; i++) {
        const kerf_decision *d = &p->decided.item[i];
        if (!d->codec.format) continue;
        const int takes = kf_plan_feedback(p, d);
        with += (size_t)takes;
        without += (size_t)!takes;
        if (!takes && !first) first = d;
    }
    if (without && !with && m->has(m->ctx, first->weight))
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "error feedback would change nothing: %.150s, for one, becomes %s",
                       first->weight->name, first->codec.format->name);
    if (without && !with)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "%.150s has no second moments for %.150s that its format can use: kerf "
                       "calibrate --gram makes them; without --feedback none are needed",
                       m->path, first->weight->name);
    return without ? kf_notes_feedback(&p->notes, without, first->weight->name, err) : KERF_OK;
}

/* Blocks that kerf does not decode stay in a GGUF file, or are nowhere. */
static kerf_status check_blocks(const kerf_plan *p, kerf_error *err)
{
    const int is_free = !p->to.path || kf_has_suffix(p->to.path, ".gguf");
    for (size_t i = 0; !is_free && i < p->decided.count; i++) {
        const kerf_decision *d = &p->decided.item[i];
        const char *type = d->codec.format ? NULL : kf_undecoded_type(d->weight);
        if (type)
            return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                           "%.150s: kerf does not decode blocks of type %s, which GGUF alone has a "
                           "place for: -o NAME.gguf leaves them as they are; llama-quantize "
                           "--allow-requantize of llama.cpp makes F16 of them",
                           d->weight->name, type);
    }
    return KERF_OK;
}

static kerf_status declare_item(kerf_plan *p, const kerf_decision *d, const kerf_weight *after,
                                kerf_error *err)
{
    kf_manifest *m = &p->manifest;
    if (d->dropped) return kf_manifest_add_nothing(m, err);
    if (d->decoded) return kf_manifest_add_dense(m, d->weight, d->weight->dtype, err);
    if (!d->codec.format && d->weight->decoded && d->weight->codec.format)
        return kf_manifest_add_stored(m, d->weight, err);
    return kf_manifest_add_weight(m, p->layout, after, err);
}

static kerf_status declare_output(kerf_plan *p, kerf_error *err)
{
    kerf_weight *weights = NULL;
    const size_t count = p->decided.count, all = count + p->made.count;
    KF_TRY(kf_manifest_open(&p->manifest, &p->to, err));
    KF_TRY(kf_allocate(&weights, all, sizeof *weights, err));
    kerf_status s = KERF_OK;
    for (size_t i = 0; i < count && s == KERF_OK; i++) {
        weights[i] = kf_plan_weight(p, &p->decided.item[i]);
        s = declare_item(p, &p->decided.item[i], &weights[i], err);
    }
    for (size_t i = count; i < all && s == KERF_OK; i++) {
        weights[i] = p->made.item[i - count].weight;
        s = kf_manifest_add_weight(&p->manifest, p->layout, &weights[i], err);
    }
    if (s == KERF_OK) {
        s = kf_manifest_describe(&p->manifest, p->source->reader, p->source->path, p->layout,
                                 weights, all, err);
    }
    free(weights);
    return s;
}

static void sum_up(kerf_plan *p)
{
    p->totals = (kerf_totals){.weights = p->decided.count,
                              .quantized = p->decided.quantized,
                              .bytes_out = kf_manifest_bytes(&p->manifest)};
    for (size_t i = 0; i < p->decided.count; i++) {
        p->totals.bytes_in += kerf_weight_bytes(p->decided.item[i].weight);
        p->totals.elements += kerf_weight_elements(p->decided.item[i].weight);
    }
    if (p->decided.quantized == 0) p->totals.bytes_out = p->totals.bytes_in;
}

static kerf_status copy_output(kerf_plan *p, const kerf_output *to, kerf_error *err)
{
    p->to = *to;
    if (!to->path) return KERF_OK;
    p->path = strdup(to->path);
    p->to.path = p->path;
    return p->path ? KERF_OK : kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a plan");
}

/* Experts stand as the layout wants them before anything is decided of them. */
static kerf_status arrange(kerf_plan *p, const kerf_select *select, kerf_error *err)
{
    static const kerf_select usual = {0};
    const int as_gguf =
        p->layout == kerf_layout_find("gguf") && !kerf_reader_is_gguf(p->source->reader);
    if (kerf_layout_experts(p->layout) == KERF_EXPERTS_AS_THEY_ARE && !as_gguf) return KERF_OK;
    KF_TRY(kf_checkpoint_view(p->source, &p->arranged, err));
    p->source = p->arranged;
    return kf_arrange_experts(p->arranged, p->layout, select ? select : &usual, err);
}

static kerf_status make(kerf_plan *p, const kerf_select *select, const kerf_rule *rules,
                        size_t count, kerf_codec base, const kerf_output *to, kerf_error *err)
{
    KF_TRY(copy_output(p, to, err));
    KF_TRY(kf_refuse_source(p->source, err));
    KF_TRY(kf_manifest_layout(p->source->reader, &p->to, &p->layout, err));
    KF_TRY(arrange(p, select, err));
    KF_TRY(kf_decide(p->source, select, rules, count, base, p->layout, &p->decided, err));
    KF_TRY(kf_notes_make(&p->notes, p->source, &p->decided, err));
    KF_TRY(kf_notes_subfolders(&p->notes, p->source->reader, p->to.path, err));
    KF_TRY(check_groups(p, err));
    KF_TRY(check_importance(p, err));
    KF_TRY(note_feedback(p, err));
    KF_TRY(check_blocks(p, err));
    const kf_making making = {p->source->weights, &p->decided, &p->made};
    KF_TRY(kf_make_input_scales(&making, &p->to.inputs, err));
    KF_TRY(kf_make_cache_scales(&making, &p->to.cached, err));
    KF_TRY(kf_notes_made(&p->notes, &p->made, &p->to, err));
    if (p->decided.quantized > 0) KF_TRY(declare_output(p, err));
    if (p->decided.quantized > 0)
        KF_TRY(kf_notes_undeclared(&p->notes, p->source->reader, &p->manifest, p->layout,
                                   p->to.path, err));
    KF_TRY(kf_notes_renamed(&p->notes, p->source, p->layout, err));
    sum_up(p);
    return KERF_OK;
}

static int has_encoder(const kerf_codec *c)
{
    return !c->format || c->encoder;
}

kerf_status kerf_plan_make(const kerf_checkpoint *source, const kerf_select *select,
                           const kerf_rule *rules, size_t rule_count, kerf_codec base,
                           const kerf_output *out, kerf_plan **plan, kerf_error *err)
{
    kerf_plan *p = NULL;
    if (!source || !out || !plan || (rule_count && !rules))
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "kerf_plan_make: an argument is missing");
    *plan = NULL;
    int is_whole = has_encoder(&base);
    for (size_t i = 0; i < rule_count; i++) is_whole = is_whole && has_encoder(&rules[i].codec);
    if (!is_whole)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "kerf_plan_make: a codec has a format and no encoder of it");
    KF_TRY(kf_allocate(&p, 1, sizeof *p, err));
    p->source = source;
    kerf_status s = kf_allocate(&p->found, 1, sizeof *p->found, err);
    if (s == KERF_OK) s = make(p, select, rules, rule_count, base, out, err);
    if (s != KERF_OK) {
        kerf_plan_free(p);
        return s;
    }
    *plan = p;
    return KERF_OK;
}

void kerf_plan_free(kerf_plan *p)
{
    if (!p) return;
    kf_manifest_close(&p->manifest);
    kf_notes_free(&p->notes);
    if (p->found) kf_notes_free(p->found);
    free(p->found);
    kf_made_scales_close(&p->made);
    kf_decisions_free(&p->decided);
    kerf_checkpoint_close(p->arranged);
    free(p->path);
    free(p);
}

const kerf_decision *kerf_plan_at(const kerf_plan *p, size_t i)
{
    return i < p->decided.count ? &p->decided.item[i] : NULL;
}

uint64_t kerf_decision_bytes(const kerf_decision *d)
{
    if (d->dropped) return 0;
    if (d->decoded) return kerf_weight_elements(d->weight) * kerf_dtype_bits(d->weight->dtype) / 8;
    if (d->codec.format) return kf_decision_geometry(d).bytes;
    return d->weight->codec.format ? kerf_weight_bytes(d->weight)
                                   : kerf_weight_kept_bytes(d->weight, NULL);
}

const char *kerf_plan_note(const kerf_plan *p, size_t i)
{
    if (i < p->notes.count) return p->notes.note[i];
    i -= p->notes.count;
    return i < p->found->count ? p->found->note[i] : NULL;
}

void kerf_plan_totals(const kerf_plan *p, kerf_totals *out)
{
    *out = p->totals;
}

const kerf_layout *kerf_plan_layout(const kerf_plan *p)
{
    return p->layout;
}

const kerf_checkpoint *kerf_plan_source(const kerf_plan *p)
{
    return p->source;
}
