/* advice_choose.c - the choice under the budget, or what budget would do. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "advice/advice.h"
#include "base/plain_numbers.h"

/* --- the budget ---------------------------------------------------------------------------- */

static double limit(double given)
{
    return given > 0 ? given : INFINITY;
}

/* The most that a step may take, all operators together. */
static double step_limit_us(const kerf_advice *a)
{
    const kerf_budget *b = &a->budget;
    return fmin(limit(b->us), b->tokens_per_s > 0 ? a->batch * 1e6 / b->tokens_per_s : INFINITY);
}

/* What a limit on time is held against. */
static double held_us(const kerf_advice *a, double us, double high_us)
{
    return a->budget.likely ? us : high_us;
}

/* The limits as sums over groups: what is kept and what runs besides is taken off. Where that is
 * too much already, nothing is left, and explain_limits says so. */
static void set_limits(const kerf_advice *a, kerf_problem *p)
{
    const kerf_budget *b = &a->budget;
    p->limit[KERF_PRICE_LOSS] = limit(b->t2);
    double bytes = fmin(floor(kerf_bits_most(limit(b->bits)) * a->elements / 8),
                        limit(b->bytes) - a->kept_bytes);
    p->limit[KERF_PRICE_BYTES] = fmax(0, bytes);
    p->limit[KERF_PRICE_TIME] =
        fmax(0, step_limit_us(a) - held_us(a, a->other_us, a->other_high_us));
    p->minimise = a->minimise;
    p->nested = a->nested;
}

int kf_advice_holds(const kerf_advice *a, const kerf_advice_point *p)
{
    const double rounded = 1 + 1e-12; /* sums in another order */
    kerf_problem limits;
    set_limits(a, &limits);
    return p->t2 <= limits.limit[KERF_PRICE_LOSS] * rounded &&
           p->bytes <= limits.limit[KERF_PRICE_BYTES] * rounded &&
           held_us(a, p->us, p->high_us) <= limits.limit[KERF_PRICE_TIME] * rounded;
}

/* --- the choice ---------------------------------------------------------------------------- */

static void options_free(kf_advice_options *t)
{
    free(t->option);
    free(t->first);
    free(t->pick);
    free(t->candidate);
}

int kf_advice_offers(const kerf_advice *a, size_t only, size_t c)
{
    if (only == SIZE_MAX || c == a->codecs) return 1;
    if (only == a->codecs) return kerf_layout_mixes_format(a->layout, a->codec[c].format);
    return c == only;
}

/* only: as in kerf_advice. */
static kerf_status list_options(const kerf_advice *a, size_t only, kf_advice_options *t,
                                kerf_error *err)
{
    size_t most = a->groups * (a->codecs + 1), n = 0;
    KF_TRY(kf_allocate(&t->option, most, sizeof *t->option, err));
    KF_TRY(kf_allocate(&t->candidate, most, sizeof *t->candidate, err));
    KF_TRY(kf_allocate(&t->first, a->groups + 1, sizeof *t->first, err));
    KF_TRY(kf_allocate(&t->pick, a->groups + 1, sizeof *t->pick, err));
    for (size_t i = 0; i < a->groups; i++) {
        for (size_t c = 0; c <= a->codecs; c++) {
            const kerf_advice_cost *cost = &a->group[i].cost[c];
            if (!cost->possible || !kf_advice_offers(a, only, c)) continue;
            t->candidate[n] = c;
            t->option[n++] =
                (kerf_option){{cost->t2, cost->bytes, held_us(a, cost->us, cost->high_us)}};
        }
        t->first[i + 1] = n;
    }
    return KERF_OK;
}

/* To five digits or to units, on the side where the limit holds that a person makes of it. */
static double rounded(double x, double unit, int up)
{
    if (unit == 0) unit = x > 0 ? pow(10, floor(log10(x)) - 4) : 1;
    return (up ? ceil(x / unit * (1 - 1e-12)) : floor(x / unit * (1 + 1e-12))) * unit;
}

static kerf_status explain_limits(const kerf_advice *a, const kerf_choice *c, kerf_error *err)
{
    char text[400] = "";
    const double *near = c->nearest;
    size_t n = 0;
    const double other_us = held_us(a, a->other_us, a->other_high_us);
    const char *end = a->budget.likely || a->other_high_us <= a->other_us ? "" : " at the slow end";
    if (limit(a->budget.bytes) < a->kept_bytes) {
        n += (size_t)kf_print(text, sizeof text,
                              "; what is kept takes %.0f bytes already (--all-tensors quantizes it "
                              "too)",
                              a->kept_bytes);
    }
    if (step_limit_us(a) < other_us) {
        n += (size_t)kf_print(text + n, sizeof text - n,
                              "; attention and other operators take %.1f us already%s", other_us,
                              end);
    }
    if (near[KERF_PRICE_BYTES] < INFINITY) {
        n += (size_t)kf_print(text + n, sizeof text - n,
                              "; it would take %.4f bits, %.0f bytes with what is kept",
                              rounded(8 * near[KERF_PRICE_BYTES] / a->elements, 1e-4, 1),
                              near[KERF_PRICE_BYTES] + a->kept_bytes);
    }
    if (near[KERF_PRICE_TIME] < INFINITY && n < sizeof text) {
        double us = near[KERF_PRICE_TIME] + other_us;
        n += (size_t)kf_print(text + n, sizeof text - n, "; or %.2f us a step, %.5g tok/s%s",
                              rounded(us, 0.01, 1), rounded(a->batch * 1e6 / us, 0, 0), end);
    }
    if (near[KERF_PRICE_LOSS] < INFINITY && n < sizeof text) {
        kf_print(text + n, sizeof text - n, "; or a t2 of %.5g",
                 rounded(near[KERF_PRICE_LOSS], 0, 1));
    }
    return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE,
                   "no choice of these formats stays under the budget%s", text);
}

