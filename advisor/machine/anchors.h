/* anchors.h - what measured times of other shapes say of a product. */
#ifndef KERF_ANCHORS_H
#define KERF_ANCHORS_H

#include <kerf/predict.h>

typedef struct kf_reading {
    double us;
    double error; /* that nine of ten readings stay below; 0: not known, or itself measured */
    int outside;  /* it lies beyond them                                                    */
} kf_reading;

/* For m, whose work is w; *found is 0 when h has no anchors that speak of such products. */
kerf_status kf_read_anchors(const kerf_hardware *h, const kerf_matmul *m, const kerf_work *w,
                            kf_reading *out, int *found, kerf_error *err);

#endif
