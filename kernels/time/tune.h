/* tune.h - which factor of a tuning is worth having. */
#ifndef KERF_TUNE_H
#define KERF_TUNE_H

#include "base/base.h"
#include "time/timer_setup.h"

/* See kerf_gemv_tune. */
kerf_status kf_tune(kerf_gemv_timer *t, const kf_timer_setup *setup, kerf_gemv_tuned *out,
                    kerf_error *err);

/* The try (0: the rule's) that is best for n samples of one threshold, and in *gain time by the
 * rule over time by it, the geometric mean of the samples that it changes. */
size_t kf_pick_try(const kerf_gemv_sample *s, size_t n, double *gain);

#endif
