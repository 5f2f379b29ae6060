/* measured.c - sorts measured times by format, batch and shape; then runs of equal format and batch
 * are fitted, and are a table. */
#include "machine/measured.h"
#include "base/base.h"
#include <stdio.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

static int by_place(const void *x, const void *y)
{
    const kerf_timing *a = x, *b = y;
    const kerf_matmul *p = &a->product, *q = &b->product;
    if (p->format->id != q->format->id) return p->format->id < q->format->id ? -1 : 1;
    if (p->rows != q->rows) return p->rows < q->rows ? -1 : 1;
    if (p->n != q->n) return p->n < q->n ? -1 : 1;
    if (p->k != q->k) return p->k < q->k ? -1 : 1;
    return (a->us > b->us) - (a->us < b->us);
}

static int same_kernel(const kerf_timing *a, const kerf_timing *b)
{
    return a->product.format == b->product.format && a->product.rows == b->product.rows;
}

static int same_shape(const kerf_timing *a, const kerf_timing *b)
{
    return same_kernel(a, b) && a->product.n == b->product.n && a->product.k == b->product.k;
}

/* Leaves the median of every shape; the list is sorted. */
static size_t take_medians(kerf_timing *t, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && same_shape(&t[i], &t[end]); end++) {
        }
        kerf_timing median = t[i];
        median.us = (t[i + (end - i - 1) / 2].us + t[i + (end - i) / 2].us) / 2;
        t[kept++] = median;
    }
    return kept;
}

static kerf_status make_table(const kerf_timing *t, size_t count, kerf_anchors *out,
                              kerf_error *err)
{
    double *n;
    KF_TRY(kf_allocate(&n, 3 * count, sizeof *n, err));
    double *k = n + count, *us = k + count;
    for (size_t i = 0; i < count; i++) {
        n[i] = (double)t[i].product.n;
        k[i] = (double)t[i].product.k;
        us[i] = t[i].us;
    }
    *out = (kerf_anchors){.format = t[0].product.format->name,
                          .batch = (uint64_t)t[0].product.rows,
                          .count = count,
                          .n = n,
                          .k = k,
                          .us = us};
    return KERF_OK;
}

static kerf_status take_run(measured *m, const kerf_timing *t, size_t n, kerf_error *err)
{
    enum { LEAST = 4, MOST = 4096 }; /* of a table in a file */
    kerf_fit *f = &m->fit[m->fits];
    if (n < LEAST) return KERF_OK;
    KF_TRY(kerf_fit_times(m->hardware, t, n, f, err));
    f->source = m->source;
    f->date = m->date;
    if (f->bandwidth_gbps > 0) m->fits++;
    if (n > MOST) return KERF_OK;
    kerf_anchors *a = &m->anchors[m->tables];
    KF_TRY(make_table(t, n, a, err));
    m->tables++;
    kerf_hardware with = *m->hardware; /* times are read against the new fits */
    with.fit = m->fit;
    with.fits = m->fits;
    a->source = m->source;
    a->date = m->date;
    return kerf_check_anchors(&with, a, err);
}

static kerf_status take_runs(measured *m, kerf_timing *t, size_t n, kerf_error *err)
{
    qsort(t, n, sizeof *t, by_place);
    n = take_medians(t, n);
    KF_TRY(kf_allocate(&m->fit, n, sizeof *m->fit, err));
    KF_TRY(kf_allocate(&m->anchors, n, sizeof *m->anchors, err));
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && same_kernel(&t[i], &t[end]); end++) {
        }
        KF_TRY(take_run(m, t + i, end - i, err));
    }
    if (m->fits || m->tables) return KERF_OK;
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                   "no format and batch has four shapes: there is nothing to fit");
}

kerf_status measured_take(measured *m, kerf_timing *times, size_t count, const kerf_hardware *h,
                          const char *source, kerf_error *err)
{
    time_t now = time(NULL);
    struct tm day;
    *m = (measured){.hardware = h};
    snprintf(m->source, sizeof m->source, "measured: %.200s", source);
    gmtime_r(&now, &day);
    strftime(m->date, sizeof m->date, "%Y-%m", &day);
    kerf_status s = take_runs(m, times, count, err);
    if (s != KERF_OK) measured_close(m);
    return s;
}

kerf_status measured_open(measured *m, const char *path, const kerf_hardware *h, kerf_error *err)
{
    bench_file b;
    *m = (measured){0};
    KF_TRY(bench_file_open(&b, path, err));
    kerf_status s = measured_take(m, b.item, b.count, h, path, err);
    bench_file_close(&b);
    return s;
}

void measured_close(measured *m)
{
    for (size_t i = 0; i < m->tables; i++) free((void *)(uintptr_t)m->anchors[i].n);
    free(m->fit);
    free(m->anchors);
    *m = (measured){0};
}
