/* advice_explain.c - in words, why each group got what it got: what the next best candidate would
 * change. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "advice/advice.h"
#include "base/plain_numbers.h"

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

const char *kerf_advice_part(const kerf_advice_group *g)
{
    const char *name = g->name;
    for (const char *p = name; g->layer >= 0 && (p = strchr(p, '.')) != NULL; p++) {
        if (p[1] < '0' || p[1] > '9') continue;
        const char *end = strchr(p + 1, '.');
        return end ? end + 1 : name;
    }
    return name;
}

/* Whether this group loses most, or least, of all its like with the format that it got. */
static size_t say_rank(const kerf_advice *a, const kerf_advice_group *g, char *out, size_t size)
{
    size_t like = 0, below = 0, above = 0;
    const double t2 = g->cost[g->pick].t2;
    for (size_t i = 0; i < a->groups; i++) {
        const kerf_advice_group *x = &a->group[i];
        if (x == g || strcmp(kerf_advice_part(x), kerf_advice_part(g)) != 0) continue;
        if (!x->cost[g->pick].possible) continue;
        like++;
        below += x->cost[g->pick].t2 < t2;
        above += x->cost[g->pick].t2 > t2;
    }
    if (like == 0 || t2 == 0 || (below < like && above < like)) return 0;
    return (size_t)snprintf(out, size, "%s sensitive of %zu %.60s; ",
                            below == like ? "most" : "least", like + 1, kerf_advice_part(g));
}

/* What the best of the smaller candidates would save, and cost. */
static size_t say_smaller(const kerf_advice *a, const kerf_advice_group *g, char *out, size_t size)
{
    const kerf_advice_cost *mine = &g->cost[g->pick];
    size_t best = a->codecs;
    char name[64];
    for (size_t c = 0; c < a->codecs; c++) {
        const kerf_advice_cost *x = &g->cost[c];
        if (!x->possible || x->bytes >= mine->bytes * 0.999 || !kf_advice_offers(a, a->only, c))
            continue;
        if (best == a->codecs || x->t2 < g->cost[best].t2) best = c;
    }
    if (best == a->codecs) return 0;
    const double saves = 100 * (1 - g->cost[best].bytes / mine->bytes);
    kerf_advice_codec_name(a, best, name);
    if (mine->t2 > 0)
        return (size_t)kf_print(out, size, "%s would save %.0f %% for %.1f times the error; ", name,
                                saves, g->cost[best].t2 / mine->t2);
    return (size_t)kf_print(out, size, "%s would save %.0f %% for an error of %.1e; ", name, saves,
                            g->cost[best].t2);
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
    n += say_rank(a, g, g->reason + n, size - n);
    n += say_smaller(a, g, g->reason + n, size - n);
    const kerf_advice_cost *x = &g->cost[other];
    n += (size_t)kf_print(g->reason + n, size - n, "next best %s: t2 %+.2e, %+.1f %% bytes",
                          kerf_advice_codec_name(a, other, name), x->t2 - mine->t2,
                          mine->bytes > 0 ? 100 * (x->bytes / mine->bytes - 1) : 0);
    if (a->hardware && n < size) {
        kf_print(g->reason + n, size - n, ", %+.2f us", x->us - mine->us);
    }
}

void kf_advice_explain(kerf_advice *a)
{
    for (size_t i = 0; i < a->groups; i++) explain_group(a, &a->group[i]);
}
