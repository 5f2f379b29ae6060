/* advice_curve.c - the best choices under other budgets of one measure. */
#include <math.h>

#include "advice/advice.h"

/* Least error under budgets of one measure, from the least of it that is possible to that of
 * keeping everything. Where nothing is gained by keeping, the curve is a point. */
static kerf_status find_curve(const kerf_advice *a, const kf_advice_options *t, kerf_price price,
                              const kerf_job *job, kerf_advice_curve *out, kerf_error *err)
{
    double lo = 0, hi = 0;
    kerf_choice c = {.pick = t->pick};
    kerf_problem p = {.option = t->option,
                      .first = t->first,
                      .groups = a->groups,
                      .limit = {INFINITY, INFINITY, INFINITY},
                      .job = job};
    for (size_t i = 0; i < a->groups; i++) {
        double least = INFINITY;
        for (size_t k = t->first[i]; k < t->first[i + 1]; k++) {
            least = fmin(least, t->option[k].cost[price]);
        }
        lo += least;
        hi += t->option[t->first[i + 1] - 1].cost[price]; /* keeping comes last */
    }
    for (int i = 0; i < KERF_ADVICE_CURVE; i++) {
        double share = (double)i / (KERF_ADVICE_CURVE - 1);
        const double at = lo > 0 ? lo * pow(hi / lo, share) : hi; /* tables take no time */
        p.limit[price] = at * (1 + 1e-12);                        /* sums of times are rounded */
        KF_TRY(kerf_choose(&p, &c, err));
        out->point[out->count++] = kf_advice_point_of(a, t->candidate, t->pick);
    }
    return KERF_OK;
}

kerf_status kf_advice_find_curves(kerf_advice *a, const kf_advice_options *o, const kerf_job *job,
                                  kerf_error *err)
{
    KF_TRY(find_curve(a, o, KERF_PRICE_BYTES, job, &a->by_size, err));
    return a->hardware ? find_curve(a, o, KERF_PRICE_TIME, job, &a->by_time, err) : KERF_OK;
}
