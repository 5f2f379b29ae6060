/* choose_exact.c - dynamic programming over what the Lagrangian bound leaves open.
 *
 * A state is a partial choice. Its reduced sum r says that every completion costs bound + r at
 * least, so states with bound + r >= best are gone; so are states that another one beats in value
 * and in every cost, and those that no completion brings under the limits. Groups with a single
 * option left are settled beforehand. Groups whose second option is expensive come first: they
 * branch little, and the lists grow late. */
#include "advice/choose_core.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/work.h"

typedef struct state {
    double value, cost[KF_LIMITS], reduced;
    uint32_t parent; /* of the level before     */
    uint32_t item;   /* that was added to it    */
} state;

typedef struct step {
    uint32_t parent, item;
} step;

typedef struct search {
    kf_core *core;
    kf_item *item; /* of open groups, those that the bound leaves */
    size_t *first;
    size_t *group; /* which group each open one is */
    size_t open;
    double value, cost[KF_LIMITS]; /* of settled groups                     */
    double *rest;                  /* [open + 1][KF_LIMITS] least costs after a level */
    step **trail;                  /* [open] how states of a level came about         */
    state *now, *next;
    size_t room, count;
    double dropped; /* least reduced sum of states given up for lack of room */
} search;

/* --- what is open -------------------------------------------------------------------------- */

typedef struct open_group {
    size_t group;
    double second; /* least reduced cost but for the best option's */
} open_group;

static int costly_first(const void *a, const void *b)
{
    const open_group *x = (const open_group *)a, *y = (const open_group *)b;
    if (x->second != y->second) return x->second < y->second ? 1 : -1;
    return (x->group > y->group) - (x->group < y->group);
}

static int stays(const kf_core *c, const kf_item *i)
{
    return c->bound + i->reduced < c->best;
}

/* Settles groups with one option left and lists the others. */
static kerf_status list_open(search *s, kerf_error *err)
{
    kf_core *c = s->core;
    size_t items = 0;
    open_group *open = (open_group *)kf_alloc(c->groups + 1, sizeof *open);
    if (!open) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory to choose");
    for (size_t g = 0; g < c->groups; g++) {
        size_t left = 0, only = 0;
        double second = INFINITY;
        for (size_t i = c->first[g]; i < c->first[g + 1]; i++) {
            if (!stays(c, &c->item[i])) continue;
            left++;
            only = i;
            if (c->item[i].reduced > 0) second = fmin(second, c->item[i].reduced);
        }
        if (left == 1) {
            s->value += c->item[only].value;
            for (unsigned k = 0; k < c->limits; k++) s->cost[k] += c->item[only].cost[k];
            c->pick[g] = only;
            continue;
        }
        items += left;
        open[s->open++] = (open_group){g, left ? second : INFINITY};
    }
    qsort(open, s->open, sizeof *open, costly_first);
    s->item = (kf_item *)kf_alloc(items + 1, sizeof *s->item);
    s->first = (size_t *)kf_alloc(s->open + 1, sizeof *s->first);
    s->group = (size_t *)kf_alloc(s->open + 1, sizeof *s->group);
    s->rest = (double *)kf_alloc_zero((s->open + 1) * KF_LIMITS, sizeof *s->rest);
    s->trail = (step **)kf_alloc_zero(s->open + 1, sizeof *s->trail);
    int ok = s->item && s->first && s->group && s->rest && s->trail;
    for (size_t g = 0, n = 0; ok && g <= s->open; g++) {
        s->first[g] = n;
        if (g == s->open) break;
        s->group[g] = open[g].group;
        for (size_t i = c->first[open[g].group]; i < c->first[open[g].group + 1]; i++) {
            if (!stays(c, &c->item[i])) continue;
            s->item[n] = c->item[i];
            s->item[n++].source = i;
        }
    }
    free(open);
    return ok ? KERF_OK : kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory to choose");
}

static void sum_rest(search *s)
{
    for (size_t g = s->open; g-- > 0;) {
        for (unsigned k = 0; k < s->core->limits; k++) {
            double least = INFINITY;
            for (size_t i = s->first[g]; i < s->first[g + 1]; i++) {
                least = fmin(least, s->item[i].cost[k]);
            }
            s->rest[g * KF_LIMITS + k] = s->rest[(g + 1) * KF_LIMITS + k] + least;
        }
    }
}

/* --- dominance ----------------------------------------------------------------------------- */

static int by_cost(const void *a, const void *b)
{
    const state *x = (const state *)a, *y = (const state *)b;
    for (unsigned k = 0; k < KF_LIMITS; k++) {
        if (x->cost[k] != y->cost[k]) return x->cost[k] < y->cost[k] ? -1 : 1;
    }
    if (x->value != y->value) return x->value < y->value ? -1 : 1;
    if (x->parent != y->parent) return x->parent < y->parent ? -1 : 1;
    return (x->item > y->item) - (x->item < y->item);
}

/* States come by ascending first cost, so an earlier one dominates when it has no more of the
 * second cost and of the value. The stairs hold, by ascending second cost, the values that fall. */
typedef struct stair {
    double cost, value;
} stair;

/* Index of the first stair with a cost above x. */
static size_t find_stair(const stair *stairs, size_t n, double x)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (stairs[mid].cost <= x)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static size_t drop_dominated(state *list, size_t n, stair *stairs)
{
    size_t kept = 0, steps = 0;
    qsort(list, n, sizeof *list, by_cost);
    for (size_t i = 0; i < n; i++) {
        double cost = list[i].cost[1], value = list[i].value;
        size_t at = find_stair(stairs, steps, cost);
        if (at > 0 && stairs[at - 1].value <= value) continue;
        size_t end = at, begin = at > 0 && stairs[at - 1].cost == cost ? at - 1 : at;
        while (end < steps && stairs[end].value >= value) end++;
        memmove(stairs + begin + 1, stairs + end, (steps - end) * sizeof *stairs);
        stairs[begin] = (stair){cost, value};
        steps = steps - (end - begin) + 1;
        list[kept++] = list[i];
    }
    return kept;
}

