/* fit.c - the parameters of a kernel from measured times: see kerf_fit_times.
 *
 * The model of a time is a sum of terms: a price times a quantity that the shape has (1, its bytes,
 * what the plan of its product says). The prices are those with the least squares of relative
 * errors under the condition that none is negative. They are found by letting terms in one after
 * the other as long as one would still help (the method of Lawson and Hanson, on normal equations:
 * there are nine terms at most). */
#include <kerf/predict.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "machine/terms.h"

enum {
    FIXED,
    BYTES,
    INPUTS,
    ROUNDS,
    STAGES = ROUNDS + KERF_ROW_ENDS,
    TERMS = STAGES + KERF_ROW_ENDS
};

enum { LEAST = 4, LEAST_FOR_PLANS = 24 };

typedef struct sample {
    double has[TERMS]; /* what the shape has of each term */
    double us;
} sample;

typedef struct prices {
    double of[TERMS];
} prices;

/* Normal equations. */
typedef struct equations {
    double a[TERMS][TERMS], b[TERMS];
} equations;

static double sum_terms(const prices *p, const sample *s)
{
    double us = 0;
    for (int t = 0; t < TERMS; t++) us += p->of[t] * s->has[t];
    return us;
}

/* Adds a sample, relative to its time, `times` over. */
static void add_sample(equations *e, const sample *s, double times)
{
    for (int r = 0; r < TERMS; r++) {
        double x = times * s->has[r] / s->us;
        for (int c = 0; c < TERMS; c++) e->a[r][c] += x * s->has[c] / s->us;
        e->b[r] += x;
    }
}

/* Solves for the terms in `mask`, the others are 0. 0: they do not determine each other. */
static int solve(const equations *from, unsigned mask, prices *out)
{
    equations e = *from;
    *out = (prices){{0}};
    for (int p = 0; p < TERMS; p++) {
        if (!(mask >> p & 1)) continue;
        if (!(e.a[p][p] > 1e-10 * from->a[p][p])) return 0; /* what earlier terms left of it */
        for (int r = p + 1; r < TERMS; r++) {
            if (!(mask >> r & 1)) continue;
            double f = e.a[r][p] / e.a[p][p];
            for (int c = p; c < TERMS; c++) e.a[r][c] -= f * e.a[p][c];
            e.b[r] -= f * e.b[p];
        }
    }
    for (int p = TERMS; p-- > 0;) {
        if (!(mask >> p & 1)) continue;
        double x = e.b[p];
        for (int c = p + 1; c < TERMS; c++) x -= e.a[p][c] * out->of[c];
        out->of[p] = x / e.a[p][p];
    }
    return 1;
}

/* The term outside of mask whose price would help most if it rose from 0; -1: none would. */
static int find_term(const equations *e, const prices *p, unsigned mask, unsigned allowed)
{
    int best = -1;
    double most = 1e-9; /* of what a term could explain if it were alone */
    for (int t = 0; t < TERMS; t++) {
        if (mask >> t & 1 || !(allowed >> t & 1) || !(e->a[t][t] > 0)) continue;
        double slope = e->b[t];
        for (int c = 0; c < TERMS; c++) slope -= e->a[t][c] * p->of[c];
        slope /= sqrt(e->a[t][t]);
        if (slope <= most) continue;
        most = slope;
        best = t;
    }
    return best;
}

/* Goes from p towards `to` until the first price is 0, and takes its term out of mask. */
static unsigned step_back(prices *p, const prices *to, unsigned mask)
{
    double share = 1;
    int first = -1;
    for (int t = 0; t < TERMS; t++) {
        if (!(mask >> t & 1) || to->of[t] > 0) continue;
        double here = p->of[t] > 0 ? p->of[t] / (p->of[t] - to->of[t]) : 0;
        if (first >= 0 && !(here < share)) continue;
        share = here;
        first = t;
    }
    for (int t = 0; t < TERMS; t++) {
        if (!(mask >> t & 1)) continue;
        p->of[t] = fmax(0, p->of[t] + share * (to->of[t] - p->of[t]));
        if (t != first) continue;
        p->of[t] = 0;
        mask &= ~(1u << t);
    }
    return mask;
}

/* The best prices without negative ones, of the allowed terms. Starts with bytes alone, which
 * always works. */
