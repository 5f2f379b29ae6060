/* test_predict_tiers.c - times of matrix products: the tiers of a prediction against each other and
 * against what was measured. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <kerf/predict.h>

#include "near.h"

#include "product.h"

/* --- tiers --------------------------------------------------------------------------------- */

/* Times measured on an H200 (cold, rotating weights, graph replay; bench of November 2026). */
static void the_band_holds_what_was_measured(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        uint64_t n, k;
        double rows, us;
    } seen[] = {
        {"fp16", 4096, 4096, 1, 12.70},         {"fp16", 14336, 4096, 1, 31.3},
        {"fp16", 4096, 14336, 1, 32.7},         {"fp16", 8192, 8192, 1, 39.9},
        {"fp16", 7168, 16384, 1, 61.6},         {"fp16", 28672, 8192, 1, 110.7},
        {"int4-g128", 4096, 4096, 1, 6.79},     {"int4-g128", 14336, 4096, 1, 17.0},
        {"int4-g128", 8192, 8192, 1, 17.0},     {"int4-g128", 7168, 16384, 1, 27.2},
        {"int4-g128", 28672, 8192, 1, 48.1},    {"int4-g128", 8192, 8192, 16, 17.2},
        {"fp8-e4m3-row", 4096, 4096, 16, 7.26}, {"fp8-e4m3-row", 14336, 4096, 16, 17.5},
        {"fp8-e4m3-row", 8192, 8192, 16, 19.6}, {"fp8-e4m3-row", 7168, 16384, 16, 35.4},
    };
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
        kerf_prediction p = predict(kerf_hardware_find("h200"),
                                    product(seen[i].format, seen[i].n, seen[i].k, seen[i].rows));
        assert_int_equal(p.tier, KERF_TIER_SPEC);
        assert_int_equal(p.bound, KERF_BOUND_MEMORY);
        if (seen[i].us < p.low_us || seen[i].us > p.high_us) {
            fail_msg("%s %llux%llu: measured %g, band %g..%g", seen[i].format,
                     (unsigned long long)seen[i].n, (unsigned long long)seen[i].k, seen[i].us,
                     p.low_us, p.high_us);
        }
    }
    kerf_prediction p = predict(kerf_hardware_find("h200"), product("bf16", 8192, 8192, 4096));
    assert_int_equal(p.bound, KERF_BOUND_MATH);
    assert_near(p.ridge, 206, 0.5);
}

/* What was read on a machine is no less than kernels may draw: the band begins there. */
static void the_band_begins_at_what_was_read(void **state)
{
    (void)state;
    kerf_hardware h = *kerf_hardware_find("h200");
    const kerf_matmul m = product("int8", 65536, 65536, 1);
    kerf_work w = work_of(m);
    h.fact[KERF_FACT_BANDWIDTH].value = 5000;
    h.fact[KERF_FACT_STREAM].value = 0;
    assert_near(predict(&h, m).memory_us, kerf_work_bytes(&w) / 4.65e6, 1e-6);
    h.fact[KERF_FACT_STREAM].value = 4900;
    assert_near(predict(&h, m).memory_us, kerf_work_bytes(&w) / 4.9e6, 1e-6);
}

/* A sum is as sure as its least sure part, in whatever order. */
static void sums_of_tiers(void **state)
{
    (void)state;
    static const kerf_tier of[3] = {KERF_TIER_TABLE, KERF_TIER_SPEC, KERF_TIER_FITTED};
    for (int first = 0; first < 3; first++) {
        kerf_prediction sum = {0}, part = {.us = 2, .low_us = 1, .high_us = 4};
        for (int i = 0; i < 3; i++) {
            part.tier = of[(first + i) % 3];
            part.extrapolated = i == 1;
            kerf_prediction_add(&sum, &part, i + 1);
        }
        assert_int_equal(sum.tier, KERF_TIER_SPEC);
        assert_near(sum.us, 12, 0);
        assert_near(sum.low_us, 6, 0);
        assert_near(sum.high_us, 24, 0);
        assert_true(sum.extrapolated);
    }
}

