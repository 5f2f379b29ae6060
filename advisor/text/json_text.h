/* json_text.h - the JSON that the advisor writes: documents into texts, and values that JSON cannot
 * hold. Files are read by file/json/json_read.h. */
#ifndef KERF_JSON_TEXT_H
#define KERF_JSON_TEXT_H

#include <jansson.h>

#include "base/base.h"

/* 1 when doc is an object with this "schema". */
int kf_json_has_schema(const json_t *doc, const char *schema);

/* A number, or null for NaN and infinities. */
json_t *kf_json_number(double value);
/* A path, which need not be UTF-8: other bytes become '?'. NULL: null. */
json_t *kf_json_path(const char *path);

/* Writes doc (NULL: memory ran out) with the flags of json_dumps as a malloc'd text, and releases
 * it. n may be NULL. */
kerf_status kf_json_write(json_t *doc, size_t flags, char **text, size_t *n, kerf_error *err);

#endif
