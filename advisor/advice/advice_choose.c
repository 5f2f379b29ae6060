/* advice_choose.c - limits from the command line, the choice under them, the curve of other
 * choices, and in words why each group got what it got. */
#include <errno.h>
#include "base/base.h"
#include <stdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "advice/advice.h"
#include "progress.h"

/* --- limits -------------------------------------------------------------------------------- */

typedef struct unit {
    const char *name;
    size_t field; /* of advice_limits */
    double scale;
} unit;

#define FIELD(f) offsetof(advice_limits, f)

static const unit units[] = {
    {"", FIELD(bits), 1},
    {"bits", FIELD(bits), 1},
    {"bpw", FIELD(bits), 1},
    {"B", FIELD(bytes), 1},
    {"KB", FIELD(bytes), 1e3},
    {"MB", FIELD(bytes), 1e6},
    {"GB", FIELD(bytes), 1e9},
    {"KiB", FIELD(bytes), 1024},
    {"MiB", FIELD(bytes), 1048576},
    {"GiB", FIELD(bytes), 0x1p30},
    {"us", FIELD(us), 1},
    {"ms", FIELD(us), 1e3},
    {"tok/s", FIELD(tokens_per_s), 1},
    {"t2", FIELD(t2), 1},
};

static kerf_status parse_budget(advice_limits *l, const char *text, kerf_error *err)
{
    char *end = NULL;
    errno = 0;
    double x = strtod(text, &end);
    for (size_t i = 0; end != text && i < sizeof units / sizeof *units; i++) {
        if (strcmp(units[i].name, end) != 0 || errno || !(x > 0 && x < 1e18)) continue;
        *(double *)((char *)l + units[i].field) = x * units[i].scale;
        return KERF_OK;
    }
    return kf_fail(
        err, KERF_E_ARG, KF_NOWHERE,
        "--budget %.60s: expected a number above 0 and one of bits, MB, GiB (and the like), "
        "us, ms, tok/s, t2",
        text);
}

kerf_status advice_parse_limits(advice *a, kerf_error *err)
{
    static const char *const words[] = {"error", "bytes", "time", NULL};
    advice_limits *l = &a->limits;
    const char *text;
    int minimise = 0;
    *l = (advice_limits){INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, KERF_PRICE_LOSS, 0};
    for (size_t i = 0; (text = args_value_at(a->args, "budget", i)) != NULL; i++) {
        KF_TRY(parse_budget(l, text, err));
    }
    KF_TRY(args_choice(a->args, "minimise", words, &minimise, err));
    l->minimise = (kerf_price)minimise;
    l->nested = args_has(a->args, "nested");
    int timed = l->us < INFINITY || l->tokens_per_s < INFINITY || l->minimise == KERF_PRICE_TIME;
    if (timed && !a->machine.hardware)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "limits on time need --hardware NAME");
    if (timed && l->tokens_per_s < INFINITY && !a->has_model) {
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "tok/s needs a config.json beside the weights: matrices alone are no step");
    }
    if (!args_has(a->args, "budget"))
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "advise: --budget is missing");
    if (l->minimise == KERF_PRICE_LOSS && l->t2 < INFINITY) {
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "a limit on t2 needs --minimise bytes or --minimise time");
    }
    if (l->minimise == KERF_PRICE_BYTES && (l->bits < INFINITY || l->bytes < INFINITY)) {
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "--minimise bytes does not go with a limit on bits or bytes");
    }
    return KERF_OK;
}

/* Of a step of all operators. */
static double step_limit_us(const advice *a)
{
    const advice_limits *l = &a->limits;
    double us = l->tokens_per_s < INFINITY ? a->batch * 1e6 / l->tokens_per_s : INFINITY;
    return fmin(l->us, us);
}

/* The limits as sums over groups: what is kept and what runs besides is taken off. Where that is
 * too much already, nothing is left, and explain_limits says so. */