static void a_fit_is_the_formula(void **state)
{
    (void)state;
    const kerf_fit fits[] = {
        {"nvfp4", 1, 8, 2.0, 4000, 1000, 0, 0.02, 0.1, "s", "d", 0, {0}, {0}},
        {"nvfp4", 9, 64, 3.0, 4000, 0, 500, 0, 0, "s", "d", 0, {0}, {0}},
    };
    kerf_hardware h = *kerf_hardware_find("h200");
    h.fit = fits;
    h.fits = 2;
    kerf_prediction p = predict(&h, product("nvfp4", 4096, 4096, 1));
    assert_int_equal(p.tier, KERF_TIER_FITTED);
    assert_int_equal(p.bound, KERF_BOUND_DECODE); /* 16.8 G weights at 1000 G/s */
    assert_near(p.us, 2 + 16.777216, 1e-6);
    assert_near(p.memory_us, 9453572 / 4e6, 1e-6);
    assert_near(p.high_us, 1.1 * p.us, 1e-9);
    p = predict(&h, product("nvfp4", 4096, 4096, 16));
    assert_near(p.us, 3 + p.memory_us, 1e-9);
    p = predict(&h, product("nvfp4", 4096, 4096, 64));
    assert_near(p.math_us, 2.0 * 4096 * 4096 * 64 / 500e6, 1e-9);
    assert_int_equal(predict(&h, product("nvfp4", 4096, 4096, 65)).tier, KERF_TIER_SPEC);
    assert_int_equal(predict(&h, product("mxfp4", 4096, 4096, 1)).tier, KERF_TIER_SPEC);
    p = predict(&h, product("nvfp4", 16, 64, 1));
    assert_int_equal(p.bound, KERF_BOUND_FIXED);
}

static void a_table_is_what_was_measured(void **state)
{
    (void)state;
    static const double n[] = {1024, 1024, 4096, 4096}, k[] = {1024, 16384, 1024, 16384};
    static const double us1[] = {3, 9, 6, 30}, us4[] = {4, 12, 8, 40};
    const kerf_anchors tables[] = {{"nvfp4", 4, 4, n, k, us4, "s", "d", 0, 0},
                                   {"nvfp4", 1, 4, n, k, us1, "s", "d", 0, 0}};
    kerf_hardware h = *kerf_hardware_find("h200");
    h.anchors = tables;
    h.tables = 2;
    kerf_prediction p = predict(&h, product("nvfp4", 4096, 1024, 1));
    assert_int_equal(p.tier, KERF_TIER_TABLE);
    assert_near(p.us, 6, 1e-9);
    assert_near(predict(&h, product("nvfp4", 4096, 16384, 4)).us, 40, 1e-9);
    /* Half way between two batches, in logarithms. */
    assert_near(predict(&h, product("nvfp4", 4096, 16384, 2)).us, sqrt(30 * 40), 1e-9);
    /* Between anchors: the excess over the bytes is what is interpolated, so a shape in the middle
     * stays between its neighbours. */
    p = predict(&h, product("nvfp4", 2048, 4096, 2));
    assert_true(p.us > 4 && p.us < 30 && !p.extrapolated);
    /* As far from one as from the other, by hand. */
    kerf_work mid = work_of(product("nvfp4", 2048, 1024, 1));
    kerf_work a = work_of(product("nvfp4", 1024, 1024, 1));
    kerf_work b = work_of(product("nvfp4", 4096, 1024, 1));
    const double two_n[] = {1024, 4096}, two_k[] = {1024, 1024}, two_us[] = {3, 6};
    const kerf_anchors two = {"nvfp4", 1, 2, two_n, two_k, two_us, "s", "d", 0, 0};
    kerf_hardware short_of = h;
    short_of.anchors = &two;
    short_of.tables = 1;
    short_of.arch = ""; /* no plan known: nothing but distance counts */
    double excess = sqrt(3 / kerf_work_bytes(&a) * 6 / kerf_work_bytes(&b));
    assert_near(predict(&short_of, product("nvfp4", 2048, 1024, 1)).us,
                excess * kerf_work_bytes(&mid), 1e-9);
    /* Outside: its edge, and it says so; with a fit, the fit. */
    assert_true(predict(&h, product("nvfp4", 8192, 1024, 1)).extrapolated);
    const kerf_fit fit = {"nvfp4", 1, 8, 2.0, 4000, 0, 0, 0, 0, "s", "d", 0, {0}, {0}};
    h.fit = &fit;
    h.fits = 1;
    assert_int_equal(predict(&h, product("nvfp4", 8192, 1024, 1)).tier, KERF_TIER_FITTED);
    assert_int_equal(predict(&h, product("nvfp4", 4096, 1024, 8)).tier, KERF_TIER_FITTED);
    assert_int_equal(predict(&h, product("nvfp4", 4096, 1024, 16)).tier, KERF_TIER_SPEC);
}

