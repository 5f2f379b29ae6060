/* time_cpu.h - the timer of matrix-vector products on the processor. */
#ifndef KERF_TIME_CPU_H
#define KERF_TIME_CPU_H

#include "base/base.h"
#include "time/timer_setup.h"

typedef struct kf_cpu_timer {
    kerf_span cold; /* what is read beside each product: more than any cache holds */
    size_t at;      /* where in it the next read begins */
} kf_cpu_timer;

/* Sets the defaults of the setup. Close it also after a failure. */
kerf_status kf_cpu_timer_open(kf_cpu_timer *t, kf_timer_setup *setup, kerf_error *err);
void kf_cpu_timer_close(kf_cpu_timer *t); /* all zeros are fine */
kerf_status kf_cpu_timer_rates(const kf_cpu_timer *t, const kf_timer_setup *setup,
                               double *read_gbps, double *copy_gbps, kerf_error *err);
/* Fills in the times, bytes, error and backend of `out`. */
kerf_status kf_cpu_timer_run(kf_cpu_timer *t, const kf_timer_setup *setup,
                             const kerf_gemv_shape *shape, kerf_gemv_time *out, kerf_error *err);
/* See kerf_gemv_timer_hold. */
kerf_status kf_cpu_timer_hold(const kf_timer_setup *setup, const kerf_gemv_shape *shape,
                              const kerf_hold *hold, uint64_t *calls, kerf_error *err);

#endif
