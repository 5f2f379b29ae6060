/* other_numbers.h - quantized weights whose numbers are others than their codes and scales stand
 * for under the names that they have: to decode them is to write another model. */
#ifndef KERF_LAYOUT_OTHER_NUMBERS_H
#define KERF_LAYOUT_OTHER_NUMBERS_H

#include <jansson.h>
#include <kerf/layouts.h>

/* What a checkpoint says of it. All zeros: nothing. */
typedef struct kf_other_numbers {
    const char *all;   /* why no weight is what its codes stand for; NULL: they are */
    const char *dense; /* why weights that look dense are not what the model multiplies by */
    json_t *layers;    /* ComfyUI's words for modules, from the metadata of files */
} kf_other_numbers;

kerf_status kf_other_numbers_open(const kerf_reader *r, kf_other_numbers *out, kerf_error *err);
void kf_other_numbers_close(kf_other_numbers *o); /* all zeros are fine */

/* Why a part of a quantized weight (its codes, its scales) does not mean what its name says: one
 * line that follows the name, in out, which holds `size` bytes; "" where it does. */
kerf_status kf_other_numbers_ask(const kf_other_numbers *o, const kerf_reader *r, const char *part,
                                 char *out, size_t size, kerf_error *err);

#endif
