/* test_base.c - failing with a text, arithmetic that cannot wrap, allocation, threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <cmocka.h>

#include <kerf/words.h>

#include "base/base.h"
#include "file/json/text.h"

static void test_status_names(void **state)
{
    (void)state;
    assert_string_equal(kerf_status_name(KERF_OK), "KERF_OK");
    assert_string_equal(kerf_status_name(KERF_E_CANCELED), "KERF_E_CANCELED");
    assert_string_equal(kerf_status_name((kerf_status)-99), "KERF_E_UNKNOWN");
    for (int s = KERF_E_CANCELED; s <= KERF_OK; s++)
        assert_string_not_equal(kerf_status_name((kerf_status)s), "KERF_E_UNKNOWN");
    assert_int_equal(kerf_version(),
                     KERF_VERSION_MAJOR << 16 | KERF_VERSION_MINOR << 8 | KERF_VERSION_PATCH);
}

/* --- texts --- */

static void test_fail(void **state)
{
    (void)state;
    kerf_error e;
    memset(&e, 0x88, sizeof e);
    assert_int_equal(kf_fail(&e, KERF_E_DATA, 42, "%s: byte %d", "x", 7), KERF_E_DATA);
    assert_int_equal(e.status, KERF_E_DATA);
    assert_int_equal(e.native, 0);
    assert_int_equal(e.offset, 42);
    assert_string_equal(e.text, "x: byte 7");
    assert_int_equal(kf_fail(NULL, KERF_E_RANGE, 0, "%s", "no error to fill"), KERF_E_RANGE);
}

static void test_fail_is_one_line(void **state)
{
    (void)state;
    kerf_error e;
    kf_fail(&e, KERF_E_DATA, 0, "a%sb", "\n\r\t\033[2J\x7f");
    assert_string_equal(e.text, "a????[2J?b");
    kf_fail(&e, KERF_E_DATA, 0, "%s", "gr\xc3\xbc\xc3\x9f");
    assert_string_equal(e.text, "gr\xc3\xbc\xc3\x9f");
}

