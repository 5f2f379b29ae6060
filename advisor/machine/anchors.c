/* anchors.c - the time of a product, read off the measured times of other shapes (the anchors).
 *
 * The fit of a kernel says roughly how long each shape takes. What is interpolated is the rest, the
 * excess: the logarithm of measured time over fitted time (over bytes, where there is no fit). The
 * fit knows the steps in a kernel's time, so the excess varies slowly from shape to shape.
 *
 * Anchors do not lie on a grid, so each gets a weight by how alike its shape is to the one in
 * question (ordinary kriging). Likeness falls with the distance of the logarithms of n and k, and
 * with every difference in how the kernel runs: how often it is launched and in how many steps, how
 * rows end, blocks per multiprocessor, room for more of them, how much comes before x and is in
 * flight, how many units a warp has while they are few. The weights add up to one, and are those
 * that would be off the least if excesses varied like that; at an anchor itself the answer is what
 * was measured.
 *
 * The range of likeness and the price of a difference were chosen on times of an H200. Half and
 * twice that range, and a price of 0.3 or 0.7, change the median error by a tenth of itself at most
 * (bench/predict_folds.c). */
#include "machine/anchors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "machine/roofline.h"
#include "machine/terms.h"

enum { NEAR = 24 }; /* anchors that count */
#define NONE SIZE_MAX

static const double RANGE = 2;      /* factors of two over which likeness falls to 1/e    */
static const double ALIKE = 0.5;    /* what a difference of plan leaves of it             */
static const double ERRATIC = 0.01; /* share of an excess that no other shape has part in */

typedef struct place {
    double log_n, log_k, rows;
    kerf_work work;
    kf_gemv_outline plan; /* all the same where none is known */
} place;

typedef struct neighbour {
    place at;
    double like; /* the shape in question: 1 when it is the same */
    double us;
} neighbour;

static kerf_status find_place(const kerf_hardware *h, const kerf_matmul *m, place *out,
                              kerf_error *err)
{
    KF_TRY(kerf_matmul_work(h, m, &out->work, err));
    (void)kf_find_outline(h, &out->work, &out->plan);
    out->log_n = log2((double)m->n);
    out->log_k = log2((double)m->k);
    out->rows = m->rows;
    return KERF_OK;
}

/* Up to twice what a ring holds, each unit more is a round of waiting for its copy or for none. */
static unsigned few_units(const place *p)
{
    return p->plan.units < 4 ? p->plan.units : 4;
}

static double likeness(const place *a, const place *b)
{
    double like = exp(-hypot(a->log_n - b->log_n, a->log_k - b->log_k) / RANGE);
    int differences = (a->plan.end != b->plan.end) + (a->plan.per_sm != b->plan.per_sm) +
                      (a->plan.resident != b->plan.resident) + (a->plan.team != b->plan.team) +
                      (a->plan.before_x != b->plan.before_x) + (few_units(a) != few_units(b)) +
                      (a->plan.launches != b->plan.launches) + (a->plan.steps != b->plan.steps) +
                      (a->plan.ahead != b->plan.ahead);
    for (; differences > 0; differences--) like *= ALIKE;
    return like;
}

/* log of what times are compared with. */
static double log_base(const kerf_hardware *h, const kerf_matmul *m, const place *p)
{
    const kerf_fit *f = kf_find_fit(h, m->format, p->rows);
    const kerf_work all = kf_plan_work(&p->plan, &p->work);
    return log(f ? kf_fitted_us(h, f, &p->work, NULL) : kerf_work_bytes(&all));
}

/* The NEAR anchors that are most like `here`, in *out by falling likeness; their number. */
static kerf_status find_neighbours(const kerf_hardware *h, const kerf_matmul *m,
                                   const kerf_anchors *t, size_t but, const place *here,
                                   neighbour out[NEAR + 1], size_t *count, kerf_error *err)
{
    *count = 0;
    for (size_t i = 0; i < t->count; i++) {
        neighbour a = {.us = t->us[i]};
        kerf_matmul at = *m;
        size_t place_at = *count;
        if (i == but) continue;
        at.n = (uint64_t)t->n[i];
        at.k = (uint64_t)t->k[i];
        at.rows = (double)t->batch;
        KF_TRY(find_place(h, &at, &a.at, err));
        a.like = likeness(&a.at, here);
        for (; place_at > 0 && out[place_at - 1].like < a.like; place_at--)
            out[place_at] = out[place_at - 1];
        out[place_at] = a;
        if (*count < NEAR) ++*count;
    }
    return KERF_OK;
}

/* Turns the lower half of a symmetric positive matrix into its Cholesky factor. */
static void factorize(double a[NEAR][NEAR], size_t n)
{
    for (size_t c = 0; c < n; c++) {
        for (size_t r = c; r < n; r++) {
            for (size_t i = 0; i < c; i++) a[r][c] -= a[r][i] * a[c][i];
            a[r][c] = r == c ? sqrt(fmax(a[c][c], 1e-12)) : a[r][c] / a[c][c];
        }
    }
}

