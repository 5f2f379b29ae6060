/* predict_folds.c - how far off predictions are, judged on times that are already measured.
 *
 *   predict_folds RESULT.json HARDWARE [--folds N] [--json] [--demand]
 *
 * RESULT.json is what validate.sh wrote: anchors, and shapes that were drawn later. The drawn
 * shapes are dealt into N parts (8). Each part is predicted from the anchors and the other parts,
 * never from itself, so that every drawn shape is predicted once by measurements that do not
 * include it. That is not the promise that validate.sh checks, whose anchors alone must do: it says what
 * the same predictor gives when anchors lie as drawn shapes do. Besides: the band of the data sheet
 * on the same times, which needs no parts, and how well a time repeats.
 *
 * --demand: exit 1 unless 90 % are within 10 %, the median is off by 4 % at most, and the band
 * holds 95 %. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <kerf/predict.h>

#include "harness.h"

enum { FORMATS = 64, MOST_FOLDS = 1000 };

typedef struct timing {
    kerf_timing time;
    double spread; /* half of what lies between its quartiles, relative; drawn ones */
    int fold;      /* -1: an anchor */
    kerf_prediction fitted, table, spec;
} timing;

typedef struct timings {
    timing *item;
    size_t count;
} timings;

static void check(kerf_status s, const kerf_error *err)
{
    if (s != KERF_OK) bench_die("%s", err->text);
}

/* --- read ------------------------------------------------------------------------------------- */

static double number(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static void add(timings *t, const char *format, double n, double k, double us, int fold)
{
    const kerf_format *f = format ? kerf_format_find(format) : NULL;
    if (!f || !(n >= 1 && k >= 1 && us > 0)) bench_die("a time without format, n, k and us");
    t->item = realloc(t->item, (t->count + 1) * sizeof *t->item);
    if (!t->item) bench_die("no memory");
    t->item[t->count++] = (timing){
        .time = {{.format = f, .n = (uint64_t)n, .k = (uint64_t)k, .rows = 1}, us}, .fold = fold};
}

/* A table is three lists; a grid, as it was once written, is two axes and rows of times. */
static void read_anchors(timings *t, const json_t *table)
{
    const char *format = json_string_value(json_object_get(table, "format"));
    const json_t *n = json_object_get(table, "n"), *k = json_object_get(table, "k");
    const json_t *us = json_object_get(table, "us");
    for (size_t i = 0; i < json_array_size(us); i++) {
        const json_t *row = json_array_get(us, i);
        if (json_is_number(row)) {
            add(t, format, json_number_value(json_array_get(n, i)),
                json_number_value(json_array_get(k, i)), json_number_value(row), -1);
            continue;
        }
        for (size_t j = 0; j < json_array_size(row); j++) {
            add(t, format, json_number_value(json_array_get(n, i)),
                json_number_value(json_array_get(k, j)), json_number_value(json_array_get(row, j)),
                -1);
        }
    }
}

/* Drawn shapes come format by format in the order in which they were drawn. */
static void read_drawn(timings *t, const json_t *results, int folds)
{
    const char *before = "";
    int place = 0;
    for (size_t i = 0; i < json_array_size(results); i++) {
        const json_t *o = json_array_get(results, i);
        const char *format = json_string_value(json_object_get(o, "format"));
        if (!format) bench_die("a result without format");
        place = strcmp(before, format) == 0 ? place + 1 : 0;
        before = format;
        add(t, format, number(o, "n"), number(o, "k"), number(o, "us"), place % folds);
        t->item[t->count - 1].spread = (number(o, "high") - number(o, "low")) / 2 / number(o, "us");
    }
}

/* --- predict ---------------------------------------------------------------------------------- */

/* Predicts what is in `fold` from what is not. */
static void predict_fold(timings *t, const kerf_format *f, int fold, const kerf_hardware *registry)
{
    kerf_error err;
    kerf_fit fit;
    kerf_hardware h = *registry;
    size_t n = 0;
    kerf_timing *seen = bench_alloc(t->count * sizeof *seen);
    double *axis = bench_alloc(3 * t->count * sizeof *axis);
    for (size_t i = 0; i < t->count; i++) {
        const timing *x = &t->item[i];
        if (x->time.product.format != f || x->fold == fold) continue;
        axis[n] = (double)x->time.product.n;
        axis[t->count + n] = (double)x->time.product.k;
        axis[2 * t->count + n] = x->time.us;
        seen[n++] = x->time;
    }
    check(kerf_fit_times(&h, seen, n, &fit, &err), &err);
    kerf_anchors anchors = {.format = f->name,
                            .batch = 1,
                            .count = n,
                            .n = axis,
                            .k = axis + t->count,
                            .us = axis + 2 * t->count};
    h.fit = &fit;
    h.fits = 1;
    h.anchors = &anchors;
    for (size_t i = 0; i < t->count; i++) {
        timing *x = &t->item[i];
        if (x->time.product.format != f || x->fold != fold) continue;
        h.tables = 0;
        check(kerf_predict(&h, &x->time.product, &x->fitted, &err), &err);
        h.tables = 1;
        check(kerf_predict(&h, &x->time.product, &x->table, &err), &err);
        check(kerf_predict(registry, &x->time.product, &x->spec, &err), &err);
    }
    free(seen);
    free(axis);
}

/* --- errors ----------------------------------------------------------------------------------- */

typedef struct errors {
    size_t count;
    double median, p90, worst, within_10;
} errors;

typedef struct summary {
    errors fitted, table;
    double in_band, width, spread; /* share; median of high / low; median */
} summary;

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, by_value);
    return n ? (v[(n - 1) / 2] + v[n / 2]) / 2 : 0;
}