/* Where a kernel behaves as its fit says, or everywhere a tenth slower, a table of four corners is
 * right between them as well; measured against the bytes, its fixed time would bend the line. */
static void a_table_is_read_against_the_fit(void **state)
{
    (void)state;
    static const double n[] = {1024, 1024, 16384, 16384}, k[] = {1024, 16384, 1024, 16384};
    static const kerf_fit fit = {"nvfp4", 1, 1, 2.0, 4000, 0, 0, 0, 0, "s", "d", 0, {0}, {0}};
    double us[4];
    kerf_hardware h = *kerf_hardware_find("h200");
    h.fit = &fit;
    h.fits = 1;
    for (size_t i = 0; i < 4; i++) {
        us[i] = 1.1 * predict(&h, product("nvfp4", (uint64_t)n[i], (uint64_t)k[i], 1)).us;
    }
    const kerf_anchors table = {"nvfp4", 1, 4, n, k, us, "s", "d", 0, 0};
    h.anchors = &table;
    h.tables = 1;
    kerf_prediction p = predict(&h, product("nvfp4", 4096, 3000, 1));
    kerf_work w = work_of(product("nvfp4", 4096, 3000, 1));
    assert_int_equal(p.tier, KERF_TIER_TABLE);
    assert_near(p.us, 1.1 * (2 + kerf_work_bytes(&w) / 4e6), 1e-9);
    assert_near(p.fixed_us, 2, 0); /* the parts are the fit's */
}

/* Times made from known parameters give them back, and their errors are those of the noise. */
static void a_fit_finds_the_parameters(void **state)
{
    (void)state;
    kerf_timing times[25];
    kerf_fit fit;
    for (int noisy = 0; noisy < 2; noisy++) {
        for (size_t i = 0; i < 25; i++) {
            kerf_matmul m = product("nvfp4", 512u << (i / 5), 512u << (i % 5), 1);
            kerf_work w = work_of(m);
            double noise = noisy ? (i % 2 ? 1.05 : 0.95) : 1;
            times[i] = (kerf_timing){m, (2.5 + kerf_work_bytes(&w) / 3.9e6) * noise};
        }
        assert_int_equal(kerf_fit_times(NULL, times, 25, &fit, NULL), KERF_OK);
        assert_string_equal(fit.format, "nvfp4");
        assert_int_equal(fit.batch_max, 1);
        assert_near(fit.fixed_us, 2.5, noisy ? 0.1 : 1e-9);
        assert_near(fit.bandwidth_gbps, 3900, noisy ? 150 : 1e-6);
        assert_near(fit.error_median, noisy ? 0.05 : 0, noisy ? 0.01 : 1e-9);
        assert_true(fit.error_p90 >= fit.error_median);
    }
    assert_int_equal(kerf_fit_times(NULL, times, 3, &fit, NULL), KERF_E_ARG);
    for (int i = 0; i < 3; i++) { /* one time among good ones */
        const double wrong[] = {-1, NAN, 0}, good = times[2].us;
        times[2].us = wrong[i];
        assert_int_equal(kerf_fit_times(NULL, times, 25, &fit, NULL), KERF_E_ARG);
        times[2].us = good;
    }
    /* One size only: a line through zero. */
    for (size_t i = 1; i < 4; i++) times[i] = times[0];
    assert_int_equal(kerf_fit_times(NULL, times, 4, &fit, NULL), KERF_OK);
    assert_near(fit.fixed_us, 0, 0);
    kerf_work w = work_of(times[0].product);
    assert_near(kerf_work_bytes(&w) / fit.bandwidth_gbps * 1e-3, times[0].us, 1e-9);
}

