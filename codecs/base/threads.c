/* threads.c - the only file that knows OpenMP. Without it (musl, macOS, sanitizers) each loop
 * starts its threads itself, with the same results: some 20 microseconds more for each of them.
 *
 * OpenMP's library ends the process when it gets no thread or no memory. So it is only asked for
 * what was just seen to be there, and for one thread not at all; nor in a child of a process whose
 * threads it has kept, where loops have their own. */
#include "base/base.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/subnormals.h"
#include "base/system.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#define MAX_THREADS 256

int kf_thread_count(int threads)
{
    if (threads <= 0) threads = kf_processors();
    return threads > MAX_THREADS ? MAX_THREADS : threads;
}

/* Item i: the program's threads have modes of their own. */
static kerf_status run_task(kerf_status (*task)(void *ctx, uint64_t i), void *ctx, uint64_t i)
{
    const kf_subnormals mode = kf_subnormals_begin();
    const kerf_status s = task(ctx, i);
    kf_subnormals_end(mode);
    return s;
}

static kerf_status run_alone(uint64_t n, kerf_status (*task)(void *ctx, uint64_t i), void *ctx)
{
    kerf_status s = KERF_OK;
    for (uint64_t i = 0; i < n && s == KERF_OK; i++) s = run_task(task, ctx, i);
    return s;
}

/* --- threads of a loop's own ----------------------------------------------------------------- */

typedef struct shared_loop {
    kerf_status (*task)(void *ctx, uint64_t i);
    void *ctx;
    uint64_t n, next, first_failed;
    kerf_status status;
    pthread_mutex_t lock;
} shared_loop;

static _Thread_local int is_inside; /* a loop in a loop runs on the thread that it is in */

/* Items before the first failed one are always run, whatever the number of threads: they are handed
 * out in order, and an item once taken is finished. */
static void *run_share(void *arg)
{
    shared_loop *l = arg;
    const int was_inside = is_inside;
    is_inside = 1;
    pthread_mutex_lock(&l->lock);
    while (l->next < l->n) {
        const uint64_t i = l->next++;
        pthread_mutex_unlock(&l->lock);
        const kerf_status s = run_task(l->task, l->ctx, i);
        pthread_mutex_lock(&l->lock);
        if (s == KERF_OK) continue;
        l->next = l->n;
        if (i > l->first_failed) continue;
        l->first_failed = i;
        l->status = s;
    }
    pthread_mutex_unlock(&l->lock);
    is_inside = was_inside;
    return NULL;
}

static kerf_status run_own(uint64_t n, uint64_t team, kerf_status (*task)(void *ctx, uint64_t i),
                           void *ctx)
{
    pthread_t thread[MAX_THREADS];
    shared_loop l = {task, ctx, n, 0, UINT64_MAX, KERF_OK, PTHREAD_MUTEX_INITIALIZER};
    uint64_t made = 1; /* with this one */
    while (made < team && pthread_create(&thread[made], NULL, run_share, &l) == 0) made++;
    run_share(&l);
    while (made > 1) pthread_join(thread[--made], NULL);
    pthread_mutex_destroy(&l.lock);
    return l.status;
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

/* --- processes that fork --------------------------------------------------------------------- */

/* A child has the thread that forked, but none of the team that OpenMP keeps for it, and would wait
 * for them forever. */
static unsigned forks = 1;              /* of this process and those before it, and 1 */
static _Thread_local unsigned has_team; /* `forks` when this thread got one; 0: it has none */

static void count_fork(void)
{
    forks++;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, count_fork);
}

static int is_team_lost(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    return has_team && has_team != forks;
}

/* --- the loop ------------------------------------------------------------------------------- */

kerf_status kf_parallel(uint64_t n, int threads, kerf_status (*task)(void *ctx, uint64_t i),
                        void *ctx)
{
    uint64_t next = 0, first_failed = UINT64_MAX;
    kerf_status status = KERF_OK;
    int team = kf_thread_count(threads);
    if ((uint64_t)team > n) team = n ? (int)n : 1;
    if (team == 1 || is_inside) return run_alone(n, task, ctx);
    if (is_team_lost()) return run_own(n, (uint64_t)team, task, ctx);
    team = find_team(team);
    if (team == 1) return run_alone(n, task, ctx);
    has_team = forks;

    /* Items before the first failed one are always run, whatever the number of threads: `next`
     * is handed out in order, and an item once taken is finished. */
#pragma omp parallel num_threads(team)
    for (;;) {
        uint64_t i;
#pragma omp atomic capture
        i = next++;
        if (i >= n) break;
        kerf_status s = run_task(task, ctx, i);
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
    const uint64_t team = kf_min_u64(n, (uint64_t)kf_thread_count(threads));
    return team < 2 || is_inside ? run_alone(n, task, ctx) : run_own(n, team, task, ctx);
}

#endif
