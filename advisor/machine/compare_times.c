/* compare_times.c - predicted times beside measured ones, and how large the errors are. */
#include <kerf/predict.h>

#include <math.h>
#include <stdlib.h>

#include "base/base.h"

kerf_status kerf_compare_time(const kerf_hardware *h, const kerf_timing *t, kerf_compared_time *out,
                              kerf_error *err)
{
    const kerf_prediction *p = &out->predicted;
    *out = (kerf_compared_time){.measured = *t};
    KF_TRY(kerf_predict(h, &t->product, &out->predicted, err));
    out->ratio = p->us / t->us;
    out->banded = p->low_us < p->high_us;
    out->inside = out->banded && t->us >= p->low_us && t->us <= p->high_us;
    return KERF_OK;
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The median; orders v. */
static double median_of(double *v, size_t n)
{
    qsort(v, n, sizeof *v, by_value);
    return (v[(n - 1) / 2] + v[n / 2]) / 2;
}

kerf_status kerf_sum_up_times(const kerf_compared_time *t, size_t count, const kerf_format *f,
                              kerf_time_errors *out, kerf_error *err)
{
    double *error = NULL;
    size_t near = 0, inside = 0;
    *out = (kerf_time_errors){0};
    KF_TRY(kf_allocate(&error, 2 * (uint64_t)count, sizeof *error, err));
    double *width = error + count;
    for (size_t i = 0; i < count; i++) {
        const kerf_prediction *p = &t[i].predicted;
        if (f && t[i].measured.product.format != f) continue;
        double e = fabs(t[i].ratio - 1);
        error[out->count++] = e;
        near += e <= 0.10;
        inside += (size_t)t[i].inside;
        if (t[i].banded) width[out->banded++] = p->high_us / p->low_us;
    }
    if (out->count) {
        double n = (double)out->count;
        out->median = median_of(error, out->count);
        out->p90 = error[(size_t)ceil(0.9 * n) - 1];
        out->worst = error[out->count - 1];
        out->within_10 = (double)near / n;
        out->inside = out->banded ? (double)inside / (double)out->banded : 0;
        out->width = out->banded ? median_of(width, out->banded) : 0;
    }
    free(error);
    return KERF_OK;
}
