/* test_gemv_shuffle.c - E2M1 codes in the order for a GPU: a mask finds each code's number in each
 * place, whatever the others are, and the way back is exact. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "plan/gemv_shuffle.h"
#include "scalar/minifloat.h"

#include <kerf/gemv.h>

static const kerf_format *format(const char *name)
{
    const kerf_format *f = kerf_format_find(name);
    assert_non_null(f);
    return f;
}

static uint32_t random_word(uint64_t i)
{
    i = (i + 1) * 0x9e3779b97f4a7c15u;
    i = (i ^ i >> 30) * 0xbf58476d1ce4e5b9u;
    return (uint32_t)(i >> 32);
}

static void halves_are_the_numbers(void **state)
{
    (void)state;
    static const float value[16] = {0,  0.5f,  1,  1.5f,  2,  3,  4,  6,
                                    -0, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    for (uint64_t i = 0; i < 100000; i++) {
        uint32_t codes = random_word(i), p[4];
        kf_shuffled_pairs(kf_shuffle_word(codes), p);
        for (unsigned e = 0; e < 8; e++) {
            uint32_t code = codes >> 4 * e & 15, half = p[e / 2] >> 16 * (e % 2) & 0xffff;
            assert_int_equal(half & 0x71ff, 0);
            assert_int_equal(half >> 15, code >> 3);
            assert_true(kf_f16_decode((uint16_t)half) * 16384 == value[code]);
        }
    }
}

static void every_word_comes_back(void **state)
{
    (void)state;
    assert_int_equal(kf_shuffle_word(0), 0);
    for (uint32_t bit = 0; bit < 32; bit++) /* linear over bits: these say it for all words */
        assert_int_equal(kf_unshuffle_word(kf_shuffle_word(1u << bit)), 1u << bit);
    for (uint64_t i = 0; i < 1000000; i++) {
        uint32_t a = random_word(i), b = random_word(~i);
        assert_int_equal(kf_unshuffle_word(kf_shuffle_word(a)), a);
        assert_int_equal(kf_shuffle_word(a ^ b), kf_shuffle_word(a) ^ kf_shuffle_word(b));
    }
}

/* Any number of words, from any address, by any number of threads. */
static void planes(void **state)
{
    (void)state;
    enum { WORDS = 200001 };
    uint8_t *codes = malloc(WORDS * 4 + 8);
    assert_non_null(codes);
    for (int threads = 1; threads <= 3; threads++) {
        size_t from = (size_t)threads, n = WORDS * 4;
        kerf_exec exec = {.threads = threads};
        kerf_error err;
        memset(codes, 0x5a, WORDS * 4 + 8);
        for (uint32_t i = 0; i < WORDS; i++) {
            uint32_t w = random_word(i);
            memcpy(codes + from + 4 * (size_t)i, &w, 4);
        }
        kerf_span span = {codes + from, n};
        assert_int_equal(kerf_gemv_shuffle(format("nvfp4"), span, &exec, NULL, &err), KERF_OK);
        for (uint32_t i = 0; i < WORDS; i++) {
            uint32_t w;
            memcpy(&w, codes + from + 4 * (size_t)i, 4);
            assert_int_equal(w, kf_shuffle_word(random_word(i)));
        }
        assert_int_equal(kerf_gemv_unshuffle(format("mxfp4"), span, &exec, NULL, &err), KERF_OK);
        for (uint32_t i = 0; i < WORDS; i++) {
            uint32_t w;
            memcpy(&w, codes + from + 4 * (size_t)i, 4);
            assert_int_equal(w, random_word(i));
        }
        assert_int_equal(codes[from - 1], 0x5a);
        assert_int_equal(codes[from + n], 0x5a);
    }
    free(codes);
}

static void refusals(void **state)
{
    (void)state;
    uint8_t codes[16] = {0};
    kerf_error err;
    kerf_span span = {codes, sizeof codes};
    assert_int_equal(kerf_gemv_shuffle(NULL, span, NULL, NULL, &err), KERF_E_ARG);
    assert_int_equal(kerf_gemv_shuffle(format("int4-g128"), span, NULL, NULL, &err), KERF_E_NOSUP);
    assert_non_null(strstr(err.text, "int4-g128"));
    assert_int_equal(kerf_gemv_shuffle(format("ggml-mxfp4"), span, NULL, NULL, &err), KERF_E_NOSUP);
    assert_int_equal(kerf_gemv_unshuffle(format("nvfp4"), (kerf_span){codes, 6}, NULL, NULL, &err),
                     KERF_E_ARG);
    assert_non_null(strstr(err.text, "6 bytes"));
    assert_int_equal(kerf_gemv_shuffle(format("nvfp4"), (kerf_span){NULL, 0}, NULL, NULL, &err),
                     KERF_OK);

    /* A plan says that it takes them, and the processor takes none. */
    kerf_gemv *plan;
    kerf_gemv_shape s = {.format = format("int4-g128"),
                         .rows = 8,
                         .cols = 128,
                         .columns = 1,
                         .x = KERF_F32,
                         .y = KERF_F32,
                         .flags = KERF_GEMV_SHUFFLED};
    assert_int_equal(kerf_gemv_plan_create(&plan, &s, NULL, &err), KERF_E_NOSUP);
    assert_non_null(strstr(err.text, "int4-g128"));
    s.format = format("nvfp4");
    assert_int_equal(kerf_gemv_plan_create(&plan, &s, NULL, &err), KERF_E_NOSUP);
    assert_non_null(strstr(err.text, "kerf_gemv_unshuffle"));
    assert_null(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_are_the_numbers),
        cmocka_unit_test(every_word_comes_back),
        cmocka_unit_test(planes),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
