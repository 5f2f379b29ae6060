/* time_gemv_gpu.h - the timer's half for GPUs. */
#ifndef KERF_TIME_GEMV_GPU_H
#define KERF_TIME_GEMV_GPU_H

#include "time/time_gemv.h"

/* As the functions of gemv_timer, for t->exec.device. */
kerf_status gpu_timer_open(gemv_timer *t, kerf_error *err);
void gpu_timer_close(gpu_timer *g); /* NULL is fine */
kerf_status gpu_timer_run(gemv_timer *t, const kerf_gemv_shape *shape, gemv_time *out,
                          kerf_error *err);
kerf_status gpu_timer_rates(gemv_timer *t, double *read_gbps, double *copy_gbps, kerf_error *err);

#endif
