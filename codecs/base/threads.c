/* threads.c - the only file that knows OpenMP. Without it the loop runs on one thread, with the
 * same results. */
#include "base/base.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#define MAX_THREADS 256

int kf_thread_count(int threads)
{
#ifdef _OPENMP
    if (threads <= 0) threads = omp_get_num_procs();
    return threads < 1 ? 1 : threads > MAX_THREADS ? MAX_THREADS : threads;
#else
    (void)threads;
    return 1;
#endif
}

kerf_status kf_parallel(uint64_t n, int threads, kerf_status (*task)(void *ctx, uint64_t i),
                        void *ctx)
{
    uint64_t next = 0, first_failed = UINT64_MAX;
    kerf_status status = KERF_OK;
    int team = kf_thread_count(threads);
    if ((uint64_t)team > n) team = n ? (int)n : 1;

        /* Items before the first failed one are always run, whatever the number of threads: `next`
         * is handed out in order, and an item once taken is finished. */
#ifdef _OPENMP
#pragma omp parallel num_threads(team)
#endif
    for (;;) {
        uint64_t i;
#ifdef _OPENMP
#pragma omp atomic capture
#endif
        i = next++;
        if (i >= n) break;
        kerf_status s = task(ctx, i);
        if (s != KERF_OK) {
#ifdef _OPENMP
#pragma omp critical(kf_parallel_failed)
#endif
            {
                if (i < first_failed) {
                    first_failed = i;
                    status = s;
                }
            }
#ifdef _OPENMP
#pragma omp atomic write
#endif
            next = n;
            break;
        }
    }
    return status;
}
