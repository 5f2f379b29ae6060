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

#define ANCHORS                                                                        \
    "1024x1024,1024x2048,1024x4096,1024x8192,2048x1024,2048x2048,2048x4096,2048x8192," \
    "4096x1024,4096x2048,4096x4096,4096x8192,8192x1024,8192x2048,8192x4096,8192x8192"

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
        measured_take(&c->kernels, times, c->sweep.count, "kerf hardware --calibrate", err);
    free(times);
    return s;
}

kerf_status calibrate(calibration *c, const kerf_hardware *base, const args *a, kerf_error *err)
{
    *c = (calibration){0};
    TRY(gemv_sweep_run(&c->sweep, a, ANCHORS, err));
    TRY(take_times(c, err));
    processor_name(c->title, sizeof c->title);
    snprintf(c->source, sizeof c->source, "kerf hardware --calibrate on %.60s, %d threads",
             c->title, c->sweep.timer.exec.threads);
    if (base) {
        c->hardware = *base;
    } else {
        c->hardware = (kerf_hardware){.name = "this-machine",
                                      .title = c->title,
                                      .kind = "cpu",
                                      .arch = "",
                                      .native = "fp32",
                                      .note = "bandwidth is what a stream reads"};
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
