/* test_choose.c - the choice against all choices, its gap on large problems, and nested ones. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <kerf/choose.h>

#include "rounds.h"

/* Sanitizers, debug builds and emulators are slower; the figure of one second is for an optimized
 * build on a processor of its own. */
#if defined(__OPTIMIZE__) && !KERF_TEST_SLOW
#define KERF_TEST_SLOWER 1
#else
#define KERF_TEST_SLOWER 20
#endif

static uint64_t seed;

static uint64_t next_random(void)
{
    seed += 0x9e3779b97f4a7c15u;
    uint64_t x = seed;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static double uniform(void)
{
    return (double)(next_random() >> 11) * 0x1p-53;
}

static size_t below(size_t n)
{
    return (size_t)(next_random() % n);
}

typedef struct instance {
    kerf_option *option;
    size_t *first, *pick;
    kerf_problem problem;
} instance;

/* Options as formats are: the loss falls about fourfold per bit, sizes and times follow the bits
 * with some disorder; `coarse` rounds all to few values, so that sums collide. */
static instance make(size_t groups, size_t most, int same_count, int coarse)
{
    instance in;
    in.first = calloc(groups + 1, sizeof *in.first);
    in.pick = calloc(groups + 1, sizeof *in.pick);
    for (size_t g = 0; g < groups; g++) {
        in.first[g + 1] = in.first[g] + (same_count ? most : 1 + below(most));
    }
    in.option = calloc(in.first[groups] + 1, sizeof *in.option);
    for (size_t g = 0; g < groups; g++) {
        double size = 1e6 * (1 + (double)below(7)), weight = 0.2 + uniform();
        for (size_t i = in.first[g]; i < in.first[g + 1]; i++) {
            double bits = 2 + 14 * uniform();
            double *cost = in.option[i].cost;
            cost[KERF_PRICE_LOSS] = weight * pow(4, -bits) * (0.7 + 0.6 * uniform());
            cost[KERF_PRICE_BYTES] = floor(size * bits / 8);
            cost[KERF_PRICE_TIME] = 2 + size * bits / 8e6 * (0.8 + 0.4 * uniform());
            if (coarse) {
                cost[KERF_PRICE_LOSS] = (double)below(6);
                cost[KERF_PRICE_BYTES] = (double)below(6);
                cost[KERF_PRICE_TIME] = (double)below(6);
            }
        }
    }
    in.problem = (kerf_problem){.option = in.option,
                                .first = in.first,
                                .groups = groups,
                                .limit = {INFINITY, INFINITY, INFINITY}};
    return in;
}

static void drop(instance *in)
{
    free(in->option);
    free(in->first);
    free(in->pick);
}

/* The sum over groups of the least or the most of a measure. */
static double extreme(const instance *in, kerf_price m, int most)
{
    double sum = 0;
    for (size_t g = 0; g < in->problem.groups; g++) {
        double x = in->option[in->first[g]].cost[m];
        for (size_t i = in->first[g]; i < in->first[g + 1]; i++) {
            double y = in->option[i].cost[m];
            if (most ? y > x : y < x) x = y;
        }
        sum += x;
    }
    return sum;
}

static double limit_between(const instance *in, kerf_price m, double share)
{
    double lo = extreme(in, m, 0), hi = extreme(in, m, 1);
    return lo + share * (hi - lo);
}

/* The least of p->minimise over all choices; INFINITY: none is under the limits. */
static double try_all(const kerf_problem *p, size_t g, const double sum[KERF_PRICES])
{
    double best = INFINITY;
    for (int m = 0; m < KERF_PRICES; m++) {
        if (m != (int)p->minimise && sum[m] > p->limit[m] * (1 + 1e-12)) return INFINITY;
    }
    if (g == p->groups) return sum[p->minimise];
    for (size_t i = p->first[g]; i < p->first[g + 1]; i++) {
        double next[KERF_PRICES];
        for (int m = 0; m < KERF_PRICES; m++) next[m] = sum[m] + p->option[i].cost[m];
        best = fmin(best, try_all(p, g + 1, next));
    }
    return best;
}

static void check_choice(const instance *in, const kerf_choice *c)
{
    double sum[KERF_PRICES] = {0};
    for (size_t g = 0; g < in->problem.groups; g++) {
        assert_true(c->pick[g] >= in->first[g] && c->pick[g] < in->first[g + 1]);
        for (int m = 0; m < KERF_PRICES; m++) sum[m] += in->option[c->pick[g]].cost[m];
    }
    for (int m = 0; m < KERF_PRICES; m++) {
        assert_true(sum[m] == c->total[m]);
        if (m == (int)in->problem.minimise) continue;
        assert_true(sum[m] <= in->problem.limit[m] * (1 + 1e-12));
    }
    assert_true(c->gap >= 0 && c->bound <= c->total[in->problem.minimise]);
}

static void the_best_of_all_choices(void **state)
{
    (void)state;
    static const double nothing[KERF_PRICES];
    size_t infeasible = 0, rounds = 0;
    seed = 1;
    for (int i = 0; i < 1500; i += STEP(7), rounds++) {
        instance in = make(1 + below(8), 2 + below(4), 0, i % 3 == 2);
        kerf_problem *p = &in.problem;
        p->minimise = i % 5 == 4 ? KERF_PRICE_TIME : KERF_PRICE_LOSS;
        if (p->minimise == KERF_PRICE_TIME) {
            p->limit[KERF_PRICE_LOSS] = limit_between(&in, KERF_PRICE_LOSS, uniform());
        } else {
            p->limit[KERF_PRICE_BYTES] =
                floor(limit_between(&in, KERF_PRICE_BYTES, uniform() - 0.03));
            if (p->limit[KERF_PRICE_BYTES] < 0) p->limit[KERF_PRICE_BYTES] = 0;
            if (i % 2) p->limit[KERF_PRICE_TIME] = limit_between(&in, KERF_PRICE_TIME, uniform());
        }
        double best = try_all(p, 0, nothing);
        kerf_choice c = {.pick = in.pick};
        kerf_status s = kerf_choose(p, &c, NULL);
        if (isinf(best)) {
            assert_int_equal(s, KERF_E_LIMIT);
            infeasible++;
        } else {
            assert_int_equal(s, KERF_OK);
            check_choice(&in, &c);
            if (fabs(c.total[p->minimise] - best) > 1e-12 * best) {
                fail_msg("instance %d: %.17g, best %.17g", i, c.total[p->minimise], best);
            }
            if (c.gap != 0) fail_msg("instance %d: gap %g", i, c.gap);
        }
        drop(&in);
    }
    assert_true(infeasible > rounds / 30 && infeasible < rounds / 2);
}

/* What the message offers works, and a little less does not. */
static void the_nearest_limit(void **state)
{
    (void)state;
    seed = 2;
    for (int i = 0; i < 200; i += STEP(7)) {
        instance in = make(1 + below(6), 2 + below(4), 0, i % 2);
        kerf_problem *p = &in.problem;
        kerf_choice c = {.pick = in.pick};
        p->limit[KERF_PRICE_BYTES] = limit_between(&in, KERF_PRICE_BYTES, 0.3 * uniform());
        p->limit[KERF_PRICE_TIME] = limit_between(&in, KERF_PRICE_TIME, 0.3 * uniform());
        if (kerf_choose(p, &c, NULL) == KERF_E_LIMIT) {
            double bytes = c.nearest[KERF_PRICE_BYTES];
            if (bytes < INFINITY) {
                p->limit[KERF_PRICE_BYTES] = bytes;
                assert_int_equal(kerf_choose(p, &c, NULL), KERF_OK);
                p->limit[KERF_PRICE_BYTES] = bytes * (1 - 1e-6) - 1e-6;
                if (p->limit[KERF_PRICE_BYTES] >= 0) {
                    assert_int_equal(kerf_choose(p, &c, NULL), KERF_E_LIMIT);
                }
            }
        }
        drop(&in);
    }
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* 2000 groups of 24: under a second of one core, and within 0.1 % of the bound. */
static void large_problems(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i += STEP(3)) {
        seed = (uint64_t)(100 + i);
        instance in = make(2000, 24, 1, 0);
        kerf_choice c = {.pick = in.pick};
        in.problem.limit[KERF_PRICE_BYTES] =
            floor(limit_between(&in, KERF_PRICE_BYTES, 0.1 + 0.2 * i));
        if (i == 3) in.problem.limit[KERF_PRICE_TIME] = limit_between(&in, KERF_PRICE_TIME, 0.4);
        double start = seconds();
        assert_int_equal(kerf_choose(&in.problem, &c, NULL), KERF_OK);
        double took = seconds() - start;
        check_choice(&in, &c);
        print_message("2000 x 24, %d limits: %.3f s, gap %.2e, %zu dominated\n", 1 + (i == 3), took,
                      c.gap, c.dominated);
        assert_true(c.gap <= 1e-3);
        assert_true(took < KERF_TEST_SLOWER * 1.0);
        drop(&in);
    }
}

/* Subsets of 60 numbers of 40 bits: more states than any memory holds. A choice that is known
 * bounds what may be claimed: the optimum is no worse. */
static void what_was_not_looked_at_counts(void **state)
{
    (void)state;
    enum { GROUPS = 60 };
    static kerf_option option[2 * GROUPS];
    static size_t first[GROUPS + 1], pick[GROUPS];
    double known = 0, limit = 0;
    seed = 7;
    for (size_t g = 0; g < GROUPS; g++) {
        double number = 1 + (double)below(UINT64_C(1) << 40);
        option[2 * g] = (kerf_option){{number, 0, 0}};
        option[2 * g + 1] = (kerf_option){{0, number, 0}};
        first[g + 1] = 2 * g + 2;
        if (g % 3) {
            known += number;
        } else {
            limit += number;
        }
    }
    kerf_choice c = {.pick = pick};
    kerf_problem p = {
        .option = option, .first = first, .groups = GROUPS, .limit = {INFINITY, limit, INFINITY}};
    assert_int_equal(kerf_choose(&p, &c, NULL), KERF_OK);
    assert_true(c.total[KERF_PRICE_BYTES] <= limit * (1 + 2e-12));
    assert_true(c.bound <= known);
    assert_true(c.total[KERF_PRICE_LOSS] > known); /* or there was nothing to give up */
    assert_true(c.gap > 0 && c.gap < 1e-3);
}

static void nested_choices(void **state)
{
    (void)state;
    seed = 3;
    instance in = make(60, 10, 1, 0);
    size_t *before = calloc(60, sizeof *before);
    for (int i = 0; i <= 40; i += STEP(4)) {
        kerf_choice c = {.pick = in.pick}, best = {.pick = calloc(60, sizeof(size_t))};
        in.problem.limit[KERF_PRICE_BYTES] = limit_between(&in, KERF_PRICE_BYTES, i / 40.0);
        in.problem.nested = 1;
        assert_int_equal(kerf_choose(&in.problem, &c, NULL), KERF_OK);
        check_choice(&in, &c);
        in.problem.nested = 0;
        assert_int_equal(kerf_choose(&in.problem, &best, NULL), KERF_OK);
        assert_true(best.total[KERF_PRICE_LOSS] <= c.total[KERF_PRICE_LOSS] * (1 + 1e-12));
        assert_true(c.bound <= best.total[KERF_PRICE_LOSS] * (1 + 1e-12));
        for (size_t g = 0; i > 0 && g < 60; g++) {
            assert_true(in.option[c.pick[g]].cost[KERF_PRICE_BYTES] >=
                        in.option[before[g]].cost[KERF_PRICE_BYTES]);
        }
        memcpy(before, c.pick, 60 * sizeof *before);
        free(best.pick);
    }
    free(before);
    drop(&in);
}

static void small_and_wrong(void **state)
{
    (void)state;
    seed = 4;
    instance in = make(3, 4, 1, 0);
    kerf_choice c = {.pick = in.pick};
    /* No limit at all: the best of each group. */
    assert_int_equal(kerf_choose(&in.problem, &c, NULL), KERF_OK);
    assert_true(c.gap == 0 && fabs(c.total[0] - extreme(&in, KERF_PRICE_LOSS, 0)) < 1e-15);
    in.problem.nested = 1;
    assert_int_equal(kerf_choose(&in.problem, &c, NULL), KERF_E_ARG);
    in.problem.nested = 0;
    in.problem.limit[KERF_PRICE_BYTES] = -1;
    assert_int_equal(kerf_choose(&in.problem, &c, NULL), KERF_E_ARG);
    in.problem.limit[KERF_PRICE_BYTES] = NAN;
    assert_int_equal(kerf_choose(&in.problem, &c, NULL), KERF_E_ARG);
    in.problem.limit[KERF_PRICE_BYTES] = 0;
    assert_int_equal(kerf_choose(&in.problem, &c, NULL), KERF_E_LIMIT);
    assert_true(c.nearest[KERF_PRICE_BYTES] == extreme(&in, KERF_PRICE_BYTES, 0));
    in.option[1].cost[0] = NAN;
    assert_int_equal(kerf_choose(&in.problem, &c, NULL), KERF_E_ARG);
    in.option[1].cost[0] = 0;
    in.first[1] = 0;
    assert_int_equal(kerf_choose(&in.problem, &c, NULL), KERF_E_ARG);
    in.problem.groups = 0;
    in.first[0] = 0;
    in.problem.limit[KERF_PRICE_BYTES] = 10;
    assert_int_equal(kerf_choose(&in.problem, &c, NULL), KERF_OK);
    drop(&in);
}

/* Where one option of each group beats the others, there is one choice: it, too, must stay under
 * the limits. */
static void a_choice_without_choice(void **state)
{
    (void)state;
    static const kerf_option option[] = {{{1, 5, 7}}, {{2, 6, 8}}, {{3, 4, 9}}, {{4, 5, 10}}};
    static const size_t first[] = {0, 2, 4};
    size_t pick[2];
    const double least[KERF_PRICES] = {4, 9, 16};
    for (kerf_price minimise = 0; minimise < KERF_PRICES; minimise++) {
        for (kerf_price m = 0; m < KERF_PRICES; m++) {
            kerf_problem p = {.option = option,
                              .first = first,
                              .groups = 2,
                              .limit = {INFINITY, INFINITY, INFINITY},
                              .minimise = minimise};
            kerf_choice c = {.pick = pick};
            if (m == minimise) continue;
            p.limit[m] = least[m];
            assert_int_equal(kerf_choose(&p, &c, NULL), KERF_OK);
            assert_true(pick[0] == 0 && pick[1] == 2 && c.total[m] == least[m]);
            p.limit[m] = least[m] - 0.5;
            assert_int_equal(kerf_choose(&p, &c, NULL), KERF_E_LIMIT);
            assert_true(c.nearest[m] == least[m]);
            p.limit[m] = least[m]; /* one that holds, and one that does not */
            const kerf_price other = (kerf_price)(KERF_PRICES - m - minimise);
            p.limit[other] = least[other] / 2;
            assert_int_equal(kerf_choose(&p, &c, NULL), KERF_E_LIMIT);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_of_all_choices), cmocka_unit_test(the_nearest_limit),
        cmocka_unit_test(large_problems),          cmocka_unit_test(what_was_not_looked_at_counts),
        cmocka_unit_test(nested_choices),          cmocka_unit_test(small_and_wrong),
        cmocka_unit_test(a_choice_without_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
