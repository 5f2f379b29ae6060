/* calibrate.c - measures this machine into an entry of the registry's form: streams become facts,
 * products at anchor shapes fits and tables.
 *
 * The anchors' sizes span what linear layers have, from those that fit a cache to those that do
 * not; predictions of shapes between them are read off those around. */
#include "machine/measure.h"
#include "base/base.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/machine.h"

/* Anchors are the corners of the rectangle that they speak for, and between them points that fill
 * it evenly in logarithms, hardly two of them with the same n or k: multiples of the powers of the
 * root of x^3 = x + 1, of which any number is spread about as well as it can be. How rows end makes
 * as much difference as how long they are, so ends are dealt out in turn: multiples of 512, odd
 * multiples of 256, odd multiples of 128. So many, because kernels decide by a shape how many
 * blocks there are and what comes before x, and anchors of another plan say little. */
typedef struct anchor_plan {
    uint64_t least, most_n, most_k;
    int count; /* without the corners */
} anchor_plan;

static const anchor_plan cpu_anchors = {1024, 8192, 8192, 20};
static const anchor_plan gpu_anchors = {1024, 32768, 16384, 196};

enum { ANCHORS_TEXT = 4096 };

/* From `least` to `most` by a share in [0, 1), an odd multiple of step, or any if `odd` is 0. */
static uint64_t spread_size(uint64_t least, uint64_t most, double share, uint64_t step, int odd)
{
    double size = (double)least * pow((double)most / (double)least, share);
    if (!odd) return (uint64_t)(size / (double)step + 0.5) * step;
    uint64_t x = ((uint64_t)(size / (double)step) / 2 * 2 + 1) * step;
    return x > most ? x - 2 * step : x;
}

/* "NxK,NxK,..." */
static void list_anchors(const anchor_plan *p, char out[ANCHORS_TEXT])
{
    static const uint64_t steps[] = {512, 256, 128};
    const double root = 1.324717957244746;
    int at = 0;
    for (int i = 0; i < 4; i++) {
        at += snprintf(out + at, (size_t)(ANCHORS_TEXT - at), "%s%llux%llu", i ? "," : "",
                       (unsigned long long)(i / 2 ? p->most_n : p->least),
                       (unsigned long long)(i % 2 ? p->most_k : p->least));
    }
    for (int i = 1; i <= p->count && at < ANCHORS_TEXT; i++) {
        double u = fmod(0.5 + i / root, 1), v = fmod(0.5 + i / (root * root), 1);
        uint64_t n = spread_size(p->least, p->most_n, u, 32, 0);
        uint64_t k = spread_size(p->least, p->most_k, v, steps[i % 3], i % 3 != 0);
        at += snprintf(out + at, (size_t)(ANCHORS_TEXT - at), ",%llux%llu", (unsigned long long)n,
                       (unsigned long long)k);
    }
}

static kerf_status run_sweep(calibration *c, const args *a, kerf_error *err)
{
    char anchors[ANCHORS_TEXT];
    const char *given = args_value(a, "shape"), *device = args_value(a, "device");
    int on_gpu = device && strcmp(device, "cpu") != 0;
    list_anchors(on_gpu ? &gpu_anchors : &cpu_anchors, anchors);
    return gemv_sweep_run(&c->sweep, a, given ? given : anchors, 1, err);
}

static void set_fact(calibration *c, kerf_fact_id id, double value)
{
    c->hardware.fact[id] =
        (kerf_fact){.value = value, .source = c->source, .date = c->kernels.date};
}

static kerf_status take_times(calibration *c, kerf_error *err)
{
    kerf_timing *times = NULL;
    KF_TRY(kf_allocate(&times, c->sweep.count, sizeof *times, err));
    for (size_t i = 0; i < c->sweep.count; i++) times[i] = c->sweep.item[i].time;
    kerf_status s = measured_take(&c->kernels, times, c->sweep.count, &c->hardware,
                                  "kerf hardware --calibrate", err);
    free(times);
    return s;
}

/* The machine that was measured, in its own words. */
static void describe_machine(calibration *c)
{
    const kerf_device_info *d = &c->sweep.device;
    c->hardware = (kerf_hardware){.name = "this-machine",
                                  .title = c->title,
                                  .kind = "cpu",
                                  .arch = "",
                                  .native = "fp32",
                                  .note = "bandwidth is what a stream reads"};
    if (!d->name[0]) {
        processor_name(c->title, sizeof c->title);
        snprintf(c->source, sizeof c->source, "kerf hardware --calibrate on %.60s, %d threads",
                 c->title, c->sweep.timer.exec.threads);
        return;
    }
    snprintf(c->title, sizeof c->title, "%.90s", d->name);
    snprintf(c->arch, sizeof c->arch, "sm_%d%d", d->compute_major, d->compute_minor);
    snprintf(c->source, sizeof c->source, "kerf hardware --calibrate --device cuda on %.60s",
             c->title);
    c->hardware.kind = "gpu";
    c->hardware.arch = c->arch;
    c->hardware.native = "";
    set_fact(c, KERF_FACT_MEMORY, (double)d->memory_bytes * 1e-9);
    set_fact(c, KERF_FACT_L2, (double)d->l2_bytes * 1e-6);
    set_fact(c, KERF_FACT_SMS, d->multiprocessors);
}

kerf_status calibrate(calibration *c, const kerf_hardware *base, const args *a, kerf_error *err)
{
    *c = (calibration){0};
    KF_TRY(run_sweep(c, a, err));
    describe_machine(c);
    if (base) {
        c->hardware = *base;
    } else {
        set_fact(c, KERF_FACT_BANDWIDTH, c->sweep.stream_gbps);
    }
    set_fact(c, KERF_FACT_STREAM, c->sweep.stream_gbps);
    set_fact(c, KERF_FACT_COPY, c->sweep.copy_gbps);
    KF_TRY(take_times(c, err));
    c->hardware.fit = c->kernels.fit;
    c->hardware.fits = c->kernels.fits;
    c->hardware.anchors = c->kernels.anchors;
    c->hardware.tables = c->kernels.tables;
    return KERF_OK;
}

void calibration_close(calibration *c)
{
    measured_close(&c->kernels);
    gemv_sweep_close(&c->sweep);
}
