/* cmd_compare.c - kerf compare: predictions beside what a benchmark measured. */
#include <kerf/measure.h>

#include "args.h"
#include "output.h"
#include "terminal.h"

typedef struct compare_run {
    const char *path;
    kerf_hardware *hardware;
    kerf_timings times;
    kerf_comparison *comparison;
} compare_run;

static kerf_status print_comparison(const compare_run *j, const args *a, kerf_error *err)
{
    char *text = NULL;
    if (args_has(a, "json"))
        return put_document(kerf_comparison_write(j->comparison, j->path, &text, NULL, err), &text,
                            err);
    return put_text(kerf_comparison_text(j->comparison, text_form(1), &text, NULL, err), &text,
                    err);
}

static int compare(compare_run *j, const args *a, kerf_error *err)
{
    int limit = 1000000, within = 0, band = 0;
    TRY(args_integer(a, "limit", 1, 1000, &limit, err));
    TRY(args_integer(a, "within", 1, 100, &within, err));
    TRY(args_integer(a, "band", 1, 100, &band, err));
    TRY(kerf_timings_read(j->path, &j->times, err));
    TRY(kerf_compare_times(j->hardware, j->times.item, j->times.count, &j->comparison, err));
    TRY(print_comparison(j, a, err));
    const kerf_time_errors *all = &j->comparison->all;
    const int holds =
        all->median * 100 <= limit && all->within_10 * 100 >= within && all->inside * 100 >= band;
    return holds ? EXIT_OK : EXIT_MISMATCH;
}

static int run_compare(const args *a, kerf_error *err)
{
    compare_run j = {.path = args_operand(a, 0)};
    const char *name = args_value(a, "hardware");
    if (!name) return USAGE(err, "compare: --hardware NAME is missing; kerf hardware lists them");
    TRY(kerf_hardware_get(name, &j.hardware, err));
    const int s = compare(&j, a, err);
    kerf_comparison_free(j.comparison);
    kerf_timings_free(&j.times);
    kerf_hardware_close(j.hardware);
    return s;
}

static const option options[] = {
    {"hardware", 0, "NAME|FILE", "the machine that was measured, as for predict"},
    {"limit", 0, "PERCENT", "exit 1 when the median is further off than this"},
    {"within", 0, "PERCENT", "exit 1 when a smaller share is within 10 %"},
    {"band", 0, "PERCENT", "exit 1 when a smaller share is inside the predicted band"},
    {NULL, 0, NULL, NULL},
};

const verb verb_compare = {
    .name = "compare",
    .summary = "predicted times beside measured ones",
    .usage = "BENCH.json --hardware NAME [--limit PERCENT] [--within PERCENT] [--band PERCENT]",
    .details =
        "Reads measured times of matrix products and predicts each of them:\n"
        "  {\"results\": [{\"format\": \"nvfp4\", \"n\": 4096, \"k\": 4096, \"batch\": 1, "
        "\"us\": 5.1}, ...]}\n"
        "(rows, cols, columns and median_us are understood as n, k, batch and us.) Shows how\n"
        "far off each prediction is, and per format the median, the 90th percentile, the share\n"
        "within 10 %, the share inside the predicted band, and how many times its beginning the "
        "end\n"
        "of the band is.",
    .examples = "  kerf compare gemv.json --hardware h200\n"
                "  kerf compare gemv.json --hardware mine.json --limit 10   # for CI\n",
    .options = options,
    .shared = {&option_json, &option_wide},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_compare,
};