/* --- levels -------------------------------------------------------------------------------- */

static int by_reduced(const void *a, const void *b)
{
    const state *x = (const state *)a, *y = (const state *)b;
    if (x->reduced != y->reduced) return x->reduced < y->reduced ? -1 : 1;
    return by_cost(a, b);
}

/* Adds every item of a level to every state; returns how many are worth keeping. */
static size_t expand(search *s, size_t level)
{
    const kf_core *c = s->core;
    const double *rest = s->rest + (level + 1) * KF_LIMITS;
    size_t n = 0;
    for (size_t a = 0; a < s->count; a++) {
        for (size_t i = s->first[level]; i < s->first[level + 1]; i++) {
            state t = s->now[a];
            int fits = 1;
            t.value += s->item[i].value;
            t.reduced += s->item[i].reduced;
            for (unsigned k = 0; k < c->limits; k++) {
                t.cost[k] += s->item[i].cost[k];
                fits &= t.cost[k] + rest[k] <= c->limit[k];
            }
            if (!fits || c->bound + t.reduced >= c->best) continue;
            t.parent = (uint32_t)a;
            t.item = (uint32_t)i;
            s->next[n++] = t;
        }
    }
    return n;
}

static kerf_status run_level(search *s, size_t level, stair *stairs, kerf_error *err)
{
    size_t n = drop_dominated(s->next, expand(s, level), stairs);
    if (n > s->room) {
        qsort(s->next, n, sizeof *s->next, by_reduced);
        s->dropped = fmin(s->dropped, s->next[s->room].reduced);
        n = s->room;
    }
    s->trail[level] = (step *)kf_alloc(n + 1, sizeof **s->trail);
    if (!s->trail[level]) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory to choose");
    for (size_t i = 0; i < n; i++) {
        s->trail[level][i] = (step){s->next[i].parent, s->next[i].item};
    }
    state *swap = s->now;
    s->now = s->next;
    s->next = swap;
    s->count = n;
    return KERF_OK;
}

static void take_best(search *s)
{
    kf_core *c = s->core;
    size_t best = s->count;
    for (size_t i = 0; i < s->count; i++) {
        if (s->now[i].value < (best == s->count ? c->best : s->now[best].value)) best = i;
    }
    if (best == s->count) return;
    c->best = s->now[best].value;
    for (size_t level = s->open; level-- > 0;) {
        step t = s->trail[level][best];
        c->pick[s->group[level]] = s->item[t.item].source;
        best = t.parent;
    }
}

/* Whether what is settled, with the least of what is open, is under the limits. */
static int can_be(const search *s)
{
    for (unsigned k = 0; k < s->core->limits; k++)
        if (s->cost[k] + s->rest[k] > s->core->limit[k]) return 0;
    return 1;
}

static kerf_status run_levels(search *s, size_t work, kerf_error *err)
{
    size_t items = s->first[s->open], widest = 1, ways = 1;
    for (size_t g = 0; g < s->open; g++) {
        size_t n = s->first[g + 1] - s->first[g];
        if (n > widest) widest = n;
        ways = n > 0 && ways <= work / n ? ways * n : work;
    }
    s->room = items ? work / items : 1;
    if (s->room < 64) s->room = 64;
    if (s->room > work / widest) s->room = work / widest + 1;
    if (s->room > ways) s->room = ways; /* a small choice takes little memory */
    s->now = (state *)kf_alloc_zero(s->room * widest + 1, sizeof *s->now);
    s->next = (state *)kf_alloc_zero(s->room * widest + 1, sizeof *s->next);
    stair *stairs = (stair *)kf_alloc(s->room * widest + 1, sizeof *stairs);
    kerf_status status = KERF_OK;
    if (!s->now || !s->next || !stairs) {
        status = kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory to choose");
    } else {
        s->now[0] = (state){.value = s->value};
        memcpy(s->now[0].cost, s->cost, sizeof s->cost);
        s->count = (size_t)can_be(s);
    }
    for (size_t g = 0; g < s->open && status == KERF_OK; g++) {
        status = kf_job_check(s->core->job, err);
        if (status == KERF_OK) status = run_level(s, g, stairs, err);
    }
    free(stairs);
    return status;
}

kerf_status kf_choose_exact(kf_core *c, size_t work, kerf_error *err)
{
    search s = {.core = c, .dropped = INFINITY};
    size_t *before = (size_t *)kf_alloc(c->groups + 1, sizeof *before);
    double best = c->best;
    if (!before) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory to choose");
    memcpy(before, c->pick, c->groups * sizeof *before);
    kerf_status status = list_open(&s, err);
    if (status == KERF_OK) {
        sum_rest(&s);
        status = run_levels(&s, work, err);
    }
    if (status == KERF_OK) {
        take_best(&s);
        double open = c->bound + s.dropped;
        c->bound = fmin(c->best, fmax(c->bound, open));
    }
    if (c->best >= best) memcpy(c->pick, before, c->groups * sizeof *before);
    for (size_t g = 0; s.trail && g < s.open; g++) free(s.trail[g]);
    free(before);
    free(s.item);
    free(s.first);
    free(s.group);
    free(s.rest);
    free(s.trail);
    free(s.now);
    free(s.next);
    return status;
}
