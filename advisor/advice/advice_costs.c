/* advice_costs.c - error, bytes and time of every candidate for every group. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advice/advice.h"

/* The plain format of a source type: what a kept tensor is read as. */
static const kerf_format *source_format(kerf_dtype t)
{
    return kerf_format_find(t == KERF_F32 ? "fp32" : t == KERF_F16 ? "fp16" : "bf16");
}

static double figure_of(const kerf_advice_tensor *t, const kerf_score *s)
{
    double weighted = kerf_score_weighted_t2(s);
    /* alpha was measured with errors that are alike in all columns: what an error costs is that of
     * the output against theirs, not against the output's own size */
    if (t->input > 0 && s->weighted_signal > 0 && s->signal > 0)
        return s->weighted_noise / (t->input * s->signal);
    /* an outlier must not hide what it costs the others */
    const double t2 = fmax(kerf_score_t2(s), kerf_score_rest_t2(s));
    return isnan(weighted) ? t2 : weighted;
}

/* --- time ---------------------------------------------------------------------------------- */

static kerf_status time_group(kerf_advice *a, const kerf_advice_group *g, const kerf_format *f,
                              kerf_advice_cost *out, kerf_error *err)
{
    out->us = out->low_us = out->high_us = 0;
    for (size_t i = 0; i < g->shapes; i++) {
        const kerf_advice_shape *s = &g->shape[i];
        kerf_matmul m = {.format = f, .n = s->n, .k = s->k, .rows = a->batch, .matrices = 1};
        kerf_prediction p;
        if (s->matrices > 1) {
            double active = a->has_model && a->model.experts_active
                                ? (double)a->model.experts_active
                                : s->matrices;
            const double share = a->expert_parallel ? a->gpus : 1;
            m.rows = a->batch * active / share;
            m.matrices = kerf_expected_experts(s->matrices, active, a->batch) / share;
        }
        KF_TRY(kerf_predict(a->hardware, &m, &p, err));
        out->us += p.us;
        out->low_us += p.low_us;
        out->high_us += p.high_us;
        if (p.tier < a->tier) a->tier = p.tier;
    }
    return KERF_OK;
}

static kerf_status time_candidates(kerf_advice *a, kerf_advice_group *g, kerf_error *err)
{
    kerf_dtype source = a->tensor[g->member[0]].weight->dtype;
    for (size_t c = 0; c <= a->codecs; c++) {
        if (!g->cost[c].possible) continue;
        const kerf_format *f = c < a->codecs ? a->codec[c].format : source_format(source);
        KF_TRY(time_group(a, g, f, &g->cost[c], err));
    }
    return KERF_OK;
}

/* Whether a candidate group is the model's head, so that the plan's own must not be counted. */
static int head_is_candidate(const kerf_advice *a)
{
    for (size_t t = 0; t < a->tensors; t++) {
        const kerf_role role = a->tensor[t].weight->place.role;
        if (role == KERF_ROLE_HEAD || (a->model.tied && role == KERF_ROLE_EMBEDDING)) return 1;
    }
    return 0;
}

/* Attention, norms, activations, router and a kept head: what a step costs besides the groups. */
static kerf_status time_others(kerf_advice *a, kerf_error *err)
{
    kerf_formats formats = {0};
    kerf_phase phase = {a->batch, a->context, 0};
    struct {
        kerf_model model;
        kerf_step step;
    } *of_one = NULL; /* GPU */
    if (!a->has_model) return KERF_OK;
    KF_TRY(kf_allocate(&of_one, 1, sizeof *of_one, err));
    kerf_step *step = &of_one->step;
    kerf_status s = kerf_model_shard(&a->model, a->gpus, a->expert_parallel, &of_one->model, err);
    if (s == KERF_OK) s = kerf_model_plan(&of_one->model, a->hardware, &formats, &phase, step, err);
    int head = head_is_candidate(a);
    for (size_t i = 0; s == KERF_OK && i < step->ops; i++) {
        const kerf_operator *op = &step->op[i];
        int other = op->work.weights == 0 || strcmp(op->name, "router") == 0 ||
                    (!head && strcmp(op->name, "lm_head") == 0);
        if (!other) continue;
        a->other_us += op->count * op->time.us;
        a->other_low_us += op->count * op->time.low_us;
        a->other_high_us += op->count * op->time.high_us;
        if (op->time.tier < a->tier) a->tier = op->time.tier;
    }
    free(of_one);
    return s;
}