static void fit_prices(const equations *e, unsigned allowed, prices *out)
{
    enum { ROUNDS_AT_MOST = 100 };
    unsigned mask = 1u << BYTES, refused = 0;
    solve(e, mask, out);
    for (int round = 0; round < ROUNDS_AT_MOST; round++) {
        prices next;
        int t = find_term(e, out, mask, allowed & ~refused);
        if (t < 0) return;
        mask |= 1u << t;
        if (!solve(e, mask, &next) || !(next.of[t] > 0)) {
            mask &= ~(1u << t); /* no more than others say already */
            refused |= 1u << t;
            continue;
        }
        for (;;) {
            int negative = 0;
            for (int i = 0; i < TERMS; i++) negative |= mask >> i & 1 && !(next.of[i] > 0);
            if (!negative) break;
            mask = step_back(out, &next, mask);
            if (!solve(e, mask, &next)) return;
        }
        *out = next;
    }
}

/* Bytes that cost nothing are no kernel: then stages stand for them and must not. */
static void fit_kernel(const equations *e, unsigned allowed, prices *out)
{
    fit_prices(e, allowed, out);
    if (!(out->of[BYTES] > 0)) fit_prices(e, allowed & ((1u << STAGES) - 1), out);
    if (!(out->of[BYTES] > 0)) fit_prices(e, 1u << FIXED | 1u << BYTES, out);
}

/* Errors on each sample by a fit to all the others. */
static kerf_status hold_out(const sample *s, size_t n, const equations *all, unsigned allowed,
                            kerf_fit *out, kerf_error *err)
{
    double *error = (double *)kf_alloc(n, sizeof *error);
    if (!error) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory to fit");
    for (size_t i = 0; i < n; i++) {
        equations others = *all;
        prices p;
        add_sample(&others, &s[i], -1);
        fit_kernel(&others, allowed, &p);
        error[i] = fabs(sum_terms(&p, &s[i]) / s[i].us - 1);
    }
    kf_spread(error, n, &out->error_median, &out->error_p90);
    free(error);
    return KERF_OK;
}

static kerf_status take_sample(const kerf_hardware *h, const kerf_timing *t, sample *out,
                               kerf_error *err)
{
    kf_gemv_outline o;
    kerf_work w;
    *out = (sample){.us = t->us};
    KF_TRY(kerf_matmul_work(NULL, &t->product, &w, err));
    const int has_plan = kf_find_outline(h, &w, &o);
    const kerf_work all = kf_plan_work(&o, &w);
    out->has[FIXED] = kf_plan_launches(&o);
    out->has[BYTES] = kerf_work_bytes(&all) * 1e-6;
    if (!has_plan || (int)o.end >= KERF_ROW_ENDS) return KERF_OK;
    out->has[INPUTS] = o.inputs / 1024;
    out->has[ROUNDS + (int)o.end] = o.rounds;
    out->has[STAGES + (int)o.end] = o.stages;
    return KERF_OK;
}

static void take_prices(const prices *p, kerf_fit *out)
{
    out->fixed_us = p->of[FIXED];
    out->bandwidth_gbps = p->of[BYTES] > 0 ? 1e3 / p->of[BYTES] : 0;
    out->input_us = p->of[INPUTS];
    for (int i = 0; i < KERF_ROW_ENDS; i++) {
        out->round_us[i] = p->of[ROUNDS + i];
        out->stage_us[i] = p->of[STAGES + i];
    }
}

kerf_status kerf_fit_times(const kerf_hardware *h, const kerf_timing *times, size_t count,
                           kerf_fit *out, kerf_error *err)
{
    double lo = INFINITY, hi = 0;
    equations e = {{{0}}, {0}};
    prices p;
    *out = (kerf_fit){.source = "", .date = ""};
    if (count < LEAST) {
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "%d times are needed to fit, there are %zu",
                       LEAST, count);
    }
    for (size_t i = 0; i < count; i++)
        if (!(times[i].us > 0 && times[i].us < INFINITY))
            return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "time %zu is %g us, no number above 0", i,
                           times[i].us);
    sample *s = (sample *)kf_alloc_zero(count, sizeof *s);
    if (!s) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory to fit");
    kerf_status status = KERF_OK;
    for (size_t i = 0; i < count && status == KERF_OK; i++) {
        status = take_sample(h, &times[i], &s[i], err);
        if (status != KERF_OK) break;
        add_sample(&e, &s[i], 1);
        lo = fmin(lo, times[i].product.rows);
        hi = fmax(hi, times[i].product.rows);
    }
    if (status == KERF_OK) {
        unsigned allowed = (1u << (count < LEAST_FOR_PLANS ? INPUTS : TERMS)) - 1;
        fit_kernel(&e, allowed, &p);
        take_prices(&p, out);
        out->format = times[0].product.format->name;
        out->batch_min = (uint64_t)lo;
        out->batch_max = (uint64_t)hi;
        status = hold_out(s, count, &e, allowed, out, err);
    }
    free(s);
    return status;
}
