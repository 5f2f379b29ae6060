/* timer_setup.h - what the timers of processor and GPU have in common: how they measure, and which
 * of many measurements counts. */
#ifndef KERF_TIMER_SETUP_H
#define KERF_TIMER_SETUP_H

#include <kerf/gemv_tune.h>
#include <kerf/job.h>

typedef struct kf_timer_setup {
    kerf_exec exec; /* threads and backend, or a device */
    kerf_dtype x, y;
    size_t trials;           /* 0 until the timer has put its default here */
    int chains_only;         /* see kerf_gemv_timer_options */
    kerf_gemv_tuning tuning; /* of plans; all zeros: none  */
    const kerf_job *job;     /* asked for cancellation before every trial */
} kf_timer_setup;

/* Orders v and returns the value below which a share q of them lies; 0.5: the median. */
double kf_quantile(double *v, size_t n, double q);

#endif
