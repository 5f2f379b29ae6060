/* scale_tally.h - counts what is wrong with the scales of a quantized weight. */
#ifndef KERF_STREAM_SCALE_TALLY_H
#define KERF_STREAM_SCALE_TALLY_H

#include <kerf/layouts.h>

#include "base/work.h"

/* How the values of a plane are read; OTHER: no scales, or none whose bits say what is wrong. */
typedef enum kf_scale_type {
    KF_SCALE_OTHER,
    KF_SCALE_E4M3,
    KF_SCALE_E8M0,
    KF_SCALE_16,
    KF_SCALE_F32
} kf_scale_type;

typedef struct kf_scale_tally {
    kf_scale_type type;
    uint32_t exponent; /* bits of the exponent: all set means NaN or Inf */
    uint64_t seen, bad, negative, zero, large, first_bad, first_negative;
} kf_scale_tally;

/* A tally of nothing yet, for a plane of a quantized weight. */
kf_scale_tally kf_tally_for(const kerf_weight *w, kerf_plane_id p);

/* Adds one scale. */
void kf_tally_add(kf_scale_tally *t, uint32_t bits);

/* Reads a plane and counts it. work: what is told of the bytes; NULL: nobody. */
kerf_status kf_tally_scales(const kerf_reader *r, const kerf_weight *w, kerf_plane_id p,
                            kf_work *work, kf_scale_tally *out, kerf_error *err);

#endif
