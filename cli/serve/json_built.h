/* json_built.h - the documents that the server makes itself. */
#ifndef KERF_SERVE_JSON_BUILT_H
#define KERF_SERVE_JSON_BUILT_H

#include <jansson.h>

/* Add a member or an element, which is taken over. A document of which a part is lost is none:
 * where that fails, or the value is NULL, the whole is released and becomes NULL. */
void json_set(json_t **object, const char *key, json_t *value);
void json_add(json_t **array, json_t *value);

/* A text from outside, which need not be UTF-8: other bytes become '?'. NULL: null. */
json_t *json_path(const char *text);

#endif
