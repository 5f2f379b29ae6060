/* test_score_folder.c - a score that is kept in a folder loses nothing: every field of it is one of
 * the numbers that are written, and comes back to the bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "score/score_folder.h"

enum { FIELDS = sizeof(kerf_score) / 8 };

static void test_every_field(void **state)
{
    (void)state;
    assert_int_equal(sizeof(kerf_score), FIELDS * 8);
    assert_int_equal(FIELDS, KF_SCORE_SUMS + KF_SCORE_COUNTS);
    for (size_t k = 0; k < FIELDS; k++) { /* one field at a time, then see that it alone is set */
        const uint64_t bits = 0x8000000000000123u + k;
        kerf_score before = {0}, after;
        double sums[KF_SCORE_SUMS];
        uint64_t counts[KF_SCORE_COUNTS];
        memcpy((char *)&before + k * 8, &bits, sizeof bits);
        kf_score_take_apart(&before, sums, counts);
        kf_score_put_together(sums, counts, &after);
        assert_memory_equal(&before, &after, sizeof before);
    }
}

/* What is written is in the order that score_folder.h says, for programs of others. */
static void test_order(void **state)
{
    const kerf_score s = {.elements = 1, .zstd_bytes = 8, .signal = 1, .rest_noise = 8};
    double sums[KF_SCORE_SUMS];
    uint64_t counts[KF_SCORE_COUNTS];
    (void)state;
    kf_score_take_apart(&s, sums, counts);
    assert_true(sums[0] == 1 && sums[KF_SCORE_SUMS - 1] == 8);
    assert_true(counts[0] == 1 && counts[KF_SCORE_COUNTS - 1] == 8);
}

static void test_files(void **state)
{
    (void)state;
    assert_int_equal(kf_score_files(1), 1);
    assert_int_equal(kf_score_files(256), 256);
    assert_int_equal(kf_score_files(44858), 256);
}

/* A model is no folder of scores, and no file that cannot be read. */
static void test_another_folder(void **state)
{
    (void)state;
    kerf_scores *s = (kerf_scores *)state; /* must become NULL */
    kerf_error err = {0};
    assert_int_equal(kerf_scores_open(KERF_TEST_DATA "/tiny-llama", &s, &err), KERF_E_DATA);
    assert_non_null(strstr(err.text, "no folder of scores"));
    assert_null(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_field),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_another_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
