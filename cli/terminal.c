/* terminal.c - the window, colours, and whether notes are wanted. */
#include "terminal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int window_width(int stream)
{
    struct winsize size = {0};
    if (isatty(stream)) {
        if (ioctl(stream, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return USUAL_WIDTH;
        return size.ws_col < NARROWEST ? NARROWEST : size.ws_col;
    }
    const char *columns = getenv("COLUMNS");
    const long n = columns ? strtol(columns, NULL, 10) : 0;
    return n >= NARROWEST && n < 10000 ? (int)n : 0;
}

int window_height(void)
{
    struct winsize size = {0};
    if (!isatty(1)) return 0;
    return ioctl(1, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 24;
}

static int has_colours(int stream)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(stream) && !(no && *no) && !(term && strcmp(term, "dumb") == 0);
}

const char *painted(int stream, paint p)
{
    static const char *const codes[] = {[PAINT_END] = "\033[0m", [PAINT_BAD] = "\033[1;31m"};
    return has_colours(stream) ? codes[p] : "";
}

static int wide;

void set_wide(int wanted)
{
    wide = wanted;
}

int is_wide(void)
{
    return wide;
}

const kerf_text_form *text_form(int stream)
{
    static kerf_text_form form;
    form = (kerf_text_form){(unsigned)window_width(stream), wide, has_colours(stream)};
    return &form;
}

const char *summary_path(void)
{
    const char *path = getenv("GITHUB_STEP_SUMMARY");
    return path && *path ? path : NULL;
}

kerf_status append_summary(const char *text, kerf_error *err)
{
    const char *path = summary_path();
    FILE *to = path ? fopen(path, "a") : NULL;
    int failed = !to || fprintf(to, "%s\n", text) < 0;
    if (to) failed |= fclose(to) != 0;
    if (!failed) return KERF_OK;
    return kerf_fail(err, KERF_E_IO, "GITHUB_STEP_SUMMARY: %.300s: %s", path ? path : "not set",
                     strerror(errno));
}

static int quiet;

void set_quiet(int wanted)
{
    quiet = wanted;
}

int is_quiet(void)
{
    return quiet;
}

void print_note(const char *fmt, ...)
{
    va_list list;
    if (quiet) return;
    va_start(list, fmt);
    vfprintf(stderr, fmt, list);
    va_end(list);
    fputc('\n', stderr);
}

kerf_status put_note(kerf_status s, char **text)
{
    if (s != KERF_OK) return s;
    if (!quiet) fputs(*text, stderr);
    free(*text);
    return KERF_OK;
}
