/* decoded.h - quantized weights as dense tensors. */
#ifndef KERF_LAYOUT_DECODED_H
#define KERF_LAYOUT_DECODED_H

#include "layout/weights.h"

/* Gives every quantized weight whose codes another program chose its `decoded`; again when there
 * are other weights. */
kerf_status kf_weights_decode(kerf_weights *all, kerf_error *err);

/* What such a weight decodes to, as a tensor that stays when the list of weights is made anew. */
kerf_status kf_weight_decode_alone(kerf_weights *all, const kerf_weight *w, const kerf_tensor **out,
                                   kerf_error *err);

#endif
