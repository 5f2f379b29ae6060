/* choose_bound.c - the Lagrangian bound: limits become prices (multipliers), with which every group
 * chooses for itself. Choices that this finds on the way and that stay under the limits are kept.
 */
#include "advice/choose_core.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

enum { DOUBLINGS = 400, HALVINGS = 80, ROUNDS = 6, CLIMBS = 150 };

/* --- choices ------------------------------------------------------------------------------- */

/* Costs of the best options under these multipliers (ties: the first); their items go to pick
 * unless that is NULL. Returns the Lagrangian bound. */
static double relax(const kf_core *c, const double multiplier[KF_LIMITS], double cost[KF_LIMITS],
                    size_t *pick)
{
    double bound = 0;
    for (unsigned k = 0; k < KF_LIMITS; k++) cost[k] = 0;
    for (size_t g = 0; g < c->groups; g++) {
        size_t best = c->first[g];
        double least = INFINITY;
        for (size_t i = c->first[g]; i < c->first[g + 1]; i++) {
            double v = c->item[i].value;
            for (unsigned k = 0; k < c->limits; k++) v += multiplier[k] * c->item[i].cost[k];
            if (v < least) {
                least = v;
                best = i;
            }
        }
        bound += least;
        for (unsigned k = 0; k < c->limits; k++) cost[k] += c->item[best].cost[k];
        if (pick) pick[g] = best;
    }
    for (unsigned k = 0; k < c->limits; k++) bound -= multiplier[k] * c->limit[k];
    return bound;
}

static int under(const kf_core *c, const double cost[KF_LIMITS])
{
    for (unsigned k = 0; k < c->limits; k++) {
        if (cost[k] > c->limit[k]) return 0;
    }
    return 1;
}

double kf_core_value(const kf_core *c, const size_t *pick)
{
    double sum = 0;
    for (size_t g = 0; g < c->groups; g++) sum += c->item[pick[g]].value;
    return sum;
}

/* Keeps a choice when it is under the limits and better than the one known. */
static void offer(kf_core *c, const size_t *pick, const double cost[KF_LIMITS])
{
    double value;
    if (!under(c, cost) || (value = kf_core_value(c, pick)) >= c->best) return;
    c->best = value;
    memcpy(c->pick, pick, c->groups * sizeof *pick);
}

static void note_bound(kf_core *c, const double multiplier[KF_LIMITS], double bound)
{
    if (bound <= c->bound) return;
    c->bound = bound;
    memcpy(c->multiplier, multiplier, sizeof c->multiplier);
}

/* Moves to better options as long as there is room: the best per unit of weighted cost first. */
static void fill(kf_core *c, size_t *pick, double cost[KF_LIMITS])
{
    for (size_t moves = 0; moves <= c->groups; moves++) {
        size_t group = c->groups, to = 0;
        double best = 0;
        for (size_t g = 0; g < c->groups; g++) {
            const kf_item *from = &c->item[pick[g]];
            for (size_t i = c->first[g]; i < c->first[g + 1]; i++) {
                double gain = from->value - c->item[i].value, worth = 0;
                int fits = gain > 0;
                for (unsigned k = 0; k < c->limits && fits; k++) {
                    double more = c->item[i].cost[k] - from->cost[k];
                    fits = cost[k] + more <= c->limit[k];
                    worth += c->multiplier[k] * fmax(more, 0);
                }
                if (!fits || gain / (worth + 1e-300) <= best) continue;
                best = gain / (worth + 1e-300);
                group = g;
                to = i;
            }
        }
        if (group == c->groups) break;
        for (unsigned k = 0; k < c->limits; k++) {
            cost[k] += c->item[to].cost[k] - c->item[pick[group]].cost[k];
        }
        pick[group] = to;
        if (moves > 64 && c->groups > 512) break; /* each move looks at every option */
    }
    double exact[KF_LIMITS] = {0};
    for (size_t g = 0; g < c->groups; g++) {
        for (unsigned k = 0; k < c->limits; k++) exact[k] += c->item[pick[g]].cost[k];
    }
    offer(c, pick, exact);
}

/* --- multipliers --------------------------------------------------------------------------- */

