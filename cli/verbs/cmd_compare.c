/* cmd_compare.c - kerf compare: predictions beside what a benchmark measured. */
#include <stdlib.h>

#include <kerf/measure.h>

#include "output.h"
#include "verbs/predict_verb.h"

typedef struct comparison {
    const char *path;
    kerf_hardware *hardware;
    kerf_timings times;
    kerf_compared_time *item;
    size_t count;
} comparison;

static kerf_status predict_all(comparison *c, kerf_error *err)
{
    TRY(allocate(&c->item, c->times.count, sizeof *c->item, err));
    for (; c->count < c->times.count; c->count++) {
        TRY(kerf_compare_time(c->hardware, &c->times.item[c->count], &c->item[c->count], err));
    }
    return KERF_OK;
}

/* --- show ---------------------------------------------------------------------------------- */

static kerf_status print_rows(const comparison *c, kerf_error *err)
{
    table *t = NULL;
    TRY(table_open(&t, "NxK|>batch|format|tier|>predicted us|>measured us|>off|+in band", err));
    for (size_t i = 0; i < c->count; i++) {
        const kerf_compared_time *x = &c->item[i];
        table_cell(t, "%llux%llu", (unsigned long long)x->measured.product.n,
                   (unsigned long long)x->measured.product.k);
        table_cell(t, "%.0f", x->measured.product.rows);
        table_cell(t, "%s", x->measured.product.format->name);
        time_cells(t, &x->predicted);
        table_cell(t, "%.2f", x->measured.us);
        table_cell(t, "%+.1f %%", 100 * (x->ratio - 1));
        table_cell(t, "%s", !x->banded ? "-" : x->inside ? "yes" : "no");
    }
    return table_end(t, KERF_OK, err);
}

static void error_cells(table *t, const char *name, const kerf_time_errors *s)
{
    table_cell(t, "%s", name);
    table_cell(t, "%zu", s->count);
    table_cell(t, "%.1f %%", 100 * s->median);
    table_cell(t, "%.1f %%", 100 * s->p90);
    table_cell(t, "%.1f %%", 100 * s->worst);
    table_cell(t, "%.0f %%", 100 * s->within_10);
    if (s->banded) {
        table_cell(t, "%.0f %%", 100 * s->inside);
        table_cell(t, "%.1f", s->width);
    } else {
        table_cell(t, "-");
        table_cell(t, "-");
    }
}

static kerf_status print_errors(const comparison *c, kerf_error *err)
{
    table *t = NULL;
    kerf_time_errors s;
    TRY(table_open(&t, "format|>shapes|>median off|>p90|>worst|>within 10 %|+>in band|+>its width",
                   err));
    kerf_status status = KERF_OK;
    for (size_t i = 0; i < kerf_format_count() && status == KERF_OK; i++) {
        status = kerf_sum_up_times(c->item, c->count, kerf_format_at(i), &s, err);
        if (s.count) error_cells(t, kerf_format_at(i)->name, &s);
    }
    if (status == KERF_OK) status = kerf_sum_up_times(c->item, c->count, NULL, &s, err);
    table_rule(t);
    error_cells(t, "all", &s);
    printf("\n");
    return table_end(t, status, err);
}

static json_t *errors_json(const char *name, const kerf_time_errors *s)
{
    return json_pack("{s:s, s:I, s:f, s:f, s:f, s:f, s:I, s:f, s:f}", "format", name, "shapes",
                     (json_int_t)s->count, "median", s->median, "p90", s->p90, "worst", s->worst,
                     "within_10_percent", s->within_10, "banded", (json_int_t)s->banded, "in_band",
                     s->inside, "band_width", s->width);
}

static kerf_status print_document(const comparison *c, kerf_error *err)
{
    json_t *rows = json_array(), *formats = json_array();
    kerf_time_errors s;
    for (size_t i = 0; i < c->count; i++) {
        const kerf_compared_time *x = &c->item[i];
        json_t *row =
            json_pack("{s:s, s:I, s:I, s:f, s:f, s:f, s:b}", "format",
                      x->measured.product.format->name, "n", (json_int_t)x->measured.product.n, "k",
                      (json_int_t)x->measured.product.k, "batch", x->measured.product.rows,
                      "measured_us", x->measured.us, "ratio", x->ratio, "in_band", x->inside);
        prediction_json(&row, &x->predicted);
        json_add(&rows, row);
    }
    kerf_status status = KERF_OK;
    for (size_t i = 0; i < kerf_format_count() && status == KERF_OK; i++) {
        status = kerf_sum_up_times(c->item, c->count, kerf_format_at(i), &s, err);
        if (s.count) json_add(&formats, errors_json(kerf_format_at(i)->name, &s));
    }
    if (status == KERF_OK) status = kerf_sum_up_times(c->item, c->count, NULL, &s, err);
    json_t *doc = json_pack("{s:o, s:s, s:o, s:o, s:o}", "bench", json_path(c->path), "hardware",
                            c->hardware->name, "all", errors_json("all", &s), "formats", formats,
                            "results", rows);
    if (status == KERF_OK) return print_json("compare", doc, err);
    json_decref(doc);
    return status;
}

/* --- verb ---------------------------------------------------------------------------------- */

static int compare(comparison *c, const args *a, kerf_error *err)
{
    int limit = 1000000, within = 0, band = 0;
    kerf_time_errors all;
    TRY(args_integer(a, "limit", 1, 1000, &limit, err));
    TRY(args_integer(a, "within", 1, 100, &within, err));
    TRY(args_integer(a, "band", 1, 100, &band, err));
    TRY(kerf_timings_read(c->path, &c->times, err));
    TRY(predict_all(c, err));
    TRY(kerf_sum_up_times(c->item, c->count, NULL, &all, err));
    if (args_has(a, "json")) {
        TRY(print_document(c, err));
    } else {
        TRY(print_rows(c, err));
        TRY(print_errors(c, err));
    }
    int holds =
        all.median * 100 <= limit && all.within_10 * 100 >= within && all.inside * 100 >= band;
    return holds ? EXIT_OK : EXIT_MISMATCH;
}

static int run_compare(const args *a, kerf_error *err)
{
    comparison c = {.path = args_operand(a, 0)};
    const char *name = args_value(a, "hardware");
    if (!name) return USAGE(err, "compare: --hardware NAME is missing; kerf hardware lists them");
    TRY(kerf_hardware_get(name, &c.hardware, err));
    int s = compare(&c, a, err);
    kerf_timings_free(&c.times);
    free(c.item);
    kerf_hardware_close(c.hardware);
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
    .examples = "  kerf compare bench/results/gemv.json --hardware h200\n"
                "  kerf compare gemv.json --hardware mine.json --limit 10   # for CI\n",
    .options = options,
    .shared = {&option_json, &option_wide},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_compare,
};
