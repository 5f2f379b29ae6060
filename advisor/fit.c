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

/* us = fixed + input bytes * input + bytes * slope */
enum { FIXED, INPUT, SLOPE, TERMS };

typedef struct line {
    double by[TERMS];
} line;

static double predict_line(const line *l, const sample *s)
{
    return l->by[FIXED] + l->by[INPUT] * s->work.input_bytes + l->by[SLOPE] * s->bytes;
}

/* Solves a[TERMS][TERMS] x = b for the terms in `mask`; 0: they do not determine each other. */
static int solve_terms(double a[TERMS][TERMS], double b[TERMS], unsigned mask, line *out)
{
    for (int p = 0; p < TERMS; p++) {
        if (!(mask >> p & 1)) continue;
        double diagonal = a[p][p];
        for (int k = 0; k < p; k++) { /* what earlier terms have taken off */
            if (mask >> k & 1) diagonal += a[k][p] * a[k][p] / a[k][k];
        }
        if (!(a[p][p] > 1e-12 * diagonal)) return 0;
        for (int r = p + 1; r < TERMS; r++) {
            double f = a[r][p] / a[p][p];
            for (int c = p; c < TERMS; c++) a[r][c] -= f * a[p][c];
            b[r] -= f * b[p];
        }
    }
    *out = (line){{0}};
    for (int p = TERMS; p-- > 0;) {
        if (!(mask >> p & 1)) continue;
        double x = b[p];
        for (int c = p + 1; c < TERMS; c++) x -= a[p][c] * out->by[c];
        out->by[p] = x / a[p][p];
    }
    return 1;
}

/* Least squares of relative errors with the terms of `mask`: minimises the sum of (predicted / us -
 * 1)^2. INFINITY where a term would be negative or has no value. */
static double fit_terms(const sample *s, size_t n, unsigned mask, line *out)
{
    double a[TERMS][TERMS] = {{0}}, b[TERMS] = {0}, rest = 0;
    for (size_t i = 0; i < n; i++) {
        const double x[TERMS] = {1 / s[i].us, s[i].work.input_bytes / s[i].us,
                                 s[i].bytes / s[i].us};
        for (int r = 0; r < TERMS && !s[i].skip; r++) {
            for (int c = 0; c < TERMS; c++) a[r][c] += x[r] * x[c];
            b[r] += x[r];
        }
    }
    if (!solve_terms(a, b, mask, out)) return INFINITY;
    for (int t = 0; t < TERMS; t++) {
        if (out->by[t] < 0) return INFINITY;
    }
    if (!(out->by[SLOPE] > 0)) return INFINITY;
    for (size_t i = 0; i < n; i++) {
        double off = predict_line(out, &s[i]) / s[i].us - 1;
        if (!s[i].skip) rest += off * off;
    }
    return rest;
}

/* The best of those without negative terms; one through zero always works. */
static double fit_line(const sample *s, size_t n, int with_input, line *out)
{
    static const unsigned masks[] = {1 << SLOPE, 1 << FIXED | 1 << SLOPE, 1 << INPUT | 1 << SLOPE,
                                     1 << FIXED | 1 << INPUT | 1 << SLOPE};
    double best = INFINITY;
    *out = (line){{0}};
    for (int i = 0; i < (with_input ? 4 : 2); i++) {
        line l;
        double rest = fit_terms(s, n, masks[i], &l);
        if (!(rest < best)) continue;
        best = rest;
        *out = l;
    }
    return best;
}

/* Waves of so many rows, drawn at `share` of what memory gives in the time of a whole one. */
static void set_waves(sample *s, size_t n, double rows, double share)
{
    for (size_t i = 0; i < n; i++) {
        double waves = kf_whole_waves(&s[i].work, rows);
        s[i].bytes = fmax(kerf_work_bytes(&s[i].work), share * waves * s[i].work.weight_bytes);
    }
}

/* Tries what only a GPU's kernel may have, a time for the input and waves, and leaves the samples
 * with the best; *l is fitted to them. A term must explain a fifth of the errors. */
static int find_terms(sample *s, size_t n, double multiprocessors, line *l, kerf_fit *out)
{
    enum { LEAST = 4, MOST = 256, SHARES = 50 };
    const double worth = 0.8;
    double rows = 0, share = 0;
    int with_input = 0;
    line tried;
    set_waves(s, n, 0, 0);
    double best = fit_line(s, n, 0, l);
    for (int input = 0; multiprocessors > 0 && input < 2; input++) {
        double before = best; /* without the input, or with the waves that need none */
        set_waves(s, n, 0, 0);
        double limit = input ? worth * fmin(before, fit_line(s, n, 0, &tried)) : worth * before;
        for (double each = LEAST / 2; each <= MOST; each *= 2) {
            for (int i = 1; i <= SHARES; i++) {
                double try_rows = each < LEAST ? 0 : each * multiprocessors;
                if (each < LEAST && (i > 1 || !input)) break; /* no waves */
                set_waves(s, n, try_rows, (double)i / SHARES);
                double rest = fit_line(s, n, input, &tried);
                if (!(rest < limit)) continue;
                best = limit = rest;
                rows = try_rows;
                share = (double)i / SHARES;
                with_input = input;
            }
        }
    }
    set_waves(s, n, rows, share);
    fit_line(s, n, with_input, l);
    if (rows > 0) {
        out->wave_rows = rows;
        out->wave_gbps = 1e-3 / (l->by[SLOPE] * share);
    }
    if (l->by[INPUT] > 0) out->input_gbps = 1e-3 / l->by[INPUT];
    return with_input;
}

static int by_value(const void *a, const void *b)
{
    const double *x = (const double *)a, *y = (const double *)b;
    return (*x > *y) - (*x < *y);
}

/* Errors on each sample by a line fitted to all the others. */
static kerf_status hold_out(sample *s, size_t n, int with_input, kerf_fit *out, kerf_error *err)
{
    double *error = (double *)kf_alloc(n, sizeof *error);
    if (!error) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory to fit");
    for (size_t i = 0; i < n; i++) {
        line l;
        s[i].skip = 1;
        fit_line(s, n, with_input, &l);
        s[i].skip = 0;
        error[i] = fabs(predict_line(&l, &s[i]) / s[i].us - 1);
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
    double lo = INFINITY, hi = 0;
    line l;
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
        int with_input = find_terms(s, count, multiprocessors, &l, out);
        out->format = times[0].product.format->name;
        out->batch_min = (uint64_t)lo;
        out->batch_max = (uint64_t)hi;
        out->fixed_us = l.by[FIXED];
        out->bandwidth_gbps = l.by[SLOPE] > 0 ? 1e-3 / l.by[SLOPE] : 0;
        status = hold_out(s, count, with_input, out, err);
    }
    free(s);
    return status;
}
