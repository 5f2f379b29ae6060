/* json_built.c - documents of jansson, none of which lacks a part. */
#include "serve/json_built.h"

#include <stdlib.h>
#include <string.h>

static void drop_if(int failed, json_t **whole)
{
    if (!failed) return;
    json_decref(*whole);
    *whole = NULL;
}

void json_set(json_t **object, const char *key, json_t *value)
{
    drop_if(json_object_set_new(*object, key, value) != 0, object);
}

void json_add(json_t **array, json_t *value)
{
    drop_if(json_array_append_new(*array, value) != 0, array);
}

json_t *json_path(const char *text)
{
    json_t *value = text ? json_string(text) : json_null();
    char *copy = value ? NULL : strdup(text);
    for (char *p = copy; p && *p; p++) {
        if ((unsigned char)*p >= 0x80) *p = '?';
    }
    if (copy) value = json_string(copy);
    free(copy);
    return value;
}
