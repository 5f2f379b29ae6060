/* time_gemv.h - how long Y = W X takes on this machine, beside a plain stream of as many bytes. */
#ifndef KERF_TIME_GEMV_H
#define KERF_TIME_GEMV_H

#include <kerf/gemv.h>
#include <kerf/predict.h>

#include "cli.h"

enum { MAX_TRIALS = 1001 };

typedef struct gemv_time {
    kerf_timing time;       /* the product, and the median                              */
    double low_us, high_us; /* quartiles                                                */
    double stream_us;       /* median of reading `bytes` right before each run          */
    double share;           /* median of stream time over time                          */
    double bytes;           /* of the stored planes                                     */
    double error;           /* of the first rows against the reference, relative rms    */
    const char *backend;    /* that the plan chose                                      */
} gemv_time;

typedef struct gemv_timer {
    kerf_exec exec;
    kerf_dtype type; /* of x; y is F32 */
    size_t trials;
    kerf_span cold; /* what is streamed; larger than a trial leaves in caches           */
    size_t at;      /* in it */
} gemv_timer;

/* exec: threads and backend, on the CPU (a device is KERF_E_NOSUP). */
kerf_status gemv_timer_open(gemv_timer *t, const kerf_exec *exec, kerf_dtype type, int trials,
                            kerf_error *err);
void gemv_timer_close(gemv_timer *t); /* all zeros are fine */

/* One product with `columns` columns; weights are cold, x and y warm, as in a model. */
kerf_status gemv_timer_run(gemv_timer *t, const kerf_format *f, uint64_t rows, uint64_t cols,
                           uint64_t columns, gemv_time *out, kerf_error *err);

/* 10^9 bytes per second, median: read by all threads; copied by them, read + written. */
double gemv_timer_stream_gbps(gemv_timer *t);
double gemv_timer_copy_gbps(gemv_timer *t);

#endif
