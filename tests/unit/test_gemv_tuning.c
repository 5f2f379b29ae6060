/* test_gemv_tuning.c - the numbers behind the division of products on a GPU: an H200's, what
 * follows from them for other cards, and what a card says of itself. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "format/format.h"
#include "plan/gemv_division.h"
#include "plan/gemv_tuning.h"
#include "time/tune.h"

static int count_all(void *ctx, const kf_gemv_launch *l)
{
    (void)ctx;
    return (int)l->grid.blocks;
}

#define assert_near(a, b) assert_true(fabs((a) / (b)-1) < 1e-9)

/* --- numbers behind the rules ------------------------------------------------------------------
 */

/* What was measured on an H200, whoever says how fast its memory is. */
static void h200_has_its_own_numbers(void **state)
{
    (void)state;
    const double gbps[] = {4800, 4814, 4545, 0, NAN, 1e9};
    for (size_t i = 0; i < sizeof gbps / sizeof *gbps; i++) {
        const kf_gemv_machine m = kf_gemv_machine_of("sm_90", 132, gbps[i]);
        const kf_gemv_tuning *t = &m.tuning;
        assert_string_equal(m.tuning_source, "H200: measured");
        assert_int_equal(t->pair_stages, 8);
        assert_true(t->pair_gain_idle == 3.5e6 && t->pair_gain_heavy == 8.5e6);
        assert_true(t->pair_gain_plain[0] == 2.7e6 && t->pair_gain_plain[1] == 6.0e6);
        assert_true(t->pair_gain_chain[1] == 8.5e6 && t->pair_gain_chain[4] == 3.0e6);
        assert_true(t->x_bytes[0] == 112 * 1024 && t->x_bytes[1] == 32 * 1024);
        assert_true(t->two_blocks_plain == 7e7 && t->many_pair[0] == 38);
        assert_true(t->two_blocks_rings[0] == 2 && t->two_blocks_rings[1] == 1);
        assert_true(t->one_block_cols == 16384 && t->wide_inputs == 8 << 20);
    }
}

/* So has an H100, by what the vendor says or a stream reads. */
static void h100_has_its_own_numbers(void **state)
{
    (void)state;
    const double gbps[] = {3350, 3352, 3105};
    for (size_t i = 0; i < sizeof gbps / sizeof *gbps; i++) {
        const kf_gemv_machine m = kf_gemv_machine_of("sm_90", 132, gbps[i]);
        assert_string_equal(m.tuning_source, "H100: measured");
        assert_true(m.tuning.x_bytes[0] == 56 * 1024 && m.tuning.x_bytes[1] == 32 * 1024);
    }
    /* An H100 PCIe has fewer multiprocessors, an H100 NVL more bandwidth. */
    assert_non_null(strstr(kf_gemv_machine_of("sm_90", 114, 2039).tuning_source, "derived"));
    assert_non_null(strstr(kf_gemv_machine_of("sm_90", 132, 3938).tuning_source, "derived"));
}

/* By hand: a card with half the bandwidth and half the multiprocessors of an H200, whose blocks may
 * have 99 KiB: 35 beside a ring of 64, of 163. */
static void others_follow_from_counts(void **state)
{
    (void)state;
    const kf_gemv_machine m = kf_gemv_machine_of("sm_89", 66, 2407);
    const kf_gemv_tuning *t = &m.tuning;
    assert_string_equal(m.tuning_source,
                        "sm_89 (RTX 40, L4, L40): derived from counts, not measured");
    assert_int_equal(t->pair_stages, 8);
    assert_near(t->pair_gain_idle, 1.75e6);
    assert_near(t->pair_gain_chain[2], 2.15e6);
    assert_near(t->step_bytes[1], 2.5e7);    /* as many instructions a second */
    assert_near(t->two_blocks_plain, 3.5e7); /* half the multiprocessors */
    assert_near(t->two_blocks_rings[0], 2);  /* as much for each multiprocessor */
    assert_near(t->x_bytes[0], 112 * 1024 * 35. / 163);
    assert_near(t->one_block_cols, 16384 * 35. / 163);
    assert_near(t->wide_inputs, 0x1p22);
    /* The same multiprocessors with half the bandwidth: a ring is twice as long. */
    const kf_gemv_machine slow = kf_gemv_machine_of("sm_90", 132, 2407);
    assert_near(slow.tuning.two_blocks_rings[0], 1);
    assert_near(slow.tuning.x_bytes[0], 112 * 1024);
    assert_near(kf_gemv_machine_of("sm_89", 132, 750).tuning.step_bytes[0], 21.5e6 / 2);
}

/* Every architecture that is known says where its numbers come from, and one that is not has some
 * too. */
