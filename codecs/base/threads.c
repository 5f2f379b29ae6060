/* threads.c - the only file that knows OpenMP. Without it the loop runs on one thread, with the
 * same results.
 *
 * OpenMP's library ends the process when it gets no thread or no memory. So it is only asked for
 * what was just seen to be there, and for one thread not at all. */
#include "base/base.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/system.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#define MAX_THREADS 256

int kf_thread_count(int threads)
{
#ifdef _OPENMP
    if (threads <= 0) threads = kf_processors();
    return threads < 1 ? 1 : threads > MAX_THREADS ? MAX_THREADS : threads;
#else
    (void)threads;
    return 1;
#endif
}

static kerf_status run_alone(uint64_t n, kerf_status (*task)(void *ctx, uint64_t i), void *ctx)
{
    kerf_status s = KERF_OK;
    for (uint64_t i = 0; i < n && s == KERF_OK; i++) s = task(ctx, i);
    return s;
}

#ifdef _OPENMP

/* --- how many threads can be made ----------------------------------------------------------- */

static void *pass(void *gate)
{
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

/* Whether a team can be made: its threads are, all at the same time, and what memory it takes. */
static int can_make(int team)
{
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_t thread[MAX_THREADS];
    int made = 1;
    void *memory = malloc(4096 + 1024 * (size_t)team);
    if (!memory) return 0;
    pthread_mutex_lock(&gate);
    while (made < team && pthread_create(&thread[made], NULL, pass, &gate) == 0) made++;
    pthread_mutex_unlock(&gate);
    for (int i = 1; i < made; i++) pthread_join(thread[i], NULL);
    pthread_mutex_destroy(&gate);
    free(memory);
    return made == team;
}

/* The team that this thread gets. OpenMP keeps the threads of the last one; those of a larger one
 * are tried first, and fewer when there are not as many. */
static int find_team(int team)
{
    static _Thread_local int last, most = MAX_THREADS;
    if (omp_in_parallel()) return 1;
    if (team > most) team = most;
    while (team > 1 && team > last && !can_make(team)) most = team = team / 2;
    return last = team;
}

/* --- the loop ------------------------------------------------------------------------------- */

kerf_status kf_parallel(uint64_t n, int threads, kerf_status (*task)(void *ctx, uint64_t i),
                        void *ctx)
{
    uint64_t next = 0, first_failed = UINT64_MAX;
    kerf_status status = KERF_OK;
    int team = kf_thread_count(threads);
    if ((uint64_t)team > n) team = n ? (int)n : 1;
    if (team > 1) team = find_team(team);
    if (team == 1) return run_alone(n, task, ctx);

        /* Items before the first failed one are always run, whatever the number of threads: `next`
         * is handed out in order, and an item once taken is finished. */
#pragma omp parallel num_threads(team)
    for (;;) {
        uint64_t i;
#pragma omp atomic capture
        i = next++;
        if (i >= n) break;
        kerf_status s = task(ctx, i);
        if (s != KERF_OK) {
#pragma omp critical(kf_parallel_failed)
            {
                if (i < first_failed) {
                    first_failed = i;
                    status = s;
                }
            }
#pragma omp atomic write
            next = n;
            break;
        }
    }
    return status;
}

#else

kerf_status kf_parallel(uint64_t n, int threads, kerf_status (*task)(void *ctx, uint64_t i),
                        void *ctx)
{
    (void)threads;
    return run_alone(n, task, ctx);
}

#endif
