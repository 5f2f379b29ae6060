/* measure_energy.c - does one product again and again while a meter counts.
 *
 * Joules of a product are its share of the power between two steps of the counter: so the ends of
 * the measurement, where the counter lags, have no part in it. */
#include "machine/measure_energy.h"

#include <math.h>
#include <string.h>

#include "base/base.h"

enum { LEAST_S = 2 };

/* The GPU that the request works on, by its number: as with every program that shows and hides
 * GPUs, the numbers of driver and runtime agree where CUDA_VISIBLE_DEVICES is not set. Without a
 * GPU: all processors. */
static int counts(const kerf_measure_request *r, const kerf_source_energy *e)
{
    const kerf_exec *exec = r->timer.exec;
    if (!exec || !exec->device) return !e->is_gpu;
    return e->is_gpu && (int)e->index == kerf_device_ordinal(exec->device);
}

static kerf_status sum_up(const kerf_measure_request *r, const kerf_energy *all,
                          kerf_product_energy *out, kerf_error *err)
{
    size_t found = 0;
    out->seconds = all->seconds;
    out->peak_w = out->step_s = NAN;
    for (size_t i = 0; i < all->count; i++) {
        const kerf_source_energy *e = &all->source[i];
        const double watts = isnan(e->steady_w) ? e->average_w : e->steady_w;
        if (!counts(r, e) || isnan(watts)) continue;
        found++;
        out->watts += watts;
        if (!isnan(e->peak_w))
            out->peak_w = isnan(out->peak_w) ? e->peak_w : out->peak_w + e->peak_w;
        if (!(out->step_s > e->step_s)) out->step_s = e->step_s;
    }
    if (found) return KERF_OK;
    return kf_fail(
        err, KERF_E_CUDA, KF_NOWHERE,
        "what computes here tells neither energy nor power; kerf monitor shows what does");
}

static double seconds_of(const kerf_measure_request *r)
{
    return r->energy_s > 0 ? r->energy_s : LEAST_S;
}

kerf_status kf_measure_idle(const kerf_measure_request *r, double *watts, kerf_error *err)
{
    kerf_product_energy e = {0};
    kerf_energy all;
    KF_TRY(kerf_meter_idle(r->monitor, seconds_of(r), &all, err));
    KF_TRY(sum_up(r, &all, &e, err));
    *watts = e.watts;
    return KERF_OK;
}

typedef struct metering {
    kerf_monitor *monitor;
    kerf_meter *meter;
    kerf_energy energy;
    kerf_status status;
    kerf_error *err;
} metering;

static void around(void *ctx, int begins)
{
    metering *m = ctx;
    if (begins)
        m->status = kerf_meter_begin(m->monitor, 0, &m->meter, m->err);
    else
        kerf_meter_end(m->meter, &m->energy);
}

kerf_status kf_measure_energy(const kerf_measure_request *r, kerf_gemv_timer *timer,
                              const kerf_gemv_time *product, kerf_product_energy *out,
                              kerf_error *err)
{
    metering m = {.monitor = r->monitor, .err = err};
    const kerf_hold hold = {.seconds = seconds_of(r), .around = around, .ctx = &m};
    uint64_t calls = 0;
    memset(out, 0, sizeof *out);
    KF_TRY(kerf_gemv_timer_hold(timer, product->format, product->rows, product->cols,
                                product->columns, &hold, &calls, err));
    KF_TRY(m.status);
    KF_TRY(sum_up(r, &m.energy, out, err));
    out->joules = out->watts * out->seconds / (double)calls;
    return KERF_OK;
}
