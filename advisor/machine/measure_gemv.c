/* measure_gemv.c - runs the timer of matrix-vector products over the lists of a request. */
#include <kerf/measure.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system.h"
#include "base/work.h"
#include "machine/measure_energy.h"

static const unsigned one_column[] = {1};

static const unsigned *batches_of(const kerf_measure_request *r, size_t *count)
{
    *count = r->batches ? r->batches : 1;
    return r->batches ? r->batch : one_column;
}

/* How many products there are, and the elements of all their weights. */
static kerf_status check_request(const kerf_measure_request *r, size_t *products,
                                 uint64_t *elements, kerf_error *err)
{
    size_t batches;
    const unsigned *batch = batches_of(r, &batches);
    uint64_t count = 0, sum = 0;
    if (r->formats == 0 || r->shapes == 0) {
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "nothing to measure: no format or no shape");
    }
    for (size_t i = 0; i < batches; i++) {
        if (batch[i] >= 1 && batch[i] <= KERF_GEMV_COLUMNS) continue;
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "batch %u: matrix-vector kernels have 1 to %d columns", batch[i],
                       KERF_GEMV_COLUMNS);
    }
    int fits = kf_mul_ok(r->formats, batches, &count);
    for (size_t i = 0; fits && i < r->shapes; i++) {
        uint64_t n = 0;
        fits = kf_mul_ok(r->shape[i].n, r->shape[i].k, &n) && kf_add_ok(sum, n, &sum);
    }
    fits = fits && kf_mul_ok(sum, count, elements) && kf_mul_ok(count, r->shapes, &count);
    *products = (size_t)count;
    if (fits) return KERF_OK;
    return kf_fail(err, KERF_E_RANGE, KF_NOWHERE, "more elements than 64 bits can count");
}

static kerf_status time_one(kerf_gemv_timer *timer, const kerf_format *f, kerf_weight_shape w,
                            unsigned columns, kerf_gemv_time *out, kerf_error *err)
{
    KF_TRY(kerf_gemv_timer_run(timer, f, w.n, w.k, columns, out, err));
    if (out->error <= 1e-2) return KERF_OK;
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                   "%s %llux%llu: %s is off by %.2g of rms from the reference; please report this",
                   f->name, (unsigned long long)w.n, (unsigned long long)w.k, out->backend,
                   out->error);
}

static kerf_status time_all(const kerf_measure_request *r, kerf_gemv_timer *timer,
                            kerf_gemv_times *t, kf_work *work, kerf_error *err)
{
    size_t batches;
    const unsigned *batch = batches_of(r, &batches);
    t->threads = kerf_gemv_timer_threads(timer);
    t->trials = kerf_gemv_timer_trials(timer);
    if (r->monitor) KF_TRY(kf_measure_idle(r, &t->idle_w, err));
    KF_TRY(kerf_gemv_timer_rates(timer, &t->stream_gbps, &t->copy_gbps, err));
    for (size_t f = 0; f < r->formats; f++) {
        kf_work_item(work, r->format[f]->name, "timing");
        for (size_t i = 0; i < r->shapes; i++) {
            for (size_t b = 0; b < batches; b++, t->count++) {
                KF_TRY(
                    time_one(timer, r->format[f], r->shape[i], batch[b], &t->time[t->count], err));
                if (r->monitor)
                    KF_TRY(
                        kf_measure_energy(r, timer, &t->time[t->count], &t->energy[t->count], err));
                KF_TRY(kf_work_add(work, r->shape[i].n * r->shape[i].k, err));
            }
        }
    }
    return KERF_OK;
}

static kerf_status measure(const kerf_measure_request *r, kerf_gemv_times *t, kf_work *work,
                           kerf_error *err)
{
    const kerf_exec *exec = r->timer.exec;
    kerf_gemv_timer *timer = NULL;
    const int why = kf_processor_name(t->processor, sizeof t->processor);
    if (why) return kf_fail_errno(err, why, "the name of the processor");
    t->x = r->timer.x ? r->timer.x : KERF_BF16;
    if (exec && exec->device) {
        KF_TRY(kerf_device_describe(kerf_device_ordinal(exec->device), &t->device, err));
    }
    KF_TRY(kerf_gemv_timer_open(&r->timer, work->job, &timer, err));
    kerf_status s = time_all(r, timer, t, work, err);
    kerf_gemv_timer_close(timer);
    return s;
}

kerf_status kerf_measure_gemv(const kerf_measure_request *r, const kerf_job *job,
                              kerf_gemv_times **out, kerf_error *err)
{
    kerf_gemv_times *t = NULL;
    kf_work work;
    size_t products = 0;
    uint64_t elements = 0;
    *out = NULL;
    KF_TRY(check_request(r, &products, &elements, err));
    KF_TRY(kf_allocate(&t, 1, sizeof *t, err));
    kerf_status s = kf_allocate(&t->time, products, sizeof *t->time, err);
    if (s == KERF_OK && r->monitor) s = kf_allocate(&t->energy, products, sizeof *t->energy, err);
    kf_work_open(&work, job);
    work.total = elements;
    if (s == KERF_OK) s = measure(r, t, &work, err);
    kf_work_close(&work);
    if (s == KERF_OK) {
        *out = t;
    } else {
        kerf_gemv_times_free(t);
    }
    return s;
}

void kerf_gemv_times_free(kerf_gemv_times *t)
{
    if (!t) return;
    free(t->time);
    free(t->energy);
    free(t);
}

kerf_status kerf_hardware_tuning(const kerf_hardware *h, const kerf_device_info *gpu,
                                 const kerf_gemv_tuning **out, kerf_error *err)
{
    char arch[32];
    snprintf(arch, sizeof arch, "sm_%d%d", gpu->compute_major, gpu->compute_minor);
    if (!h->tuning)
        return kf_fail(
            err, KERF_E_ARG, KF_NOWHERE,
            "has no tuning; kerf hardware --measure --device cuda >mine.json writes one");
    if (h->arch[0] && strcmp(h->arch, arch) != 0)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "is of an %.16s, and this GPU is an %s",
                       h->arch, arch);
    *out = h->tuning;
    return KERF_OK;
}
