/* made_inputs.h - scales of inputs that an output has and its source has not: of the largest input
 * of each layer, one F32 beside each quantized weight whose layout reads one there. They are
 * weights of the output like those that a source brings along (layout/input_scales.h). */
#ifndef KERF_MODEL_MADE_INPUTS_H
#define KERF_MODEL_MADE_INPUTS_H

#include "layout/input_scales.h"
#include "model/decide.h"

typedef struct kf_made_input {
    kerf_weight weight;    /* dense, of one number */
    kf_input_scale *scale; /* owned: its tensor    */
    float value;           /* as the layout has it */
} kf_made_input;

typedef struct kf_made_inputs {
    kf_made_input *item;
    size_t count;
    size_t borrowed; /* of experts that nothing came to: they have the largest of their layer's */
} kf_made_inputs;

/* Layers that loaders merge have one input, and get the largest of what is known of them.
 * KERF_E_ARG: none of the weights has such a scale in this layout, or the largest input of one is
 * not known, or is nothing that a scale can be made of, as 0. */
kerf_status kf_made_inputs_open(kf_made_inputs *m, const kerf_inputs *from, const kerf_weights *all,
                                const kf_decisions *d, kerf_error *err);
void kf_made_inputs_close(kf_made_inputs *m); /* all zeros are fine */

#endif
