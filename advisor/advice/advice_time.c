/* advice_time.c - how long every candidate of a group would take, and what a step takes besides. */
#include <stdlib.h>
#include <string.h>

#include "advice/advice.h"

/* The plain format of a source type: what a kept tensor is read as. */
static const kerf_format *source_format(kerf_dtype t)
{
    return kerf_format_find(t == KERF_F32 ? "fp32" : t == KERF_F16 ? "fp16" : "bf16");
}

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

/* What of the plan is among the candidates, so that it must not be counted twice. */
static void find_planned(const kerf_advice *a, int *head, int *router)
{
    *head = *router = 0;
    for (size_t t = 0; t < a->tensors; t++) {
        const kerf_weight *w = a->tensor[t].weight;
        *head |= kf_advice_is_head(a, w);
        *router |= w->place.role == KERF_ROLE_ROUTER;
    }
}

/* Attention, norms, activations, and a router and a head that are kept. */
static kerf_status time_others(kerf_advice *a, kerf_error *err)
{
    int head, router;
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
    find_planned(a, &head, &router);
    for (size_t i = 0; s == KERF_OK && i < step->ops; i++) {
        const kerf_operator *op = &step->op[i];
        const int other = op->work.weights == 0 || (!router && strcmp(op->name, "router") == 0) ||
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

/* --- matrices that are kept ---------------------------------------------------------------- */

static int by_address(const void *a, const void *b)
{
    const kerf_weight *const *x = a, *const *y = b;
    return (*x > *y) - (*x < *y);
}

/* What it is multiplied in when nobody chooses: what it is quantized to, where that stays. */
static const kerf_format *kept_format(const kerf_advice *a, const kerf_weight *w)
{
    const int stays = kerf_weight_kept_bytes(w, a->layout) == kerf_weight_bytes(w);
    return w->codec.format && stays ? w->codec.format : source_format(w->dtype);
}

/* Of all weights, the matrices of layers that no format is chosen for. */
static kerf_status take_kept(const kerf_advice *a, const kerf_weights *all, kerf_advice *out,
                             kerf_error *err)
{
    const size_t count = kerf_weights_count(all);
    const kerf_weight **taken = NULL;
    KF_TRY(kf_allocate(&taken, a->tensors, sizeof *taken, err));
    for (size_t t = 0; t < a->tensors; t++) taken[t] = a->tensor[t].weight;
    qsort(taken, a->tensors, sizeof *taken, by_address);
    const kerf_status s = kf_allocate(&out->tensor, count, sizeof *out->tensor, err);
    for (size_t i = 0; s == KERF_OK && i < count; i++) {
        const kerf_weight *w = kerf_weights_at(all, i);
        if (kerf_place_keeps(&w->place) || !kf_advice_is_product(a, w)) continue;
        if (kerf_weight_elements(w) == 0 || strlen(w->name) > KERF_ADVICE_NAME - 20) continue;
        if (bsearch(&w, taken, a->tensors, sizeof *taken, by_address)) continue;
        out->tensor[out->tensors++].weight = w;
    }
    free(taken);
    return s;
}

/* Layers that --keep and --only leave as they are, and what is quantized already, take their time
 * in every step, whatever is chosen for the others. */
static kerf_status time_kept(const kf_advising *w, kerf_advice *kept, kerf_error *err)
{
    kerf_advice *a = w->advice;
    const kerf_weights *all = kerf_checkpoint_weights(w->source);
    KF_TRY(take_kept(a, all, kept, err));
    if (kept->tensors == 0) return KERF_OK;
    KF_TRY(kf_advice_join(kept, all, err));
    for (size_t i = 0; i < kept->groups; i++) {
        const kerf_advice_group *g = &kept->group[i];
        kerf_advice_cost cost = {0};
        KF_TRY(time_group(a, g, kept_format(a, kept->tensor[g->member[0]].weight), &cost, err));
        a->other_us += cost.us;
        a->other_low_us += cost.low_us;
        a->other_high_us += cost.high_us;
    }
    return KERF_OK;
}

kerf_status kf_advice_find_times(const kf_advising *w, kerf_error *err)
{
    kerf_advice *a = w->advice, *kept = NULL;
    for (size_t i = 0; i < a->groups; i++) KF_TRY(time_candidates(a, &a->group[i], err));
    KF_TRY(time_others(a, err));
    KF_TRY(kf_allocate(&kept, 1, sizeof *kept, err));
    kept->model = a->model;
    kept->has_model = a->has_model;
    kept->gpus = a->gpus;
    kept->expert_parallel = a->expert_parallel;
    const kerf_status s = time_kept(w, kept, err);
    kerf_advice_close(kept);
    return s;
}
