/* input_scales.h - scales of activations that stand beside weights, one number for each layer.
 * Layouts name them each in its own way, and one stores what divides, not what multiplies. */
#ifndef KERF_INPUT_SCALES_H
#define KERF_INPUT_SCALES_H

#include "model/checkpoint.h"

typedef struct input_scale {
    kerf_tensor tensor; /* as it will stand; its name is owned       */
    int is_inverse;     /* the source, or the target, holds one over */
    int to_inverse;
} input_scale;

/* What the input scale w becomes beside the weights of layout l; *out is NULL when w is none, or
 * the layout reads none beside such weights. */
kerf_status input_scale_open(const checkpoint *c, const kerf_layout *l, const kerf_weight *w,
                             input_scale **out, kerf_error *err);
void input_scale_close(input_scale *s); /* NULL is fine */

/* Writes it; *inexact is raised by one when it does not turn back. */
kerf_status input_scale_write(const input_scale *s, const checkpoint *c, const kerf_weight *from,
                              kerf_writer *to, size_t entry, uint64_t *inexact, kerf_error *err);

#endif
