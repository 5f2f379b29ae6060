/* measured.c - a machine from measured times: they are sorted by format, batch and shape; then
 * those of one format and batch give a fit, and are a table. */
#include <kerf/measure.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "machine/hardware_new.h"

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

/* The machine that is being made, and what its fits and tables say of their origin. */
typedef struct machine_maker {
    kerf_hardware *out;
    kerf_fit *fit;
    kerf_anchors *anchors;
    const char *source, *date;
} machine_maker;

static kerf_status make_table(machine_maker *m, const kerf_timing *t, size_t count, kerf_error *err)
{
    kerf_hardware *h = m->out;
    kerf_anchors *a = &m->anchors[h->tables];
    double *n = NULL;
    KF_TRY(kf_hardware_keep(h, 3 * count, sizeof *n, &n, err));
    double *k = n + count, *us = k + count;
    for (size_t i = 0; i < count; i++) {
        n[i] = (double)t[i].product.n;
        k[i] = (double)t[i].product.k;
        us[i] = t[i].us;
    }
    *a = (kerf_anchors){.format = t[0].product.format->name,
                        .batch = (uint64_t)t[0].product.rows,
                        .count = count,
                        .n = n,
                        .k = k,
                        .us = us,
                        .source = m->source,
                        .date = m->date};
    KF_TRY(kerf_check_anchors(h, a, err)); /* against the fits that there are so far */
    h->tables++;
    return KERF_OK;
}

/* Times of one format and batch. */
static kerf_status take_kernel(machine_maker *m, const kerf_timing *t, size_t n, kerf_error *err)
{
    enum { LEAST = 4, MOST = 4096 }; /* of a table in a file */
    kerf_fit *f = &m->fit[m->out->fits];
    if (n < LEAST) return KERF_OK;
    KF_TRY(kerf_fit_times(m->out, t, n, f, err));
    f->source = m->source;
    f->date = m->date;
    if (f->bandwidth_gbps > 0) m->out->fits++;
    return n > MOST ? KERF_OK : make_table(m, t, n, err);
}

/* t is the caller's to be sorted. */
static kerf_status take_times(machine_maker *m, kerf_timing *t, size_t n, kerf_error *err)
{
    qsort(t, n, sizeof *t, by_place);
    n = take_medians(t, n);
    KF_TRY(kf_hardware_keep(m->out, n, sizeof *m->fit, &m->fit, err));
    KF_TRY(kf_hardware_keep(m->out, n, sizeof *m->anchors, &m->anchors, err));
    m->out->fit = m->fit;
    m->out->anchors = m->anchors;
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && same_kernel(&t[i], &t[end]); end++) {
        }
        KF_TRY(take_kernel(m, t + i, end - i, err));
    }
    if (m->out->fits || m->out->tables) return KERF_OK;
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                   "no format and batch has four shapes: there is nothing to fit");
}

/* "measured: SOURCE", and the month. */
static kerf_status take_source(machine_maker *m, const char *source, kerf_error *err)
{
    char text[240], month[16];
    time_t now = time(NULL);
    struct tm day;
    snprintf(text, sizeof text, "measured: %.200s", source);
    gmtime_r(&now, &day);
    strftime(month, sizeof month, "%Y-%m", &day);
    KF_TRY(kf_hardware_keep_text(m->out, text, &m->source, err));
    return kf_hardware_keep_text(m->out, month, &m->date, err);
}

kerf_status kerf_hardware_with_times(const kerf_hardware *base, const kerf_timing *times,
                                     size_t count, const char *source, kerf_hardware **out,
                                     kerf_error *err)
{
    machine_maker m = {0};
    kerf_timing *sorted = NULL;
    *out = NULL;
    KF_TRY(kf_allocate(&sorted, count, sizeof *sorted, err));
    if (count) memcpy(sorted, times, count * sizeof *sorted);
    kerf_status s = kf_hardware_copy(base, &m.out, err);
    if (s == KERF_OK) s = take_source(&m, source, err);
    if (s == KERF_OK) s = take_times(&m, sorted, count, err);
    free(sorted);
    if (s == KERF_OK) {
        *out = m.out;
    } else {
        kerf_hardware_close(m.out);
    }
    return s;
}
