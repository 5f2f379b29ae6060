/* feedback_factor.c - a matrix of second moments as U D U^T, the last column first.
 *
 * Every element is reduced by one product for each column behind it, in falling order of these
 * columns, whatever is done at once: the same numbers for any number of threads. */
#include "cpu/feedback_rows.h"

#include <float.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/vector_copies.h"
#include "base/work.h"

enum { BLOCK = 64, SLICE_ROWS = 16 };

typedef struct factoring {
    uint64_t n;
    double *a; /* [n][n], the lower half: what is left to factor; rows behind hold U */
    uint64_t from, to;
    double d[BLOCK]; /* of the columns [from, to) */
    kf_pivots pivots;
    const kerf_job *job;
} factoring;

/* y -= c[k] x[k] for the rows k of a block, the last first. */
KF_WIDE(reduce,
        (double *y, uint64_t n, const double *row, uint64_t stride, const double *c, uint64_t rows),
        (y, n, row, stride, c, rows), {
            for (uint64_t k = rows; k-- > 0;) {
                const double *x = row + k * stride;
                const double by = c[k];
                for (uint64_t i = 0; i < n; i++) y[i] -= by * x[i];
            }
        })

/* Rows ahead of the block: less U_ik D_k U_jk of its columns k. Their elements of these columns
 * are a[k][i]. */
static kerf_status reduce_rows(void *ctx, uint64_t slice)
{
    factoring *f = ctx;
    const uint64_t n = f->n, rows = f->to - f->from;
    KF_TRY(kf_job_check(f->job, NULL));
    const uint64_t end = kf_min_u64((slice + 1) * SLICE_ROWS, f->from);
    for (uint64_t i = slice * SLICE_ROWS; i < end; i++) {
        double c[BLOCK];
        for (uint64_t k = 0; k < rows; k++) c[k] = f->a[(f->from + k) * n + i] * f->d[k];
        reduce(f->a + i * n, i + 1, f->a + f->from * n, n, c, rows);
    }
    return KERF_OK;
}

kerf_status kf_feedback_lost(kerf_error *err)
{
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                   "its second moments are none: squares of inputs are never below 0; kerf "
                   "calibrate --gram makes them again");
}

/* The columns of the block themselves: row k becomes U_ik over i < k. */
static kerf_status factor_block(factoring *f, kerf_error *err)
{
    const uint64_t n = f->n;
    for (uint64_t k = f->to; k-- > f->from;) {
        double *u = f->a + k * n, d = u[k];
        if (d < f->pivots.lost) return kf_feedback_lost(err);
        if (!(d > f->pivots.least)) d = f->pivots.least;
        f->d[k - f->from] = d;
        for (uint64_t i = 0; i < k; i++) u[i] /= d;
        for (uint64_t i = f->from; i < k; i++) {
            const double c = u[i] * d;
            reduce(f->a + i * n, i + 1, u, n, &c, 1);
        }
    }
    return KERF_OK;
}

static kerf_status factor(factoring *f, int threads, kerf_feedback *out, kerf_error *err)
{
    for (f->to = f->n; f->to > 0; f->to = f->from) {
        f->from = f->to > BLOCK ? f->to - BLOCK : 0;
        KF_TRY(factor_block(f, err));
        for (uint64_t k = f->from; k < f->to; k++) out->d[k] = (float)f->d[k - f->from];
        const kerf_status s = kf_parallel(kf_div_up(f->from, SLICE_ROWS), threads, reduce_rows, f);
        if (s != KERF_OK) return kf_fail(err, s, KF_NOWHERE, "canceled");
    }
    for (uint64_t k = 0; k < f->n; k++) {
        KF_TRY(kf_job_check(f->job, err));
        for (uint64_t i = 0; i < k; i++) out->above[k * f->n + i] = (float)f->a[k * f->n + i];
    }
    return KERF_OK;
}