/* Lists the options and chooses; `o` is to be freed either way. */
static kerf_status choose_among(const kf_advising *w, size_t only, kf_advice_options *o,
                                kerf_error *err)
{
    kerf_advice *a = w->advice;
    KF_TRY(list_options(a, only, o, err));
    kerf_problem p = {.option = o->option, .first = o->first, .groups = a->groups, .job = w->job};
    set_limits(a, &p);
    a->choice.pick = o->pick;
    return kerf_choose(&p, &a->choice, err);
}

kerf_status kf_advice_pick_at(const kf_advising *w, double bits, size_t *pick, kerf_error *err)
{
    kerf_advice *a = w->advice;
    const kerf_budget kept = a->budget;
    const kerf_choice choice = a->choice;
    kf_advice_options o = {0};
    a->budget.bits = bits;
    const kerf_status s = choose_among(w, a->only, &o, err);
    for (size_t i = 0; s == KERF_OK && i < a->groups; i++) pick[i] = o.candidate[o.pick[i]];
    options_free(&o);
    a->budget = kept;
    a->choice = choice;
    return s;
}

/* Whether a checkpoint may have several formats at all, besides tensors that are kept. */
static int may_mix(const kerf_advice *a)
{
    return !a->layout || (kerf_layout_mixes(a->layout) && (!a->runtime || a->runtime->mixes));
}

/* Whether it may not have any of the candidates beside any other. */
static int is_restricted(const kerf_advice *a)
{
    size_t mixed = 0;
    for (size_t c = 0; a->layout && c < a->codecs; c++)
        mixed += (size_t)kerf_layout_mixes_format(a->layout, a->codec[c].format);
    return !may_mix(a) || (a->layout && mixed < a->codecs);
}

/* How near a failed choice came: in bytes where these are limited, else in time, else in error. */
static double came_near(const kerf_choice *c)
{
    double near = c->nearest[KERF_PRICE_BYTES];
    if (!(near < INFINITY)) near = c->nearest[KERF_PRICE_TIME];
    return near < INFINITY ? near : c->nearest[KERF_PRICE_LOSS];
}

/* The candidate that is best where there may be one, or all that can be mixed; where none stays
 * under the budget, the one that comes nearest, so that the failure says the least that would do.
 */
static kerf_status find_only(const kf_advising *w, kerf_error *err)
{
    kerf_advice *a = w->advice;
    double best = INFINITY, nearest = INFINITY;
    size_t near = 0;
    kerf_error why = {0};
    for (size_t c = 0; c < a->codecs + (size_t)may_mix(a); c++) {
        kf_advice_options o = {0};
        const kerf_status s = choose_among(w, c, &o, &why);
        options_free(&o);
        if (s != KERF_OK && s != KERF_E_LIMIT) {
            if (err) *err = why;
            return s;
        }
        if (s == KERF_OK && a->choice.total[a->minimise] < best) {
            best = a->choice.total[a->minimise];
            a->only = c;
        } else if (s != KERF_OK && came_near(&a->choice) < nearest) {
            nearest = came_near(&a->choice);
            near = c;
        }
    }
    if (a->only == SIZE_MAX) a->only = near;
    return KERF_OK;
}

kerf_status kf_advice_choose(const kf_advising *w, kerf_error *err)
{
    kerf_advice *a = w->advice;
    kf_advice_options o = {0};
    const double start = kf_now_s();
    if (is_restricted(a)) KF_TRY(find_only(w, err));
    kerf_status s = choose_among(w, a->only, &o, err);
    a->choose_s = kf_now_s() - start;
    if (s == KERF_E_LIMIT) s = explain_limits(a, &a->choice, err);
    for (size_t i = 0; s == KERF_OK && i < a->groups; i++)
        a->group[i].pick = o.candidate[o.pick[i]];
    if (s == KERF_OK) kf_advice_explain(a);
    if (s == KERF_OK) s = kf_advice_find_curves(a, &o, w->job, err);
    a->choice.pick = NULL;
    options_free(&o);
    return s;
}
