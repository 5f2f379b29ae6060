/* advice.h - the steps of kerf_advise, each of which fills in its part of a kerf_advice:
 *
 *   kf_advice_find_groups   advice_groups.c   groups of tensors, and the products they make up
 *   kf_advice_find_alphas   advice_alpha.c    how much the error of each tensor matters
 *   kf_advice_find_scores   advice_score.c    the error of every candidate on every tensor
 *   kf_advice_find_costs    advice_costs.c    error, bytes and time of every candidate per group,
 *                           advice_time.c     and what a step takes besides
 *   kf_advice_choose        advice_choose.c   the choice under the budget, and the reasons
 *   kf_advice_find_curves   advice_curve.c    the best choices under other budgets
 *   kf_advice_measure       advice_measure.c  what some choices lose in the end, on tokens
 */
#ifndef KERF_ADVICE_STEPS_H
#define KERF_ADVICE_STEPS_H

#include <kerf/advise.h>

#include "base/base.h"

typedef struct kf_advising {
    const kerf_checkpoint *source;
    const kerf_advise_request *request;
    const kerf_exec *exec;
    const kerf_job *job;
    kerf_advice *advice;
} kf_advising;

/* What weighs columns: the imatrix of the request, or its calibration; NULL: nothing. */
const kerf_checkpoint *kf_advice_imatrix(const kerf_advise_request *r);

kerf_status kf_advice_find_groups(const kf_advising *w, kerf_error *err);
kerf_status kf_advice_find_alphas(const kf_advising *w, kerf_error *err);
kerf_status kf_advice_find_scores(const kf_advising *w, kerf_error *err);
kerf_status kf_advice_find_costs(const kf_advising *w, kerf_error *err);
kerf_status kf_advice_find_times(const kf_advising *w, kerf_error *err);

/* Whether a step multiplies by this tensor: not by vectors, and not by a table that rows are looked
 * up in, but by one that is the head as well, which any may be where no model is known. */
int kf_advice_is_product(const kerf_advice *a, const kerf_weight *w);
/* The head, or an embedding that is the head as well. */
int kf_advice_is_head(const kerf_advice *a, const kerf_weight *w);

/* Joins the tensors of `a` to groups and finds their products. */
kerf_status kf_advice_join(kerf_advice *a, const kerf_weights *all, kerf_error *err);
kerf_status kf_advice_choose(const kf_advising *w, kerf_error *err);

kerf_status kf_advice_measure(const kf_advising *w, kerf_error *err);

/* Whether all limits are kept that a choice is made under. */
int kf_advice_holds(const kerf_advice *a, const kerf_advice_point *p);
/* Candidates of all groups under another limit of bits. KERF_E_LIMIT: there is none. */
kerf_status kf_advice_pick_at(const kf_advising *w, double bits, size_t *pick, kerf_error *err);

/* What kerf_choose chooses from: option i of group g, for i in [first[g], first[g + 1]), is that
 * group in candidate[i]. */
typedef struct kf_advice_options {
    kerf_option *option;
    size_t *candidate; /* of each option */
    size_t *first;     /* [groups + 1]   */
    size_t *pick;      /* [groups]: room for a choice */
} kf_advice_options;

/* Sums over groups, of the option pick[g] of each. */
kerf_advice_point kf_advice_point_of(const kerf_advice *a, const size_t *candidate,
                                     const size_t *pick);

kerf_status kf_advice_find_curves(kerf_advice *a, const kf_advice_options *o, const kerf_job *job,
                                  kerf_error *err);

/* Why each group got what it got, into its `reason`. */
void kf_advice_explain(kerf_advice *a);

/* Whether candidate c is one of those that kerf_advice.only leaves. */
int kf_advice_offers(const kerf_advice *a, size_t only, size_t c);

#endif
