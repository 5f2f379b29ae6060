/* gpu_race.c - see gpu_race.h. */
#include "gpu_race.h"

#include <dlfcn.h>
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

static struct {
    int tried;
    void *device;
    int (*clock)(void *, int, unsigned *), (*power)(void *, unsigned *);
    int (*temperature)(void *, int, unsigned *), (*driver)(char *, unsigned);
} nvml;

static void open_nvml(void)
{
    void *lib = dlopen("libnvidia-ml.so.1", RTLD_NOW), *p;
    int (*init)(void), (*handle)(unsigned, void **);
    nvml.tried = 1;
    if (!lib) return;
#define FIND(name, to)    \
    p = dlsym(lib, name); \
    if (!p) return;       \
    memcpy(&to, &p, sizeof p)
    FIND("nvmlInit_v2", init);
    FIND("nvmlDeviceGetHandleByIndex_v2", handle);
    FIND("nvmlDeviceGetClockInfo", nvml.clock);
    FIND("nvmlDeviceGetPowerUsage", nvml.power);
    FIND("nvmlDeviceGetTemperature", nvml.temperature);
    FIND("nvmlSystemGetDriverVersion", nvml.driver);
#undef FIND
    if (init() != 0 || handle(0, &nvml.device) != 0) nvml.device = NULL;
}

gpu_state gpu_state_now(void)
{
    gpu_state s = {0};
    unsigned mw = 0;
    if (!nvml.tried) open_nvml();
    if (!nvml.device) return s;
    nvml.clock(nvml.device, 1, &s.sm_mhz);
    nvml.clock(nvml.device, 2, &s.memory_mhz);
    nvml.temperature(nvml.device, 0, &s.temperature_c);
    if (nvml.power(nvml.device, &mw) == 0) s.power_w = mw / 1000.0;
    nvml.driver(s.driver, sizeof s.driver);
    return s;
}
