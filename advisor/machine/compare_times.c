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

static kerf_status fill_comparison(kerf_comparison *c, const kerf_timing *times, size_t count,
                                   kerf_error *err)
{
    KF_TRY(kf_allocate(&c->item, count, sizeof *c->item, err));
    KF_TRY(kf_allocate(&c->format, kerf_format_count(), sizeof *c->format, err));
    for (; c->count < count; c->count++)
        KF_TRY(kerf_compare_time(c->hardware, &times[c->count], &c->item[c->count], err));
    for (size_t i = 0; i < kerf_format_count(); i++) {
        kerf_format_errors *next = &c->format[c->formats];
        next->format = kerf_format_at(i);
        KF_TRY(kerf_sum_up_times(c->item, c->count, next->format, &next->errors, err));
        c->formats += next->errors.count > 0;
    }
    return kerf_sum_up_times(c->item, c->count, NULL, &c->all, err);
}

kerf_status kerf_compare_times(const kerf_hardware *h, const kerf_timing *times, size_t count,
                               kerf_comparison **out, kerf_error *err)
{
    kerf_comparison *c = NULL;
    *out = NULL;
    KF_TRY(kf_allocate(&c, 1, sizeof *c, err));
    c->hardware = h;
    const kerf_status s = fill_comparison(c, times, count, err);
    if (s == KERF_OK)
        *out = c;
    else
        kerf_comparison_free(c);
    return s;
}

void kerf_comparison_free(kerf_comparison *c)
{
    if (!c) return;
    free(c->item);
    free(c->format);
    free(c);
}