static void set_limits(const advice *a, kerf_problem *p)
{
    const advice_limits *l = &a->limits;
    p->limit[KERF_PRICE_LOSS] = l->t2;
    double bytes = fmin(floor(l->bits * a->elements / 8), l->bytes - a->kept_bytes);
    p->limit[KERF_PRICE_BYTES] = fmax(0, bytes);
    p->limit[KERF_PRICE_TIME] = fmax(0, step_limit_us(a) - a->other_us);
    p->minimise = l->minimise;
    p->nested = l->nested;
}

/* --- the choice ---------------------------------------------------------------------------- */

typedef struct table_of_options {
    kerf_option *option;
    size_t *first, *pick;
    size_t *candidate; /* of each option */
} table_of_options;

static void options_free(table_of_options *t)
{
    free(t->option);
    free(t->first);
    free(t->pick);
    free(t->candidate);
}

static kerf_status list_options(const advice *a, table_of_options *t, kerf_error *err)
{
    size_t most = a->groups * (a->codecs.count + 1), n = 0;
    KF_TRY(kf_allocate(&t->option, most, sizeof *t->option, err));
    KF_TRY(kf_allocate(&t->candidate, most, sizeof *t->candidate, err));
    KF_TRY(kf_allocate(&t->first, a->groups + 1, sizeof *t->first, err));
    KF_TRY(kf_allocate(&t->pick, a->groups + 1, sizeof *t->pick, err));
    for (size_t i = 0; i < a->groups; i++) {
        for (size_t c = 0; c <= a->codecs.count; c++) {
            const advice_cost *cost = &a->group[i].cost[c];
            if (!cost->possible) continue;
            t->candidate[n] = c;
            t->option[n++] = (kerf_option){{cost->t2, cost->bytes, cost->us}};
        }
        t->first[i + 1] = n;
    }
    return KERF_OK;
}

static kerf_status explain_limits(const advice *a, const kerf_choice *c, kerf_error *err)
{
    char text[400] = "";
    const double *near = c->nearest;
    const advice_limits *l = &a->limits;
    size_t n = 0;
    if (l->bytes < a->kept_bytes) {
        n += (size_t)snprintf(text, sizeof text,
                              "; what is kept takes %.0f bytes already (--all-tensors quantizes it "
                              "too)",
                              a->kept_bytes);
    }
    if (step_limit_us(a) < a->other_us) {
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "; attention and other operators take %.1f us already", a->other_us);
    }
    if (near[KERF_PRICE_BYTES] < INFINITY) {
        n += (size_t)snprintf(
            text + n, sizeof text - n, "; it would take %.4f bits, %.0f bytes with what is kept",
            8 * near[KERF_PRICE_BYTES] / a->elements, near[KERF_PRICE_BYTES] + a->kept_bytes);
    }
    if (near[KERF_PRICE_TIME] < INFINITY && n < sizeof text) {
        double us = near[KERF_PRICE_TIME] + a->other_us;
        n += (size_t)snprintf(text + n, sizeof text - n, "; or %.2f us a step, %.1f tok/s", us,
                              a->batch * 1e6 / us);
    }
    if (near[KERF_PRICE_LOSS] < INFINITY && n < sizeof text) {
        snprintf(text + n, sizeof text - n, "; or a t2 of %.4g", near[KERF_PRICE_LOSS]);
    }
    return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE,
                   "no choice of these formats stays under the budget%s", text);
}

/* Least error under budgets of one measure, from the least of it that is possible to that of
 * keeping everything. Where nothing is gained by keeping, the curve is a point. */
