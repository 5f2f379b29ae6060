/* predict_verb.h - what the two halves of kerf predict, shapes and models, have in common. */
#ifndef KERF_PREDICT_VERB_H
#define KERF_PREDICT_VERB_H

#include <kerf/predict.h>

#include "options_products.h"
#include "output.h"

/* --activations; NULL in *out: bf16. */
kerf_status option_activations(const args *a, const kerf_format **out, kerf_error *err);

/* Two cells, tier and time: a point, or a band where the data sheet is all that is known. */
void time_cells(table *t, const kerf_prediction *p);
void prediction_json(json_t **row, const kerf_prediction *p);
void print_tier_note(const kerf_hardware *h);

kerf_status predict_shapes(const args *a, const kerf_hardware *h, kerf_error *err);
kerf_status predict_model(const args *a, const kerf_hardware *h, kerf_error *err);

#endif
