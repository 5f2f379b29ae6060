/* device.h - what the dispatcher hands to a device: a whole range of bands in host memory. A device
 * is a few functions; cuda/ provides one, and neither side knows more of the other. */
#ifndef KERF_DEVICE_H
#define KERF_DEVICE_H

#include "block/spec.h"

#include <kerf/feedback.h>

/* Bands [b0, b1) with everything checked. Planes with one value per matrix begin at the first
 * matrix of the range; encode does not write them. */
typedef struct kf_host_range {
    const kerf_geometry *g;
    uint64_t b0, b1;
    const uint8_t *source; /* measure, encode, count_clipped */
    uint8_t *target;       /* decode                         */
    kerf_dtype dtype;
    kerf_nan nan;
    const uint8_t *plane[KERF_PLANES]; /* decode, count_clipped  */
    uint8_t *out[KERF_PLANES];         /* encode                 */
    uint64_t matrices;                 /* that the range touches */
    struct kf_there
        *there; /* encode: with error feedback, by the devices that have it; else NULL */
} kf_host_range;

/* The factors of a matrix of second moments: in host memory, or on devices. */
struct kerf_feedback {
    uint64_t columns;
    float *above;           /* [columns][columns] row k, i < k: U_ik; NULL: on devices */
    float *d;               /* [columns]                                               */
    struct kf_there *there; /* what the devices have, which they know; else NULL       */
    void (*release)(struct kf_there *there);
    float *gram; /* [columns][columns] with damping; NULL: columns are gone over once */
};

/* What is known of pivots before any is made. */
typedef struct kf_pivots {
    double damping;
    double least; /* what damping adds; smaller ones become that                       */
    double lost;  /* below that it is no matter of rounding: these are no second moments */
} kf_pivots;

/* Says so: KERF_E_DATA. */
kerf_status kf_feedback_lost(kerf_error *err);

/* `bad`: the first element of the range that is NaN or Inf under KERF_NAN_ERROR, else UINT64_MAX;
 * the status is KERF_OK all the same. `stats`: of the matrices that the range touches. */
struct kerf_device {
    kerf_status (*measure)(kerf_device *d, const kf_host_range *r, kerf_stats *stats, uint64_t *bad,
                           kerf_error *err);
    kerf_status (*encode)(kerf_device *d, const kf_host_range *r, int encoder,
                          const kerf_stats *stats, uint64_t *bad, kerf_error *err);
    kerf_status (*decode)(kerf_device *d, const kf_host_range *r, kerf_error *err);
    kerf_status (*count_clipped)(kerf_device *d, const kf_host_range *r, uint64_t *clipped,
                                 kerf_error *err);
    /* Factors for all these devices, checked: gram [columns][columns]. */
    kerf_status (*factor)(kerf_device *const *devices, size_t count, const float *gram,
                          uint64_t columns, kf_pivots pivots, const kerf_job *job,
                          struct kf_there **out, kerf_error *err);
    void (*release)(struct kf_there *there);
};

#endif
