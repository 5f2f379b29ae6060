/* output.c - tables and JSON on standard output. */
#include "output.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
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

kerf_status print_json(const char *verb_name, json_t *doc, kerf_error *err)
{
    json_t *whole = json_object();
    kerf_status s = KERF_OK;
    if (!doc || !whole ||
        json_object_set_new(whole, "schema", json_sprintf("kerf.%s/1", verb_name)) != 0 ||
        json_object_update(whole, doc) != 0) {
        s = kerf_fail(err, KERF_E_NOMEM, "no memory for the JSON document");
    } else if (json_dumpf(whole, stdout, JSON_INDENT(2)) != 0 || putchar('\n') == EOF) {
        s = kerf_fail(err, KERF_E_IO, "standard output: %s", strerror(errno));
    }
    json_decref(doc);
    json_decref(whole);
    return s;
}

kerf_status put_document(char *text, kerf_error *err)
{
    int failed = puts(text) == EOF;
    free(text);
    return failed ? kerf_fail(err, KERF_E_IO, "standard output: %s", strerror(errno)) : KERF_OK;
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

/* --- tables -------------------------------------------------------------------------------- */

struct table {
    size_t columns, cells, room;
    char **cell; /* row by row; the first row holds the headings */
    int *right;  /* per column                                   */
    size_t rule; /* cell before which a line is drawn; 0: none   */
    int no_memory;
};

static void add_cell(table *t, const char *text)
{
    if (t->cells == t->room) {
        size_t room = t->room ? t->room * 2 : 64;
        char **cell = realloc(t->cell, room * sizeof *cell);
        if (!cell) {
            t->no_memory = 1;
            return;
        }
        t->cell = cell;
        t->room = room;
    }
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    if (!copy) {
        t->no_memory = 1;
        return;
    }
    t->cell[t->cells++] = kerf_text_printable(text, copy, size);
}

kerf_status table_open(table **out, const char *headings, kerf_error *err)
{
    *out = NULL;
    table *t = NULL;
    TRY(allocate(&t, 1, sizeof *t, err));
    size_t columns = 1;
    for (const char *p = headings; *p; p++) columns += *p == '|';
    kerf_status s = allocate(&t->right, columns, sizeof *t->right, err);
    if (s != KERF_OK) {
        table_close(t);
        return s;
    }
    for (const char *p = headings; t->columns < columns; t->columns++) {
        char text[64];
        size_t n = strcspn(p, "|");
        t->right[t->columns] = *p == '>';
        snprintf(text, sizeof text, "%.*s", (int)n, p);
        add_cell(t, text + t->right[t->columns]);
        p += n + 1;
    }
    *out = t;
    return KERF_OK;
}

void table_close(table *t)
{
    if (!t) return;
    for (size_t i = 0; i < t->cells; i++) free(t->cell[i]);
    free(t->cell);
    free(t->right);
    free(t);
}

void table_cell(table *t, const char *fmt, ...)
{
    char text[1100];
    va_list list;
    va_start(list, fmt);
    vsnprintf(text, sizeof text, fmt, list);
    va_end(list);
    add_cell(t, text);
}

void table_rule(table *t)
{
    t->rule = t->cells;
}

/* Columns that a text takes on screen: UTF-8 continuation bytes take none. */
static size_t width_of(const char *text)
{
    size_t n = 0;
    for (; *text; text++) n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static void print_row(const table *t, const size_t *width, size_t first, FILE *to)
{
    for (size_t c = 0; c < t->columns && first + c < t->cells; c++) {
        const char *text = t->cell[first + c];
        int pad = (int)(width[c] - width_of(text));
        int last = c + 1 == t->columns;
        if (t->right[c]) {
            fprintf(to, "%*s%s", pad, "", text);
        } else {
            fprintf(to, "%s%*s", text, last ? 0 : pad, "");
        }
        fputs(last ? "\n" : "  ", to);
    }
}

kerf_status table_print(const table *t, FILE *to, kerf_error *err)
{
    size_t *width = NULL;
    if (t->no_memory) return kerf_fail(err, KERF_E_NOMEM, "no memory for a table");
    TRY(allocate(&width, t->columns, sizeof *width, err));
    size_t line = 2 * (t->columns - 1);
    for (size_t i = 0; i < t->cells; i++) {
        size_t n = width_of(t->cell[i]);
        if (n > width[i % t->columns]) width[i % t->columns] = n;
    }
    for (size_t c = 0; c < t->columns; c++) line += width[c];
    for (size_t i = 0; i < t->cells; i += t->columns) {
        if (i == t->columns || (i && i == t->rule)) {
            for (size_t k = 0; k < line; k++) fputc('-', to);
            fputc('\n', to);
        }
        print_row(t, width, i, to);
    }
    free(width);
    return KERF_OK;
}

kerf_status table_end(table *t, kerf_status s, kerf_error *err)
{
    if (s == KERF_OK) s = table_print(t, stdout, err);
    table_close(t);
    return s;
}

/* --- words --------------------------------------------------------------------------------- */

char *shape_text(const kerf_shape *shape, char *out)
{
    size_t n = 0;
    out[0] = 0;
    for (unsigned i = 0; i < shape->rank && n < TEXT_SIZE; i++) {
        int k = snprintf(out + n, TEXT_SIZE - n, "%s%llu", i ? "x" : "",
                         (unsigned long long)shape->dim[i]);
        if (k > 0) n += (size_t)k;
    }
    if (shape->rank == 0) snprintf(out, TEXT_SIZE, "scalar");
    return out;
}

const char *shown(const char *text)
{
    static char buffer[8][4096];
    static unsigned next;
    return kerf_text_printable(text, buffer[next++ % 8], sizeof *buffer);
}

char *bytes_text(uint64_t bytes, char *out)
{
    return kerf_bytes_text(bytes, out);
}