/* Bisects multiplier k, the others held, to where the relaxed cost falls under its limit. */
static void bisect(kf_core *c, double multiplier[KF_LIMITS], unsigned k, size_t *pick)
{
    double cost[KF_LIMITS], lo = 0, hi = c->multiplier[k] > 0 ? c->multiplier[k] : 1e-12;
    multiplier[k] = 0;
    note_bound(c, multiplier, relax(c, multiplier, cost, pick));
    offer(c, pick, cost);
    if (cost[k] <= c->limit[k]) return;
    for (int i = 0; i < DOUBLINGS; i++, hi *= 2) {
        multiplier[k] = hi;
        note_bound(c, multiplier, relax(c, multiplier, cost, pick));
        if (cost[k] <= c->limit[k]) break;
        lo = hi;
    }
    offer(c, pick, cost);
    for (int i = 0; i < HALVINGS && hi - lo > 1e-14 * hi; i++) {
        multiplier[k] = lo + (hi - lo) / 2;
        note_bound(c, multiplier, relax(c, multiplier, cost, pick));
        offer(c, pick, cost);
        if (cost[k] <= c->limit[k])
            hi = multiplier[k];
        else
            lo = multiplier[k];
    }
    multiplier[k] = hi;
}

/* Subgradient steps from the best multipliers known, for two limits at once. */
static void climb(kf_core *c, size_t *pick)
{
    double at[KF_LIMITS], cost[KF_LIMITS], target;
    memcpy(at, c->multiplier, sizeof at);
    for (int i = 0; i < CLIMBS; i++) {
        double bound = relax(c, at, cost, pick), length = 0;
        note_bound(c, at, bound);
        offer(c, pick, cost);
        target = c->best < INFINITY ? c->best : bound + 0.01 * fabs(bound);
        for (unsigned k = 0; k < c->limits; k++) {
            double d = (cost[k] - c->limit[k]) / c->limit[k];
            length += d * d;
        }
        if (!(length > 0)) return;
        double size = (target - bound) / length / (1 + 0.05 * i);
        for (unsigned k = 0; k < c->limits; k++) {
            double d = (cost[k] - c->limit[k]) / c->limit[k];
            at[k] = fmax(0, at[k] + size * d / c->limit[k]);
        }
    }
}

static void set_reduced(kf_core *c)
{
    for (size_t g = 0; g < c->groups; g++) {
        double least = INFINITY;
        for (size_t i = c->first[g]; i < c->first[g + 1]; i++) {
            kf_item *t = &c->item[i];
            t->reduced = t->value;
            for (unsigned k = 0; k < c->limits; k++) t->reduced += c->multiplier[k] * t->cost[k];
            least = fmin(least, t->reduced);
        }
        for (size_t i = c->first[g]; i < c->first[g + 1]; i++) c->item[i].reduced -= least;
    }
}

kerf_status kf_choose_bound(kf_core *c, kerf_error *err)
{
    double at[KF_LIMITS] = {0}, cost[KF_LIMITS];
    size_t *pick = (size_t *)kf_alloc(c->groups + 1, sizeof *pick);
    if (!pick) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory to choose");
    c->bound = -INFINITY;
    note_bound(c, at, relax(c, at, cost, pick));
    offer(c, pick, cost);
    if (c->limits && !under(c, cost)) {
        for (int round = 0; round < (c->limits > 1 ? ROUNDS : 1); round++) {
            for (unsigned k = 0; k < c->limits; k++) bisect(c, at, k, pick);
        }
        if (c->limits > 1) climb(c, pick);
        for (int i = 0; i < 60 && c->limits > 1 && c->best == INFINITY; i++) {
            for (unsigned k = 0; k < c->limits; k++) at[k] = c->multiplier[k] * pow(1.3, i);
            relax(c, at, cost, pick);
            offer(c, pick, cost);
        }
        if (c->best < INFINITY) {
            memcpy(pick, c->pick, c->groups * sizeof *pick);
            memset(cost, 0, sizeof cost);
            for (size_t g = 0; g < c->groups; g++) {
                for (unsigned k = 0; k < c->limits; k++) cost[k] += c->item[pick[g]].cost[k];
            }
            fill(c, pick, cost);
        }
    }
    free(pick);
    set_reduced(c);
    return KERF_OK;
}
