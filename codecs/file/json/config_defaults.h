/* config_defaults.h - a model's configuration with what it leaves to its class. */
#ifndef KERF_FILE_CONFIG_DEFAULTS_H
#define KERF_FILE_CONFIG_DEFAULTS_H

#include <jansson.h>

#include "base/base.h"

/* *out: a copy of the language model's object in a config.json, with the defaults of its model_type
 * (config_defaults.def) for keys that it does not have; null stands as it is. Of a type that is not
 * in the table: the same as it is. The caller decrefs. outer: the type of the model around it, for
 * an object that says none; may be NULL. KERF_E_NOMEM. */
kerf_status kf_config_complete(const json_t *language, const char *outer, json_t **out,
                               kerf_error *err);

#endif
