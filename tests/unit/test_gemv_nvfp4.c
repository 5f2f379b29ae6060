/* test_gemv_nvfp4.c - the NVFP4 x NVFP4 product on the processor, against sums in double over
 * kerf_decode's numbers; and what plans and runs refuse. */
#include "unit/nvfp4_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void check_case(const problem *p, kerf_dtype t)
{
    kerf_gemv_nvfp4_shape shape = shape_of(p, t, 0);
    size_t n = p->batch * p->rows * (kerf_dtype_bits(t) / 8);
    uint8_t *y = allocate(n);
    kerf_gemv_nvfp4 *plan;
    memset(y, 0xff, n);
    need(kerf_gemv_nvfp4_plan_create(&plan, &shape, NULL, &error), "plan");
    kerf_gemv_nvfp4_args x = host_args(p, y, n);
    need(kerf_gemv_nvfp4_run(plan, &x, NULL, &error), "run");
    compare(p, t, kerf_gemv_nvfp4_bound(plan), y, "processor");
    kerf_gemv_nvfp4_plan_free(plan);
    free(y);
}

static void test_refusals(void **state)
{
    (void)state;
    kerf_gemv_nvfp4_shape good = {8, 64, 1, KERF_F16, KERF_SCALES_ROWS, KERF_SCALES_ROWS, 0},
                          s = good;
    kerf_gemv_nvfp4 *plan;
    s.cols = 40;
    check(kerf_gemv_nvfp4_plan_create(&plan, &s, NULL, &error) == KERF_E_NOSUP && !plan,
          "40 columns", error.text);
    s = good, s.y = KERF_U8;
    check(kerf_gemv_nvfp4_plan_create(&plan, &s, NULL, &error) == KERF_E_NOSUP, "y of U8",
          error.text);
    s = good, s.flags = 8;
    check(kerf_gemv_nvfp4_plan_create(&plan, &s, NULL, &error) == KERF_E_ARG, "a flag", error.text);
    s = good, s.rows = UINT64_MAX / 2;
    check(kerf_gemv_nvfp4_plan_create(&plan, &s, NULL, &error) == KERF_E_RANGE, "rows", error.text);
    s = good, s.batch = UINT64_MAX / 16;
    check(kerf_gemv_nvfp4_plan_create(&plan, &s, NULL, &error) == KERF_E_RANGE, "batch",
          error.text);
    need(kerf_gemv_nvfp4_plan_create(&plan, &good, NULL, &error), "plan");
    uint8_t memory[512] = {0};
    kerf_gemv_nvfp4_args x = {.y = {memory, 16}};
    x.a[0] = (kerf_cspan){memory, 256};
    x.a[1] = (kerf_cspan){memory, 32};
    x.b[0] = (kerf_cspan){memory, 32};
    x.b[1] = (kerf_cspan){memory, 3};
    check(kerf_gemv_nvfp4_run(plan, &x, NULL, &error) == KERF_E_BUFFER, "3 scales", error.text);
    x.b[1].n = 4, x.y.n = 15;
    check(kerf_gemv_nvfp4_run(plan, &x, NULL, &error) == KERF_E_BUFFER, "short y", error.text);
    x.y = (kerf_span){NULL, 16};
    check(kerf_gemv_nvfp4_run(plan, &x, NULL, &error) == KERF_E_ARG, "no y", error.text);
    kerf_gemv_nvfp4_plan_free(plan);
    kerf_gemv_nvfp4_plan_free(NULL);
    assert_int_equal(failures, 0);
}

static void test_products(void **state)
{
    (void)state;
    static const uint64_t sizes[][3] = {{1, 16, 1},     {3, 48, 2},    {7, 64, 3},
                                        {129, 1040, 2}, {200, 512, 3}, {20, 8192, 1},
                                        {0, 64, 1},     {4, 0, 2},     {5, 256, 0}};
    static const kerf_dtype types[] = {KERF_F16, KERF_F32, KERF_BF16};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int order = 0; order < 4; order++)
            for (int kind = 0; kind < 4; kind++) {
                problem p = make_problem(sizes[i][0], sizes[i][1], sizes[i][2],
                                         (kerf_scale_order)(order & 1),
                                         (kerf_scale_order)(order >> 1), (data)kind);
                check_case(&p, types[(order + kind) % 3]);
                free_problem(&p);
            }
    assert_int_equal(failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_products),
                                       cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
