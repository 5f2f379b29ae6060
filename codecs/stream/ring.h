/* ring.h - panels in a ring of slots: reading, computing and writing each in a thread of its own.
 */
#ifndef KERF_STREAM_RING_H
#define KERF_STREAM_RING_H

#include "stream/panel.h"

kerf_status kf_run_ring(kf_stream *s, const kf_steps *steps, void *ctx, kerf_error *err);

#endif
