/* feedback_rows.h - what encode_bands.c knows of error feedback. */
#ifndef KERF_CPU_FEEDBACK_H
#define KERF_CPU_FEEDBACK_H

#include "cpu/feedback_room.h"

enum { KF_FEEDBACK_ROWS = 16 }; /* bands that are encoded at once, where a band is a row */

/* Memory of one thread. */
kf_feedback_room *kf_feedback_room_open(const kerf_geometry *g, const kerf_feedback *f);
void kf_feedback_room_close(kf_feedback_room *r); /* NULL is fine */

/* Encodes `count` bands of one matrix, at most kerf_feedback_bands; each has scratch memory of its
 * own in the room. Returns KF_NO_ELEMENT, or the first element, counted from the first band, that
 * is NaN or Inf under KERF_NAN_ERROR. */
size_t kf_feedback_encode(kf_feedback_room *r, kf_band *band, size_t count);

#endif
