/* text_page.c - pages of text: tables with columns as wide as their widest cell, which fit a
 * window. */
#include "base/text_page.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/growing_text.h"

enum { RIGHT = 1, OPTIONAL = 2, ELASTIC = 4 };
enum { USUAL_WIDTH = 80 }; /* of what goes to no window */

/* --- cells --------------------------------------------------------------------------------- */

static void add_cell(kf_page *p, const char *text)
{
    if (p->cells == p->room) {
        size_t room = p->room ? p->room * 2 : 64;
        char **cell = realloc(p->cell, room * sizeof *cell);
        if (!cell) {
            p->failed = 1;
            return;
        }
        p->cell = cell;
        p->room = room;
    }
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    if (!copy) {
        p->failed = 1;
        return;
    }
    p->cell[p->cells++] = kerf_text_printable(text, copy, size);
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

void kf_table_begin(kf_page *p, const char *headings)
{
    size_t columns = 1;
    for (const char *h = headings; *h; h++) columns += *h == '|';
    p->trait = calloc(columns, sizeof *p->trait);
    if (!p->trait) p->failed = 1;
    for (const char *h = headings; p->trait && p->columns < columns; p->columns++) {
        char text[64];
        size_t n = strcspn(h, "|");
        const char *heading = take_traits(h, &p->trait[p->columns]);
        snprintf(text, sizeof text, "%.*s", (int)(n - (size_t)(heading - h)), heading);
        add_cell(p, text);
        h += n + 1;
    }
}

void kf_table_cell(kf_page *p, const char *fmt, ...)
{
    char text[1100];
    va_list list;
    va_start(list, fmt);
    vsnprintf(text, sizeof text, fmt, list);
    va_end(list);
    add_cell(p, text);
}

void kf_table_figure(kf_page *p, const char *fmt, double figure)
{
    char text[40];
    snprintf(text, sizeof text, fmt, figure);
    add_cell(p, figure == figure ? text : "-");
}

void kf_table_rule(kf_page *p)
{
    p->rule = p->cells;
}

/* --- layout -------------------------------------------------------------------------------- */

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

static void print_row(const kf_page *p, const size_t *width, size_t first)
{
    FILE *to = p->to;
    size_t last = p->columns - 1;
    while (last > 0 && width[last] == GONE) last--;
    for (size_t c = 0; c <= last && first + c < p->cells; c++) {
        const char *text = p->cell[first + c];
        if (width[c] == GONE) continue;
        const size_t n = width_of(text) < width[c] ? width_of(text) : width[c];
        const int pad = (int)(width[c] - n);
        if (p->trait[c] & RIGHT) fprintf(to, "%*s", pad, "");
        if (width_of(text) > n)
            print_shortened(text, n, to);
        else
            fputs(text, to);
        if (!(p->trait[c] & RIGHT) && c < last) fprintf(to, "%*s", pad, "");
        fputs(c == last ? "\n" : "  ", to);
    }
}

/* Sets the width of every column; returns that of a line. */
static size_t measure_columns(const kf_page *p, size_t *width)
{
    size_t line = 2 * (p->columns - 1);
    for (size_t i = 0; i < p->cells; i++) {
        const size_t n = width_of(p->cell[i]);
        if (n > width[i % p->columns]) width[i % p->columns] = n;
    }
    for (size_t c = 0; c < p->columns; c++) line += width[c];
    return line;
}

/* Leaves out optional columns, the last one first, until the line fits. Returns its width. */
static size_t drop_columns(const kf_page *p, size_t *width, size_t line, size_t most)
{
    for (size_t c = p->columns; c-- > 0 && line > most;) {
        if (!(p->trait[c] & OPTIONAL)) continue;
        line -= width[c] + 2;
        width[c] = GONE;
    }
    return line;
}

/* Takes columns of the window from the widest elastic ones until the line fits. Returns its width.
 */
static size_t narrow_columns(const kf_page *p, size_t *width, size_t line, size_t most)
{
    enum { LEAST = 16 };
    while (line > most) {
        size_t widest = p->columns;
        for (size_t c = 0; c < p->columns; c++) {
            if (!(p->trait[c] & ELASTIC) || width[c] == GONE || width[c] <= LEAST) continue;
            if (widest == p->columns || width[c] > width[widest]) widest = c;
        }
        if (widest == p->columns) break;
        width[widest]--;
        line--;
    }
    return line;
}

/* What goes to no window may be read by a program: there names are never shortened. */
static size_t lay_out(const kf_page *p, size_t *width)
{
    const size_t window = p->form.columns;
    size_t line = measure_columns(p, width);
    if (p->form.wide) return line;
    line = drop_columns(p, width, line, window ? window : USUAL_WIDTH);
    return window ? narrow_columns(p, width, line, window) : line;
}

static void print_table(const kf_page *p, size_t *width)
{
    const size_t line = lay_out(p, width);
    for (size_t i = 0; i < p->cells; i += p->columns) {
        if (i == p->columns || (i && i == p->rule)) {
            for (size_t k = 0; k < line; k++) fputc('-', p->to);
            fputc('\n', p->to);
        }
        print_row(p, width, i);
    }
}

void kf_table_end(kf_page *p)
{
    size_t *width = p->failed ? NULL : calloc(p->columns, sizeof *width);
    if (width)
        print_table(p, width);
    else
        p->failed = 1;
    free(width);
    for (size_t i = 0; i < p->cells; i++) free(p->cell[i]);
    free(p->cell);
    free(p->trait);
    p->cell = NULL;
    p->trait = NULL;
    p->columns = p->cells = p->room = p->rule = 0;
}

/* --- the page ------------------------------------------------------------------------------ */

void kf_page_verdict(kf_page *p, int well, const char *yes, const char *no)
{
    static const char *const codes[] = {"\033[1;31m", "\033[1;32m"};
    const char *word = well ? yes : no;
    if (p->form.colours)
        fprintf(p->to, "%s%s\033[0m", codes[well != 0], word);
    else
        fputs(word, p->to);
}

const char *kf_page_plain(kf_page *p, const char *text)
{
    return kerf_text_printable(text, p->plain[p->next++ % 4], sizeof *p->plain);
}

kerf_status kf_page_print(void (*put)(kf_page *p, const void *ctx), const void *ctx,
                          const kerf_text_form *form, char **text, size_t *n, kerf_error *err)
{
    kf_text all = {0};
    kf_page p = {.to = kf_text_stream(&all)};
    if (form) p.form = *form;
    if (p.to) put(&p, ctx);
    if (p.failed) all.failed = 1;
    if (kf_text_close(&all, p.to, text, n)) return KERF_OK;
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a table");
}
