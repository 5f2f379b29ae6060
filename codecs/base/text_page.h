/* text_page.h - a result as text for a person: lines, and tables that fit the window of a
 * kerf_text_form. A page is a stream of growing_text.h with one table at a time. */
#ifndef KERF_TEXT_PAGE_H
#define KERF_TEXT_PAGE_H

#include <kerf/words.h>
#include <stdio.h>

#include "base/base.h"

typedef struct kf_page {
    FILE *to; /* keeps a failure to write until it is closed */
    kerf_text_form form;
    int failed; /* no memory for a table */
    /* the table that is being filled */
    size_t columns, cells, room;
    char **cell;          /* row by row; the first row holds the headings */
    unsigned char *trait; /* per column                                   */
    size_t rule;          /* cell before which a line is drawn; 0: none   */
    char plain[4][4096];
    unsigned next;
} kf_page;

/* headings: "name|bytes|...". What a heading begins with: '>' makes its column flush right; '+'
 * lets the column be left out where the table is wider than the form has columns; '~' then lets a
 * long cell lose its middle, on a window only. */
void kf_table_begin(kf_page *p, const char *headings);
void kf_table_cell(kf_page *p, const char *fmt, ...) KERF_PRINTF(2, 3); /* next cell, row by row */
void kf_table_rule(kf_page *p); /* a line before the next row */
void kf_table_end(kf_page *p);  /* puts the table on the page */

/* A figure of which "-" stands for NaN: there is none. */
void kf_table_figure(kf_page *p, const char *fmt, double figure);

/* One of two words, in the colour of what is well or of what is not where the form has colours. */
void kf_page_verdict(kf_page *p, int well, const char *yes, const char *no);

/* A path or another text from outside, for a line of the page: control characters become '?'. One
 * of four buffers of the page, which the fifth call takes again; a text beyond 4095 bytes is cut.
 */
const char *kf_page_plain(kf_page *p, const char *text);

/* The text that `put` puts on a page of that form (NULL: all zeros), malloc'd; ends in a 0 that n
 * (may be NULL) does not count. *text is NULL after a failure. */
kerf_status kf_page_print(void (*put)(kf_page *p, const void *ctx), const void *ctx,
                          const kerf_text_form *form, char **text, size_t *n, kerf_error *err);

#endif
