/* test_predict.c - bytes, intensities and peaks of matrix products against figures worked out by
 * hand, and what a table says between its batches. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <kerf/predict.h>

#include "near.h"

#include "product.h"

static double intensity(kerf_matmul m)
{
    kerf_work w = work_of(m);
    return kerf_work_intensity(&w);
}

static kerf_matmul with_fp4(kerf_matmul m)
{
    m.activations = kerf_format_find("nvfp4");
    return m;
}

/* 4096 x 4096 with one row of bf16: weights as stored, x and y. */
static void bytes_of_a_gemv(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        double bytes, us_at_273;
    } rows[] = {{"fp16", 33570816, 122.97},    {"fp8-e4m3", 16793604, 61.51},
                {"int4-g128", 8667136, 31.75}, {"nvfp4", 9453572, 34.63},
                {"mxfp4", 8929280, 32.71},     {"int8", 16809984, 61.57}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        kerf_work w = work_of(product(rows[i].format, 4096, 4096, 1));
        assert_near(kerf_work_bytes(&w), rows[i].bytes, 0);
        assert_near(kerf_work_bytes(&w) / 273e3, rows[i].us_at_273, 0.01);
        assert_near(w.flops, 33554432, 0);
    }
    assert_near(intensity(product("nvfp4", 4096, 4096, 1)), 3.549, 0.001);
    assert_near(intensity(product("fp16", 4096, 4096, 1)), 1.0, 0.001);
    assert_near(intensity(product("fp8-e4m3", 4096, 4096, 1)), 2.0, 0.003);
    /* 3.55 times fewer bytes than fp16, not 4. */
    kerf_work fp16 = work_of(product("fp16", 4096, 4096, 1));
    kerf_work fp4 = work_of(product("nvfp4", 4096, 4096, 1));
    assert_near(kerf_work_bytes(&fp16) / kerf_work_bytes(&fp4), 3.55, 0.005);
}

/* The batched NVFP4 products of a public kernel contest: M x K x L with FP4 activations. */
static void bytes_of_batched_gemvs(void **state)
{
    (void)state;
    static const struct {
        uint64_t n, k;
        double l, mb;
    } rows[] = {{7168, 16384, 1, 66.084}, {4096, 7168, 8, 132.218}, {7168, 2048, 4, 33.092}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        kerf_matmul m = with_fp4(product("nvfp4", rows[i].n, rows[i].k, rows[i].l));
        m.matrices = rows[i].l;
        kerf_work w = work_of(m);
        assert_near(kerf_work_bytes(&w) * 1e-6, rows[i].mb, 0.0006);
    }
    /* Activations are rows, and a tensor scale for each matrix. */
    kerf_matmul m = with_fp4(product("nvfp4", 2048, 1024, 16));
    m.matrices = 8;
    assert_near(work_of(m).input_bytes, 16 * (1024 / 2 + 1024 / 16) + 8 * 4, 0);
}

/* FP4 products of a DeepSeek layer: what intensity tends to, and where they cross the ridge. */
static void limits_of_deepseek_products(void **state)
{
    (void)state;
    static const struct {
        uint64_t n, k;
        double limit, at_128, crosses;
    } rows[] = {{2112, 7168, 3667, 405, 457},
                {24576, 1536, 1509, 350, 1243},
                {32768, 512, 510, 240, INFINITY},
                {7168, 16384, 9973, 435, 357}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t n = rows[i].n, k = rows[i].k;
        assert_near(intensity(with_fp4(product("nvfp4", n, k, 1))), 3.55, 0.06);
        assert_near(intensity(with_fp4(product("nvfp4", n, k, 128))), rows[i].at_128, 0.6);
        assert_near(intensity(with_fp4(product("nvfp4", n, k, 1e12))), rows[i].limit, 0.6);
        if (isinf(rows[i].crosses)) {
            assert_true(intensity(with_fp4(product("nvfp4", n, k, 1e12))) < 1125);
            continue;
        }
        assert_true(intensity(with_fp4(product("nvfp4", n, k, rows[i].crosses - 1))) < 1125);
        assert_true(intensity(with_fp4(product("nvfp4", n, k, rows[i].crosses + 1))) > 1125);
    }
    /* With bf16 activations: 27.9 MB and 346. */
    kerf_work w = work_of(product("nvfp4", 24576, 1536, 128));
    assert_near(kerf_work_bytes(&w) * 1e-6, 27.92, 0.01);
    assert_near(intensity(product("nvfp4", 24576, 1536, 128)), 346, 0.5);
    /* bf16: 1.0 at one row, 15.8 at 16. */
    assert_near(intensity(product("bf16", 2112, 7168, 1)), 1.0, 0.001);
    assert_near(intensity(product("bf16", 2112, 7168, 16)), 15.8, 0.05);
}

/* The products of absorbed attention, one per head, in fp8. */
static void batched_products_of_heads(void **state)
{
    (void)state;
    kerf_matmul m = product("fp8-e4m3", 512, 128, 1);
    m.activations = m.format;
    m.output_bits = 8;
    assert_near(intensity(m), 1.98, 0.005);
    m.rows = 64;
    assert_near(intensity(m), 78.8, 0.05);
    m.rows = 1e12;
    assert_near(intensity(m), 204.8, 0.05);
    m.output_bits = 16;
    assert_near(intensity(m), 113.8, 0.05);
}

/* --- peaks --------------------------------------------------------------------------------- */