static errors errors_of(double *off, size_t n)
{
    errors e = {.count = n, .median = median(off, n)};
    if (n == 0) return e;
    e.p90 = off[(size_t)ceil(0.9 * (double)n) - 1];
    e.worst = off[n - 1];
    for (size_t i = 0; i < n; i++) e.within_10 += off[i] <= 0.10;
    e.within_10 /= (double)n;
    return e;
}

/* Of one format, or of all where f is NULL. */
static summary summarize(const timings *t, const kerf_format *f)
{
    summary s = {0};
    double *v = bench_alloc(4 * t->count * sizeof *v);
    double *fitted = v, *table = v + t->count, *width = table + t->count,
           *spread = width + t->count;
    size_t n = 0;
    for (size_t i = 0; i < t->count; i++) {
        const timing *x = &t->item[i];
        if (x->fold < 0 || (f && x->time.product.format != f)) continue;
        fitted[n] = fabs(x->fitted.us / x->time.us - 1);
        table[n] = fabs(x->table.us / x->time.us - 1);
        width[n] = x->spec.high_us / x->spec.low_us;
        spread[n] = x->spread;
        s.in_band += x->time.us >= x->spec.low_us && x->time.us <= x->spec.high_us;
        n++;
    }
    s.fitted = errors_of(fitted, n);
    s.table = errors_of(table, n);
    s.width = median(width, n);
    s.spread = median(spread, n);
    if (n) s.in_band /= (double)n;
    free(v);
    return s;
}

/* --- show ------------------------------------------------------------------------------------- */

static void print_row(const char *name, const summary *s)
{
    printf("| %s | %zu | %.1f%% | %.0f%% | %.1f%% | %.1f%% | %.1f%% | %.0f%% | %.2f%% | %.0f%% | "
           "%.1f |\n",
           name, s->table.count, 100 * s->fitted.median, 100 * s->fitted.within_10,
           100 * s->table.median, 100 * s->table.p90, 100 * s->table.worst,
           100 * s->table.within_10, 100 * s->spread, 100 * s->in_band, s->width);
}

static json_t *errors_json(const errors *e)
{
    return json_pack("{s:f, s:f, s:f, s:f}", "median", e->median, "p90", e->p90, "worst", e->worst,
                     "within_10_percent", e->within_10);
}

