/* json_text.c - jansson at the edge of the advisor: see json_text.h. */
#include "text/json_text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

kerf_status kf_json_parse(const char *text, size_t n, const char *name, json_t **out,
                          kerf_error *err)
{
    json_error_t why;
    *out = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
    if (*out) return KERF_OK;
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.200s:%d: %.160s", name, why.line, why.text);
}

/* Reads to the end of a file or a pipe. */
static kerf_status read_all(FILE *f, const char *path, size_t limit, char **text, size_t *n,
                            kerf_error *err)
{
    size_t room = 0;
    for (size_t got = 1; got > 0; *n += got) {
        if (*n > limit) {
            return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE, "%.200s: larger than %zu MiB", path,
                           limit >> 20);
        }
        if (*n == room) {
            room = room ? 2 * room : 1 << 16;
            char *more = realloc(*text, room);
            if (!more) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for %.200s", path);
            *text = more;
        }
        got = fread(*text + *n, 1, room - *n, f);
    }
    return ferror(f) ? kf_fail_errno(err, errno, "%.200s", path) : KERF_OK;
}

kerf_status kf_json_read(const char *path, size_t limit, json_t **out, kerf_error *err)
{
    char *text = NULL;
    size_t n = 0;
    *out = NULL;
    FILE *f = fopen(path, "rbe");
    if (!f) return kf_fail_errno(err, errno, "%.200s", path);
    kerf_status s = read_all(f, path, limit, &text, &n, err);
    fclose(f);
    if (s == KERF_OK) s = kf_json_parse(text, n, path, out, err);
    free(text);
    return s;
}

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