/* Errors count relative to the time: a long product that is a third too slow does not bend the
 * short ones. And an error is that of a fit which did not see the time: three of one size leave a
 * line through zero, which the fourth is held against. */
static void errors_are_relative_and_held_out(void **state)
{
    (void)state;
    kerf_timing times[9];
    kerf_fit fit;
    for (size_t i = 0; i < 9; i++) {
        kerf_matmul m = product("int8", 1024u << i / 2, 1024, 1);
        kerf_work w = work_of(m);
        times[i] = (kerf_timing){m, (3 + kerf_work_bytes(&w) / 4e6) * (i == 8 ? 4.0 / 3 : 1)};
    }
    assert_int_equal(kerf_fit_times(NULL, times, 9, &fit, NULL), KERF_OK);
    assert_near(fit.fixed_us, 3, 0.2);
    for (size_t i = 0; i < 4; i++) {
        times[i] = (kerf_timing){product("int8", i < 3 ? 1024 : 8192, 1024, 1), i < 3 ? 4 : 8};
    }
    kerf_work one = work_of(times[0].product), other = work_of(times[3].product);
    assert_int_equal(kerf_fit_times(NULL, times, 4, &fit, NULL), KERF_OK);
    assert_near(fit.error_median, 0, 1e-9);
    assert_near(fit.error_p90, 4 * kerf_work_bytes(&other) / kerf_work_bytes(&one) / 8 - 1, 1e-9);
}

/* Shapes on both sides of every change of plan: rows that end in three ways, each in one round of x
 * and in several. */
static size_t spread_shapes(const char *format, kerf_timing *out)
{
    static const uint64_t n[] = {1024, 1536, 2304, 3072, 4096, 8192, 12288, 32768};
    static const uint64_t k[] = {1024, 1152, 1280, 2560, 4096, 8448, 12416, 18432};
    for (size_t i = 0; i < 64; i++)
        out[i] = (kerf_timing){product(format, n[i / 8], k[i % 8], 1), 0};
    return 64;
}

/* Times of a kernel whose prices are known give them back, all nine: what no line over the bytes
 * could fit. Where the plan is not known - another machine, a few times only - none is made up. */