static void units_by_type(void **state)
{
    (void)state;
    const kerf_hardware *b200 = kerf_hardware_find("b200"), *h200 = kerf_hardware_find("h200");
    const kerf_format *fp4 = kerf_format_find("nvfp4"), *fp8 = kerf_format_find("fp8-e4m3");
    const kerf_format *int8 = kerf_format_find("int8"), *int4 = kerf_format_find("int4-g128");
    assert_near(kerf_peak_tflops(b200, fp4, fp4), 9000, 0);
    assert_near(kerf_peak_tflops(b200, fp4, fp8), 4500, 0);
    assert_near(kerf_peak_tflops(b200, fp4, NULL), 2250, 0); /* widened to bf16 */
    assert_near(kerf_peak_tflops(h200, fp4, fp4), 1979, 0);  /* no fp4 unit     */
    assert_near(kerf_peak_tflops(h200, int4, NULL), 989, 0);
    assert_near(kerf_peak_tflops(h200, int8, int8), 1979, 0);
    assert_near(kerf_peak_tflops(h200, int8, fp8), 989, 0);
    assert_near(kerf_peak_tflops(kerf_hardware_find("a100"), int4, int4), 1248, 0);
    assert_near(kerf_peak_tflops(kerf_hardware_find("epyc-9654"), fp4, NULL), 7.37, 0);
}

/* --- tiers --------------------------------------------------------------------------------- */

static void nonsense_is_refused(void **state)
{
    (void)state;
    kerf_work w;
    kerf_matmul m = product("nvfp4", 0, 4096, 1);
    assert_int_equal(kerf_matmul_work(NULL, &m, &w, NULL), KERF_E_ARG);
    m = product("nvfp4", 4096, 4096, NAN);
    assert_int_equal(kerf_matmul_work(NULL, &m, &w, NULL), KERF_E_ARG);
    m = product("nvfp4", UINT64_C(1) << 40, UINT64_C(1) << 40, 1);
    assert_int_not_equal(kerf_matmul_work(NULL, &m, &w, NULL), KERF_OK);
}

/* Few rows are few of each matrix: of 64 over 8 matrices each has 8, for which each block brings in
 * its activations first, in 32 rounds of 256 at 0.6 us; over one they are a product of many rows.
 */
static void few_rows_of_each_matrix(void **state)
{
    (void)state;
    const kerf_hardware *h = kerf_hardware_find("h200");
    kerf_matmul m = product("int8", 2048, 8192, 64);
    const double one = predict(h, m).high_us;
    m.matrices = 8;
    const kerf_work w = work_of(m);
    const double bytes_us = kerf_work_bytes(&w) / (0.45 * 4.8e6);
    assert_near(predict(h, m).high_us, 8 + 32 * 0.6 + bytes_us, 1e-6);
    assert_true(one < 8 + 32 * 0.6 + bytes_us);
}

/* A table's error is that of each of its times from the others: none where all lie on the fit, and
 * where one of them does not, its own. A band of it lies around what is not itself measured. */
static void a_table_knows_its_error(void **state)
{
    (void)state;
    double n[10], k[10], us[10];
    const kerf_fit fit = {"int8", 1, 1, 2.0, 4000, 0, 0, 0, 0, "s", "d", 0, {0}, {0}};
    kerf_hardware h = *kerf_hardware_find("h200");
    h.fit = &fit;
    h.fits = 1;
    for (size_t i = 0; i < 10; i++) {
        n[i] = (double)(2048u << i % 5);
        k[i] = i < 5 ? 2048 : 4096;
        us[i] = predict(&h, product("int8", (uint64_t)n[i], (uint64_t)k[i], 1)).us;
    }
    kerf_anchors table = {.format = "int8", .batch = 1, .count = 10, .n = n, .k = k, .us = us};
    assert_int_equal(kerf_check_anchors(&h, &table, NULL), KERF_OK);
    assert_near(table.error_p90, 0, 1e-9);
    us[3] *= 2;
    assert_int_equal(kerf_check_anchors(&h, &table, NULL), KERF_OK);
    assert_true(table.error_median > 0 && table.error_median < table.error_p90);
    assert_true(table.error_p90 < 0.8); /* the ninth of ten; the tenth is that one */
    table.error_p90 = 0.25;
    h.anchors = &table;
    h.tables = 1;
    kerf_prediction p = predict(&h, product("int8", 3072, 3072, 1));
    assert_near(p.low_us * 1.25, p.us, 1e-9);
    assert_near(p.high_us / 1.25, p.us, 1e-9);
    p = predict(&h, product("int8", 4096, 4096, 1));
    assert_near(p.high_us, p.low_us, 0);
    /* Between two batches: the larger error of the two, and outside where one of them is. */
    kerf_anchors both[] = {table, table};
    both[1].batch = 4;
    both[1].error_p90 = 0.5;
    h.anchors = both;
    h.tables = 2;
    p = predict(&h, product("int8", 3072, 3072, 2));
    assert_near(p.high_us / 1.5, p.us, 1e-9);
    assert_true(p.tier == KERF_TIER_TABLE && !p.extrapolated);
    both[0].error_p90 = 0.75;
    p = predict(&h, product("int8", 3072, 3072, 2));
    assert_near(p.high_us / 1.75, p.us, 1e-9);
    both[1].count = 5; /* of 2048 inputs alone */
    assert_true(predict(&h, product("int8", 3072, 3072, 2)).extrapolated);
    table.format = "nvfp5";
    assert_int_equal(kerf_check_anchors(&h, &table, NULL), KERF_E_ARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_of_a_gemv),
        cmocka_unit_test(bytes_of_batched_gemvs),
        cmocka_unit_test(limits_of_deepseek_products),
        cmocka_unit_test(batched_products_of_heads),
        cmocka_unit_test(units_by_type),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(few_rows_of_each_matrix),
        cmocka_unit_test(a_table_knows_its_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
