/* cmd_compare.c - kerf compare: predictions beside what a benchmark measured. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <kerf/predict.h>

#include "machine/bench_file.h"
#include "machine/machine.h"
#include "output.h"
#include "verbs/predict_verb.h"

typedef struct result {
    const kerf_format *format;
    kerf_matmul product;
    double us;    /* measured */
    double ratio; /* predicted / measured */
    int banded;   /* the prediction is a band ... */
    int inside;   /* ... and what was measured lies in it */
    kerf_prediction predicted;
} result;

typedef struct comparison_run {
    const char *path;
    const kerf_hardware *hardware;
    bench_file bench;
    result *item;
    size_t count;
} comparison_run;

/* --- predict ------------------------------------------------------------------------------- */

static kerf_status predict_all(comparison_run *r, kerf_error *err)
{
    TRY(allocate(&r->item, r->bench.count, sizeof *r->item, err));
    for (; r->count < r->bench.count; r->count++) {
        const kerf_timing *t = &r->bench.item[r->count];
        result *out = &r->item[r->count];
        *out = (result){.format = t->product.format, .product = t->product, .us = t->us};
        TRY(kerf_predict(r->hardware, &out->product, &out->predicted, err));
        out->ratio = out->predicted.us / t->us;
        const kerf_prediction *p = &out->predicted;
        out->banded = p->low_us < p->high_us;
        out->inside = out->banded && t->us >= p->low_us && t->us <= p->high_us;
    }
    return KERF_OK;
}

/* --- errors -------------------------------------------------------------------------------- */

typedef struct spread {   /* of |predicted / measured - 1| over some results */
    size_t count, banded; /* banded: predicted as a band; inside is a share of those */
    double median, p90, worst, within_10, inside;
    double width; /* of the band: median of its end over its beginning */
} spread;

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The median; orders v. */
static double middle(double *v, size_t n)
{
    qsort(v, n, sizeof *v, by_value);
    return (v[(n - 1) / 2] + v[n / 2]) / 2;
}

/* Over results of one format, or of all where that is NULL. */
static kerf_status find_spread(const comparison_run *r, const kerf_format *f, spread *out,
                               kerf_error *err)
{
    double *error = NULL;
    size_t near = 0, inside = 0;
    *out = (spread){0};
    TRY(allocate(&error, 2 * r->count, sizeof *error, err));
    double *width = error + r->count;
    for (size_t i = 0; i < r->count; i++) {
        if (f && r->item[i].format != f) continue;
        double e = fabs(r->item[i].ratio - 1);
        error[out->count++] = e;
        near += e <= 0.10;
        inside += (size_t)r->item[i].inside;
        const kerf_prediction *p = &r->item[i].predicted;
        if (r->item[i].banded) width[out->banded++] = p->high_us / p->low_us;
    }
    if (out->count) {
        double n = (double)out->count;
        out->median = middle(error, out->count);
        out->p90 = error[(size_t)ceil(0.9 * n) - 1];
        out->worst = error[out->count - 1];
        out->within_10 = (double)near / n;
        out->inside = out->banded ? (double)inside / (double)out->banded : 0;
        out->width = out->banded ? middle(width, out->banded) : 0;
    }
    free(error);
    return KERF_OK;
}

/* --- show ---------------------------------------------------------------------------------- */

static kerf_status print_rows(const comparison_run *r, kerf_error *err)
{
    table *t = NULL;
    TRY(table_open(&t, "NxK|>batch|format|tier|>predicted us|>measured us|>off|in band", err));
    for (size_t i = 0; i < r->count; i++) {
        const result *x = &r->item[i];
        table_cell(t, "%llux%llu", (unsigned long long)x->product.n,
                   (unsigned long long)x->product.k);
        table_cell(t, "%.0f", x->product.rows);
        table_cell(t, "%s", x->format->name);
        time_cells(t, &x->predicted);
        table_cell(t, "%.2f", x->us);
        table_cell(t, "%+.1f %%", 100 * (x->ratio - 1));
        table_cell(t, "%s", !x->banded ? "-" : x->inside ? "yes" : "no");
    }
    kerf_status s = table_print(t, stdout, err);
    table_close(t);
    return s;
}

