/* state.h - the tensor of JSON text in which bitsandbytes describes a 4-bit weight. */
#ifndef KERF_LAYOUT_STATE_H
#define KERF_LAYOUT_STATE_H

#include "layout/layout_table.h"

typedef struct kf_state {
    uint64_t block;
    kerf_dtype dtype; /* of the dense tensor */
    kerf_shape shape;
    int nested; /* the scales are quantized too, less ... */
    float offset;
} kf_state;

/* *is_state: 0 when the text is not the state of an NF4 weight with the block sizes that kerf has.
 */
kerf_status kf_state_read(const kerf_reader *r, const kerf_tensor *t, kf_state *out, int *is_state,
                          kerf_error *err);

/* KF_STATE_BYTES of JSON, filled up with spaces. */
void kf_state_write(const kerf_weight *w, float offset, char out[KF_STATE_BYTES]);

#endif
