/* measure.c - this machine as an entry of the registry's form: the speed of its memory becomes
 * facts, products at anchor shapes become fits and tables.
 *
 * Anchors are the shapes at which kernels are timed. Their sizes span what linear layers have, from
 * those that fit a cache to those that do not; times of other shapes are predicted from those
 * around them. */
#include <kerf/measure.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/base.h"

/* Anchors are the four corners of a rectangle and, between them, points that fill it evenly in
 * logarithms, hardly two of them with the same n or k: multiples of the powers of the root of
 * x^3 = x + 1, which spread any number of points about as well as can be. How rows end makes as
 * much difference as how long they are, so ends take turns: multiples of 512, odd multiples of 256,
 * odd multiples of 128. Rows of GGUF's blocks are multiples of 256, and those of 2048 are whole
 * copies of 16 bytes with every type; these take turns with those of 512 and odd ones of 256. A GPU
 * has many, because its kernels decide by the shape how many blocks there are and what comes before
 * x, and anchors with another plan say little. */
typedef struct anchor_plan {
    uint64_t least, most_n, most_k;
    size_t count; /* without the corners */
} anchor_plan;

static const anchor_plan cpu_anchors = {1024, 8192, 8192, 20};
static const anchor_plan gpu_anchors = {1024, 32768, 16384, 196};

enum { CORNERS = 4, MOST_ANCHORS = CORNERS + 196 };

/* Kinds of formats, each with anchors of its own. */
enum { PLANES, BLOCKS, KINDS };

static int kind_of(const kerf_format *f)
{
    return f->geometry == KERF_GROUP_STRUCT || f->geometry == KERF_GROUP_SUPER ? BLOCKS : PLANES;
}

/* From `least` to `most` by a share in [0, 1), an odd multiple of step, or any if `odd` is 0. */
static uint64_t spread_size(uint64_t least, uint64_t most, double share, uint64_t step, int odd)
{
    double size = (double)least * pow((double)most / (double)least, share);
    if (!odd) return (uint64_t)(size / (double)step + 0.5) * step;
    uint64_t x = ((uint64_t)(size / (double)step) / 2 * 2 + 1) * step;
    return x > most ? x - 2 * step : x;
}

static size_t list_anchors(const anchor_plan *p, int kind, kerf_weight_shape out[MOST_ANCHORS])
{
    static const uint64_t steps[KINDS][3] = {{512, 256, 128}, {2048, 512, 256}};
    static const int odd[KINDS][3] = {{0, 1, 1}, {0, 0, 1}};
    const double root = 1.324717957244746;
    for (size_t i = 0; i < CORNERS; i++) {
        out[i].n = i / 2 ? p->most_n : p->least;
        out[i].k = i % 2 ? p->most_k : p->least;
    }
    for (size_t i = 1; i <= p->count; i++) {
        double u = fmod(0.5 + (double)i / root, 1), v = fmod(0.5 + (double)i / (root * root), 1);
        kerf_weight_shape *w = &out[CORNERS + i - 1];
        w->n = spread_size(p->least, p->most_n, u, 32, 0);
        w->k = spread_size(p->least, p->most_k, v, steps[kind][i % 3], odd[kind][i % 3]);
    }
    return CORNERS + p->count;
}

static int is_on_gpu(const kerf_measure_request *r)
{
    return r->timer.exec && r->timer.exec->device;
}

/* Finds the tuning of a GPU. */
static kerf_status take_tuning(const kerf_measure_request *r, const kerf_job *job,
                               kerf_gemv_tuning *out, kerf_error *err)
{
    kerf_gemv_timer *timer = NULL;
    kerf_gemv_tuned *tuned = NULL;
    KF_TRY(kf_allocate(&tuned, 1, sizeof *tuned, err));
    kerf_status s = kerf_gemv_timer_open(&r->timer, job, &timer, err);
    if (s == KERF_OK) s = kerf_gemv_tune(timer, tuned, err);
    *out = tuned->tuning;
    kerf_gemv_timer_close(timer);
    free(tuned);
    return s;
}

/* Times of one kind of formats at its anchors, or of all formats, as the first kind, at the shapes
 * of the request. tuning: of the plans; NULL: none. *out is NULL where there is no such format. */
static kerf_status take_kind(const kerf_measure_request *r, const kerf_job *job,
                             const kerf_gemv_tuning *tuning, int kind, kerf_gemv_times **out,
                             kerf_error *err)
{
    kerf_weight_shape anchors[MOST_ANCHORS];
    const kerf_format **format = NULL;
    kerf_measure_request some = *r;
    some.timer.chains_only = 1;
    some.timer.tuning = tuning;
    if (r->shapes == 0) {
        some.shapes = list_anchors(is_on_gpu(r) ? &gpu_anchors : &cpu_anchors, kind, anchors);
        some.shape = anchors;
    }
    KF_TRY(kf_allocate(&format, r->formats, sizeof *format, err));
    some.format = format;
    some.formats = 0;
    for (size_t i = 0; i < r->formats; i++)
        if (kind == (r->shapes ? PLANES : kind_of(r->format[i])))
            format[some.formats++] = r->format[i];
    const int has_any = some.formats > 0 || (r->formats == 0 && kind == PLANES);
    const kerf_status s = has_any ? kerf_measure_gemv(&some, job, out, err) : KERF_OK;
    free(format);
    return s;
}

