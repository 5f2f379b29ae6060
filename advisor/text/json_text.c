/* json_text.c - documents of jansson as texts, and values that need care. */
#include "text/json_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

kerf_status kf_json_write(json_t *doc, size_t flags, char **text, size_t *n, kerf_error *err)
{
    *text = doc ? json_dumps(doc, flags) : NULL;
    json_decref(doc);
    if (!*text) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a JSON document");
    if (n) *n = strlen(*text);
    return KERF_OK;
}
