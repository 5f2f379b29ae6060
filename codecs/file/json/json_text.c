/* json_text.c - documents of jansson as texts, and values that need care. */
#include "file/json/json_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "file/json/text.h"

int kf_json_has_schema(const json_t *doc, const char *schema)
{
    const char *found = json_string_value(json_object_get(doc, "schema"));
    return found && strcmp(found, schema) == 0;
}

json_t *kf_json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *kf_json_path(const char *path)
{
    json_t *value = path ? json_string(path) : json_null();
    char *copy = value ? NULL : strdup(path);
    for (char *p = copy; p && *p; p++) {
        if ((unsigned char)*p >= 0x80) *p = '?';
    }
    if (copy) value = json_string(copy);
    free(copy);
    return value;
}

static void drop_if(int failed, json_t **whole)
{
    if (!failed) return;
    json_decref(*whole);
    *whole = NULL;
}

void kf_json_set(json_t **object, const char *key, json_t *value)
{
    drop_if(json_object_set_new(*object, key, value) != 0, object);
}

void kf_json_add(json_t **array, json_t *value)
{
    drop_if(json_array_append_new(*array, value) != 0, array);
}

kerf_status kf_json_write(json_t *doc, size_t flags, char **text, size_t *n, kerf_error *err)
{
    kf_text t = {0};
    kf_text_add_json(&t, doc, flags);
    json_decref(doc);
    *text = t.failed ? NULL : t.p;
    if (n) *n = t.n;
    if (!t.failed) return KERF_OK;
    free(t.p);
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a JSON document");
}
