/* time_gemv.h - how long Y = W X takes on this machine, beside a plain read of as many bytes. */
#ifndef KERF_TIME_GEMV_H
#define KERF_TIME_GEMV_H

#include <kerf/gemv.h>
#include <kerf/predict.h>

#include "base/base.h"

enum { MAX_TRIALS = 1001 };

typedef struct gemv_time {
    kerf_timing time;       /* the product, and the median                              */
    double low_us, high_us; /* quartiles                                                */
    double read_us;         /* of only reading `bytes`                                  */
    double share;           /* of that time in the product's                            */
    double plain_us;        /* GPU: without overlap of one product and the next; or 0   */
    double plain_share;     /* likewise, of a read without overlap                      */
    double bytes;           /* of the stored planes                                     */
    double error;           /* of the first rows against the reference, relative rms    */
    const char *backend;    /* that the plan chose                                      */
} gemv_time;

typedef struct gpu_timer gpu_timer;

typedef struct gemv_timer {
    kerf_exec exec;
    kerf_dtype x, y;
    size_t trials;
    kerf_span cold;  /* what the CPU reads; larger than a trial leaves in caches */
    size_t at;       /* in it */
    gpu_timer *gpu;  /* NULL: the CPU is timed */
    int chains_only; /* leaves out what a GPU takes without overlap */
} gemv_timer;

/* exec: threads and backend, or a device, which must outlive the timer. trials 0: 21, or 9 graphs
 * of 100 calls and more on a device. */
kerf_status gemv_timer_open(gemv_timer *t, const kerf_exec *exec, kerf_dtype x, int trials,
                            kerf_error *err);
void gemv_timer_close(gemv_timer *t); /* all zeros are fine */

/* One product with `columns` columns; weights are cold, x and y warm, as in a model. */
kerf_status gemv_timer_run(gemv_timer *t, const kerf_format *f, uint64_t rows, uint64_t cols,
                           uint64_t columns, gemv_time *out, kerf_error *err);

/* 10^9 bytes per second, median: read; copied, read + written. */
kerf_status gemv_timer_rates(gemv_timer *t, double *read_gbps, double *copy_gbps, kerf_error *err);

/* Orders v; q: 0.5 is the median. */
double quantile(double *v, size_t n, double q);

#endif
