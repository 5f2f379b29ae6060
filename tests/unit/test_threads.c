/* test_threads.c - loops on a machine that gives only so many threads: the same result on the
 * threads that there are, down to one, and never an end of the process.
 *
 * The program's own pthread_create stands in front of the C library's, and keeps count. */
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/base.h"

static atomic_int living, most = 1000; /* threads besides the first */

typedef struct start {
    void *(*run)(void *);
    void *arg;
} start;

static void leave(void *unused)
{
    (void)unused;
    atomic_fetch_sub(&living, 1);
}

static void *begin(void *arg)
{
    const start s = *(start *)arg;
    void *result;
    free(arg);
    pthread_cleanup_push(leave, NULL);
    result = s.run(s.arg);
    pthread_cleanup_pop(1);
    return result;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    if (atomic_fetch_add(&living, 1) >= atomic_load(&most)) {
        atomic_fetch_sub(&living, 1);
        return EAGAIN;
    }
    start *s = malloc(sizeof *s);
    if (!s) abort();
    *s = (start){run, arg};
    return real(thread, attr, begin, s);
}

enum { ITEMS = 500 };

static kerf_status count_item(void *ctx, uint64_t i)
{
    atomic_int *done = ctx;
    atomic_fetch_add(&done[i], 1);
    return i == 321 ? KERF_E_DATA : KERF_OK;
}

/* In a thread of its own, for which OpenMP keeps no threads yet. */
static void *loop(void *unused)
{
    (void)unused;
    static atomic_int done[ITEMS];
    for (size_t i = 0; i < ITEMS; i++) done[i] = 0;
    for (int threads = 1; threads <= 8; threads++) {
        assert_int_equal(kf_parallel(300, threads, count_item, done), KERF_OK);
        for (size_t i = 0; i < 300; i++) assert_int_equal(done[i], threads);
    }
    assert_int_equal(kf_parallel(ITEMS, 8, count_item, done), KERF_E_DATA);
    for (size_t i = 300; i < 321; i++) assert_int_equal(done[i], 1);
    return NULL;
}

static void test_few_threads(void **state)
{
    (void)state;
    for (int few = 0; few < 9; few++) {
        pthread_t caller;
        while (atomic_load(&living) > 0) /* those of the last caller end when it has ended */
            ;
        atomic_store(&most, 1000);
        assert_int_equal(pthread_create(&caller, NULL, loop, NULL), 0);
        atomic_store(&most, 1 + few);
        pthread_join(caller, NULL);
    }
}

/* A child has none of the threads that OpenMP keeps, and works all the same; so does its own. */
static void test_forked(void **state)
{
    static atomic_int done[ITEMS];
    (void)state;
#ifdef KERF_EMULATED
    skip(); /* qemu-user ends where the child of a process with threads makes one */
#endif
    atomic_store(&most, 1000);
    assert_int_equal(kf_parallel(300, 4, count_item, done), KERF_OK);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(20); /* which ends it where it waits forever */
        int failed = kf_parallel(300, 4, count_item, done) != KERF_OK;
        const pid_t of_child = fork();
        if (of_child == 0) {
            alarm(20);
            _exit(kf_parallel(300, 3, count_item, done) != KERF_OK || done[299] != 3);
        }
        int status = 1;
        failed |= waitpid(of_child, &status, 0) != of_child || status != 0;
        failed |= kf_parallel(ITEMS, 4, count_item, done) != KERF_E_DATA;
        for (size_t i = 0; i < 300; i++) failed |= done[i] != 3;
        _exit(failed);
    }
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(kf_parallel(300, 4, count_item, done), KERF_OK); /* this one has its team */
    for (size_t i = 0; i < 300; i++) assert_int_equal(done[i], 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_few_threads),
                                       cmocka_unit_test(test_forked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