/* A text that is too long is cut between characters, wherever the cut falls. */
static void test_fail_is_cut(void **state)
{
    (void)state;
    static const char *const character[] = {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x9a\x80"};
    char text[700];
    for (size_t c = 0; c < 3; c++)
        for (size_t lead = 0; lead < 4; lead++) {
            memset(text, 'x', lead);
            text[lead] = 0;
            while (strlen(text) < 600) strcat(text, character[c]);
            kerf_error e;
            memset(&e, 0x88, sizeof e);
            kf_fail(&e, KERF_E_DATA, 0, "%s", text);
            size_t n = strlen(e.text);
            assert_in_range(n, sizeof e.text - 4, sizeof e.text - 1);
            assert_memory_equal(e.text, text, n);
            assert_true(kf_is_utf8(e.text));
        }
}

/* Names of files may hold anything, and a precision cuts them anywhere: the text is UTF-8. */
static void test_fail_is_utf8(void **state)
{
    (void)state;
    static const char *const given[] = {"\xe6\x97\xa5", "a\xff", "\xed\xa0\x80z", "\xc2\x9b"};
    static const char *const wanted[] = {"??: it", "a?: it", "???: it", "??: it"};
    for (size_t i = 0; i < 4; i++) {
        kerf_error e;
        kf_fail(&e, KERF_E_DATA, 0, "%.*s: it", i ? 4 : 2, given[i]);
        assert_memory_equal(e.text, wanted[i], i == 2 ? 3 : strlen(wanted[i]) + 1);
        assert_true(kf_is_utf8(e.text));
        kf_fail_errno(&e, ENOENT, "%.2s", given[i]);
        assert_true(kf_is_utf8(e.text));
    }
    kerf_error e;
    char path[601];
    for (size_t i = 0; i < 600; i += 3) memcpy(path + i, "\xe6\x97\xa5", 3);
    path[600] = 0;
    assert_int_equal(kf_fail_no_model(&e, ENAMETOOLONG, path), KERF_E_IO);
    assert_true(kf_is_utf8(e.text));
}

/* So is what is printed of a name: between characters, also where it is cut. */
static void test_printable(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t size;
        const char *want;
    } rows[] = {
        {"a\nb\x7f\x1b[31m", 32, "a?b??[31m"},
        {"\xc2\x9b.\x9b.", 32, "??.?."},
        {"\xe2\x80\xaex\xe2\x80\x8f\xe2\x81\xa6\xd8\x9c", 32, "???x????????"}, /* of direction */
        {"\xe2\x80\xa8.\xe2\x80\xaf\xe2\x81\xa5\xd8\x9d", 32,
         "???.\xe2\x80\xaf\xe2\x81\xa5\xd8\x9d"},
        {"x\xc3", 32, "x?"},
        {"\xed\xa0\x80", 32, "???"},
        {"\xc3\xa9\xc3\xa9", 5, "\xc3\xa9\xc3\xa9"},
        {"\xc3\xa9\xc3\xa9", 4, "\xc3\xa9"},
        {"\xc3\xa9", 2, ""},
        {"ab", 3, "ab"},
        {"ab", 1, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char out[32];
        assert_ptr_equal(kerf_text_printable(rows[i].text, out, rows[i].size), out);
        assert_string_equal(out, rows[i].want);
    }
}

static void test_fail_errno(void **state)
{
    (void)state;
    kerf_error e;
    char text[700];
    assert_int_equal(kf_fail_errno(&e, ENOSPC, "%s: cannot write", "out"), KERF_E_IO);
    assert_int_equal(e.status, KERF_E_IO);
    assert_int_equal(e.native, ENOSPC);
    assert_int_equal(e.offset, KF_NOWHERE);
    assert_string_equal(e.text, "out: cannot write: No space left on device");
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    kf_fail_errno(&e, EIO, "%s", text);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    assert_int_equal(kf_fail_errno(NULL, EIO, "x"), KERF_E_IO);
}

/* --- sizes --- */

static void test_arithmetic(void **state)
{
    (void)state;
    uint64_t n;
    assert_true(kf_add_ok(UINT64_MAX - 1, 1, &n));
    assert_int_equal(n, UINT64_MAX);
    assert_false(kf_add_ok(UINT64_MAX, 1, &n));
    assert_true(kf_mul_ok(1ull << 32, (1ull << 32) - 1, &n));
    assert_int_equal(n, 0xffffffff00000000);
    assert_false(kf_mul_ok(1ull << 32, 1ull << 32, &n));
    assert_int_equal(kf_div_up(0, 3), 0);
    assert_int_equal(kf_div_up(1, 3), 1);
    assert_int_equal(kf_div_up(3, 3), 1);
    assert_int_equal(kf_div_up(UINT64_MAX, 2), 1ull << 63);
    assert_int_equal(kf_min_u64(3, 2), 2);
}

static void test_allocation(void **state)
{
    (void)state;
    unsigned char *p = kf_alloc(0, 5); /* nothing is still something to free */
    assert_non_null(p);
    free(p);
    p = kf_alloc_zero(3, 5);
    assert_non_null(p);
    for (int i = 0; i < 15; i++) assert_int_equal(p[i], 0);
    free(p);
    assert_null(kf_alloc(1ull << 32, 1ull << 32));
    assert_null(kf_alloc(1ull << 62, 2));
    assert_null(kf_alloc_zero(UINT64_MAX, 2));
}

/* --- threads --- */

#define ITEMS 1000

struct counts {
    int seen[ITEMS];
    uint64_t fails_from, step;
};

static kerf_status count_item(void *ctx, uint64_t i)
{
    struct counts *c = ctx;
    c->seen[i]++;
    if (i < c->fails_from || (i - c->fails_from) % c->step) return KERF_OK;
    return i == c->fails_from ? KERF_E_DATA : KERF_E_IO;
}

static void test_parallel_runs_each_item_once(void **state)
{
    (void)state;
    static const int threads[] = {0, 1, 2, 7, 33, -1};
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++)
        for (uint64_t n = 0; n <= ITEMS; n = 3 * n + 1) {
            struct counts c = {.fails_from = UINT64_MAX, .step = 1};
            assert_int_equal(kf_parallel(n, threads[t], count_item, &c), KERF_OK);
            for (uint64_t i = 0; i < ITEMS; i++) assert_int_equal(c.seen[i], i < n);
        }
}

/* However many threads: what comes before the first failure is run, and its status returned. */
static void test_parallel_reports_the_first_failure(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 8; threads++)
        for (uint64_t first = 0; first < ITEMS; first += 37) {
            struct counts c = {.fails_from = first, .step = 5};
            assert_int_equal(kf_parallel(ITEMS, threads, count_item, &c), KERF_E_DATA);
            for (uint64_t i = 0; i <= first; i++) assert_int_equal(c.seen[i], 1);
            for (uint64_t i = first; i < ITEMS; i++) assert_in_range(c.seen[i], 0, 1);
            if (threads == 1 && first + 1 < ITEMS) assert_int_equal(c.seen[first + 1], 0);
        }
}

static void test_thread_count(void **state)
{
    (void)state;
    assert_true(kf_thread_count(0) >= 1);
    assert_int_equal(kf_thread_count(-5), kf_thread_count(0));
    assert_int_equal(kf_thread_count(1), 1);
    assert_in_range(kf_thread_count(1000000), 1, 256);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status_names),
        cmocka_unit_test(test_fail),
        cmocka_unit_test(test_fail_is_one_line),
        cmocka_unit_test(test_fail_is_cut),
        cmocka_unit_test(test_fail_is_utf8),
        cmocka_unit_test(test_printable),
        cmocka_unit_test(test_fail_errno),
        cmocka_unit_test(test_arithmetic),
        cmocka_unit_test(test_allocation),
        cmocka_unit_test(test_parallel_runs_each_item_once),
        cmocka_unit_test(test_parallel_reports_the_first_failure),
        cmocka_unit_test(test_thread_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
