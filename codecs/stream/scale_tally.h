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
    KF_SCALE_F16,
    KF_SCALE_BF16,
    KF_SCALE_F32
} kf_scale_type;

/* Zeros: a tally of nothing yet, but for its type. */
typedef struct kf_scale_tally {
    kf_scale_type type;
    uint64_t seen, bad, negative, zero, large, first_bad, first_negative;
} kf_scale_tally;

/* Of a plane of a quantized weight. */
kf_scale_type kf_scale_type_of(const kerf_weight *w, kerf_plane_id p);

/* Adds scales that follow each other. bytes: a multiple of their size. */
void kf_tally_add(kf_scale_tally *t, const void *scales, size_t bytes);

/* Reads a plane and counts it. work: what is told of the bytes; NULL: nobody. */
kerf_status kf_tally_scales(const kerf_reader *r, const kerf_weight *w, kerf_plane_id p,
                            kf_work *work, kf_scale_tally *out, kerf_error *err);

#endif