static void free_times(kerf_gemv_times *t[KINDS])
{
    for (int i = 0; i < KINDS; i++) kerf_gemv_times_free(t[i]);
}

static kerf_status take_times(const kerf_measure_request *r, const kerf_job *job,
                              const kerf_gemv_tuning *tuning, kerf_gemv_times *out[KINDS],
                              kerf_error *err)
{
    kerf_status s = KERF_OK;
    for (int i = 0; i < KINDS && s == KERF_OK; i++) s = take_kind(r, job, tuning, i, &out[i], err);
    if (s != KERF_OK) free_times(out);
    return s;
}

/* --- the machine --------------------------------------------------------------------------- */

/* What is known of the machine, in texts of its own: see kerf_hardware. */
typedef struct description {
    kerf_hardware hardware;
    char title[96], arch[16], source[128], date[16];
} description;

static void set_fact(description *d, kerf_fact_id id, double value)
{
    d->hardware.fact[id] = (kerf_fact){.value = value, .source = d->source, .date = d->date};
}

static void describe(description *d, const kerf_gemv_times *t)
{
    const kerf_device_info *gpu = &t->device;
    time_t now = time(NULL);
    struct tm day;
    gmtime_r(&now, &day);
    strftime(d->date, sizeof d->date, "%Y-%m", &day);
    d->hardware = (kerf_hardware){.name = "this-machine",
                                  .title = d->title,
                                  .kind = "cpu",
                                  .arch = d->arch,
                                  .native = "fp32",
                                  .note = "bandwidth is what a stream reads"};
    if (!gpu->name[0]) {
        snprintf(d->title, sizeof d->title, "%s", t->processor);
        snprintf(d->source, sizeof d->source, "kerf hardware --measure on %.60s, %d threads",
                 d->title, t->threads);
        return;
    }
    snprintf(d->title, sizeof d->title, "%.90s", gpu->name);
    snprintf(d->arch, sizeof d->arch, "sm_%d%d", gpu->compute_major, gpu->compute_minor);
    snprintf(d->source, sizeof d->source, "kerf hardware --measure --device cuda on %.60s",
             d->title);
    d->hardware.kind = "gpu";
    d->hardware.native = "";
    set_fact(d, KERF_FACT_MEMORY, (double)gpu->memory_bytes * 1e-9);
    set_fact(d, KERF_FACT_L2, (double)gpu->l2_bytes * 1e-6);
    set_fact(d, KERF_FACT_SMS, gpu->multiprocessors);
}

static void add_times(const kerf_gemv_times *t, kerf_timing *out, size_t *count)
{
    for (size_t i = 0; t && i < t->count; i++) {
        const kerf_gemv_time *g = &t->time[i];
        out[(*count)++] = (kerf_timing){
            .us = g->us,
            .product = {
                .format = g->format, .n = g->rows, .k = g->cols, .rows = (double)g->columns}};
    }
}

static kerf_status make_machine(kerf_gemv_times *const all[KINDS], const kerf_hardware *base,
                                const kerf_gemv_tuning *tuning, kerf_hardware **out,
                                kerf_error *err)
{
    description d = {.title = ""};
    kerf_timing *times = NULL;
    const kerf_gemv_times *t = all[PLANES] ? all[PLANES] : all[BLOCKS]; /* of the machine */
    uint64_t most = 0;
    size_t count = 0;
    for (int i = 0; i < KINDS; i++) most += all[i] ? all[i]->count : 0;
    KF_TRY(kf_allocate(&times, most, sizeof *times, err));
    for (int i = 0; i < KINDS; i++) add_times(all[i], times, &count);
    describe(&d, t);
    if (base) d.hardware = *base;
    if (!base) set_fact(&d, KERF_FACT_BANDWIDTH, t->stream_gbps);
    set_fact(&d, KERF_FACT_STREAM, t->stream_gbps);
    set_fact(&d, KERF_FACT_COPY, t->copy_gbps);
    d.hardware.tuning = tuning;
    d.hardware.tuning_source = d.source;
    d.hardware.tuning_date = d.date;
    kerf_status s =
        kerf_hardware_with_times(&d.hardware, times, count, "kerf hardware --measure", out, err);
    free(times);
    return s;
}

kerf_status kerf_measure_machine(const kerf_measure_request *r, const kerf_hardware *base,
                                 const kerf_job *job, kerf_hardware **out, kerf_error *err)
{
    kerf_gemv_times *t[KINDS] = {NULL};
    kerf_gemv_tuning tuning;
    const kerf_gemv_tuning *by = is_on_gpu(r) ? &tuning : NULL;
    *out = NULL;
    if (by) KF_TRY(take_tuning(r, job, &tuning, err));
    KF_TRY(take_times(r, job, by, t, err));
    kerf_status s = make_machine(t, base, by, out, err);
    free_times(t);
    return s;
}