static void the_prices_of_a_plan_are_found(void **state)
{
    (void)state;
    const kerf_fit real = {.format = "int4-g128",
                           .batch_min = 1,
                           .batch_max = 1,
                           .fixed_us = 2,
                           .bandwidth_gbps = 4200,
                           .source = "s",
                           .date = "d",
                           .input_us = 0.7,
                           .round_us = {1.1, 2.2, 2.5},
                           .stage_us = {0.4, 0.6, 0.9}};
    kerf_timing times[64];
    kerf_fit fit;
    kerf_hardware h = *kerf_hardware_find("h200");
    h.fit = &real;
    h.fits = 1;
    size_t n = spread_shapes("int4-g128", times);
    for (size_t i = 0; i < n; i++) times[i].us = predict(&h, times[i].product).us;
    /* 1024 inputs are one round; 4 tiles x 2 stages leave a warp one stage. */
    kerf_work w = work_of(product("int4-g128", 8192, 1024, 1));
    assert_near(predict(&h, product("int4-g128", 8192, 1024, 1)).us,
                2 + 0.7 + 1.1 + 0.4 + kerf_work_bytes(&w) / 4.2e6, 1e-9);
    assert_int_equal(kerf_fit_times(&h, times, n, &fit, NULL), KERF_OK);
    assert_near(fit.fixed_us, 2, 1e-6);
    assert_near(fit.bandwidth_gbps, 4200, 1e-2);
    assert_near(fit.input_us, 0.7, 1e-6);
    for (int i = 0; i < KERF_ROW_ENDS; i++) {
        assert_near(fit.round_us[i], real.round_us[i], 1e-6);
        assert_near(fit.stage_us[i], real.stage_us[i], 1e-6);
    }
    assert_near(fit.error_p90, 0, 1e-6);
    kerf_hardware cpu = *kerf_hardware_find("epyc-9654");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kerf_fit_times(i ? &h : &cpu, times, i ? 23 : n, &fit, NULL), KERF_OK);
        assert_near(fit.input_us + fit.round_us[0] + fit.stage_us[0], 0, 0);
        assert_true(fit.error_p90 > 0.05);
    }
}

/* No price is negative, whatever the times say: here they grow with the rounds and fall with the
 * activations, which are nearly the same thing. */
static void no_price_is_negative(void **state)
{
    (void)state;
    kerf_timing times[64];
    kerf_fit fit;
    const kerf_hardware *h = kerf_hardware_find("h200");
    size_t n = spread_shapes("int8", times);
    for (size_t i = 0; i < n; i++) {
        kerf_work w = work_of(times[i].product);
        double k = (double)times[i].product.k;
        times[i].us = 4 + kerf_work_bytes(&w) / 4e6 + 4 * ceil(k / 2048) - k / 1024;
    }
    assert_int_equal(kerf_fit_times(h, times, n, &fit, NULL), KERF_OK);
    assert_true(fit.bandwidth_gbps > 0 && fit.fixed_us >= 0 && fit.input_us >= 0);
    for (int i = 0; i < KERF_ROW_ENDS; i++)
        assert_true(fit.round_us[i] >= 0 && fit.stage_us[i] >= 0);
    assert_true(fit.error_median < 0.2);
    /* Bytes that would cost less than nothing: not stages stand for them, and the rest stays. */
    const kerf_fit real = {.format = "int8",
                           .batch_min = 1,
                           .batch_max = 1,
                           .fixed_us = 2,
                           .bandwidth_gbps = 1e12,
                           .source = "s",
                           .date = "d",
                           .input_us = 0.7,
                           .round_us = {1.1, 2.2, 2.5},
                           .stage_us = {0.4, 0.6, 0.9}};
    kerf_hardware mine = *h;
    mine.fit = &real;
    mine.fits = 1;
    for (size_t i = 0; i < n; i++) {
        kerf_work w = work_of(times[i].product);
        times[i].us = predict(&mine, times[i].product).us - kerf_work_bytes(&w) * 1e-8;
    }
    assert_int_equal(kerf_fit_times(h, times, n, &fit, NULL), KERF_OK);
    assert_true(fit.bandwidth_gbps > 0 && fit.stage_us[0] == 0);
    assert_true(fit.input_us + fit.round_us[0] + fit.round_us[1] + fit.round_us[2] > 0);
}

/* A shape whose rows end within a stage is predicted from its like, though shapes of whole rows lie
 * nearer: the same times on a machine whose plans nobody knows are read by distance alone. */
