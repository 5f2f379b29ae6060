/* choose.c - the multiple-choice knapsack: drops dominated options, has the optimum bounded
 * (choose_bound.c), and hands what is open then to choose_exact.c. */
#include <kerf/choose.h>

#include <math.h>
#include <stdlib.h>

#include "advice/choose_core.h"
#include "base/work.h"

/* States that the exact part may visit: about half a second. */
enum { WORK = 3000000 };

/* --- dominated options --------------------------------------------------------------------- */

/* Whether a is nowhere worse than b; of equals the first stays. */
static int beats(const kf_core *c, const kf_item *a, const kf_item *b)
{
    int same = a->value == b->value;
    if (a->value > b->value) return 0;
    for (unsigned k = 0; k < c->limits; k++) {
        if (a->cost[k] > b->cost[k]) return 0;
        same &= a->cost[k] == b->cost[k];
    }
    return !same || a->source < b->source;
}

static void take_items(kf_core *c, const kerf_problem *p, kf_item *all)
{
    size_t n = 0;
    for (size_t g = 0; g < p->groups; g++) {
        size_t count = p->first[g + 1] - p->first[g];
        c->first[g] = n;
        for (size_t i = 0; i < count; i++) {
            const kerf_option *o = &p->option[p->first[g] + i];
            all[i] = (kf_item){.value = o->cost[p->minimise], .source = p->first[g] + i};
            for (unsigned k = 0; k < c->limits; k++) all[i].cost[k] = o->cost[c->measure[k]];
        }
        for (size_t i = 0; i < count; i++) {
            int stays = 1;
            for (size_t j = 0; j < count && stays; j++) {
                stays = i == j || !beats(c, &all[j], &all[i]);
            }
            if (stays) c->item[n++] = all[i];
        }
    }
    c->first[p->groups] = n;
}

static void find_limits(kf_core *c, const kerf_problem *p)
{
    for (kerf_price m = 0; m < KERF_PRICES; m++) {
        if (m == p->minimise || !(p->limit[m] < INFINITY)) continue;
        c->measure[c->limits] = m;
        /* Sums of doubles in another order differ in their last bits. */
        c->limit[c->limits++] = p->limit[m] + 1e-12 * fabs(p->limit[m]);
    }
}

static void core_close(kf_core *c)
{
    free(c->item);
    free(c->first);
    free(c->pick);
}

static kerf_status core_open(kf_core *c, const kerf_problem *p, kerf_error *err)
{
    size_t options = p->first[p->groups], widest = 1;
    *c = (kf_core){.groups = p->groups, .best = INFINITY, .job = p->job};
    find_limits(c, p);
    for (size_t g = 0; g < p->groups; g++) {
        size_t n = p->first[g + 1] - p->first[g];
        if (n > widest) widest = n;
    }
    kf_item *all = (kf_item *)kf_alloc(widest, sizeof *all);
    c->item = (kf_item *)kf_alloc(options + 1, sizeof *c->item);
    c->first = (size_t *)kf_alloc(p->groups + 1, sizeof *c->first);
    c->pick = (size_t *)kf_alloc_zero(p->groups + 1, sizeof *c->pick);
    int ok = all && c->item && c->first && c->pick;
    if (ok) take_items(c, p, all);
    free(all);
    return ok ? KERF_OK : kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory to choose");
}

/* --- nested choices ------------------------------------------------------------------------ */

typedef struct hull_step {
    double slope; /* gain per unit of cost: falls along the hull of a group */
    size_t group, to, order;
} hull_step;

static int steep_first(const void *a, const void *b)
{
    const hull_step *x = (const hull_step *)a, *y = (const hull_step *)b;
    if (x->slope != y->slope) return x->slope < y->slope ? 1 : -1;
    return (x->order > y->order) - (x->order < y->order);
}

/* The next point of the lower hull after item i: the steepest descent; i itself at its end. */
static size_t next_on_hull(const kf_core *c, size_t g, size_t i, double *slope)
{
    size_t next = i;
    *slope = 0;
    for (size_t j = c->first[g]; j < c->first[g + 1]; j++) {
        double more = c->item[j].cost[0] - c->item[i].cost[0];
        double s = more > 0 ? (c->item[i].value - c->item[j].value) / more : 0;
        if (s > *slope || (s == *slope && s > 0 && c->item[j].cost[0] > c->item[next].cost[0])) {
            *slope = s;
            next = j;
        }
    }
    return next;
}

/* Starts from the cheapest options and takes steps in order of their worth until one does not fit:
 * with a larger limit, the same steps and more. */
