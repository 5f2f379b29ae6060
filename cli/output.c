/* output.c - JSON and texts on standard output. */
#include "output.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <kerf/file.h>

/* --- JSON ---------------------------------------------------------------------------------- */

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

static int document_begun;
static FILE *documents; /* NULL: standard output */

void set_documents(FILE *to)
{
    documents = to;
}

kerf_status print_json(const char *verb_name, json_t *doc, kerf_error *err)
{
    json_t *whole = json_object();
    kerf_status s = KERF_OK;
    document_begun = doc != NULL;
    if (!doc || !whole ||
        json_object_set_new(whole, "schema", json_sprintf("kerf.%s/1", verb_name)) != 0 ||
        json_object_update(whole, doc) != 0) {
        s = kerf_fail(err, KERF_E_NOMEM, "no memory for the JSON document");
    } else if (json_dumpf(whole, documents ? documents : stdout, JSON_INDENT(2)) != 0 ||
               putc('\n', documents ? documents : stdout) == EOF) {
        s = kerf_fail(err, KERF_E_IO, "standard output: %s", strerror(errno));
    }
    json_decref(doc);
    json_decref(whole);
    return s;
}

kerf_status put_document(kerf_status s, char **text, kerf_error *err)
{
    if (s != KERF_OK) return s;
    const int failed = fprintf(documents ? documents : stdout, "%s\n", *text) < 0;
    document_begun = 1;
    free(*text);
    return failed ? kerf_fail(err, KERF_E_IO, "standard output: %s", strerror(errno)) : KERF_OK;
}

void print_failure(kerf_status s, int code, const char *text)
{
    if (document_begun) return;
    printf("{\n  \"schema\": \"kerf.error/1\",\n  \"exit_code\": %d,\n  \"status\": \"%s\",\n"
           "  \"error\": \"",
           code, kerf_status_name(s));
    for (; *text; text++) printf(*text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    printf("\"\n}\n");
    fflush(stdout);
}

static char written[1024];

void note_written(const char *path)
{
    const size_t n = strlen(written);
    snprintf(written + n, sizeof written - n, "; %.400s is written, and whole", shown(path));
}

const char *written_text(void)
{
    return written;
}

kerf_status write_file(const char *path, const void *p, size_t n, int overwrite, kerf_error *err)
{
    kerf_status s = kerf_file_replace(path, p, n, overwrite, err);
    if (s == KERF_E_EXISTS) return kerf_fail(err, s, "%.300s exists; -y replaces it", path);
    if (s == KERF_OK) note_written(path);
    return s;
}

double bits_per_weight(uint64_t bytes, uint64_t elements)
{
    return elements ? 8 * (double)bytes / (double)elements : 0;
}

json_t *json_figure(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
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

json_t *json_shape(const kerf_shape *shape)
{
    json_t *array = json_array();
    for (unsigned i = 0; i < shape->rank; i++)
        json_add(&array, json_integer((json_int_t)shape->dim[i]));
    return array;
}

void json_set_place(json_t **object, const kerf_place *p)
{
    static const char *const orientations[] = {"out,in", "in,out", "unknown"};
    static const char *const stacks[] = {NULL, "first", "last", "rows"};
    json_set(object, "role", json_string(kerf_role_name(p->role)));
    json_set(object, "piece", p->piece ? json_string(kerf_piece_name(p->piece)) : json_null());
    json_set(object, "orientation", json_string(orientations[p->orientation]));
    json_set(object, "stack", p->stack ? json_string(stacks[p->stack]) : json_null());
}

const char *shown(const char *text)
{
    static char buffer[8][4096];
    static unsigned next;
    return kerf_text_printable(text, buffer[next++ % 8], sizeof *buffer);
}
