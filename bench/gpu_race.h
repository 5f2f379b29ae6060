/* gpu_race.h - timing on a GPU: contestants that take turns.
 *
 * Each contestant is a sequence of calls, captured once as a graph. In every round each graph is
 * replayed once between two events, so that drift of clocks and temperature meets all alike. */
#ifndef KERF_BENCH_GPU_RACE_H
#define KERF_BENCH_GPU_RACE_H

#include <cuda_runtime_api.h>
#include <kerf/monitor.h>
#include <stddef.h>

#define RACE_REPLAYS 64 /* at most */

typedef struct racer {
    const char *(*call)(void *ctx, int i, cudaStream_t s); /* enqueues; NULL or what failed */
    void *ctx;
    int calls;         /* in one replay                                             */
    const char *error; /* set: it does not take part                                */
    cudaGraphExec_t graph;
    cudaEvent_t begin, end;
    float us[RACE_REPLAYS]; /* per call                          */
    int replays;
    double median, low, high; /* of us: the middle and the quartiles */
} racer;

void race_prepare(racer *r, cudaStream_t s);
void race_free(racer *r);

/* `warm` rounds and then up to `replays`; after `deadline` (race_now) no more than five. */
void race_run(racer *const r[], int n, int warm, int replays, double deadline, cudaStream_t s);

/* The least of three replays, in us per call. */
double race_quick(racer *r, cudaStream_t s);

double race_now(void); /* seconds */

/* What the GPU says of itself now. Zeros where NVML is not there. */
typedef struct gpu_state {
    unsigned sm_mhz, memory_mhz, temperature_c;
    double power_w;
    char driver[80];
} gpu_state;

gpu_state gpu_state_now(void);
/* As the last race_run saw it while its graphs ran. */
extern gpu_state race_state;

/* What one replay takes of GPU 0, idle power included. Zeros: nothing tells. */
typedef struct race_energy {
    double joules, watts, peak_w;
    double seconds; /* that it was replayed again and again */
    double step_s;  /* of the counter                       */
} race_energy;

race_energy race_hold(racer *r, double seconds, cudaStream_t s);
double race_idle_w(double seconds); /* of a GPU that has a context and nothing to do */
kerf_monitor *race_monitor(void);   /* NULL: there is none */

#endif