static void tuning_has_a_source(void **state)
{
    (void)state;
    static const char *const archs[] = {"sm_80",  "sm_86",  "sm_87",  "sm_89", "sm_90",
                                        "sm_100", "sm_103", "sm_120", "sm_121"};
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        const kf_gemv_machine m = kf_gemv_machine_of(archs[i], 100, 0);
        assert_non_null(strstr(m.tuning_source, archs[i]));
        assert_non_null(strstr(m.tuning_source, "derived from counts, not measured"));
        assert_true(m.tuning.two_blocks_plain > 0);
    }
    const kf_gemv_counts c = {100, 232448, 3000};
    const kf_gemv_machine later = kf_gemv_machine_from(13, 0, &c);
    assert_string_equal(later.tuning_source, "derived from counts, not measured");
    assert_near(later.tuning.two_blocks_plain, 7e7 * 100 / 132);
    assert_near(later.tuning.pair_gain_idle, 3.5e6 * 3000 / 4814);
    assert_int_equal(later.has_clusters, 0);
    const kf_gemv_counts little = {10, 48 * 1024, 100}; /* less than a ring */
    assert_true(kf_gemv_machine_from(7, 5, &little).tuning.x_bytes[0] == 0);
}

/* Every factor moves its threshold and no other; all zeros and all ones move none. */
static void factors_move_thresholds(void **state)
{
    (void)state;
    const kf_gemv_machine m = kf_gemv_machine_of("sm_90", 132, 4800);
    kerf_gemv_tuning by = {.rules = 0};
    kf_gemv_tuning t = m.tuning, seen[KERF_GEMV_FACTOR_COUNT];
    kf_gemv_apply(&t, NULL);
    kf_gemv_apply(&t, &by);
    assert_memory_equal(&t, &m.tuning, sizeof t);
    for (int i = 0; i < KERF_GEMV_FACTOR_COUNT; i++) by.factor[i] = 1;
    kf_gemv_apply(&t, &by);
    assert_memory_equal(&t, &m.tuning, sizeof t);
    for (int i = 0; i < KERF_GEMV_FACTOR_COUNT; i++) {
        assert_non_null(kerf_gemv_factor_key((kerf_gemv_factor)i));
        assert_non_null(kerf_gemv_factor_text((kerf_gemv_factor)i));
        by.factor[i] = 4;
        seen[i] = m.tuning;
        kf_gemv_apply(&seen[i], &by);
        by.factor[i] = 1;
        assert_memory_not_equal(&seen[i], &m.tuning, sizeof t);
        for (int k = 0; k < i; k++) assert_memory_not_equal(&seen[i], &seen[k], sizeof t);
    }
    by.factor[0] = 4; /* of other rules: none */
    by.rules = KERF_GEMV_RULES + 1;
    kf_gemv_apply(&t, &by);
    assert_memory_equal(&t, &m.tuning, sizeof t);
    assert_null(kerf_gemv_factor_key(KERF_GEMV_FACTOR_COUNT));
    assert_null(kerf_gemv_factor_text(KERF_GEMV_FACTOR_COUNT));
    assert_true(seen[KERF_GEMV_FACTOR_BLOCKS_PLAIN].two_blocks_plain == 2.8e8);
    assert_true(seen[KERF_GEMV_FACTOR_WIDE].wide_step == 4 * 1.9);
}

/* A product as divided by a tuning with one factor. */
static kf_gemv_launch tuned(const char *format, unsigned rows, unsigned cols, unsigned columns,
                            int chained, kerf_gemv_factor id, double factor)
{
    const kerf_format *f = kerf_format_find(format);
    const kf_gemv_tiling t = kf_gemv_tiling_of(kf_spec_of(f));
    kf_gemv_machine m = kf_gemv_machine_of("sm_90", 132, 4800);
    kerf_gemv_tuning by = {.rules = 0};
    by.factor[id] = factor;
    kf_gemv_apply(&m.tuning, &by);
    kf_gemv_launch l = {.task = {.cols = cols,
                                 .weight_bytes = (uint64_t)rows * cols * f->bits / 8,
                                 .tiles = rows / 16,
                                 .columns = columns,
                                 .together = 1,
                                 .overlap = chained}};
    assert_int_equal(kf_gemv_divide(&l, &t, &m, count_all, NULL), 1);
    return l;
}