static void spread_cells(table *t, const char *name, const spread *s)
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

static kerf_status print_spreads(const comparison_run *r, kerf_error *err)
{
    table *t = NULL;
    spread s;
    TRY(table_open(&t, "format|>shapes|>median off|>p90|>worst|>within 10 %|>in band|>its width",
                   err));
    kerf_status status = KERF_OK;
    for (size_t i = 0; i < kerf_format_count() && status == KERF_OK; i++) {
        status = find_spread(r, kerf_format_at(i), &s, err);
        if (s.count) spread_cells(t, kerf_format_at(i)->name, &s);
    }
    if (status == KERF_OK) status = find_spread(r, NULL, &s, err);
    table_rule(t);
    spread_cells(t, "all", &s);
    printf("\n");
    if (status == KERF_OK) status = table_print(t, stdout, err);
    table_close(t);
    return status;
}

static json_t *spread_json(const char *name, const spread *s)
{
    return json_pack("{s:s, s:I, s:f, s:f, s:f, s:f, s:I, s:f, s:f}", "format", name, "shapes",
                     (json_int_t)s->count, "median", s->median, "p90", s->p90, "worst", s->worst,
                     "within_10_percent", s->within_10, "banded", (json_int_t)s->banded, "in_band",
                     s->inside, "band_width", s->width);
}

static kerf_status print_document(const comparison_run *r, kerf_error *err)
{
    json_t *rows = json_array(), *formats = json_array();
    spread s;
    for (size_t i = 0; i < r->count; i++) {
        const result *x = &r->item[i];
        json_t *row = json_pack("{s:s, s:I, s:I, s:f, s:f, s:f, s:b}", "format", x->format->name,
                                "n", (json_int_t)x->product.n, "k", (json_int_t)x->product.k,
                                "batch", x->product.rows, "measured_us", x->us, "ratio", x->ratio,
                                "in_band", x->inside);
        prediction_json(row, &x->predicted);
        json_array_append_new(rows, row);
    }
    kerf_status status = KERF_OK;
    for (size_t i = 0; i < kerf_format_count() && status == KERF_OK; i++) {
        status = find_spread(r, kerf_format_at(i), &s, err);
        if (s.count) json_array_append_new(formats, spread_json(kerf_format_at(i)->name, &s));
    }
    if (status == KERF_OK) status = find_spread(r, NULL, &s, err);
    json_t *doc = json_pack("{s:o, s:s, s:o, s:o, s:o}", "bench", json_path(r->path), "hardware",
                            r->hardware->name, "all", spread_json("all", &s), "formats", formats,
                            "results", rows);
    if (status == KERF_OK) return print_json("compare", doc, err);
    json_decref(doc);
    return status;
}

/* --- verb ---------------------------------------------------------------------------------- */

static int compare(comparison_run *r, const args *a, kerf_error *err)
{
    int limit = 1000000, within = 0, band = 0;
    spread s;
    TRY(args_integer(a, "limit", 1, 1000, &limit, err));
    TRY(args_integer(a, "within", 1, 100, &within, err));
    TRY(args_integer(a, "band", 1, 100, &band, err));
    TRY(bench_file_open(&r->bench, r->path, err));
    TRY(predict_all(r, err));
    TRY(find_spread(r, NULL, &s, err));
    if (args_has(a, "json")) {
        TRY(print_document(r, err));
    } else {
        TRY(print_rows(r, err));
        TRY(print_spreads(r, err));
    }
    int holds = s.median * 100 <= limit && s.within_10 * 100 >= within && s.inside * 100 >= band;
    return holds ? EXIT_OK : EXIT_MISMATCH;
}

static int run_compare(const args *a, kerf_error *err)
{
    machine m = {0};
    comparison_run r = {.path = args_operand(a, 0)};
    const char *name = args_value(a, "hardware");
    if (!name) return USAGE(err, "compare: --hardware NAME is missing; kerf hardware lists them");
    TRY(machine_open(&m, name, err));
    r.hardware = m.hardware;
    int s = compare(&r, a, err);
    bench_file_close(&r.bench);
    free(r.item);
    machine_close(&m);
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
    .shared = {&option_json},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_compare,
};
