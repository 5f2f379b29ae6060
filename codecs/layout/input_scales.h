/* input_scales.h - scales of activations, which stand beside weights: one number for each layer.
 * Each layout has its own name for them, and one of them stores the number to divide by instead of
 * the factor. */
#ifndef KERF_LAYOUT_INPUT_SCALES_H
#define KERF_LAYOUT_INPUT_SCALES_H

#include <kerf/layouts.h>

typedef struct kf_input_scale {
    kerf_tensor tensor; /* as it will stand in the output               */
    char *name;         /* of the tensor                                */
    int is_inverse;     /* the source holds the number to divide by ... */
    int to_inverse;     /* ... and the output does                      */
} kf_input_scale;

/* A new one, of one F32, in the file of `beside`; named as that is, with .`end` for `tail`. */
kerf_status kf_input_scale_make(const kerf_weight *beside, const char *tail, const char *end,
                                int is_vector, kf_input_scale **out, kerf_error *err);

/* What the input scale w becomes beside the weights of layout l; *out is NULL when w is none, or
 * the layout reads none beside such weights. */
kerf_status kf_input_scale_open(const kerf_weights *all, const kerf_layout *l, const kerf_weight *w,
                                kf_input_scale **out, kerf_error *err);
void kf_input_scale_close(kf_input_scale *s); /* NULL is fine */

/* Writes it; *inexact is raised by one when it does not turn back. */
kerf_status kf_input_scale_write(const kf_input_scale *s, const kerf_reader *r,
                                 const kerf_weight *from, kerf_writer *to, size_t entry,
                                 uint64_t *inexact, kerf_error *err);

#endif
