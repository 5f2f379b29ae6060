/* test_spans.c - what runs of products ask of spans: lengths, NULL, alignment, and vectors whose
 * bytes 64 bits can hardly count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "plan/spans.h"

static kerf_error err;
static _Alignas(16) uint8_t bytes[64];

static void test_spans(void **state)
{
    (void)state;
    static const struct {
        const uint8_t *p;
        size_t n;
        uint64_t need;
        unsigned align;
        kerf_status want;
        const char *text;
    } rows[] = {
        {bytes, 64, 64, 16, KERF_OK, ""},
        {bytes + 1, 63, 63, 1, KERF_OK, ""},
        {NULL, 0, 0, 16, KERF_OK, ""},
        {NULL, 64, 0, 4, KERF_OK, ""},
        {bytes, 63, 64, 16, KERF_E_BUFFER, "x has 63 bytes, needs 64"},
        {bytes + 1, 63, 64, 4, KERF_E_BUFFER, "x has 63 bytes, needs 64"},
        {NULL, 64, 1, 1, KERF_E_ARG, "x is NULL"},
        {bytes + 8, 56, 56, 16, KERF_E_ARG, "x is not aligned to 16 bytes"},
        {bytes + 1, 63, 0, 2, KERF_E_ARG, "x is not aligned to 2 bytes"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const kerf_cspan have = {rows[i].p, rows[i].n};
        err.text[0] = 0;
        assert_int_equal(kf_check_span(have, rows[i].need, rows[i].align, "x", &err), rows[i].want);
        assert_string_equal(err.text, rows[i].text);
    }
}

static void test_vectors(void **state)
{
    (void)state;
    static const struct {
        kf_vectors v;
        size_t n;
        kerf_status want;
        const char *text;
    } rows[] = {
        {{1, 16, 0, KERF_F32}, 64, KERF_OK, ""},
        {{3, 2, 7, KERF_F32}, 64, KERF_OK, ""}, /* 2 x 7 + 2 */
        {{3, 2, 7, KERF_F32}, 63, KERF_E_BUFFER, "x has 63 bytes, needs 64"},
        {{3, 5, 0, KERF_F16}, 29, KERF_E_BUFFER, "x has 29 bytes, needs 30"},
        {{3, 5, 0, KERF_F4}, 7, KERF_E_BUFFER, "x has 7 bytes, needs 8"}, /* 15 halves of one */
        {{3, 5, 0, KERF_F4}, 8, KERF_OK, ""},
        {{7, 0, 0, KERF_F32}, 0, KERF_OK, ""},
        {{2, 5, 4, KERF_F16}, 64, KERF_E_ARG, "x: a stride of 4 for vectors of 5"},
        /* 2^59 numbers and 4 have more bits than 64 bits count, and not so many bytes. */
        {{(1 << 30) + 1, 4, 1 << 29, KERF_F32},
         64,
         KERF_E_BUFFER,
         "x has 64 bytes, needs 2305843009213693968"},
        {{5, 4, UINT64_C(1) << 60, KERF_F32},
         64,
         KERF_E_RANGE,
         "x: a stride of 1152921504606846976 overflows"},
        {{3, 4, UINT64_C(1) << 63, KERF_F4},
         64,
         KERF_E_RANGE,
         "x: a stride of 9223372036854775808 overflows"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const kerf_cspan have = {bytes, rows[i].n};
        err.text[0] = 0;
        assert_int_equal(kf_check_vectors(have, &rows[i].v, 4, "x", &err), rows[i].want);
        assert_string_equal(err.text, rows[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_spans),
                                       cmocka_unit_test(test_vectors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
