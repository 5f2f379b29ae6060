/* advice_explain.c - in words, why each group got what it got: what the next best candidate would
 * change. */
#include <math.h>
#include <stdio.h>

#include "advice/advice.h"

/* The candidate that would have been next: least of objective and priced costs but for the pick. */
static size_t next_best(const kerf_advice *a, const kerf_advice_group *g)
{
    const double *price = a->choice.multiplier;
    size_t best = g->pick;
    double least = INFINITY;
    for (size_t c = 0; c <= a->codecs; c++) {
        const kerf_advice_cost *x = &g->cost[c];
        double cost[KERF_PRICES] = {x->t2, x->bytes, x->us}, sum = 0;
        if (!x->possible || c == g->pick) continue;
        if (!kf_advice_offers(a, a->only, c)) continue;
        for (int m = 0; m < KERF_PRICES; m++) {
            sum += (m == (int)a->minimise ? 1 : price[m]) * cost[m];
        }
        if (sum >= least) continue;
        least = sum;
        best = c;
    }
    return best;
}

static int nothing_is_faster(const kerf_advice *a, const kerf_advice_group *g)
{
    const kerf_advice_cost *keep = &g->cost[a->codecs];
    for (size_t c = 0; c < a->codecs; c++) {
        if (g->cost[c].possible && g->cost[c].us < keep->us) return 0;
    }
    return 1;
}

static void explain_group(const kerf_advice *a, kerf_advice_group *g)
{
    char name[64];
    const kerf_advice_cost *mine = &g->cost[g->pick];
    size_t other = next_best(a, g);
    size_t n = 0, size = sizeof g->reason;
    if (g->pick == a->codecs && a->hardware && nothing_is_faster(a, g)) {
        n = (size_t)snprintf(g->reason, size, "no candidate is faster; ");
    }
    if (other == g->pick) {
        snprintf(g->reason + n, size - n, "no other candidate is possible");
        return;
    }
    const kerf_advice_cost *x = &g->cost[other];
    n += (size_t)snprintf(g->reason + n, size - n, "next best %s: t2 %+.2e, %+.1f %% bytes",
                          kerf_advice_codec_name(a, other, name), x->t2 - mine->t2,
                          mine->bytes > 0 ? 100 * (x->bytes / mine->bytes - 1) : 0);
    if (a->hardware && n < size) {
        snprintf(g->reason + n, size - n, ", %+.2f us", x->us - mine->us);
    }
}

void kf_advice_explain(kerf_advice *a)
{
    for (size_t i = 0; i < a->groups; i++) explain_group(a, &a->group[i]);
}
