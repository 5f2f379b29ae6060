/* gemv_sweep.h - times of every shape x batch x format of the options' lists. */
#ifndef KERF_GEMV_SWEEP_H
#define KERF_GEMV_SWEEP_H

#include <kerf/cuda.h>

#include "options.h"
#include "verbs/codec_list.h"
#include "verbs/shape_list.h"
#include "time/time_gemv.h"

typedef struct gemv_sweep {
    shape_list shapes;
    batches batch;
    codec_list codecs;
    kerf_exec exec; /* of the timer; holds the device */
    gemv_timer timer;
    gemv_time *item;
    size_t count;
    double stream_gbps, copy_gbps; /* of the whole machine, before the products */
    kerf_device_info device;       /* what was timed; an empty name: the CPU     */
} gemv_sweep;

/* Rows that verbs which sweep have in common, and what stands in for each when it is absent. */
extern const option option_sweep_format, option_sweep_batch, option_sweep_type, option_sweep_trials;

/* shapes: of --shape, or the verb's own. Runs everything, with a progress bar; KERF_E_DATA when a
 * kernel's result is far from the reference's. chains_only: on a GPU, see gemv_timer. Close it also
 * after a failure. */
kerf_status gemv_sweep_run(gemv_sweep *s, const args *a, const char *shapes, int chains_only,
                           kerf_error *err);
void gemv_sweep_close(gemv_sweep *s); /* all zeros are fine */

#endif