/* Numbers of inputs may be far from 1, and so may their squares. */
static kerf_status find_pivots(const float *gram, uint64_t n, double damping, kf_pivots *out,
                               kerf_error *err)
{
    double sum = 0, most = 0;
    for (uint64_t i = 0; i < n; i++) {
        const double square = (double)gram[i * n + i];
        if (square < 0) return kf_feedback_lost(err);
        most = square > most ? square : most;
        sum += square;
    }
    const double mean = sum / (double)n;
    out->damping = damping;
    out->least = damping * (mean > 0 ? mean : 1);
    out->lost = -most * (double)n * 0x1p-22;
    return KERF_OK;
}

/* The lower half with damping. */
static kerf_status fill(factoring *f, const float *gram, kerf_error *err)
{
    const uint64_t n = f->n;
    for (uint64_t i = 0; i < n; i++) {
        KF_TRY(kf_job_check(f->job, err));
        for (uint64_t j = 0; j <= i; j++) {
            const float x = gram[i * n + j];
            if (!(x >= -3.4e38f && x <= 3.4e38f))
                return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                               "a matrix of second moments has a number that is not finite");
            f->a[i * n + j] = (double)x;
        }
        f->a[i * n + i] += f->pivots.least;
    }
    return KERF_OK;
}

/* Room for what is to be made. square: columns^2. */
static kerf_status begin(const float *gram, uint64_t columns, double damping, uint64_t *square,
                         kerf_feedback **out, kerf_error *err)
{
    *out = NULL;
    if (!gram || columns == 0 || !(damping > 0 && damping <= DBL_MAX))
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "error feedback needs second moments of one column at least, and damping");
    if (!kf_mul_ok(columns, columns, square))
        return kf_fail(err, KERF_E_RANGE, KF_NOWHERE, "error feedback: %llu columns",
                       (unsigned long long)columns);
    KF_TRY(kf_allocate(out, 1, sizeof **out, err));
    (*out)->columns = columns;
    return KERF_OK;
}

kerf_status kerf_feedback_make(const float *gram, uint64_t columns, double damping, int threads,
                               const kerf_job *job, kerf_feedback **out, kerf_error *err)
{
    factoring f = {.n = columns, .job = job};
    kerf_feedback *made = NULL;
    uint64_t square;
    *out = NULL;
    KF_TRY(begin(gram, columns, damping, &square, &made, err));
    kerf_status s = kf_allocate(&made->above, square, sizeof *made->above, err);
    if (s == KERF_OK) s = kf_allocate(&made->d, columns, sizeof *made->d, err);
    if (s == KERF_OK) s = kf_allocate(&f.a, square, sizeof *f.a, err);
    if (s == KERF_OK) s = find_pivots(gram, columns, damping, &f.pivots, err);
    if (s == KERF_OK) s = fill(&f, gram, err);
    if (s == KERF_OK) s = factor(&f, threads, made, err);
    free(f.a);
    if (s == KERF_OK)
        *out = made;
    else
        kerf_feedback_free(made);
    return s;
}

kerf_status kerf_feedback_make_on(kerf_device *const *devices, size_t count, const float *gram,
                                  uint64_t columns, double damping, const kerf_job *job,
                                  kerf_feedback **out, kerf_error *err)
{
    kf_pivots pivots;
    uint64_t square;
    *out = NULL;
    if (count == 0 || !devices[0] || !devices[0]->factor)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "there is no GPU for error feedback");
    KF_TRY(begin(gram, columns, damping, &square, out, err));
    (*out)->release = devices[0]->release;
    kerf_status s = find_pivots(gram, columns, damping, &pivots, err);
    if (s == KERF_OK)
        s = devices[0]->factor(devices, count, gram, columns, pivots, job, &(*out)->there, err);
    if (s == KERF_OK) return s;
    kerf_feedback_free(*out);
    *out = NULL;
    return s;
}

int kerf_feedback_made_on_gpu(const kerf_feedback *f)
{
    return f->there != NULL;
}

int kerf_feedback_on_gpu(const kerf_format *f)
{
    return f->bits <= 8 && f->geometry != KERF_GROUP_SUPER;
}

void kerf_feedback_free(kerf_feedback *f)
{
    if (!f) return;
    if (f->there) f->release(f->there);
    free(f->above);
    free(f->d);
    free(f->gram);
    free(f);
}
