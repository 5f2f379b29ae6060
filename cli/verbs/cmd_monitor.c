/* cmd_monitor.c - kerf monitor: what GPUs and processors draw and how they are, live; or the energy
 * of a command. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "monitor_verb.h"
#include "progress.h"
#include "terminal.h"

static kerf_status print_screen(const kerf_monitor *m, const kerf_sample *s, kerf_error *err)
{
    const int height = window_height();
    char when[32], *text = NULL;
    const time_t now = (time_t)s->unix_s;
    struct tm local;
    strftime(when, sizeof when, "%H:%M:%S", localtime_r(&now, &local));
    if (height) printf("\033[H\033[J");
    const char *driver = kerf_monitor_driver(m);
    printf("%s%s%s\n", when, driver[0] ? ", driver " : "", shown(driver));
    const int lines = height ? height - (int)s->count - 4 : KERF_MONITOR_PROCESSES;
    return put_text(kerf_sample_text(s, lines, text_form(1), &text, NULL, err), &text, err);
}

/* --- verb ---------------------------------------------------------------------------------- */

static kerf_status print_sample(const kerf_monitor *m, const kerf_sample *s, const args *a,
                                kerf_error *err)
{
    char *line = NULL;
    if (args_has(a, "json"))
        TRY(put_document(kerf_sample_write(s, &line, NULL, err), &line, err));
    else
        TRY(args_has(a, "csv") ? put_text(kerf_sample_write_csv(s, &line, NULL, err), &line, err)
                               : print_screen(m, s, err));
    if (fflush(stdout) == 0) return KERF_OK;
    return kerf_fail(err, KERF_E_IO, "standard output: %s", strerror(errno));
}

static kerf_status look(kerf_monitor *m, const args *a, kerf_error *err)
{
    kerf_sample *s = NULL;
    double interval = 1, next = now_s();
    char *names = NULL;
    int count = 0;
    kerf_status status = KERF_OK;
    TRY(args_seconds(a, "interval", 0.01, 3600, &interval, err));
    TRY(args_integer(a, "count", 1, 1 << 30, &count, err));
    if (args_has(a, "csv"))
        TRY(put_text(kerf_sample_write_csv(NULL, &names, NULL, err), &names, err));
    TRY(allocate(&s, 1, sizeof *s, err));
    for (int i = 0; status == KERF_OK; i++) {
        kerf_monitor_read(m, s);
        status = print_sample(m, s, a, err);
        if (i + 1 == count) break;
        next += interval;
        const double wait = next - now_s();
        const struct timespec pause = {(time_t)wait, (long)(fmod(wait, 1) * 1e9)};
        if (wait > 0) nanosleep(&pause, NULL);
    }
    free(s);
    return status;
}

static int run_monitor(const args *a, kerf_error *err)
{
    const int meters = args_operands(a) > 0;
    kerf_monitor *m = NULL;
    if (args_has(a, "json") && args_has(a, "csv"))
        return USAGE(err, "--json and --csv are two forms of one answer");
    if (meters && (args_has(a, "json") || args_has(a, "csv") || args_has(a, "count")))
        return USAGE(err, "standard output is the command's; -o FILE takes the figures as JSON");
    if (!meters && args_has(a, "output"))
        return USAGE(err, "-o is for a command: kerf monitor -o FILE -- COMMAND");
    TRY(kerf_monitor_open(NULL, &m, err));
    const int result = meters ? monitor_command(m, a, err) : look(m, a, err);
    kerf_monitor_close(m);
    return result;
}

static const option options[] = {
    {"interval", 0, "SECONDS", "between two readings (default: 1; of a command: 0.01)"},
    {"count", 'n', "N", "readings, then end (default: until a signal)"},
    {"csv", 0, NULL, "comma-separated values, a row for every source and reading"},
    {"idle", 0, "SECONDS", "meter the idle machine before a command (default: 2; 0: do not)"},
    {"output", 'o', "FILE", "the figures of a command as JSON"},
    {NULL, 0, NULL, NULL},
};

const verb verb_monitor = {
    .name = "monitor",
    .summary = "power, clocks and memory of GPUs, live; the energy of a command",
    .usage = "[--json|--csv] [--interval S] [-n N] | [-o FILE] -- COMMAND [ARGUMENT...]",
    .details =
        "Shows GPUs, which NVIDIA's driver describes (NVML), and processors where Linux lets\n"
        "their energy be read (RAPL): power, clocks and what holds them down, temperature, "
        "memory,\n"
        "use, and who computes. --json prints one document a line for every reading. Without any\n"
        "of both: exit code 6.\n"
        "With a command, runs it and reports on standard error what was used meanwhile: joules,\n"
        "average and peak power, and how much of it is above the idle machine, which is metered\n"
        "before. Its exit code becomes that of kerf (128 + N: it died of signal N; 127: it could\n"
        "not be started). A command should run for 2 s at least: counters of GPUs go in steps of\n"
        "some tens of milliseconds, which the report names.",
    .examples = "  kerf monitor\n"
                "  kerf monitor --json --interval 0.1 -n 100 >gpus.jsonl\n"
                "  kerf monitor -o energy.json -- kerf bench gemv --device cuda -f nvfp4\n",
    .options = options,
    .shared = {&option_json, &option_wide, &option_overwrite},
    .writes = {"output"},
    .operands_max = 4096,
    .operands_are_words = 1,
    .run = run_monitor,
};