/* --- all ----------------------------------------------------------------------------------- */

/* A format whose range ends below a weight makes Inf of it: errors leave such elements out, and the
 * format would seem to lose nothing. */
static void drop_overflowing(const kerf_advice *a, kerf_advice_group *g)
{
    for (size_t m = 0; m < g->members; m++)
        for (size_t c = 0; c < a->codecs; c++)
            if (a->tensor[g->member[m]].score[c].nonfinite) g->cost[c].possible = 0;
}

static void cost_group(kerf_advice *a, kerf_advice_group *g)
{
    kerf_advice_cost *keep = &g->cost[a->codecs];
    keep->possible = 1;
    drop_overflowing(a, g);
    for (size_t m = 0; m < g->members; m++) {
        const kerf_advice_tensor *t = &a->tensor[g->member[m]];
        keep->bytes += (double)kerf_weight_kept_bytes(t->weight, a->layout);
        for (size_t c = 0; c < a->codecs; c++) {
            if (!g->cost[c].possible) continue;
            g->cost[c].bytes += (double)t->score[c].bytes;
            g->cost[c].t2 += t->alpha * figure_of(t, &t->score[c]);
        }
    }
}

kerf_status kf_advice_find_costs(const kf_advising *w, kerf_error *err)
{
    kerf_advice *a = w->advice;
    a->tier = KERF_TIER_TABLE;
    for (size_t i = 0; i < a->groups; i++) {
        cost_group(a, &a->group[i]);
        if (a->hardware) KF_TRY(time_candidates(a, &a->group[i], err));
    }
    return a->hardware ? time_others(a, err) : KERF_OK;
}

/* --- what others ask of them ---------------------------------------------------------------- */

char *kerf_advice_codec_name(const kerf_advice *a, size_t c, char *out)
{
    if (c < a->codecs) return kerf_codec_name(a->codec[c], out, 64);
    snprintf(out, 64, "keep");
    return out;
}

double kerf_advice_bits(const kerf_advice_group *g, size_t candidate)
{
    return g->elements > 0 ? 8 * g->cost[candidate].bytes / g->elements : 0;
}

static void add_point(kerf_advice_point *p, const kerf_advice_cost *c)
{
    p->bytes += c->bytes;
    p->t2 += c->t2;
    p->us += c->us;
    p->low_us += c->low_us;
    p->high_us += c->high_us;
}

kerf_advice_point kf_advice_point_of(const kerf_advice *a, const size_t *candidate,
                                     const size_t *pick)
{
    kerf_advice_point p = {0};
    for (size_t i = 0; i < a->groups; i++) add_point(&p, &a->group[i].cost[candidate[pick[i]]]);
    p.bits = a->elements > 0 ? 8 * p.bytes / a->elements : 0;
    return p;
}

kerf_advice_point kerf_advice_total(const kerf_advice *a)
{
    kerf_advice_point p = {0};
    for (size_t i = 0; i < a->groups; i++) add_point(&p, &a->group[i].cost[a->group[i].pick]);
    p.bits = a->elements > 0 ? 8 * p.bytes / a->elements : 0;
    return p;
}

kerf_advice_point kerf_advice_uniform(const kerf_advice *a, size_t candidate)
{
    kerf_advice_point p = {0};
    for (size_t i = 0; i < a->groups; i++) {
        size_t c = a->group[i].cost[candidate].possible ? candidate : a->codecs;
        add_point(&p, &a->group[i].cost[c]);
    }
    p.bits = a->elements > 0 ? 8 * p.bytes / a->elements : 0;
    return p;
}
