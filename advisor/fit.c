/* fit.c - the parameters of a kernel from measured times: see kerf_fit_times. */
#include <kerf/predict.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

typedef struct sample {
    double bytes, us;
    int skip; /* held out */
} sample;

/* Least squares of relative errors: minimises the sum of ((fixed + bytes * slope) / us - 1)^2 with
 * neither below zero. slope: us per byte. */
static void fit_line(const sample *s, size_t n, double *fixed, double *slope)
{
    double aa = 0, ab = 0, bb = 0, a1 = 0, b1 = 0;
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
    if (det > 1e-12 * aa * bb) { /* else all have one size, and the line goes through zero */
        *fixed = (a1 * bb - b1 * ab) / det;
        *slope = (b1 * aa - a1 * ab) / det;
        if (*fixed >= 0 && *slope > 0) return;
    }
    *fixed = 0;
    *slope = bb > 0 ? b1 / bb : 0;
}

static int by_value(const void *a, const void *b)
{
    const double *x = (const double *)a, *y = (const double *)b;
    return (*x > *y) - (*x < *y);
}

/* Errors on each sample by a fit to all the others. */
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

kerf_status kerf_fit_times(const kerf_timing *times, size_t count, kerf_fit *out, kerf_error *err)
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
        kerf_work w;
        status = kerf_matmul_work(NULL, &times[i].product, &w, err);
        s[i] = (sample){kerf_work_bytes(&w), times[i].us, 0};
        lo = fmin(lo, times[i].product.rows);
        hi = fmax(hi, times[i].product.rows);
    }
    if (status == KERF_OK) {
        fit_line(s, count, &fixed, &slope);
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
