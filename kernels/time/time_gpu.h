/* time_gpu.h - the timer of matrix-vector products on a GPU. */
#ifndef KERF_TIME_GPU_H
#define KERF_TIME_GPU_H

#include "base/base.h"
#include "time/timer_setup.h"

typedef struct kf_gpu_timer kf_gpu_timer;

/* Measures the memory of setup->exec.device and sets the defaults of the setup. *out is to be
 * closed also after a failure. */
kerf_status kf_gpu_timer_open(kf_gpu_timer **out, kf_timer_setup *setup, kerf_error *err);
void kf_gpu_timer_close(kf_gpu_timer *t); /* NULL is fine */
void kf_gpu_timer_rates(const kf_gpu_timer *t, double *read_gbps, double *copy_gbps);
/* Fills in the times, bytes, error and backend of `out`. */
kerf_status kf_gpu_timer_run(kf_gpu_timer *t, const kf_timer_setup *setup,
                             const kerf_gemv_shape *shape, kerf_gemv_time *out, kerf_error *err);
/* See kerf_gemv_timer_race. */
kerf_status kf_gpu_timer_race(kf_gpu_timer *t, const kf_timer_setup *setup,
                              const kerf_gemv_shape *shape, const kerf_gemv_tuning *tunings,
                              size_t n, double *us, kerf_error *err);
/* See kerf_gemv_timer_hold. */
kerf_status kf_gpu_timer_hold(kf_gpu_timer *t, const kf_timer_setup *setup,
                              const kerf_gemv_shape *shape, const kerf_hold *hold, uint64_t *calls,
                              kerf_error *err);

#endif
