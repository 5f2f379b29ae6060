/* test_selftest_api.c - kerf_selftest as a program calls it: rows, progress, cancellation, and that
 * it notices a wrong digit. */
#include <kerf/selftest.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "flushed.h"

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Counts what is told; says yes to cancel after `patience` questions. */
typedef struct listener {
    int items, patience;
    uint64_t done, total;
    double yes_s; /* when it first said yes */
} listener;

static void listen(void *ctx, const kerf_event *e)
{
    listener *l = ctx;
    if (e->kind == KERF_EVENT_ITEM) l->items++;
    l->done = e->done;
    l->total = e->total;
}

static int lose_patience(void *ctx)
{
    listener *l = ctx;
    if (l->patience-- > 0) return 0;
    if (l->yes_s == 0) l->yes_s = now_s();
    return 1;
}

static void every_encoder_has_a_row(void **state)
{
    (void)state;
    const kerf_format *f[] = {kerf_format_find("int8"), kerf_format_find("nf4")};
    const kerf_selftest_options o = {.format = f, .formats = 2};
    listener l = {0};
    const kerf_job job = {.tell = listen, .ctx = &l};
    kerf_selftest_result *r = NULL;
    kerf_error err = {0};
    if (kerf_selftest(&o, &job, &r, &err) != KERF_OK) fail_msg("%s", err.text);
    size_t codecs = kerf_encoder_count(f[0]) + kerf_encoder_count(f[1]);
    assert_int_equal(r->rows, codecs);
    assert_int_equal(r->passed, codecs);
    assert_int_equal(r->failed, 0);
    assert_int_equal(r->unrecorded, 0);
    assert_true(r->tensors > 0);
    assert_int_equal(r->backends, kerf_backend_count());
    assert_string_equal(r->backend[0], "ref");
    for (size_t i = 0; i < r->rows; i++) {
        const kerf_selftest_row *row = &r->row[i];
        assert_ptr_equal(row->codec.format, f[i >= kerf_encoder_count(f[0])]);
        assert_true(row->tried && row->recorded);
        assert_true(row->digest == row->expected);
        assert_true(row->vectors > 0);
        assert_int_equal(row->problems, 0);
        assert_int_equal(row->texts, 0);
    }
    assert_int_equal(l.items, codecs);
    assert_true(l.total > 0 && l.done == l.total);
    kerf_selftest_free(r);
    kerf_selftest_free(NULL);
}

/* All bytes, with the numbers of the vectors that are subnormal, in a thread that takes those for
 * zero; the thread goes on so. */
static void a_program_may_flush_subnormals(void **state)
{
    (void)state;
    const kerf_format *f[] = {kerf_format_find("nvfp4"), kerf_format_find("fp8-e4m3"),
                              kerf_format_find("nf4-dq"), kerf_format_find("mxfp6-e2m3")};
    const kerf_selftest_options o = {.format = f, .formats = 4};
    kerf_selftest_result *r = NULL;
    kerf_error err = {0};
    const uint64_t mode = thread_mode();
    set_thread_mode(mode | FLUSH_BITS);
    const kerf_status s = kerf_selftest(&o, NULL, &r, &err);
    const uint64_t after = thread_mode();
    set_thread_mode(mode);
    if (s != KERF_OK) fail_msg("%s", err.text);
    assert_true((after & FLUSH_BITS) == FLUSH_BITS);
    assert_true(r->rows > 0);
    assert_int_equal(r->passed, r->rows);
    kerf_selftest_free(r);
}

static void it_can_be_canceled(void **state)
{
    (void)state;
    for (int patience = 0; patience <= 300; patience += 100) {
        listener l = {.patience = patience};
        const kerf_job job = {.cancel = lose_patience, .ctx = &l};
        kerf_selftest_result *r = NULL;
        kerf_error err = {0};
        assert_int_equal(kerf_selftest(NULL, &job, &r, &err), KERF_E_CANCELED);
        assert_null(r);
#ifndef KERF_EMULATED
        assert_true(now_s() - l.yes_s < 1); /* 0.1 s, on a machine that does nothing else */
#endif
    }
}

/* A copy of int8's golden vectors with another digit in the first plane of codes. */
static void write_wrong_vectors(const char *path)
{
    char *line = NULL;
    size_t room = 0;
    int changed = 0;
    FILE *from = fopen(KERF_TEST_GOLDEN "/int8.txt", "r"), *to = fopen(path, "w");
    assert_non_null(from);
    assert_non_null(to);
    while (getline(&line, &room, from) > 0) {
        if (!changed && strncmp(line, "codes ", 6) == 0 && line[6] != '\n') {
            line[6] = line[6] == '0' ? '1' : '0';
            changed = 1;
        }
        fputs(line, to);
    }
    assert_true(changed);
    free(line);
    fclose(from);
    assert_int_equal(fclose(to), 0);
}

static void a_wrong_digit_is_noticed(void **state)
{
    (void)state;
    char folder[] = "/tmp/kerf-selftest.XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/int8.txt", folder);
    write_wrong_vectors(path);
    const kerf_selftest_options o = {.vectors = path};
    kerf_selftest_result *r = NULL;
    kerf_error err = {0};
    kerf_status s = kerf_selftest(&o, NULL, &r, &err);
    unlink(path);
    rmdir(folder);
    if (s != KERF_OK) fail_msg("%s", err.text);
    assert_true(r->failed >= 1);
    assert_int_equal(r->tensors, 0);
    for (size_t i = 0; i < r->rows; i++) {
        const kerf_selftest_row *row = &r->row[i];
        assert_false(row->tried);
        if (row->problems == 0) continue;
        assert_true(row->texts >= 1 && row->texts <= row->problems);
        assert_non_null(strstr(row->problem[0], "int8.txt"));
        assert_non_null(strstr(row->problem[0], "codes"));
    }
    kerf_selftest_free(r);
}

static void files_that_are_none_are_refused(void **state)
{
    (void)state;
    kerf_selftest_options o = {.vectors = "/nonexistent/int8.txt"};
    kerf_selftest_result *r = NULL;
    kerf_error err = {0};
    assert_int_equal(kerf_selftest(&o, NULL, &r, &err), KERF_E_IO);
    assert_null(r);
    o.vectors = "/nonexistent/int9.txt";
    assert_int_equal(kerf_selftest(&o, NULL, &r, &err), KERF_E_ARG);
    assert_non_null(strstr(err.text, "name the file after its format"));
    assert_null(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_encoder_has_a_row),
        cmocka_unit_test(a_program_may_flush_subnormals),
        cmocka_unit_test(it_can_be_canceled),
        cmocka_unit_test(a_wrong_digit_is_noticed),
        cmocka_unit_test(files_that_are_none_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
