/* choose_core.h - the multiple-choice knapsack after dominated options are gone: what choose.c, its
 * bound (choose_bound.c) and its exact part (choose_exact.c) share. */
#ifndef KERF_CHOOSE_CORE_H
#define KERF_CHOOSE_CORE_H

#include <kerf/choose.h>

enum { KF_LIMITS = KERF_PRICES - 1 };

typedef struct kf_item {
    double value, cost[KF_LIMITS];
    double reduced; /* value + multiplier * cost, above the least of its group */
    size_t source;  /* index of the option                                     */
} kf_item;

typedef struct kf_core {
    kf_item *item;
    size_t *first; /* [groups + 1] */
    size_t groups;
    unsigned limits; /* that are active */
    kerf_price measure[KF_LIMITS];
    double limit[KF_LIMITS];      /* with a hair of room for rounding */
    double multiplier[KF_LIMITS]; /* of the bound                     */
    double bound;                 /* Lagrangian                       */
    size_t *pick;                 /* [groups] into item: the best choice known ... */
    double best;                  /* ... its value; INFINITY: none                 */
    const kerf_job *job;
} kf_core;

/* Sets multipliers, bound and the items' reduced values, and the best choice that was found with
 * them. */
kerf_status kf_choose_bound(kf_core *c, kerf_error *err);
double kf_core_value(const kf_core *c, const size_t *pick);

/* Improves pick and best, and raises bound, up to `work` states visited. With enough of them, best
 * is the optimum, and INFINITY when there is no choice; bound is then no less than best. */
kerf_status kf_choose_exact(kf_core *c, size_t work, kerf_error *err);

#endif
