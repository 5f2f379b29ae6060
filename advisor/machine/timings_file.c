/* timings_file.c - reads measured times from a file of benchmark results, and checks them. */
#include <kerf/measure.h>

#include <math.h>
#include <stdlib.h>

#include "file/json/json_read.h"

enum { MAX_RESULTS = 1000000 };

/* The value of either name: benchmarks of kernels speak of rows and columns. */
static double value_of(const json_t *o, const char *name, const char *other, double missing)
{
    const json_t *v = json_object_get(o, name);
    if (!v) v = json_object_get(o, other);
    if (!v) return missing;
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static kerf_status read_result(const json_t *o, const char *path, size_t i, kerf_timing *out,
                               kerf_error *err)
{
    const char *format = json_string_value(json_object_get(o, "format"));
    double n = value_of(o, "n", "rows", NAN), k = value_of(o, "k", "cols", NAN);
    double batch = value_of(o, "batch", "columns", 1), us = value_of(o, "us", "median_us", NAN);
    const kerf_format *f = format ? kerf_format_find(format) : NULL;
    if (!f) {
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.200s: results[%zu]: unknown format %.60s",
                       path, i, format ? format : "(none)");
    }
    if (!(n >= 1 && n <= 1e9 && k >= 1 && k <= 1e9 && batch >= 1 && batch <= 1e9) ||
        !(us > 0 && us < 1e12)) {
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "%.200s: results[%zu] needs format, n, k, us and may have batch", path, i);
    }
    *out = (kerf_timing){{.format = f, .n = (uint64_t)n, .k = (uint64_t)k, .rows = batch}, us};
    return KERF_OK;
}

kerf_status kerf_timings_read(const char *path, kerf_timings *out, kerf_error *err)
{
    json_t *doc;
    *out = (kerf_timings){0};
    kerf_status s = kf_json_read(path, KF_JSON_MAX_TABLE_BYTES, KF_JSON_STRICT, &doc, err);
    if (s != KERF_OK) return s;
    const json_t *results = json_object_get(doc, "results");
    size_t n = json_array_size(results);
    if (n == 0 || n > MAX_RESULTS) {
        s = kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.200s: results must be a list of 1 to %d", path,
                    MAX_RESULTS);
    }
    if (s == KERF_OK) s = kf_allocate(&out->item, n, sizeof *out->item, err);
    for (; s == KERF_OK && out->count < n; out->count++) {
        s = read_result(json_array_get(results, out->count), path, out->count,
                        &out->item[out->count], err);
    }
    json_decref(doc);
    if (s != KERF_OK) kerf_timings_free(out);
    return s;
}

void kerf_timings_free(kerf_timings *t)
{
    free(t->item);
    *t = (kerf_timings){0};
}
