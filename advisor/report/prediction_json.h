/* prediction_json.h - a predicted time as members of a JSON object, the same wherever one stands.
 */
#ifndef KERF_PREDICTION_JSON_H
#define KERF_PREDICTION_JSON_H

#include <kerf/predict.h>

#include "file/json/json_text.h"

void kf_prediction_json(json_t **row, const kerf_prediction *p);

#endif
