/* eval_rounding.c - kerf/rounding.h as a watch of a forward pass. */
#include "calibrate/eval_rounding.h"

#include <stdlib.h>

#include "base/base.h"

kerf_status kf_eval_rounding_open(kf_eval_rounding *e, const kerf_checkpoint *c,
                                  const kerf_decoder_info *info, const kerf_exec *exec,
                                  kerf_rounds *out, kerf_error *err)
{
    *e = (kf_eval_rounding){.info = info, .exec = exec};
    KF_TRY(kerf_rounding_open(c, &e->rounding, err));
    kerf_rounding_describe(e->rounding, out);
    if (out->weights || out->cache) return KERF_OK;
    kf_eval_rounding_close(e);
    return KERF_OK;
}

void kf_eval_rounding_close(kf_eval_rounding *e)
{
    kerf_rounding_close(e->rounding);
    free(e->input);
    *e = (kf_eval_rounding){0};
}

static kerf_status replace(void *ctx, const kerf_layer_weight *w, const float *x, uint64_t tokens,
                           const float **y, kerf_error *err)
{
    kf_eval_rounding *e = ctx;
    const uint64_t numbers = tokens * w->cols;
    if (!kerf_rounds_inputs(e->rounding, w->name)) return KERF_OK;
    if (numbers > e->numbers) {
        free(e->input);
        e->numbers = 0;
        KF_TRY(kf_allocate(&e->input, numbers, sizeof *e->input, err));
        e->numbers = numbers;
    }
    *y = e->input;
    return kerf_round_inputs(e->rounding, w->name, x, tokens, w->cols, e->input, e->exec, err);
}

static kerf_status round_cache(void *ctx, uint64_t layer, float *k, float *v, uint64_t tokens,
                               kerf_error *err)
{
    kf_eval_rounding *e = ctx;
    const kerf_layer_weight *w;
    (void)layer;
    for (size_t i = 0; (w = kerf_layer_weight_at(e->layer, i)) != NULL; i++)
        KF_TRY(kerf_round_cache(e->rounding, w->name, k, e->info->key_columns, v,
                                e->info->value_columns, tokens, e->exec, err));
    return KERF_OK;
}

kerf_watch kf_eval_rounding_watch(kf_eval_rounding *e, const kerf_layer *layer)
{
    kerf_rounds about;
    kerf_watch w = {.ctx = e};
    e->layer = layer;
    if (!e->rounding) return w;
    kerf_rounding_describe(e->rounding, &about);
    if (about.weights) w.replace = replace;
    if (about.cache) w.cache = round_cache;
    return w;
}
