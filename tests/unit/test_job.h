/* test_job.h - a job that counts what it is told and, when asked to, cancels; for the tests of long
 * calls. */
#ifndef KERF_TESTS_TEST_JOB_H
#define KERF_TESTS_TEST_JOB_H

#include <stdatomic.h>
#include <time.h>

#include <kerf/job.h>

/* gcc and clang say in two ways that a sanitizer is at work. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define INSTRUMENTED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define INSTRUMENTED 1
#endif
#endif

/* Within so many milliseconds of a yes a long call must return. Instrumented and emulated code is
 * given ten times as much. */
#if defined(KERF_EMULATED) || defined(INSTRUMENTED)
#define CANCEL_MS 1000
#else
#define CANCEL_MS 100
#endif

typedef struct test_job {
    kerf_job job;
    atomic_long asked;  /* questions so far              */
    long yes_after;     /* of them are no; -1: all are   */
    atomic_long yes_us; /* when the first yes was said   */
    int phases, items;
    uint64_t done, total;
} test_job;

static inline long test_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static inline void test_job_tell(void *ctx, const kerf_event *e)
{
    test_job *j = (test_job *)ctx;
    j->phases += e->kind == KERF_EVENT_PHASE;
    j->items += e->kind == KERF_EVENT_ITEM;
    j->done = e->done;
    j->total = e->total;
}

static inline int test_job_cancel(void *ctx)
{
    test_job *j = (test_job *)ctx;
    long none = 0;
    if (j->yes_after < 0 || atomic_fetch_add(&j->asked, 1) < j->yes_after) return 0;
    atomic_compare_exchange_strong(&j->yes_us, &none, test_now_us());
    return 1;
}

static inline const kerf_job *test_job_open(test_job *j, long yes_after)
{
    *j = (test_job){.yes_after = yes_after};
    j->job = (kerf_job){test_job_tell, test_job_cancel, j};
    return &j->job;
}

/* Milliseconds since the first yes. */
static inline double test_job_ms(const test_job *j)
{
    return (double)(test_now_us() - j->yes_us) / 1e3;
}

#endif
