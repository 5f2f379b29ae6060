/* slots.h - the insides of a stream: how it is cut, and the slots that hold its panels. */
#ifndef KERF_STREAM_SLOTS_H
#define KERF_STREAM_SLOTS_H

#include "stream/panel.h"

enum { KF_RING = 3 }; /* slots of a ring: one to be read, one at work, one to be written */

struct kf_stream {
    const kerf_geometry *geometry; /* NULL: plain bytes */
    kerf_dtype dense_type;
    uint64_t units, step, panels;
    uint64_t whole_step; /* units of the panels that parts of `step` are cut from; else `step` */
    unsigned slots;
    unsigned workers; /* of a crew; 0: a ring */
    kf_panel *slot;
    unsigned char *kept; /* the whole tensor; NULL: panels have memory of their own */
    kerf_span whole[KERF_PLANES];
};

/* Bytes of `dense` for units [u0, u1). */
uint64_t kf_dense_bytes(const kf_stream *s, uint64_t u0, uint64_t u1);

/* Sets the spans of a slot to the bytes of panel i. */
void kf_shape_slot(const kf_stream *s, kf_panel *p, uint64_t i);

/* In this order, once the stream knows its units and steps. keep: makes the room large enough for
 * the whole tensor, unless that is too large or memory is lacking; its content is lost. share:
 * allocates the planes with one value per matrix. open: counts the panels and allocates the slots.
 */
void kf_slots_keep(kf_stream *s, kf_room *room);
kerf_status kf_slots_share(kf_stream *s, kerf_error *err);
kerf_status kf_slots_open(kf_stream *s, kerf_error *err);
void kf_slots_close(kf_stream *s);

#endif
