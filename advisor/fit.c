/* fit.c - the parameters of a kernel from measured times: see kerf_fit_times. */
#include <kerf/predict.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "waves.h"

typedef struct sample {
    kerf_work work;
    double bytes, us; /* bytes: as many as would take as long without waves */
    int skip;         /* held out                                           */
} sample;

/* Least squares of relative errors: minimises the sum of ((fixed + bytes * slope) / us - 1)^2 with
 * neither below zero, and returns it. slope: us per byte. */
static double fit_line(const sample *s, size_t n, double *fixed, double *slope)
{
    double aa = 0, ab = 0, bb = 0, a1 = 0, b1 = 0, rest = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i].skip) continue;
        double a = 1 / s[i].us, b = s[i].bytes / s[i].us;
        aa += a * a;
        ab += a * b;
        bb += b * b;
        a1 += a;
        b1 += b;
    }
    double det = aa * bb - ab * ab;
    int solved = det > 1e-12 * aa * bb; /* else all have one size */
    if (solved) {
        *fixed = (a1 * bb - b1 * ab) / det;
        *slope = (b1 * aa - a1 * ab) / det;
    }
    if (!solved || *fixed < 0 || *slope <= 0) { /* the line goes through zero */
        *fixed = 0;
        *slope = bb > 0 ? b1 / bb : 0;
    }
    for (size_t i = 0; i < n; i++) {
        double off = (*fixed + s[i].bytes * *slope) / s[i].us - 1;
        if (!s[i].skip) rest += off * off;
    }
    return rest;
}

/* Waves of so many rows, drawn at `share` of what memory gives in the time of a whole one. */
static void set_waves(sample *s, size_t n, double rows, double share)
{
    for (size_t i = 0; i < n; i++) {
        double waves = kf_whole_waves(&s[i].work, rows);
        s[i].bytes = fmax(kerf_work_bytes(&s[i].work), share * waves * s[i].work.weight_bytes);
    }
}

/* Tries waves and leaves the samples with the best; the line is fitted. */
static void find_waves(sample *s, size_t n, double multiprocessors, double *fixed, double *slope,
                       kerf_fit *out)
{
    enum { LEAST = 4, MOST = 256, SHARES = 50 };
    double rows = 0, share = 0, limit = 0.8;
    set_waves(s, n, 0, 0);
    double best = limit * fit_line(s, n, fixed, slope);
    for (double each = LEAST; multiprocessors > 0 && each <= MOST; each *= 2) {
        for (int i = 1; i <= SHARES; i++) {
            set_waves(s, n, each * multiprocessors, (double)i / SHARES);
            double rest = fit_line(s, n, fixed, slope);
            if (!(rest < best)) continue;
            best = rest;
            rows = each * multiprocessors;
            share = (double)i / SHARES;
        }
    }
    set_waves(s, n, rows, share);
    fit_line(s, n, fixed, slope);
    if (rows > 0 && *slope > 0) {
        out->wave_rows = rows;
        out->wave_gbps = 1e-3 / (*slope * share);
    }
}

static int by_value(const void *a, const void *b)
{
    const double *x = (const double *)a, *y = (const double *)b;
    return (*x > *y) - (*x < *y);
}

/* Errors on each sample by a line fitted to all the others. */
static kerf_status hold_out(sample *s, size_t n, kerf_fit *out, kerf_error *err)
{
    double *error = (double *)kf_alloc(n, sizeof *error);
    if (!error) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory to fit");
    for (size_t i = 0; i < n; i++) {
        double fixed, slope;
        s[i].skip = 1;
        fit_line(s, n, &fixed, &slope);
        s[i].skip = 0;
        error[i] = fabs((fixed + slope * s[i].bytes) / s[i].us - 1);
    }
    qsort(error, n, sizeof *error, by_value);
    out->error_median = (error[(n - 1) / 2] + error[n / 2]) / 2;
    out->error_p90 = error[(size_t)ceil(0.9 * (double)n) - 1];
    free(error);
    return KERF_OK;
}

kerf_status kerf_fit_times(const kerf_timing *times, size_t count, double multiprocessors,
                           kerf_fit *out, kerf_error *err)
{
    enum { LEAST = 4 };
    double fixed, slope, lo = INFINITY, hi = 0;
    *out = (kerf_fit){.source = "", .date = ""};
    if (count < LEAST) {
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "%d times are needed to fit, there are %zu",
                       LEAST, count);
    }
    sample *s = (sample *)kf_alloc_zero(count, sizeof *s);
    if (!s) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory to fit");
    kerf_status status = KERF_OK;
    for (size_t i = 0; i < count && status == KERF_OK; i++) {
        status = kerf_matmul_work(NULL, &times[i].product, &s[i].work, err);
        s[i].us = times[i].us;
        lo = fmin(lo, times[i].product.rows);
        hi = fmax(hi, times[i].product.rows);
    }
    if (status == KERF_OK) {
        find_waves(s, count, multiprocessors, &fixed, &slope, out);
        out->format = times[0].product.format->name;
        out->batch_min = (uint64_t)lo;
        out->batch_max = (uint64_t)hi;
        out->fixed_us = fixed;
        out->bandwidth_gbps = slope > 0 ? 1e-3 / slope : 0;
        status = hold_out(s, count, out, err);
    }
    free(s);
    return status;
}
