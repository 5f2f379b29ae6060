/* settler.h - sums of a layer on their way from the GPU into the calibration, while the next layer
 * runs. */
#ifndef KERF_SETTLER_H
#define KERF_SETTLER_H

#include "calibrate/collect.h"

typedef struct kf_settler kf_settler;

/* One layer's sums; all zeros: none. */
typedef struct kf_found_sums {
    kf_collector *sums;
    kerf_gpu_sums *there; /* what of them is still on a GPU; NULL: nothing */
} kf_found_sums;

/* Brings what is on a GPU home, writes, and frees both, also when it fails. */
kerf_status kf_settle(kf_found_sums found, kerf_writer *w, int threads, const kerf_job *job,
                      kerf_error *err);

/* The same by a thread of its own. */
kerf_status kf_settler_open(kerf_writer *w, int threads, const kerf_job *job, kf_settler **out,
                            kerf_error *err);
/* Waits for those before; a failure of theirs is that of this call. What is found is the settler's
 * in any case. */
kerf_status kf_settler_give(kf_settler *s, kf_found_sums found, kerf_error *err);
/* Waits for all. */
kerf_status kf_settler_finish(kf_settler *s, kerf_error *err);
void kf_settler_close(kf_settler *s); /* waits; NULL is fine */

#endif