static void plans_count_beside_distance(void **state)
{
    (void)state;
    double n[32], k[32], us[32];
    for (size_t i = 0; i < 32; i++) {
        int whole = i < 16;
        n[i] = (double)(1024u << i % 4);
        k[i] = (double)(1024u << i / 4 % 4) + (whole ? 0 : 128);
        kerf_work w = work_of(product("nvfp4", (uint64_t)n[i], (uint64_t)k[i], 1));
        us[i] = kerf_work_bytes(&w) * 1e-6 * (whole ? 1 : 1.5);
    }
    const kerf_anchors table = {"nvfp4", 1, 32, n, k, us, "s", "d", 0, 0};
    kerf_hardware h = *kerf_hardware_find("h200");
    h.anchors = &table;
    h.tables = 1;
    kerf_matmul m = product("nvfp4", 3072, 2048 + 384, 1);
    kerf_work w = work_of(m);
    double plan = predict(&h, m).us / kerf_work_bytes(&w) * 1e6;
    h.arch = "";
    double distance = predict(&h, m).us / kerf_work_bytes(&w) * 1e6;
    assert_true(plan > distance + 0.02);
    assert_near(plan, 1.5, 0.2);
}

/* What the band is at worst: 8 us, half of 0.9 of the bandwidth, and rounds of 256 activations. */
static void the_band_counts_activations(void **state)
{
    (void)state;
    const kerf_hardware *h = kerf_hardware_find("h200");
    kerf_work w = work_of(product("int8", 2048, 8192 + 1, 1));
    double bytes = kerf_work_bytes(&w) / (0.45 * 4.8e6);
    assert_near(predict(h, product("int8", 2048, 8192 + 1, 1)).high_us, 8 + 33 * 0.6 + bytes, 1e-6);
    w = work_of(product("int8", 65536, 8192, 16));
    bytes = kerf_work_bytes(&w) / (0.45 * 4.8e6);
    assert_near(predict(h, product("int8", 65536, 8192, 16)).high_us, 8 + 32 * 0.6 + bytes, 1e-6);
    /* 17 are not brought in like that, and need not be faster than 16; 128 take their operations */
    assert_near(predict(h, product("int8", 65536, 8192, 17)).high_us, 8 + 32 * 0.6 + bytes, 1e-6);
    w = work_of(product("int8", 65536, 8192, 128));
    const double waves = 4 * 132 / 512.0;
    assert_near(predict(h, product("int8", 65536, 8192, 128)).high_us,
                8 + w.flops / (0.4 * 989e6) * waves, 1e-6);
}

/* Nor does one row more make a product faster. */
static void more_rows_never_take_less(void **state)
{
    (void)state;
    static const char *const machines[] = {"h200", "rtx4090", "mi300x", "epyc-9654"};
    static const char *const formats[] = {"bf16", "int8", "nvfp4"};
    for (size_t i = 0; i < 12; i++) {
        const kerf_hardware *h = kerf_hardware_find(machines[i / 3]);
        kerf_prediction last = {0};
        for (double rows = 1; rows < 600; rows++) {
            kerf_matmul m = product(formats[i % 3], 2048, 8192, 1);
            m.rows = rows;
            const kerf_prediction p = predict(h, m);
            const double least = 1 - 1e-12;
            assert_true(p.low_us >= least * last.low_us && p.us >= least * last.us);
            assert_true(p.high_us >= least * last.high_us);
            last = p;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_band_holds_what_was_measured),
        cmocka_unit_test(the_band_begins_at_what_was_read),
        cmocka_unit_test(sums_of_tiers),
        cmocka_unit_test(a_fit_is_the_formula),
        cmocka_unit_test(a_table_is_what_was_measured),
        cmocka_unit_test(a_table_is_read_against_the_fit),
        cmocka_unit_test(a_fit_finds_the_parameters),
        cmocka_unit_test(errors_are_relative_and_held_out),
        cmocka_unit_test(the_prices_of_a_plan_are_found),
        cmocka_unit_test(no_price_is_negative),
        cmocka_unit_test(plans_count_beside_distance),
        cmocka_unit_test(the_band_counts_activations),
        cmocka_unit_test(more_rows_never_take_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
