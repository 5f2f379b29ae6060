/* test_measure_api.c - measuring this machine as a program does it: short runs, what they make, how
 * they end early, and times that were measured before. */
#include <kerf/measure.h>

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

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct listener {
    int items;
    uint64_t done, total;
    double yes_s; /* when it said yes to cancel */
} listener;

static void listen(void *ctx, const kerf_event *e)
{
    listener *l = ctx;
    if (e->kind == KERF_EVENT_ITEM) l->items++;
    l->done = e->done;
    l->total = e->total;
}

/* As soon as products are timed. */
static int cancel_at_item(void *ctx)
{
    listener *l = ctx;
    if (l->items == 0) return 0;
    if (l->yes_s == 0) l->yes_s = now_s();
    return 1;
}

static int cancel_at_once(void *ctx)
{
    (void)ctx;
    return 1;
}

static const kerf_weight_shape shapes[] = {{64, 64}, {64, 128}, {128, 64}, {128, 128}};

static kerf_measure_request small_request(const kerf_format **f)
{
    static const kerf_exec one_thread = {.threads = 1}; /* else threads wait for other programs */
    f[0] = kerf_format_find("nvfp4");
    f[1] = kerf_format_find("int8");
    return (kerf_measure_request){.format = f,
                                  .formats = 2,
                                  .shape = shapes,
                                  .shapes = 4,
                                  .timer = {.exec = &one_thread, .trials = 1}};
}

static void all_products_are_timed_in_order(void **state)
{
    (void)state;
    static const unsigned batch[] = {1, 4};
    const kerf_format *f[2];
    kerf_measure_request r = small_request(f);
    listener l = {0};
    const kerf_job job = {.tell = listen, .ctx = &l};
    kerf_gemv_times *t = NULL;
    kerf_error err = {0};
    r.shapes = 2;
    r.batch = batch;
    r.batches = 2;
    if (kerf_measure_gemv(&r, &job, &t, &err) != KERF_OK) fail_msg("%s", err.text);
    assert_int_equal(t->count, 8);
    for (size_t i = 0; i < t->count; i++) {
        const kerf_gemv_time *g = &t->time[i];
        assert_ptr_equal(g->format, f[i / 4]);
        assert_int_equal(g->rows, shapes[i / 2 % 2].n);
        assert_int_equal(g->cols, shapes[i / 2 % 2].k);
        assert_int_equal(g->columns, batch[i % 2]);
        assert_true(g->us > 0 && g->low_us <= g->us && g->us <= g->high_us);
        assert_true(g->bytes > 0 && g->share > 0 && g->error < 1e-2);
        assert_non_null(g->backend);
        assert_true(g->plain_us == 0); /* only GPUs have it */
    }
    assert_int_equal(t->trials, 1);
    assert_true(t->threads >= 1);
    assert_int_equal(t->x, KERF_BF16);
    assert_true(t->stream_gbps > 0 && t->copy_gbps > 0);
    assert_true(t->processor[0] != 0 && t->device.name[0] == 0);
    assert_int_equal(l.items, 2);
    assert_true(l.total == 4 * (64 * 64 + 64 * 128) && l.done == l.total);
    kerf_gemv_times_free(t);
    kerf_gemv_times_free(NULL);
}

static void a_machine_is_made(void **state)
{
    (void)state;
    const kerf_format *f[2];
    const kerf_measure_request r = small_request(f);
    kerf_hardware *h = NULL;
    kerf_error err = {0};
    if (kerf_measure_machine(&r, NULL, NULL, &h, &err) != KERF_OK) fail_msg("%s", err.text);
    assert_string_equal(h->name, "this-machine");
    assert_string_equal(h->kind, "cpu");
    assert_true(h->fact[KERF_FACT_STREAM].value > 0);
    assert_true(h->fact[KERF_FACT_BANDWIDTH].value == h->fact[KERF_FACT_STREAM].value);
    assert_non_null(strstr(h->fact[KERF_FACT_COPY].source, "--measure"));
    assert_int_equal(h->tables, 2);
    assert_int_equal(h->anchors[0].count, 4);
    kerf_hardware_close(h);
}

static void it_can_be_canceled(void **state)
{
    (void)state;
    static const kerf_weight_shape large = {8192, 8192};
    const kerf_format *f[2];
    kerf_measure_request r = small_request(f);
    listener l = {0};
    kerf_job job = {.tell = listen, .cancel = cancel_at_item, .ctx = &l};
    kerf_gemv_times *t = NULL;
    kerf_hardware *h = NULL;
    kerf_error err = {0};
    r.shape = &large;
    r.shapes = 1;
    job.cancel = cancel_at_once;
    assert_int_equal(kerf_measure_gemv(&r, &job, &t, &err), KERF_E_CANCELED);
    assert_null(t);
    job.cancel = cancel_at_item;
    assert_int_equal(kerf_measure_machine(&r, NULL, &job, &h, &err), KERF_E_CANCELED);
    assert_null(h);
#ifndef KERF_EMULATED
    assert_true(now_s() - l.yes_s < 1); /* 0.1 s, on a machine that does nothing else */
#endif
}

