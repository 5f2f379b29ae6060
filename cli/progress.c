/* progress.c - a bar at about 10 Hz on a terminal, or one JSON object per line. */
#include "progress.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

enum { SILENT, BAR, LINES };

double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

kerf_status progress_open(progress *p, const args *a, uint64_t total, kerf_error *err)
{
    static const char *const modes[] = {"auto", "bar", "json", "none", NULL};
    static const int mode_of[] = {SILENT, BAR, LINES, SILENT};
    int mode = 0;
    TRY(args_choice(a, "progress", modes, &mode, err));
    *p = (progress){.mode = mode_of[mode], .total = total, .started_s = now_s()};
    if (mode == 0 && isatty(STDERR_FILENO)) p->mode = BAR;
    return KERF_OK;
}

static void print_line(json_t *event)
{
    char *text = json_dumps(event, JSON_COMPACT);
    if (text) fprintf(stderr, "%s\n", text);
    json_decref(event);
    free(text);
}

static void draw_bar(progress *p, double now)
{
    enum { CELLS = 24 };
    double share = p->total ? (double)p->done / (double)p->total : 1;
    double elapsed = now - p->started_s;
    double rate = elapsed > 0 ? (double)p->done / elapsed : 0;
    char bar[CELLS + 1];
    for (int i = 0; i < CELLS; i++) bar[i] = (i + 0.5) / CELLS < share ? '#' : '.';
    bar[CELLS] = 0;
    fprintf(stderr, "\r\033[K[%s] %3.0f %%  %.1f of %.1f MB  %.0f MB/s", bar, 100 * share,
            (double)p->done / 1e6, (double)p->total / 1e6, rate / 1e6);
    if (rate > 0 && elapsed > 1) {
        double left = (double)(p->total - p->done) / rate;
        fprintf(stderr, "  %.0f:%02.0f left", (left - (double)((int)left % 60)) / 60,
                (double)((int)left % 60));
    }
    fprintf(stderr, "  %.30s", p->what);
    fflush(stderr);
    p->shown_s = now;
    p->drawn = 1;
}

void progress_tensor(progress *p, const char *name, const char *action)
{
    printable(name, p->what, sizeof p->what);
    if (p->mode != LINES) return;
    print_line(json_pack("{s:s, s:s, s:s, s:I, s:I}", "event", "tensor", "name", name, "action",
                         action, "done_bytes", (json_int_t)p->done, "total_bytes",
                         (json_int_t)p->total));
}

void progress_add(progress *p, uint64_t bytes)
{
    p->done += bytes;
    if (p->done > p->total) p->total = p->done;
    if (p->mode == SILENT) return;
    double now = now_s();
    if (p->mode == BAR && now - p->shown_s >= 0.1) draw_bar(p, now);
    if (p->mode == LINES && now - p->shown_s >= 0.5) {
        print_line(json_pack("{s:s, s:I, s:I}", "event", "bytes", "done_bytes", (json_int_t)p->done,
                             "total_bytes", (json_int_t)p->total));
        p->shown_s = now;
    }
}

double progress_close(progress *p)
{
    double elapsed = now_s() - p->started_s;
    if (p->drawn) fprintf(stderr, "\r\033[K");
    if (p->mode == LINES) {
        print_line(json_pack("{s:s, s:I, s:f}", "event", "end", "done_bytes", (json_int_t)p->done,
                             "seconds", elapsed));
    }
    p->mode = SILENT;
    p->drawn = 0;
    return elapsed;
}