static json_t *row_json(const char *name, const summary *s)
{
    return json_pack("{s:s, s:I, s:o, s:o, s:f, s:f, s:f}", "format", name, "shapes",
                     (json_int_t)s->table.count, "fitted", errors_json(&s->fitted), "table",
                     errors_json(&s->table), "in_band", s->in_band, "band_width", s->width,
                     "repeats_within", s->spread);
}

/* Whether all of them are as validate.sh demands. */
static int holds(const timings *t)
{
    summary s = summarize(t, NULL);
    return s.table.within_10 >= 0.90 && s.table.median <= 0.04 && s.in_band >= 0.95;
}

static void show(const timings *t, const kerf_format *const *formats, size_t count, int folds,
                 int json)
{
    json_t *rows = json_array();
    size_t anchors = 0;
    for (size_t i = 0; i < t->count; i++) anchors += t->item[i].fold < 0;
    if (!json) {
        printf("Cross-validated on stored times: %zu anchors and %zu drawn shapes of %zu formats; "
               "the\n"
               "drawn ones in %d parts, each predicted from the anchors and the other parts.\n\n"
               "| format | shapes | fit: median off | within 10 %% | table: median off | p90 | "
               "worst | "
               "within 10 %% | repeats within | in band | its width |\n"
               "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
               anchors / count, (t->count - anchors) / count, count, folds);
    }
    for (size_t i = 0; i <= count; i++) {
        summary s = summarize(t, i < count ? formats[i] : NULL);
        const char *name = i < count ? formats[i]->name : "all";
        json_array_append_new(rows, row_json(name, &s));
        if (!json) print_row(name, &s);
    }
    json_t *doc = json_pack("{s:s, s:i, s:I, s:I, s:o}", "schema", "kerf.bench.predict-folds/1",
                            "folds", folds, "anchors", (json_int_t)(anchors / count), "drawn",
                            (json_int_t)((t->count - anchors) / count), "formats", rows);
    if (json && json_dumpf(doc, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(4)) == 0) printf("\n");
    json_decref(doc);
}

int main(int argc, char **argv)
{
    int folds = 8, json = 0, demand = 0;
    json_error_t why;
    timings t = {0};
    const kerf_format *formats[FORMATS];
    size_t count = 0;
    for (int i = 3; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            json = 1;
        } else if (strcmp(argv[i], "--demand") == 0) {
            demand = 1;
        } else if (strcmp(argv[i], "--folds") == 0 && i + 1 < argc) {
            folds = atoi(argv[++i]);
        } else {
            argc = 0;
        }
    }
    if (argc < 3 || folds < 2 || folds > MOST_FOLDS)
        bench_die("usage: predict_folds RESULT.json HARDWARE [--folds N] [--json] [--demand]");
    const kerf_hardware *h = kerf_hardware_find(argv[2]);
    json_t *doc = json_load_file(argv[1], 0, &why);
    if (!h) bench_die("no such machine; kerf hardware lists them");
    if (!doc) bench_die("%s", why.text);
    const json_t *tables = json_object_get(json_object_get(doc, "calibration"), "tables");
    for (size_t i = 0; i < json_array_size(tables); i++)
        read_anchors(&t, json_array_get(tables, i));
    read_drawn(&t, json_object_get(json_object_get(doc, "held"), "results"), folds);
    json_decref(doc);
    for (size_t i = 0; i < t.count; i++) {
        const kerf_format *f = t.item[i].time.product.format;
        size_t at = 0;
        while (at < count && formats[at] != f) at++;
        if (at == count && count < FORMATS) formats[count++] = f;
    }
    if (count == 0) bench_die("no times");
    for (size_t i = 0; i < count; i++)
        for (int fold = 0; fold < folds; fold++) predict_fold(&t, formats[i], fold, h);
    show(&t, formats, count, folds, json);
    int status = demand && !holds(&t);
    free(t.item);
    return status;
}
