/* outlooks.c - many predictions: every shape x batch x format of products, every batch x format of
 * a model's steps. */
#include <kerf/predictions.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"

/* --- matrix products ----------------------------------------------------------------------- */

static kerf_status predict_product(const kerf_products_request *r, kerf_product_outlook *o,
                                   kerf_error *err)
{
    kerf_matmul m = {.format = o->format,
                     .activations = r->activations,
                     .n = o->shape.n,
                     .k = o->shape.k,
                     .rows = (double)o->batch * r->matrices,
                     .matrices = r->matrices};
    KF_TRY(kerf_matmul_work(r->hardware, &m, &o->work, err));
    KF_TRY(kerf_predict(r->hardware, &m, &o->time, err));
    o->speedup = 1;
    if (o->format->id == KERF_FORMAT_BF16) return KERF_OK;
    kerf_prediction bf16;
    m.format = kerf_format_find("bf16");
    m.activations = NULL;
    KF_TRY(kerf_predict(r->hardware, &m, &bf16, err));
    o->speedup = bf16.us / o->time.us;
    return KERF_OK;
}

/* Of many shapes, the one that cannot be is named. */
static kerf_status name_shape(kerf_status s, kerf_weight_shape shape, kerf_error *err)
{
    char where[64];
    snprintf(where, sizeof where, "product %llux%llu", (unsigned long long)shape.n,
             (unsigned long long)shape.k);
    return s == KERF_OK ? s : kf_fail_at(err, s, where);
}

static kerf_status fill_products(kerf_product_outlooks *all, kerf_error *err)
{
    const kerf_products_request *r = &all->request;
    uint64_t count = 0;
    if (!kf_mul_ok(r->shapes, r->batches, &count) || !kf_mul_ok(count, r->formats, &count))
        return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE, "more products than can be counted");
    KF_TRY(kf_allocate(&all->row, count, sizeof *all->row, err));
    for (; all->rows < count; all->rows++) {
        kerf_product_outlook *o = &all->row[all->rows];
        o->format = r->format[all->rows % r->formats];
        o->batch = r->batch[all->rows / r->formats % r->batches];
        o->shape = r->shape[all->rows / r->formats / r->batches];
        KF_TRY(name_shape(predict_product(r, o, err), o->shape, err));
    }
    return KERF_OK;
}

kerf_status kerf_predict_products(const kerf_products_request *r, kerf_product_outlooks **out,
                                  kerf_error *err)
{
    kerf_product_outlooks *all = NULL;
    *out = NULL;
    KF_TRY(kf_allocate(&all, 1, sizeof *all, err));
    all->request = *r;
    if (!(r->matrices > 0)) all->request.matrices = 1;
    const kerf_status s = fill_products(all, err);
    if (s == KERF_OK)
        *out = all;
    else
        kerf_product_outlooks_free(all);
    return s;
}

void kerf_product_outlooks_free(kerf_product_outlooks *o)
{
    if (!o) return;
    free(o->row);
    free(o);
}

/* --- steps of a model ---------------------------------------------------------------------- */

static kerf_status predict_step(const kerf_steps_request *r, const kerf_model *of_one,
                                kerf_step_outlook *o, kerf_error *err)
{
    kerf_formats formats = r->others;
    const kerf_phase phase = {o->batch, r->context, r->prefill};
    const double memory = r->hardware->fact[KERF_FACT_MEMORY].value * 1e9;
    double gpu_cache;
    formats.linear = o->format;
    KF_TRY(kerf_model_bytes(r->model, &formats, &o->weight_bytes, err));
    KF_TRY(kerf_model_cache_bytes(r->model, formats.kv, r->context, &o->cache_bytes, err));
    o->cache_bytes *= o->batch;
    KF_TRY(kerf_model_bytes(of_one, &formats, &o->gpu_bytes, err));
    KF_TRY(kerf_model_cache_bytes(of_one, formats.kv, r->context, &gpu_cache, err));
    o->gpu_bytes += gpu_cache * o->batch;
    o->fits = memory > 0 ? o->gpu_bytes <= memory : -1;
    KF_TRY(kerf_model_crossover(r->model, &formats, o->batch, &o->crossover, err));
    return kerf_model_plan(of_one, r->hardware, &formats, &phase, &o->step, err);
}

static kerf_status fill_steps(kerf_step_outlooks *all, kerf_model *of_one, kerf_error *err)
{
    const kerf_steps_request *r = &all->request;
    uint64_t count = 0;
    KF_TRY(kerf_model_shard(r->model, r->gpus, r->expert_parallel, of_one, err));
    if (!kf_mul_ok(r->batches, r->formats, &count))
        return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE, "more steps than can be counted");
    KF_TRY(kf_allocate(&all->row, count, sizeof *all->row, err));
    for (; all->rows < count; all->rows++) {
        all->row[all->rows].format = r->format[all->rows % r->formats];
        all->row[all->rows].batch = r->batch[all->rows / r->formats];
        KF_TRY(predict_step(r, of_one, &all->row[all->rows], err));
    }
    return KERF_OK;
}

kerf_status kerf_predict_steps(const kerf_steps_request *r, kerf_step_outlooks **out,
                               kerf_error *err)
{
    kerf_step_outlooks *all = NULL;
    kerf_model *of_one = NULL; /* GPU; a model is large */
    *out = NULL;
    KF_TRY(kf_allocate(&of_one, 1, sizeof *of_one, err));
    kerf_status s = kf_allocate(&all, 1, sizeof *all, err);
    if (s == KERF_OK) {
        all->request = *r;
        if (!(r->context > 0)) all->request.context = 4096;
        if (r->gpus == 0) all->request.gpus = 1;
        s = fill_steps(all, of_one, err);
    }
    free(of_one);
    if (s == KERF_OK)
        *out = all;
    else
        kerf_step_outlooks_free(all);
    return s;
}

void kerf_step_outlooks_free(kerf_step_outlooks *o)
{
    if (!o) return;
    free(o->row);
    free(o);
}
