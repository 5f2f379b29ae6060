/* time_gemv.c - the timer of kerf/gemv_time.h: passes each call on to the timer of the processor or
 * to that of the GPU. */
#include <stdlib.h>

#include "time/time_cpu.h"
#include "time/time_gpu.h"
#include "time/tune.h"

struct kerf_gemv_timer {
    kf_timer_setup setup;
    kf_cpu_timer cpu;
    kf_gpu_timer *gpu; /* NULL: the processor is timed */
};

kerf_status kerf_gemv_timer_open(const kerf_gemv_timer_options *o, const kerf_job *job,
                                 kerf_gemv_timer **out, kerf_error *err)
{
    kerf_gemv_timer *t = NULL;
    *out = NULL;
    if (o->trials < 0 || o->trials > KERF_TIMER_TRIALS) {
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "%d trials: 1 to %d can be made", o->trials,
                       KERF_TIMER_TRIALS);
    }
    KF_TRY(kf_allocate(&t, 1, sizeof *t, err));
    t->setup = (kf_timer_setup){.x = o->x ? o->x : KERF_BF16,
                                .trials = (size_t)o->trials,
                                .chains_only = o->chains_only,
                                .job = job};
    if (o->tuning) t->setup.tuning = *o->tuning;
    if (o->exec) t->setup.exec = *o->exec;
    t->setup.exec.threads = kf_thread_count(t->setup.exec.threads);
    kerf_status s = t->setup.exec.device ? kf_gpu_timer_open(&t->gpu, &t->setup, err)
                                         : kf_cpu_timer_open(&t->cpu, &t->setup, err);
    if (s == KERF_OK) {
        *out = t;
    } else {
        kerf_gemv_timer_close(t);
    }
    return s;
}

void kerf_gemv_timer_close(kerf_gemv_timer *t)
{
    if (!t) return;
    kf_gpu_timer_close(t->gpu);
    kf_cpu_timer_close(&t->cpu);
    free(t);
}

int kerf_gemv_timer_threads(const kerf_gemv_timer *t)
{
    return t->setup.exec.threads;
}

size_t kerf_gemv_timer_trials(const kerf_gemv_timer *t)
{
    return t->setup.trials;
}

kerf_status kerf_gemv_timer_rates(kerf_gemv_timer *t, double *read_gbps, double *copy_gbps,
                                  kerf_error *err)
{
    if (!t->gpu) return kf_cpu_timer_rates(&t->cpu, &t->setup, read_gbps, copy_gbps, err);
    kf_gpu_timer_rates(t->gpu, read_gbps, copy_gbps);
    return KERF_OK;
}

static kerf_gemv_shape shape_of(const kerf_gemv_timer *t, const kerf_format *f, uint64_t rows,
                                uint64_t cols, unsigned columns)
{
    return (kerf_gemv_shape){.format = f,
                             .rows = rows,
                             .cols = cols,
                             .columns = columns,
                             .x = t->setup.x,
                             .y = t->setup.y};
}

kerf_status kerf_gemv_timer_run(kerf_gemv_timer *t, const kerf_format *f, uint64_t rows,
                                uint64_t cols, unsigned columns, kerf_gemv_time *out,
                                kerf_error *err)
{
    const kerf_gemv_shape shape = shape_of(t, f, rows, cols, columns);
    *out = (kerf_gemv_time){.format = f, .rows = rows, .cols = cols, .columns = columns};
    return t->gpu ? kf_gpu_timer_run(t->gpu, &t->setup, &shape, out, err)
                  : kf_cpu_timer_run(&t->cpu, &t->setup, &shape, out, err);
}

kerf_status kerf_gemv_timer_hold(kerf_gemv_timer *t, const kerf_format *f, uint64_t rows,
                                 uint64_t cols, unsigned columns, const kerf_hold *hold,
                                 uint64_t *calls, kerf_error *err)
{
    const kerf_gemv_shape shape = shape_of(t, f, rows, cols, columns);
    *calls = 0;
    return t->gpu ? kf_gpu_timer_hold(t->gpu, &t->setup, &shape, hold, calls, err)
                  : kf_cpu_timer_hold(&t->setup, &shape, hold, calls, err);
}

kerf_status kerf_gemv_timer_race(kerf_gemv_timer *t, const kerf_format *f, uint64_t rows,
                                 uint64_t cols, unsigned columns, int chained,
                                 const kerf_gemv_tuning *tunings, size_t n, double *us,
                                 kerf_error *err)
{
    kerf_gemv_shape shape = shape_of(t, f, rows, cols, columns);
    shape.flags = chained ? KERF_GEMV_CONSTANT_WEIGHTS : 0;
    if (!t->gpu)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "a tuning is of a GPU; the processor's products have none");
    if (n < 1 || n > KERF_GEMV_TRIES)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "%zu tunings: 1 to %d can be raced", n,
                       KERF_GEMV_TRIES);
    return kf_gpu_timer_race(t->gpu, &t->setup, &shape, tunings, n, us, err);
}

kerf_status kerf_gemv_tune(kerf_gemv_timer *t, kerf_gemv_tuned *out, kerf_error *err)
{
    if (t->gpu) return kf_tune(t, &t->setup, out, err);
    *out = (kerf_gemv_tuned){.samples = 0};
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                   "a tuning is of a GPU; the processor's products have none");
}
