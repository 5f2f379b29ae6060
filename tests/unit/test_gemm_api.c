/* test_gemm_api.c - what a plan of a product with many columns refuses before it asks a GPU. */
#include <kerf/gemm.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "plan/gemm_plan.h"

static kerf_error err;

static void refuse(kerf_gemm_shape s, kerf_status want, const char *text)
{
    kerf_gemm *plan = (kerf_gemm *)&err;
    assert_int_equal(kerf_gemm_plan_create(&plan, &s, NULL, &err), want);
    assert_null(plan);
    if (!strstr(err.text, text)) fail_msg("\"%s\" is not in \"%s\"", text, err.text);
}

static void test_refusals(void **state)
{
    (void)state;
    kerf_gemm_shape good = {kerf_format_find("nvfp4"), 64, 64, 32, KERF_F16, KERF_F16, 0, 0, 0};
    kerf_gemm_shape s = good;
    refuse(good, KERF_E_NOSUP, "on a GPU only");
    s.format = NULL, refuse(s, KERF_E_ARG, "no format");
    s = good, s.columns = 0, refuse(s, KERF_E_ARG, "empty");
    s = good, s.x_stride = 63, refuse(s, KERF_E_ARG, "63");
    s = good, s.y_stride = 63, refuse(s, KERF_E_ARG, "63");
    s = good, s.flags = 6, refuse(s, KERF_E_ARG, "0x6");
    s = good, s.y = KERF_I8, refuse(s, KERF_E_NOSUP, "I8");
    s = good, s.x = KERF_I8, refuse(s, KERF_E_NOSUP, "nvfp4 times x of type I8");
    s = good, s.rows = UINT64_MAX / 32, refuse(s, KERF_E_RANGE, "too large");
    s = good, s.x_stride = UINT64_MAX / 2, refuse(s, KERF_E_RANGE, "too large");
    s = good, s.format = kerf_format_find("int8"), s.x = KERF_I8, s.cols = 131072;
    refuse(s, KERF_E_NOSUP, "32 bits");
    s.cols = 131071, refuse(s, KERF_E_NOSUP, "on a GPU only");
    s = good, s.format = kerf_format_find("fp8-e5m2"), s.x = KERF_F8_E5M2;
    refuse(s, KERF_E_NOSUP, "F8_E5M2");
    kerf_gemm_plan_free(NULL);
}

/* 2^59 numbers and a few: their bits are more than 64 bits can count, and what is left of that
 * count are the 16 bytes that are there. No GPU is asked, for y is NULL. */
static void test_spans_of_many_bits(void **state)
{
    (void)state;
    enum { COLS = 4 };
    _Alignas(16) static const float numbers[COLS];
    const kerf_shape shape = {2, {1, COLS}};
    const uint64_t columns = (UINT64_C(1) << 30) + 1, stride = UINT64_C(1) << 29;
    kerf_gemm p = {
        .shape = {kerf_format_find("fp32"), 1, COLS, columns, KERF_F32, KERF_F32, stride, 1, 0},
        .way = KF_GEMM_DENSE};
    kerf_gemm_args a = {.x = {numbers, sizeof numbers}};
    assert_int_equal(kerf_geometry_init(&p.geometry, p.shape.format, &shape, &err), KERF_OK);
    a.weights[KERF_PLANE_CODES] = a.x;
    assert_int_equal(kerf_gemm_run(&p, &a, NULL, &err), KERF_E_BUFFER);
    assert_string_equal(err.text, "x has 16 bytes, needs 2305843009213693968");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_spans_of_many_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
