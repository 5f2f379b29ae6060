/* config_text.h - the JSON files beside a model. */
#ifndef KERF_FILE_CONFIG_TEXT_H
#define KERF_FILE_CONFIG_TEXT_H

#include <jansson.h>
#include <kerf/file.h>

#include "base/base.h"

/* A file of the folder of r; the caller decrefs. KERF_E_DATA: not an object of JSON. */
kerf_status kf_config_load(const kerf_reader *r, const char *name, json_t **out, kerf_error *err);

/* Whether a text is one. */
kerf_status kf_config_check(const char *what, const char *text, size_t n, kerf_error *err);

#endif
