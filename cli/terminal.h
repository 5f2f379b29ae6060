/* terminal.h - what the command knows of where it runs: how wide the window is, whether colours and
 * notes are wanted. The only place that asks the environment. */
#ifndef KERF_TERMINAL_H
#define KERF_TERMINAL_H

#include "cli.h"

enum { NARROWEST = 40, USUAL_WIDTH = 80 };

/* Columns of the window that a stream (1 or 2) goes to, asked anew each time, since windows change;
 * COLUMNS where it goes elsewhere; 0: it goes to no window, and lines may have any length. */
int window_width(int stream);

/* Lines of the window that standard output goes to; 0: it goes to no window. */
int window_height(void);

/* What brackets a text in a colour, "" where none is wanted: the stream is no terminal, NO_COLOR is
 * set (https://no-color.org) or TERM is dumb. */
typedef enum paint { PAINT_END, PAINT_BAD } paint;
const char *painted(int stream, paint p);

/* --wide: every column of the library's tables, in full. */
void set_wide(int wide);
int is_wide(void);

/* How the library's texts are to look on a stream. It is good until the next call. */
const kerf_text_form *text_form(int stream);

/* The file to which a step of GitHub Actions adds what its page shows; NULL: none. Appends a text
 * to it, whole. */
const char *summary_path(void);
kerf_status append_summary(const char *text, kerf_error *err);

/* -q: nothing but failures on standard error. */
void set_quiet(int quiet);
int is_quiet(void);

/* A line for people on standard error, without its newline; nothing under -q. */
void print_note(const char *fmt, ...) KERF_PRINTF(1, 2);
/* The same of lines that the library wrote, unless s says that it failed to; frees them. */
kerf_status put_note(kerf_status s, char **text);

#endif