static kerf_status choose_nested(kf_core *c, kerf_error *err)
{
    size_t steps = 0;
    double cost = 0;
    hull_step *step = (hull_step *)kf_alloc(c->first[c->groups] + 1, sizeof *step);
    if (!step) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory to choose");
    for (size_t g = 0; g < c->groups; g++) {
        size_t at = c->first[g];
        for (size_t i = at; i < c->first[g + 1]; i++) {
            if (c->item[i].cost[0] < c->item[at].cost[0]) at = i;
        }
        c->pick[g] = at;
        cost += c->item[at].cost[0];
        for (;;) {
            double slope;
            size_t to = next_on_hull(c, g, at, &slope);
            if (to == at) break;
            step[steps] = (hull_step){slope, g, to, steps};
            steps++;
            at = to;
        }
    }
    qsort(step, steps, sizeof *step, steep_first);
    for (size_t i = 0; i < steps; i++) {
        double more = c->item[step[i].to].cost[0] - c->item[c->pick[step[i].group]].cost[0];
        if (cost + more > c->limit[0]) break;
        cost += more;
        c->pick[step[i].group] = step[i].to;
    }
    free(step);
    c->best = cost <= c->limit[0] ? kf_core_value(c, c->pick) : INFINITY;
    return KERF_OK;
}

/* --- the whole ----------------------------------------------------------------------------- */

static kerf_status check_problem(const kerf_problem *p, kerf_error *err)
{
    int limits = 0;
    if ((unsigned)p->minimise >= KERF_PRICES)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "%d is no measure to minimise",
                       (int)p->minimise);
    for (kerf_price m = 0; m < KERF_PRICES; m++) {
        limits += m != p->minimise && p->limit[m] < INFINITY;
        if (isnan(p->limit[m]) || p->limit[m] < 0) {
            return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "a limit is below zero");
        }
    }
    if (p->nested && limits != 1) {
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "nested choices need one limit");
    }
    for (size_t g = 0; g < p->groups; g++) {
        if (p->first[g] >= p->first[g + 1]) {
            return kf_fail(err, KERF_E_ARG, g, "group %zu has no option", g);
        }
    }
    for (size_t i = 0; i < p->first[p->groups]; i++) {
        for (kerf_price m = 0; m < KERF_PRICES; m++) {
            double x = p->option[i].cost[m];
            if (x >= 0 && x < INFINITY) continue;
            return kf_fail(err, KERF_E_ARG, i, "option %zu has a cost that is no number", i);
        }
    }
    return KERF_OK;
}

static kerf_status solve(const kerf_problem *p, kf_core *c, kerf_error *err)
{
    KF_TRY(core_open(c, p, err));
    KF_TRY(kf_choose_bound(c, err));
    if (p->nested) return choose_nested(c, err);
    if (c->bound >= c->best) return KERF_OK;
    return kf_choose_exact(c, WORK, err);
}

static void describe(const kerf_problem *p, const kf_core *c, kerf_choice *out)
{
    for (kerf_price m = 0; m < KERF_PRICES; m++) out->total[m] = 0;
    for (size_t g = 0; g < p->groups; g++) {
        out->pick[g] = c->item[c->pick[g]].source;
        for (kerf_price m = 0; m < KERF_PRICES; m++) {
            out->total[m] += p->option[out->pick[g]].cost[m];
        }
    }
    double total = out->total[p->minimise];
    out->bound = fmin(c->bound, total);
    out->gap = total > 0 ? fmax(0, (total - out->bound) / total) : 0;
    if (out->gap < 1e-12) out->gap = 0; /* the last bits of sums in two orders */
    for (unsigned k = 0; k < c->limits; k++) out->multiplier[c->measure[k]] = c->multiplier[k];
    out->dominated = p->first[p->groups] - c->first[p->groups];
}

/* The least of each limited measure that the other limits allow. */
static kerf_status find_nearest(const kerf_problem *p, kerf_choice *out, kerf_error *err)
{
    int described = 0;
    for (kerf_price m = 0; m < KERF_PRICES; m++) {
        if (m == p->minimise || !(p->limit[m] < INFINITY)) continue;
        kf_core c;
        kerf_problem q = *p;
        q.minimise = m;
        q.nested = 0;
        q.limit[p->minimise] = INFINITY;
        kerf_status s = solve(&q, &c, err);
        if (s == KERF_OK && c.best < INFINITY) {
            out->nearest[m] = c.best;
            if (!described++) describe(p, &c, out);
        }
        core_close(&c);
        KF_TRY(s);
    }
    return KERF_OK;
}

kerf_status kerf_choose(const kerf_problem *p, kerf_choice *out, kerf_error *err)
{
    kf_core c;
    *out = (kerf_choice){.pick = out->pick};
    for (kerf_price m = 0; m < KERF_PRICES; m++) out->nearest[m] = INFINITY;
    KF_TRY(check_problem(p, err));
    KF_TRY(kf_job_check(p->job, err));
    kerf_status s = solve(p, &c, err);
    int found = s == KERF_OK && c.best < INFINITY;
    if (found) describe(p, &c, out);
    core_close(&c);
    if (s != KERF_OK || found) return s;
    KF_TRY(find_nearest(p, out, err));
    return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE, "no choice stays under the limits");
}
