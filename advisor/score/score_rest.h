/* score_rest.h - what a tensor loses besides its outliers. */
#ifndef KERF_SCORE_REST_H
#define KERF_SCORE_REST_H

#include <kerf/score.h>

/* The arguments of kerf_score_bands. */
typedef struct kf_rest_job {
    const kerf_geometry *geometry;
    uint64_t b0, b1;
    const kerf_cspan *planes;
    kerf_cspan src;
    kerf_dtype dtype;
} kf_rest_job;

/* The source of these bands, n elements, as float32. */
kerf_status kf_rest_widen(const kf_rest_job *job, uint64_t n, float *out, kerf_error *err);

/* Counts rest_signal, rest_noise and zeroed of *s anew, whose other sums are complete, where one
 * element of a matrix is so much larger than these that its scale serves it alone. Each matrix of a
 * stack is looked at by itself. */
kerf_status kf_score_rest(const kf_rest_job *job, kerf_score *s, kerf_error *err);

#endif
