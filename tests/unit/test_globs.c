/* test_globs.c - a list of patterns finds what asking each of them finds, on patterns and names of
 * few letters, so that many match. */
#include <fnmatch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <kerf/words.h>

#include "base/globs.h"
#include "base/pseudo_random.h"

enum { GLOBS = 60, NAMES = 400, ROUNDS = 40 };

typedef struct row {
    const char *glob;
    int unused;
} row;

static uint64_t seed;

static void make_text(char *out, const char *letters, size_t most)
{
    size_t n = (size_t)(kf_mix(seed += KF_RANDOM_STEP) % (most + 1));
    for (size_t i = 0; i < n; i++)
        out[i] = letters[kf_mix(seed += KF_RANDOM_STEP) % strlen(letters)];
    out[n] = 0;
}

static size_t ask_each(const row *list, const char *name, size_t before, int takes_equal)
{
    while (before-- > 0)
        if (kerf_glob_matches(list[before].glob, name) ||
            (takes_equal && strcmp(list[before].glob, name) == 0))
            return before;
    return KF_NO_GLOB;
}

static void test_random(void **state)
{
    (void)state;
    static char text[GLOBS][12];
    size_t hits = 0;
    for (int round = 0; round < ROUNDS; round++) {
        row list[GLOBS];
        kf_globs g;
        for (size_t i = 0; i < GLOBS; i++) {
            make_text(text[i], round % 2 ? "ab." : "ab.*?[]\\", 8);
            list[i] = (row){text[i], 0};
        }
        assert_int_equal(kf_globs_open(&g, list, GLOBS, sizeof *list, NULL), KERF_OK);
        for (g.takes_equal = 0; g.takes_equal < 2; g.takes_equal++)
            for (int k = 0; k < NAMES; k++) {
                char name[12];
                make_text(name, "ab.[", 6);
                for (size_t at = GLOBS, found; at != KF_NO_GLOB; at = found) {
                    found = kf_globs_last(&g, name, at);
                    if (found != ask_each(list, name, at, g.takes_equal))
                        fail_msg("\"%s\" before %zu: %zu", name, at, found);
                    hits += found != KF_NO_GLOB;
                }
            }
        kf_globs_close(&g);
    }
    assert_true(hits > 10000);
}

static void test_none(void **state)
{
    (void)state;
    kf_globs g;
    assert_int_equal(kf_globs_open(&g, NULL, 0, 16, NULL), KERF_OK);
    assert_true(kf_globs_last(&g, "a", KF_NO_GLOB) == KF_NO_GLOB);
    kf_globs_close(&g);
    kf_globs_close(&g);
}

/* Stars alone are matched without fnmatch, and as it does. */
static void test_stars(void **state)
{
    (void)state;
    size_t hits = 0;
    for (int i = 0; i < 200000; i++) {
        char glob[12], name[12];
        make_text(glob, i % 3 ? "ab**" : "a.*?[]\\", 8);
        make_text(name, "ab.", 8);
        const int wanted = fnmatch(glob, name, 0) == 0;
        if (kerf_glob_matches(glob, name) != wanted) fail_msg("%s %s: not %d", glob, name, wanted);
        hits += (size_t)wanted;
    }
    assert_true(hits > 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stars), cmocka_unit_test(test_random),
                                       cmocka_unit_test(test_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
