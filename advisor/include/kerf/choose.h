/* choose.h - one option for every group: least of one measure while others stay under limits.
 *
 * This is the multiple-choice knapsack problem. It is solved exactly: Lagrangian bound, groups that
 * the bound settles, then dynamic programming over the rest with dominance and the bound. Where
 * that takes more states than are allowed, the best choice found is returned with its gap: how far
 * below it the optimum could lie.
 */
#ifndef KERF_CHOOSE_H
#define KERF_CHOOSE_H

#include <kerf/job.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What an option costs; each adds up over groups. */
typedef enum kerf_price {
    KERF_PRICE_LOSS,
    KERF_PRICE_BYTES,
    KERF_PRICE_TIME,
    KERF_PRICES
} kerf_price;

typedef struct kerf_option {
    double cost[KERF_PRICES]; /* finite, >= 0 */
} kerf_option;

typedef struct kerf_problem {
    const kerf_option *option; /* those of group g: [first[g], first[g + 1]), at least one */
    const size_t *first;       /* [groups + 1]                                             */
    size_t groups;
    kerf_price minimise;
    double limit[KERF_PRICES]; /* of sums; INFINITY: none. That of `minimise` is ignored */
    int nested;          /* choices under a growing limit contain each other: along the convex hull,
                            one limit only, not always the best                                      */
    const kerf_job *job; /* its `cancel` is asked now and then; NULL: this cannot be canceled */
} kerf_problem;

typedef struct kerf_choice {
    size_t *pick; /* [groups], the caller's: indices into option  */
    double total[KERF_PRICES];
    double bound;                   /* no choice under the limits is below this   */
    double gap;                     /* (total - bound) / total; 0: it is the best */
    double multiplier[KERF_PRICES]; /* of the limits: what one unit more is worth */
    double nearest[KERF_PRICES];    /* when there is no choice: the least limit of this measure that
                                         works while the other limits stay; INFINITY: none does    */
    size_t dominated;               /* options that another one beats everywhere                 */
} kerf_choice;

/* KERF_E_LIMIT: no choice stays under the limits; `nearest` says what would. pick is then the
 * choice with the least of the first measure that is limited. KERF_E_CANCELED: as the job says. */
KERF_API KERF_CHECK kerf_status kerf_choose(const kerf_problem *p, kerf_choice *out,
                                            kerf_error *err);

/* The most bits per weight that a limit leaves. Bits are held to it as they are printed, to three
 * digits: 4.500002 of a format with a scale per tensor are 4.500, and stay under 4.5. Infinite for
 * an infinite limit. */
KERF_API double kerf_bits_most(double limit);

#ifdef __cplusplus
}
#endif
#endif
