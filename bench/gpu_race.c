/* gpu_race.c - see gpu_race.h. */
#include "gpu_race.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

gpu_state race_state;

double race_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void need(cudaError_t e, const char *what)
{
    if (e == cudaSuccess) return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e));
    exit(1);
}

/* --- contestants --------------------------------------------------------------------------------
 */

void race_prepare(racer *r, cudaStream_t s)
{
    cudaGraph_t graph;
    need(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < r->calls && !r->error; i++) r->error = r->call(r->ctx, i, s);
    if (cudaStreamEndCapture(s, &graph) != cudaSuccess) { /* a library that cannot be captured */
        (void)cudaGetLastError();
        if (!r->error) r->error = "cannot be captured";
        return;
    }
    if (!r->error) {
        need(cudaGraphInstantiate(&r->graph, graph, 0), "graph");
        need(cudaGraphUpload(r->graph, s), "graph");
        need(cudaEventCreate(&r->begin), "event");
        need(cudaEventCreate(&r->end), "event");
    }
    need(cudaGraphDestroy(graph), "graph");
}

void race_free(racer *r)
{
    if (!r->graph) return;
    need(cudaGraphExecDestroy(r->graph), "graph");
    need(cudaEventDestroy(r->begin), "event");
    need(cudaEventDestroy(r->end), "event");
    r->graph = NULL;
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void summarize(racer *r)
{
    size_t n = (size_t)r->replays;
    if (!n) return;
    qsort(r->us, n, sizeof r->us[0], by_value);
    r->median = ((double)r->us[n / 2] + (double)r->us[(n - 1) / 2]) / 2;
    r->low = (double)r->us[n / 4];
    r->high = (double)r->us[n - 1 - n / 4];
}

static void round_of(racer *const r[], int n, int counts, cudaStream_t s)
{
    for (int i = 0; i < n; i++) {
        if (!r[i]->graph) continue;
        need(cudaEventRecord(r[i]->begin, s), "event");
        need(cudaGraphLaunch(r[i]->graph, s), "graph");
        need(cudaEventRecord(r[i]->end, s), "event");
        if (counts && i == n * 3 / 4) race_state = gpu_state_now();
    }
    need(cudaStreamSynchronize(s), "a round");
    for (int i = 0; counts && i < n; i++) {
        float ms;
        if (!r[i]->graph) continue;
        need(cudaEventElapsedTime(&ms, r[i]->begin, r[i]->end), "event");
        r[i]->us[r[i]->replays++] = 1000 * ms / (float)r[i]->calls;
    }
}

void race_run(racer *const r[], int n, int warm, int replays, double deadline, cudaStream_t s)
{
    if (replays > RACE_REPLAYS) replays = RACE_REPLAYS;
    for (int i = 0; i < n; i++) r[i]->replays = 0;
    for (int i = 0; i < warm; i++) round_of(r, n, 0, s);
    for (int i = 0; i < replays && (i < 5 || race_now() < deadline); i++) round_of(r, n, 1, s);
    for (int i = 0; i < n; i++) summarize(r[i]);
}

double race_quick(racer *r, cudaStream_t s)
{
    race_prepare(r, s);
    racer *one[] = {r};
    race_run(one, 1, 1, 3, 0, s);
    return r->error ? 1e30 : (double)r->us[0];
}

/* --- clocks and power ---------------------------------------------------------------------------
 */

kerf_monitor *race_monitor(void)
{
    static kerf_monitor *m;
    static int tried;
    kerf_error err;
    if (!tried++ && kerf_monitor_open(NULL, &m, &err) != KERF_OK) fprintf(stderr, "%s\n", err.text);
    return m;
}

gpu_state gpu_state_now(void)
{
    gpu_state s = {0};
    static kerf_sample sample;
    kerf_monitor *m = race_monitor();
    if (!m || kerf_monitor_gpus(m) == 0) return s;
    kerf_monitor_read(m, &sample);
    const double *g = sample.reading[0].gauge;
    if (!isnan(g[KERF_GAUGE_SM_CLOCK])) s.sm_mhz = (unsigned)g[KERF_GAUGE_SM_CLOCK];
    if (!isnan(g[KERF_GAUGE_MEMORY_CLOCK])) s.memory_mhz = (unsigned)g[KERF_GAUGE_MEMORY_CLOCK];
    if (!isnan(g[KERF_GAUGE_TEMPERATURE])) s.temperature_c = (unsigned)g[KERF_GAUGE_TEMPERATURE];
    if (!isnan(g[KERF_GAUGE_POWER])) s.power_w = g[KERF_GAUGE_POWER];
    snprintf(s.driver, sizeof s.driver, "%s", kerf_monitor_driver(m));
    return s;
}

/* --- energy -------------------------------------------------------------------------------------
 */

/* Power of GPU 0 in what was metered. */
static double watts_of(const kerf_energy *e)
{
    const kerf_source_energy *gpu = &e->source[0];
    return isnan(gpu->steady_w) ? gpu->average_w : gpu->steady_w;
}

/* So that the GPU never waits for the next one, and the end is not long after the time is up. */
enum { REPLAYS_AHEAD = 4 };

static double replay_for(racer *r, double seconds, cudaStream_t s)
{
    size_t replays = 0;
    const double began = race_now();
    while (race_now() < began + seconds) {
        for (int i = 0; i < REPLAYS_AHEAD; i++) need(cudaGraphLaunch(r->graph, s), "graph");
        need(cudaEventRecord(r->end, s), "event");
        replays += REPLAYS_AHEAD;
        need(cudaEventSynchronize(r->end), "a replay");
    }
    return (race_now() - began) / (double)replays;
}

race_energy race_hold(racer *r, double seconds, cudaStream_t s)
{
    race_energy out = {0};
    static kerf_energy e;
    kerf_meter *meter = NULL;
    kerf_error err;
    kerf_monitor *m = race_monitor();
    if (!m || kerf_monitor_gpus(m) == 0 || !r->graph) return out;
    replay_for(r, 0.3, s); /* until clocks are those of the load */
    if (kerf_meter_begin(m, 0, &meter, &err) != KERF_OK) return out;
    const double each = replay_for(r, seconds, s);
    kerf_meter_end(meter, &e);
    out.watts = watts_of(&e);
    out.peak_w = e.source[0].peak_w;
    out.joules = out.watts * each;
    out.seconds = e.seconds;
    out.step_s = e.source[0].step_s;
    return out;
}

double race_idle_w(double seconds)
{
    static kerf_energy e;
    kerf_error err;
    kerf_monitor *m = race_monitor();
    if (!m || kerf_monitor_gpus(m) == 0 || kerf_meter_idle(m, seconds, &e, &err) != KERF_OK)
        return 0;
    return watts_of(&e);
}