static kerf_status find_curve(const advice *a, table_of_options *t, kerf_price price,
                              advice_curve *out, kerf_error *err)
{
    double lo = 0, hi = 0;
    kerf_choice c = {.pick = t->pick};
    kerf_problem p = {.option = t->option,
                      .first = t->first,
                      .groups = a->groups,
                      .limit = {INFINITY, INFINITY, INFINITY}};
    for (size_t i = 0; i < a->groups; i++) {
        double least = INFINITY;
        for (size_t k = t->first[i]; k < t->first[i + 1]; k++) {
            least = fmin(least, t->option[k].cost[price]);
        }
        lo += least;
        hi += t->option[t->first[i + 1] - 1].cost[price]; /* keeping comes last */
    }
    for (int i = 0; i < ADVICE_CURVE; i++) {
        double share = (double)i / (ADVICE_CURVE - 1);
        p.limit[price] = lo * pow(hi / lo, share) * (1 + 1e-12); /* sums of times are rounded */
        KF_TRY(kerf_choose(&p, &c, err));
        out->point[out->count++] = (advice_point){
            .bits = 8 * c.total[KERF_PRICE_BYTES] / a->elements,
            .bytes = c.total[KERF_PRICE_BYTES],
            .t2 = c.total[KERF_PRICE_LOSS],
            .us = c.total[KERF_PRICE_TIME],
        };
    }
    return KERF_OK;
}

/* --- reasons ------------------------------------------------------------------------------- */

/* The candidate that would have been next: least of objective and priced costs but for the pick. */
static size_t next_best(const advice *a, const advice_group *g)
{
    const double *price = a->choice.multiplier;
    size_t best = g->pick;
    double least = INFINITY;
    for (size_t c = 0; c <= a->codecs.count; c++) {
        const advice_cost *x = &g->cost[c];
        double cost[KERF_PRICES] = {x->t2, x->bytes, x->us}, sum = 0;
        if (!x->possible || c == g->pick) continue;
        for (int m = 0; m < KERF_PRICES; m++) {
            sum += (m == (int)a->limits.minimise ? 1 : price[m]) * cost[m];
        }
        if (sum >= least) continue;
        least = sum;
        best = c;
    }
    return best;
}

static int nothing_is_faster(const advice *a, const advice_group *g)
{
    const advice_cost *keep = &g->cost[a->codecs.count];
    for (size_t c = 0; c < a->codecs.count; c++) {
        if (g->cost[c].possible && g->cost[c].us < keep->us) return 0;
    }
    return 1;
}

static void explain_group(const advice *a, advice_group *g)
{
    char name[64];
    const advice_cost *mine = &g->cost[g->pick];
    size_t other = next_best(a, g);
    size_t n = 0, size = sizeof g->reason;
    if (g->pick == a->codecs.count && a->machine.hardware && nothing_is_faster(a, g)) {
        n = (size_t)snprintf(g->reason, size, "no candidate is faster; ");
    }
    if (other == g->pick) {
        snprintf(g->reason + n, size - n, "no other candidate is possible");
        return;
    }
    const advice_cost *x = &g->cost[other];
    n += (size_t)snprintf(g->reason + n, size - n, "next best %s: t2 %+.2e, %+.1f %% bytes",
                          advice_codec_name(a, other, name), x->t2 - mine->t2,
                          mine->bytes > 0 ? 100 * (x->bytes / mine->bytes - 1) : 0);
    if (a->machine.hardware && n < size) {
        snprintf(g->reason + n, size - n, ", %+.2f us", x->us - mine->us);
    }
}

kerf_status advice_choose(advice *a, kerf_error *err)
{
    table_of_options t = {0};
    kerf_problem p = {0};
    kerf_status s = list_options(a, &t, err);
    p.option = t.option;
    p.first = t.first;
    p.groups = a->groups;
    if (s == KERF_OK) {
        set_limits(a, &p);
        double start = kf_now_s();
        a->choice.pick = t.pick;
        s = kerf_choose(&p, &a->choice, err);
        a->choose_s = kf_now_s() - start;
        if (s == KERF_E_LIMIT) s = explain_limits(a, &a->choice, err);
    }
    for (size_t i = 0; s == KERF_OK && i < a->groups; i++) {
        a->group[i].pick = t.candidate[t.pick[i]];
        explain_group(a, &a->group[i]);
    }
    if (s == KERF_OK) s = find_curve(a, &t, KERF_PRICE_BYTES, &a->by_size, err);
    if (s == KERF_OK && a->machine.hardware) {
        s = find_curve(a, &t, KERF_PRICE_TIME, &a->by_time, err);
    }
    a->choice.pick = NULL;
    options_free(&t);
    return s;
}