/* Solves with that factor, in place. */
static void solve(double a[NEAR][NEAR], size_t n, double x[NEAR])
{
    for (size_t r = 0; r < n; r++) {
        for (size_t i = 0; i < r; i++) x[r] -= a[r][i] * x[i];
        x[r] /= a[r][r];
    }
    for (size_t r = n; r-- > 0;) {
        for (size_t i = r + 1; i < n; i++) x[r] -= a[i][r] * x[i];
        x[r] /= a[r][r];
    }
}

/* Weights of neighbours, which add up to one. */
static void weigh(const neighbour *a, size_t n, double weight[NEAR])
{
    double likes[NEAR][NEAR], even[NEAR], sum = 0, evens = 0;
    for (size_t r = 0; r < n; r++) {
        for (size_t c = 0; c <= r; c++) likes[r][c] = likeness(&a[r].at, &a[c].at);
        likes[r][r] += ERRATIC;
        weight[r] = a[r].like;
        even[r] = 1;
    }
    factorize(likes, n);
    solve(likes, n, weight);
    solve(likes, n, even);
    for (size_t i = 0; i < n; i++) {
        sum += weight[i];
        evens += even[i];
    }
    for (size_t i = 0; i < n; i++) weight[i] += even[i] * (1 - sum) / evens;
}

static int is_outside(const double *x, size_t n, double at)
{
    double lo = INFINITY, hi = 0;
    for (size_t i = 0; i < n; i++) {
        lo = fmin(lo, x[i]);
        hi = fmax(hi, x[i]);
    }
    return at < lo || at > hi;
}

/* What one table says of the product that is m at the table's batch, but for its anchor `but`. */
static kerf_status read_table(const kerf_hardware *h, const kerf_matmul *m, const kerf_anchors *t,
                              size_t but, kf_reading *out, kerf_error *err)
{
    neighbour near[NEAR + 1];
    double weight[NEAR], log_us;
    size_t count;
    place here;
    kerf_matmul at = *m;
    at.rows = (double)t->batch;
    *out = (kf_reading){.error = t->error_p90};
    KF_TRY(find_place(h, &at, &here, err));
    KF_TRY(find_neighbours(h, m, t, but, &here, near, &count, err));
    out->outside =
        is_outside(t->n, t->count, (double)m->n) || is_outside(t->k, t->count, (double)m->k);
    for (size_t i = 0; i < count; i++) {
        if (near[i].at.log_n != here.log_n || near[i].at.log_k != here.log_k) continue;
        out->us = near[i].us;
        out->error = 0;
        return KERF_OK;
    }
    weigh(near, count, weight);
    log_us = log_base(h, m, &here);
    for (size_t i = 0; i < count; i++)
        log_us += weight[i] * (log(near[i].us) - log_base(h, m, &near[i].at));
    out->us = exp(log_us);
    return KERF_OK;
}

/* The tables of this format at the nearest batches below and above; NULL where there is none. */
static void find_tables(const kerf_hardware *h, const kerf_matmul *m, const kerf_anchors **below,
                        const kerf_anchors **above)
{
    *below = *above = NULL;
    for (size_t i = 0; i < h->tables; i++) {
        const kerf_anchors *t = &h->anchors[i];
        double batch = (double)t->batch;
        if (strcmp(t->format, m->format->name) != 0) continue;
        if (batch <= m->rows && (!*below || t->batch > (*below)->batch)) *below = t;
        if (batch >= m->rows && (!*above || t->batch < (*above)->batch)) *above = t;
    }
}

/* Between batches logarithms of times are on a straight line. */
kerf_status kf_read_anchors(const kerf_hardware *h, const kerf_matmul *m, const kerf_work *w,
                            kf_reading *out, int *found, kerf_error *err)
{
    const kerf_anchors *below, *above;
    kf_reading other;
    *found = 0;
    if (m->activations || w->matrices != 1) return KERF_OK;
    find_tables(h, m, &below, &above);
    if (!below || !above) return KERF_OK;
    *found = 1;
    KF_TRY(read_table(h, m, below, NONE, out, err));
    if (above == below) return KERF_OK;
    double share =
        log(m->rows / (double)below->batch) / log((double)above->batch / (double)below->batch);
    KF_TRY(read_table(h, m, above, NONE, &other, err));
    out->us *= pow(other.us / out->us, share);
    out->error = fmax(below->error_p90, above->error_p90);
    out->outside |= other.outside;
    return KERF_OK;
}

kerf_status kerf_check_anchors(const kerf_hardware *h, kerf_anchors *t, kerf_error *err)
{
    kerf_matmul m = {.format = kerf_format_find(t->format), .rows = (double)t->batch};
    t->error_median = t->error_p90 = 0;
    if (!m.format) return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "no format %.60s", t->format);
    if (t->count < 2) return KERF_OK;
    double *error = (double *)kf_alloc(t->count, sizeof *error);
    if (!error) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory to compare");
    kerf_status s = KERF_OK;
    for (size_t i = 0; i < t->count && s == KERF_OK; i++) {
        kf_reading r;
        m.n = (uint64_t)t->n[i];
        m.k = (uint64_t)t->k[i];
        s = read_table(h, &m, t, i, &r, err);
        error[i] = fabs(r.us / t->us[i] - 1);
    }
    if (s == KERF_OK) kf_spread(error, t->count, &t->error_median, &t->error_p90);
    free(error);
    return s;
}
