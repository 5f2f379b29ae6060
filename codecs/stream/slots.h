/* slots.h - the insides of a stream: its slots, and the two ways to take panels through them. */
#ifndef KERF_STREAM_SLOTS_H
#define KERF_STREAM_SLOTS_H

#include "stream/panels.h"

enum { KF_RING = 3 }; /* slots of a ring: one to be read, one at work, one to be written */

struct kf_stream {
    const kerf_geometry *geometry; /* NULL: plain bytes */
    kerf_dtype dense_type;
    uint64_t units, step, panels;
    uint64_t
        whole_step; /* units of the larger panels that are cut into parts of `step`, or `step` */
    unsigned slots;
    unsigned workers; /* of a crew; 0: a ring */
    kf_panel *slot;
    unsigned char *kept; /* the whole tensor; NULL: panels have memory of their own */
    kerf_span whole[KERF_PLANES];
};

/* Sets the spans of a slot to the bytes of panel i. */
void kf_shape_slot(const kf_stream *s, kf_panel *p, uint64_t i);

kerf_status kf_run_ring(kf_stream *s, const kf_steps *steps, void *ctx, kerf_error *err);
kerf_status kf_run_crew(kf_stream *s, const kf_steps *steps, void *ctx, kerf_error *err);

#endif
