/* calibrate.c - measures this machine into an entry of the registry's form: streams become facts,
 * products at anchor shapes fits and tables.
 *
 * The anchors are a grid, so that shapes between them are interpolated; their sizes span what
 * linear layers have, from those that fit a cache to those that do not. */
#include "calibrate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"

/* On a GPU time does not grow evenly with outputs, for they are dealt to multiprocessors: more of
 * them. Sizes end with 0. */
static const uint64_t cpu_n[] = {1024, 2048, 4096, 8192, 0};
static const uint64_t cpu_k[] = {1024, 2048, 4096, 8192, 0};
static const uint64_t gpu_n[] = {1024, 1536, 2048,  2304,  3072,  4096,  5120,
                                 6144, 8192, 12288, 16384, 24576, 32768, 0};
static const uint64_t gpu_k[] = {1024, 2048, 4096, 8192, 16384, 0};
enum { ANCHORS_TEXT = 2048 };

/* "NxK,NxK,...": every n with every k. */
static void list_anchors(const uint64_t *n, const uint64_t *k, char out[ANCHORS_TEXT])
{
    size_t at = 0;
    for (const uint64_t *row = n; *row; row++) {
        for (const uint64_t *column = k; *column && at < ANCHORS_TEXT; column++) {
            at += (size_t)snprintf(out + at, ANCHORS_TEXT - at, "%s%llux%llu", at ? "," : "",
                                   (unsigned long long)*row, (unsigned long long)*column);
        }
    }
}

static kerf_status run_sweep(calibration *c, const args *a, kerf_error *err)
{
    char anchors[ANCHORS_TEXT];
    const char *given = args_value(a, "shape"), *device = args_value(a, "device");
    int on_gpu = device && strcmp(device, "cpu") != 0;
    list_anchors(on_gpu ? gpu_n : cpu_n, on_gpu ? gpu_k : cpu_k, anchors);
    return gemv_sweep_run(&c->sweep, a, given ? given : anchors, err);
}

static void set_fact(calibration *c, kerf_fact_id id, double value)
{
    c->hardware.fact[id] =
        (kerf_fact){.value = value, .source = c->source, .date = c->kernels.date};
}

static kerf_status take_times(calibration *c, kerf_error *err)
{
    kerf_timing *times = NULL;
    TRY(allocate(&times, c->sweep.count, sizeof *times, err));
    for (size_t i = 0; i < c->sweep.count; i++) times[i] = c->sweep.item[i].time;
    kerf_status s =
        measured_take(&c->kernels, times, c->sweep.count, c->sweep.device.multiprocessors,
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
    TRY(run_sweep(c, a, err));
    TRY(take_times(c, err));
    describe_machine(c);
    if (base) {
        c->hardware = *base;
    } else {
        set_fact(c, KERF_FACT_BANDWIDTH, c->sweep.stream_gbps);
    }
    set_fact(c, KERF_FACT_STREAM, c->sweep.stream_gbps);
    set_fact(c, KERF_FACT_COPY, c->sweep.copy_gbps);
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
