/* test_divide.c - work among parts that do not ask each other: every piece has one part, no part
 * has more than 4/3 of what is needed, and all come to the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/divide.h"
#include "base/pseudo_random.h"

enum { PIECES = 90, PARTS = 100, ROUNDS = 200 };

static uint64_t seed;

static uint64_t draw(uint64_t most)
{
    return kf_mix(seed += KF_RANDOM_STEP) % most;
}

static void test_heaviest_first(void **state)
{
    const uint64_t work[] = {3, 10, 3, 4, 0, 3};
    unsigned of[6];
    (void)state;
    assert_int_equal(kf_divide(work, 6, 2, of, NULL), KERF_OK);
    const unsigned expected[] = {1, 0, 1, 1, 1, 0}; /* the 10, and then 3 | 4, 3, 3, 0 */
    assert_memory_equal(of, expected, sizeof of);
    assert_int_equal(kf_divide(work, 0, 2, of, NULL), KERF_OK);
    assert_int_equal(kf_divide(work, 6, 1, of, NULL), KERF_OK);
    for (int i = 0; i < 6; i++) assert_int_equal(of[i], 0);
}

/* The least that is possible is at least the mean and the largest piece. */
static void test_bound(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t work[PIECES], load[PARTS] = {0}, all = 0, largest = 0, most = 0;
        unsigned of[PIECES], again[PIECES];
        const size_t n = 1 + draw(PIECES);
        const unsigned parts = 1 + (unsigned)draw(PARTS);
        for (size_t i = 0; i < n; i++) {
            work[i] = draw(round % 2 ? 1000000 : 4); /* many that are equal, too */
            all += work[i];
            if (work[i] > largest) largest = work[i];
        }
        assert_int_equal(kf_divide(work, n, parts, of, NULL), KERF_OK);
        memset(again, 0xff, sizeof again);
        assert_int_equal(kf_divide(work, n, parts, again, NULL), KERF_OK);
        assert_memory_equal(of, again, n * sizeof *of);
        for (size_t i = 0; i < n; i++) {
            assert_true(of[i] < parts);
            load[of[i]] += work[i];
        }
        for (unsigned k = 0; k < parts; k++)
            if (load[k] > most) most = load[k];
        assert_true(most <= all / parts + largest); /* what the last piece that it took found */
        if (n <= parts) assert_true(most == largest);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heaviest_first),
        cmocka_unit_test(test_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
