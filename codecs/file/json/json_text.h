/* json_text.h - the JSON documents that kerf writes: into texts, and values that JSON cannot hold.
 * Files are read by file/json/json_read.h. */
#ifndef KERF_JSON_TEXT_H
#define KERF_JSON_TEXT_H

#include <jansson.h>

#include "base/base.h"

/* 1 when doc is an object with this "schema". */
int kf_json_has_schema(const json_t *doc, const char *schema);

/* A number, or null for NaN and infinities. */
json_t *kf_json_number(double value);
/* A path, or a text that was cut, which need not be UTF-8: other bytes become '?'. NULL: null. */
json_t *kf_json_path(const char *path);

/* Add a member or an element, which is taken over. Where that fails, or the value is NULL because
 * it could not be made, the whole is released and becomes NULL: a document of which a part is lost
 * is none. Adding to NULL does nothing. json_pack fails likewise for a part that is NULL. */
void kf_json_set(json_t **object, const char *key, json_t *value);
void kf_json_add(json_t **array, json_t *value);

/* Writes doc (NULL: memory ran out) with the flags of json_dumps as a malloc'd text, and releases
 * it. n may be NULL. */
kerf_status kf_json_write(json_t *doc, size_t flags, char **text, size_t *n, kerf_error *err);

#endif
