/* weight_json.h - what several documents and tables say of a weight, in the same words. */
#ifndef KERF_MODEL_WEIGHT_JSON_H
#define KERF_MODEL_WEIGHT_JSON_H

#include <kerf/checkpoint.h>

#include "base/text_page.h"
#include "file/json/json_text.h"

json_t *kf_shape_json(const kerf_shape *shape);
/* The shape as the files have it. */
json_t *kf_stored_shape_json(const kerf_weight *w);

/* Sets role, piece, orientation and stack. */
void kf_json_set_place(json_t **object, const kerf_place *p);

/* Cells of a table: name, role, shape and format. */
void kf_weight_cells(kf_page *p, const kerf_weight *w);

double kf_bits_per_weight(uint64_t bytes, uint64_t elements); /* 0 of no elements */

#endif
