/* activations.h - how the loaders of a layout round what a quantized weight is multiplied by: by
 * the scale of inputs beside it, or as it comes, token by token. */
#ifndef KERF_LAYOUT_ACTIVATIONS_H
#define KERF_LAYOUT_ACTIVATIONS_H

#include <jansson.h>
#include <kerf/layouts.h>

typedef struct kf_activations {
    const kerf_format *format; /* that inputs are rounded to; NULL: to none                      */
    unsigned group;            /* numbers that have a scale of their own, as if they were a row of
                                  the format; 0: a whole row                                     */
    float amax; /* of the format's own scale of all: what it reaches; 0: it is found */
} kf_activations;

/* Of a weight of r, which l loads. q: what config.json says of the quantization; NULL: nothing. */
kerf_status kf_activations_find(const kerf_layout *l, const json_t *q, const kerf_reader *r,
                                const kerf_weight *w, kf_activations *out, kerf_error *err);

#endif
