/* table.c - tables of text, which fit the window that they are printed to. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "terminal.h"

enum { RIGHT = 1, OPTIONAL = 2, ELASTIC = 4 };

static int wide;

void set_wide(int wanted)
{
    wide = wanted;
}

int is_wide(void)
{
    return wide;
}

struct table {
    size_t columns, cells, room;
    char **cell;          /* row by row; the first row holds the headings */
    unsigned char *trait; /* per column: RIGHT, OPTIONAL, ELASTIC  */
    size_t rule;          /* cell before which a line is drawn; 0: none   */
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

/* The heading behind the signs that it begins with. */
static const char *take_traits(const char *heading, unsigned char *trait)
{
    for (;; heading++) {
        if (*heading == '>')
            *trait |= RIGHT;
        else if (*heading == '+')
            *trait |= OPTIONAL;
        else if (*heading == '~')
            *trait |= ELASTIC;
        else
            return heading;
    }
}

kerf_status table_open(table **out, const char *headings, kerf_error *err)
{
    *out = NULL;
    table *t = NULL;
    TRY(allocate(&t, 1, sizeof *t, err));
    size_t columns = 1;
    for (const char *p = headings; *p; p++) columns += *p == '|';
    kerf_status s = allocate(&t->trait, columns, sizeof *t->trait, err);
    if (s != KERF_OK) {
        table_close(t);
        return s;
    }
    for (const char *p = headings; t->columns < columns; t->columns++) {
        char text[64];
        size_t n = strcspn(p, "|");
        const char *heading = take_traits(p, &t->trait[t->columns]);
        snprintf(text, sizeof text, "%.*s", (int)(n - (size_t)(heading - p)), heading);
        add_cell(t, text);
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
    free(t->trait);
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

/* The width of a column that is left out. */
#define GONE ((size_t)-1)

/* The cell with its middle left out, so that it takes `room` columns; the ends of names differ. */
static void print_shortened(const char *text, size_t room, FILE *to)
{
    const size_t all = width_of(text), head = (room - 2) / 3, tail = room - 2 - head;
    for (size_t at = 0, i = 0; text[i]; i++) {
        if (at == head && (text[i] & 0xc0) != 0x80) fputs("..", to);
        if (at < head || at + tail >= all) fputc(text[i], to);
        at += (text[i + 1] & 0xc0) != 0x80;
    }
}

static void print_row(const table *t, const size_t *width, size_t first, FILE *to)
{
    size_t last = t->columns - 1;
    while (last > 0 && width[last] == GONE) last--;
    for (size_t c = 0; c <= last && first + c < t->cells; c++) {
        const char *text = t->cell[first + c];
        if (width[c] == GONE) continue;
        const size_t n = width_of(text) < width[c] ? width_of(text) : width[c];
        const int pad = (int)(width[c] - n);
        if (t->trait[c] & RIGHT) fprintf(to, "%*s", pad, "");
        if (width_of(text) > n)
            print_shortened(text, n, to);
        else
            fputs(text, to);
        if (!(t->trait[c] & RIGHT) && c < last) fprintf(to, "%*s", pad, "");
        fputs(c == last ? "\n" : "  ", to);
    }
}

/* Sets the width of every column; returns that of a line. */
static size_t measure_columns(const table *t, size_t *width)
{
    size_t line = 2 * (t->columns - 1);
    for (size_t i = 0; i < t->cells; i++) {
        const size_t n = width_of(t->cell[i]);
        if (n > width[i % t->columns]) width[i % t->columns] = n;
    }
    for (size_t c = 0; c < t->columns; c++) line += width[c];
    return line;
}

/* Leaves out optional columns, the last one first, until the line fits. Returns its width. */
static size_t drop_columns(const table *t, size_t *width, size_t line, size_t most)
{
    for (size_t c = t->columns; c-- > 0 && line > most;) {
        if (!(t->trait[c] & OPTIONAL)) continue;
        line -= width[c] + 2;
        width[c] = GONE;
    }
    return line;
}

/* Takes columns of the window from the widest elastic ones until the line fits. Returns its width.
 */
static size_t narrow_columns(const table *t, size_t *width, size_t line, size_t most)
{
    enum { LEAST = 16 };
    while (line > most) {
        size_t widest = t->columns;
        for (size_t c = 0; c < t->columns; c++) {
            if (!(t->trait[c] & ELASTIC) || width[c] == GONE || width[c] <= LEAST) continue;
            if (widest == t->columns || width[c] > width[widest]) widest = c;
        }
        if (widest == t->columns) break;
        width[widest]--;
        line--;
    }
    return line;
}

/* What goes to no window may be read by a program: there names are never shortened. */
static size_t lay_out(const table *t, size_t *width, int stream)
{
    const int window = window_width(stream);
    size_t line = measure_columns(t, width);
    if (wide) return line;
    line = drop_columns(t, width, line, window ? (size_t)window : USUAL_WIDTH);
    return window ? narrow_columns(t, width, line, (size_t)window) : line;
}

kerf_status table_print(const table *t, FILE *to, kerf_error *err)
{
    size_t *width = NULL;
    if (t->no_memory) return kerf_fail(err, KERF_E_NOMEM, "no memory for a table");
    TRY(allocate(&width, t->columns, sizeof *width, err));
    const size_t line = lay_out(t, width, to == stdout ? 1 : 2);
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
