/* place_weights.h - the places of weights, and weights that the files have the other way round. */
#ifndef KERF_LAYOUT_PLACE_WEIGHTS_H
#define KERF_LAYOUT_PLACE_WEIGHTS_H

#include "layout/weights.h"

/* What the files beside the weights say of the model; once, before the next two. */
kerf_status kf_weights_find_model(kerf_weights *w, const kerf_reader *r, kerf_error *err);

/* Finds the places of all weights; again when there are others. */
kerf_status kf_weights_place(kerf_weights *w, kerf_error *err);

/* Makes views of what is [..., in, out]. */
kerf_status kf_weights_turn(kerf_weights *w, kerf_error *err);

/* The tensor of a dense weight as the files have it: what a copy of it copies. */
const kerf_tensor *kf_weight_tensor(const kerf_weight *w);

#endif
