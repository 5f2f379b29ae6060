/* progress.c - draws a bar ten times a second on a terminal, or prints one JSON object per line. */
#include "progress.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "output.h"
#include "terminal.h"

enum { SILENT, BAR, LINES };

double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void tell(void *ctx, const kerf_event *e);

kerf_status progress_open(progress *p, const args *a, kerf_error *err)
{
    static const char *const modes[] = {"auto", "bar", "json", "none", NULL};
    static const int mode_of[] = {SILENT, BAR, LINES, SILENT};
    int mode = 0;
    TRY(args_choice(a, "progress", modes, &mode, err));
    *p = (progress){.mode = mode_of[mode], .started_s = now_s(), .job = {tell, company.cancel, p}};
    p->phase_s = p->started_s;
    if (mode == 0 && isatty(STDERR_FILENO)) p->mode = BAR;
    if (args_has(a, "quiet") && p->mode == BAR) p->mode = SILENT;
    p->verbose = args_has(a, "verbose");
    return KERF_OK;
}

int progress_allows_text(const args *a)
{
    const char *mode = args_value(a, "progress");
    return !mode || strcmp(mode, "json") != 0;
}

/* Prints a line, of its event alone where there is no memory for more, and frees it. It is one
 * write, so that a write that fails takes a line with it and not a part of one. */
static void print_line(kerf_status s, const char *event, char **line, const size_t *n)
{
    if (s != KERF_OK) fprintf(stderr, "{\"schema\":\"kerf.progress/1\",\"event\":\"%s\"}\n", event);
    if (s == KERF_OK) (*line)[*n] = '\n'; /* in place of the 0 */
    if (s == KERF_OK) fwrite(*line, 1, *n + 1, stderr);
    free(*line);
}

/* Bytes per second of this phase, and the seconds that the rest will take; 0: not known yet. */
static double rate_of(const progress *p, double now, double *left_s)
{
    double elapsed = now - p->phase_s;
    double rate = elapsed > 0 ? (double)(p->last.done - p->last.skipped) / elapsed : 0;
    *left_s = rate > 0 && elapsed > 1 ? (double)(p->last.total - p->last.done) / rate : 0;
    return rate;
}

static void draw_bar(const progress *p, double now)
{
    enum { CELLS = 24, LEAST_NAME = 8 };
    double left, rate = rate_of(p, now, &left);
    double share = p->last.total ? (double)p->last.done / (double)p->last.total : 1;
    char bar[CELLS + 1], time[32] = "", figures[128];
    const int window = window_width(STDERR_FILENO);
    const int room = (window ? window : USUAL_WIDTH) - 1; /* a full line would wrap */
    const long seconds = (long)left;
    if (left > 0) snprintf(time, sizeof time, "  %ld:%02ld left", seconds / 60, seconds % 60);
    int used =
        snprintf(figures, sizeof figures, "%3.0f %%  %.1f of %.1f MB  %.0f MB/s%s", 100 * share,
                 (double)p->last.done / 1e6, (double)p->last.total / 1e6, rate / 1e6, time);
    int cells = room - used - 3;
    if (cells > CELLS) cells = CELLS;
    fputs("\r\033[K", stderr);
    for (int i = 0; i < cells; i++) bar[i] = (i + 0.5) / cells < share ? '#' : '.';
    if (cells >= LEAST_NAME) {
        bar[cells] = 0;
        fprintf(stderr, "[%s] ", bar);
        used += cells + 3;
    }
    fprintf(stderr, "%.*s", room, figures);
    if (room - used >= LEAST_NAME + 2) fprintf(stderr, "  %.*s", room - used - 2, p->what);
    fflush(stderr);
}

static void print_event(const progress *p, const kerf_event *e)
{
    char *line = NULL;
    size_t n = 0;
    double left, rate = rate_of(p, now_s(), &left);
    kerf_status s = kerf_event_write(e, rate, left, &line, &n, NULL);
    print_line(s, kerf_event_name(e->kind), &line, &n);
}

static void show(progress *p)
{
    static const double least_wait_s[] = {[BAR] = 0.1, [LINES] = 0.5};
    if (p->mode == SILENT) return;
    double now = now_s();
    if (now - p->shown_s < least_wait_s[p->mode]) return;
    p->shown_s = now;
    if (p->mode == LINES) {
        print_event(p, &p->last);
        return;
    }
    draw_bar(p, now);
    p->drawn = 1;
}

static void clear(progress *p)
{
    if (p->drawn) fprintf(stderr, "\r\033[K");
    p->drawn = 0;
}

static void tell_resume(progress *p, const kerf_event *e)
{
    clear(p);
    if (p->mode == LINES) {
        print_event(p, e);
    } else if (e->action) {
        fprintf(stderr, "%s: begins anew: %s\n", shown(e->what), e->action);
    } else {
        fprintf(stderr, "%s: goes on: %.1f MB were there, all compared\n", shown(e->what),
                (double)e->done / 1e6);
    }
}

/* What the library tells, one event at a time. */
static void tell(void *ctx, const kerf_event *told)
{
    progress *p = ctx;
    kerf_event all = *told, *e = &all;
    if (company.hear) company.hear(&p->job, e);
    if (e->kind == KERF_EVENT_RESUME) {
        tell_resume(p, e);
        return;
    }
    p->last = *e;
    if (e->what) kerf_text_printable(e->what, p->what, sizeof p->what);
    if (e->kind == KERF_EVENT_PHASE) p->phase_s = now_s();
    if (e->kind == KERF_EVENT_PROGRESS) {
        show(p);
    } else if (p->mode == LINES) {
        print_event(p, e);
    } else if (e->kind == KERF_EVENT_ITEM && p->verbose) {
        clear(p);
        fprintf(stderr, "%s: %s\n", shown(e->what), e->action ? e->action : "done");
    }
}

double progress_pause(progress *p)
{
    clear(p);
    return now_s() - p->started_s;
}

double progress_close(progress *p)
{
    const double elapsed = progress_pause(p);
    char *line = NULL;
    size_t n = 0;
    if (p->mode == LINES)
        print_line(kerf_event_write_end(p->last.done, elapsed, &line, &n, NULL), "end", &line, &n);
    p->mode = SILENT;
    return elapsed;
}