/* The least factor is always and the most is never, of what a factor decides. */
static void ends_of_factors(void **state)
{
    (void)state;
    const double least = KERF_GEMV_FACTOR_LEAST, most = KERF_GEMV_FACTOR_MOST;
#define TUNED(format, rows, cols, columns, chained, ID, factor) \
    tuned(format, rows, cols, columns, chained, KERF_GEMV_FACTOR_##ID, factor)
    assert_int_equal(TUNED("nvfp4", 1056, 8192, 1, 1, PAIRS_IDLE, least).division.cluster, 2);
    assert_int_equal(TUNED("nvfp4", 1056, 8192, 1, 1, PAIRS_IDLE, most).division.cluster, 1);
    assert_int_equal(TUNED("nvfp4", 7168, 16384, 1, 1, PAIRS_CHAIN_LIGHT, least).division.cluster,
                     2);
    assert_int_equal(TUNED("nvfp4", 7168, 16384, 1, 1, PAIRS_CHAIN_LIGHT, most).division.cluster,
                     1);
    assert_int_equal(TUNED("int8", 7168, 16384, 1, 0, PAIRS_PLAIN_HEAVY, most).division.cluster, 1);
    assert_int_equal(TUNED("nvfp4", 8192, 8192, 1, 0, BLOCKS_PLAIN, least).grid.per_sm, 2);
    assert_int_equal(TUNED("nvfp4", 28672, 8192, 1, 0, BLOCKS_PLAIN, most).grid.per_sm, 1);
    assert_int_equal(TUNED("nvfp4", 28672, 8192, 1, 1, BLOCKS_CHAIN_LIGHT, most).grid.per_sm, 1);
    assert_int_equal(TUNED("int8", 28672, 8192, 1, 1, BLOCKS_CHAIN_HEAVY, most).grid.per_sm, 1);
    assert_int_equal(TUNED("int8", 28672, 8192, 1, 1, ONE_BLOCK, least).grid.per_sm, 1);
    assert_int_equal(TUNED("nvfp4", 4096, 4096, 4, 1, FEW_LIGHT, most).division.is_few, 1);
    assert_int_equal(TUNED("nvfp4", 4096, 4096, 4, 1, FEW_LIGHT, least).division.is_few, 0);
    assert_int_equal(TUNED("int8", 4096, 4096, 4, 1, FEW_HEAVY, least).division.is_few, 0);
    assert_int_equal(TUNED("nvfp4", 4096, 4096, 8, 1, BLOCKS_MANY, least).grid.per_sm, 2);
    assert_int_equal(TUNED("nvfp4", 28672, 4096, 8, 1, BLOCKS_MANY, most).grid.per_sm, 1);
    assert_true(TUNED("nvfp4", 14336, 4096, 16, 1, WIDE, least).division.k_groups > 0);
    assert_true(TUNED("nvfp4", 28672, 8192, 16, 1, WIDE, most).division.k_groups == 0);
#undef TUNED
}

/* --- which factor is worth having --------------------------------------------------------------
 */

/* Times of a product by the tries 1, 2, 1/2, 4, 1/4, most, least. */
#define SAMPLE(...)           \
    {                         \
        .us = { __VA_ARGS__ } \
    }

static void rule_stays_where_nothing_is_gained(void **state)
{
    (void)state;
    double gain = 0;
    const kerf_gemv_sample same[] = {SAMPLE(5, 5, 5, 5, 5, 5, 5), SAMPLE(9, 9, 9, 9, 9, 9, 9)};
    assert_int_equal(kf_pick_try(same, 2, &gain), 0);
    assert_true(gain == 1);
    assert_int_equal(kf_pick_try(same, 0, &gain), 0);
    /* 1.5 % faster is noise */
    const kerf_gemv_sample noise[] = {SAMPLE(10, 10, 9.85, 10, 9.85, 10, 9.85)};
    assert_int_equal(kf_pick_try(noise, 1, &gain), 0);
    assert_true(gain == 1);
    const kerf_gemv_sample slower[] = {SAMPLE(10, 10, 11, 12, 11, 12, 13)};
    assert_int_equal(kf_pick_try(slower, 1, &gain), 0);
}

static void faster_try_is_picked(void **state)
{
    (void)state;
    double gain = 0;
    const kerf_gemv_sample one[] = {SAMPLE(10, 10, 9.5, 10, 9.5, 10, 9.5),
                                    SAMPLE(7, 7, 7, 7, 7, 7, 7)};
    assert_int_equal(kf_pick_try(one, 2, &gain), 2); /* of equals the one nearest to the rule */
    assert_near(gain, 10 / 9.5);                     /* of the product that changes           */
    /* A fourth changes two products for the better, a half one of them. */
    const kerf_gemv_sample two[] = {SAMPLE(10, 10, 9.5, 10, 9.5, 10, 9.5),
                                    SAMPLE(20, 20, 20, 20, 19, 20, 19)};
    assert_int_equal(kf_pick_try(two, 2, &gain), 4);
    assert_near(gain, 20. / 19);
}

/* What helps one product and harms another is left alone, unless a try between does not. */
static void no_product_pays_for_another(void **state)
{
    (void)state;
    double gain = 0;
    const kerf_gemv_sample mixed[] = {SAMPLE(10, 10, 8, 10, 8, 10, 8),
                                      SAMPLE(10, 10, 10.3, 10, 10.3, 10, 10.3)};
    assert_int_equal(kf_pick_try(mixed, 2, &gain), 0);
    const kerf_gemv_sample between[] = {SAMPLE(10, 10, 9, 10, 9, 10, 9),
                                        SAMPLE(10, 10, 10, 10, 10.3, 10, 10.3)};
    assert_int_equal(kf_pick_try(between, 2, &gain), 2);
    /* Under 2 % is no harm. */
    const kerf_gemv_sample little[] = {SAMPLE(10, 8, 10, 8, 10, 8, 10),
                                       SAMPLE(10, 10.1, 10, 10.1, 10, 10.1, 10)};
    assert_int_equal(kf_pick_try(little, 2, &gain), 1);
}

static void tries_go_out_from_the_rule(void **state)
{
    (void)state;
    assert_true(kerf_gemv_try(0) == 1);
    for (size_t i = 1; i < KERF_GEMV_TRIES; i++) {
        assert_true(kerf_gemv_try(i) >= KERF_GEMV_FACTOR_LEAST);
        assert_true(kerf_gemv_try(i) <= KERF_GEMV_FACTOR_MOST);
        assert_true(fabs(log(kerf_gemv_try(i))) >= fabs(log(kerf_gemv_try(i - 1))));
    }
    assert_true(kerf_gemv_try(KERF_GEMV_TRIES) == 0);
}

/* --- calls -------------------------------------------------------------------------------------
 */

static void calls_refuse(void **state)
{
    (void)state;
    kerf_error err = {0};
    kerf_gemv *plan = NULL;
    kerf_gemv_tuning by = {.rules = 0};
    const kerf_gemv_shape s = {.format = kerf_format_find("nvfp4"),
                               .rows = 64,
                               .cols = 64,
                               .columns = 1,
                               .x = KERF_F32,
                               .y = KERF_F32};
    const double bad[] = {-1, 1e-9, 2e3, NAN, INFINITY};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        by.factor[KERF_GEMV_FACTOR_WIDE] = bad[i];
        assert_int_equal(kerf_gemv_plan_create_tuned(&plan, &s, NULL, &by, &err), KERF_E_RANGE);
        assert_non_null(strstr(err.text, "wide"));
        assert_null(plan);
    }
    by.factor[KERF_GEMV_FACTOR_WIDE] = KERF_GEMV_FACTOR_MOST;
    by.rules = KERF_GEMV_RULES + 1;
    assert_int_equal(kerf_gemv_plan_create_tuned(&plan, &s, NULL, &by, &err), KERF_E_NOSUP);
    assert_non_null(strstr(err.text, "find it anew"));
    by.rules = KERF_GEMV_RULES;
    assert_int_equal(kerf_gemv_plan_create_tuned(&plan, &s, NULL, &by, &err), KERF_OK);
    assert_true(
        kerf_gemv_plans_alike(plan, plan)); /* the processor's products have no use for it */
    kerf_gemv_plan_free(plan);
    kerf_gemv_timer *timer = NULL;
    kerf_gemv_timer_options o = {.trials = 1};
    static kerf_gemv_tuned found;
    double us;
    assert_int_equal(kerf_gemv_timer_open(&o, NULL, &timer, &err), KERF_OK);
    assert_int_equal(kerf_gemv_timer_race(timer, s.format, 64, 64, 1, 1, &by, 1, &us, &err),
                     KERF_E_NOSUP);
    assert_int_equal(kerf_gemv_tune(timer, &found, &err), KERF_E_NOSUP);
    assert_non_null(strstr(err.text, "GPU"));
    kerf_gemv_timer_close(timer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(h200_has_its_own_numbers),
        cmocka_unit_test(h100_has_its_own_numbers),
        cmocka_unit_test(others_follow_from_counts),
        cmocka_unit_test(tuning_has_a_source),
        cmocka_unit_test(factors_move_thresholds),
        cmocka_unit_test(ends_of_factors),
        cmocka_unit_test(rule_stays_where_nothing_is_gained),
        cmocka_unit_test(faster_try_is_picked),
        cmocka_unit_test(no_product_pays_for_another),
        cmocka_unit_test(tries_go_out_from_the_rule),
        cmocka_unit_test(calls_refuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