static void wrong_requests_are_refused(void **state)
{
    (void)state;
    static const unsigned many[] = {KERF_GEMV_COLUMNS + 1}, none[] = {0};
    static const kerf_weight_shape huge = {UINT64_MAX, 2};
    const kerf_format *f[2];
    const kerf_measure_request good = small_request(f);
    kerf_gemv_times *t = NULL;
    kerf_error err = {0};
    kerf_measure_request r = good;
    r.batch = many;
    r.batches = 1;
    assert_int_equal(kerf_measure_gemv(&r, NULL, &t, &err), KERF_E_ARG);
    r.batch = none;
    assert_int_equal(kerf_measure_gemv(&r, NULL, &t, &err), KERF_E_ARG);
    r = good;
    r.formats = 0;
    assert_int_equal(kerf_measure_gemv(&r, NULL, &t, &err), KERF_E_ARG);
    r = good;
    r.shapes = 0;
    assert_int_equal(kerf_measure_gemv(&r, NULL, &t, &err), KERF_E_ARG);
    r = good;
    r.timer.trials = KERF_TIMER_TRIALS + 1;
    assert_int_equal(kerf_measure_gemv(&r, NULL, &t, &err), KERF_E_ARG);
    r = good;
    r.shape = &huge;
    r.shapes = 1;
    assert_int_equal(kerf_measure_gemv(&r, NULL, &t, &err), KERF_E_RANGE);
    assert_null(t);
}

/* --- what was measured before -------------------------------------------------------------- */

/* 1 us and 1 us for each MB, at shapes of n x 1024 in bf16. */
static kerf_timing timing_at(uint64_t n)
{
    return (kerf_timing){
        .product = {.format = kerf_format_find("bf16"), .n = n, .k = 1024, .rows = 1},
        .us = 1 + (double)n * 2048 * 1e-6};
}

/* h as a file, read again. */
static void check_file(const kerf_hardware *h)
{
    char path[] = "/tmp/kerf-measure.XXXXXX", *text = NULL;
    kerf_hardware *again = NULL;
    kerf_error err = {0};
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(kerf_hardware_json(h, &text, &err), KERF_OK);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    kerf_status s = kerf_hardware_open(path, &again, &err);
    unlink(path);
    if (s != KERF_OK) fail_msg("%s", err.text);
    assert_int_equal(again->fits, h->fits);
    assert_int_equal(again->tables, h->tables);
    assert_true(again->anchors[0].us[3] == h->anchors[0].us[3]);
    assert_string_equal(again->anchors[0].format, h->anchors[0].format);
    free(text);
    kerf_hardware_close(again);
}

static void times_become_a_machine(void **state)
{
    (void)state;
    const kerf_hardware *h200 = kerf_hardware_find("h200");
    kerf_timing t[9];
    kerf_hardware *h = NULL;
    kerf_compared_time c[9];
    kerf_time_errors sum;
    kerf_error err = {0};
    for (size_t i = 0; i < 9; i++) t[i] = timing_at(UINT64_C(1024) << (8 - i) / 2); /* many twice */
    assert_int_equal(kerf_hardware_with_times(h200, t + 4, 5, "a test", &h, &err), KERF_E_DATA);
    assert_null(h);
    if (kerf_hardware_with_times(h200, t, 9, "a test", &h, &err) != KERF_OK)
        fail_msg("%s", err.text);
    assert_true(t[0].product.n == 1024 << 4); /* the list is the caller's */
    assert_int_equal(h->fits, 1);
    assert_int_equal(h->tables, 1);
    assert_int_equal(h->anchors[0].count, 5);
    assert_string_equal(h->fit[0].source, "measured: a test");
    assert_string_equal(h->title, h200->title);
    check_file(h);
    for (size_t i = 0; i < 9; i++) {
        assert_int_equal(kerf_compare_time(h, &t[i], &c[i], &err), KERF_OK);
        assert_int_equal(c[i].predicted.tier, KERF_TIER_TABLE);
    }
    assert_int_equal(kerf_sum_up_times(c, 9, NULL, &sum, &err), KERF_OK);
    assert_int_equal(sum.count, 9);
    assert_true(sum.worst < 1e-6 && sum.within_10 == 1);
    assert_int_equal(kerf_sum_up_times(c, 9, kerf_format_find("int8"), &sum, &err), KERF_OK);
    assert_int_equal(sum.count, 0);
    kerf_hardware_close(h);
}

static kerf_status read_times(const char *text, kerf_timings *out, kerf_error *err)
{
    char path[] = "/tmp/kerf-times.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    kerf_status s = kerf_timings_read(path, out, err);
    unlink(path);
    return s;
}

static void times_are_read(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "[]",
        "{\"results\": []}",
        "{\"results\": [{\"format\": \"nvfp5\"}]}",
        "{\"results\": [{\"format\": \"nvfp4\", \"n\": 0, \"k\": 2, \"us\": 1}]}",
        "{\"results\": [{\"format\": \"nvfp4\", \"n\": 2, \"k\": 2, \"us\": -1}]}"};
    kerf_timings t;
    kerf_error err = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(read_times(bad[i], &t, &err), KERF_E_DATA);
        assert_null(t.item);
    }
    assert_int_equal(
        read_times("{\"results\": [{\"format\": \"nvfp4\", \"n\": 3, \"k\": 2, \"us\": "
                   "1.5}, {\"format\": \"int8\", \"rows\": 4, \"cols\": 5, "
                   "\"columns\": 6, \"median_us\": 7}]}",
                   &t, &err),
        KERF_OK);
    assert_int_equal(t.count, 2);
    assert_true(t.item[0].us == 1.5 && t.item[0].product.rows == 1 && t.item[0].product.n == 3);
    assert_true(t.item[1].us == 7 && t.item[1].product.rows == 6 && t.item[1].product.k == 5);
    kerf_timings_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_products_are_timed_in_order),
        cmocka_unit_test(a_machine_is_made),
        cmocka_unit_test(it_can_be_canceled),
        cmocka_unit_test(wrong_requests_are_refused),
        cmocka_unit_test(times_become_a_machine),
        cmocka_unit_test(times_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
