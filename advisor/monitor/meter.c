/* meter.c - energy between two moments, read by a thread.
 *
 * Counters of energy go in steps, on GPUs of some tens of milliseconds. For a load that stays the
 * same the power between the first step and the last is exact where the difference at the ends is
 * off by up to a step; both are told. Where a source has no counter, its power is added up over
 * time. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/system.h"
#include "monitor/monitor_source.h"

typedef struct course {
    double first_j, last_j;           /* of the counter; NaN: none                */
    double step_first_s, step_last_s; /* when the first and the last step were seen ... */
    double step_first_j, step_last_j; /* ... and what the counter said then      */
    size_t steps;
    double seen_s, watts, power_j, peak_w; /* of power, added up                 */
    int lost;
} course;

struct kerf_meter {
    kerf_monitor *monitor;
    double interval_s, began_s;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int stop;
    size_t samples, count;
    course course[KERF_MONITOR_SOURCES];
};

/* --- readings ------------------------------------------------------------------------------ */

static void take_energy(course *c, double at, double joules)
{
    if (isnan(joules)) return;
    if (isnan(c->first_j)) c->first_j = c->last_j = joules;
    if (joules <= c->last_j) return;
    c->last_j = joules;
    if (c->steps++ == 0) {
        c->step_first_s = at;
        c->step_first_j = joules;
    }
    c->step_last_s = at;
    c->step_last_j = joules;
}

static void take_power(course *c, double at, double watts)
{
    if (isnan(watts)) return;
    if (!isnan(c->watts)) c->power_j += (watts + c->watts) / 2 * (at - c->seen_s);
    if (!(c->peak_w > watts)) c->peak_w = watts;
    c->watts = watts;
    c->seen_s = at;
}

static void take_sample(kerf_meter *m)
{
    double joules, watts;
    int lost;
    for (size_t i = 0; i < m->count; i++) {
        kf_source_energy(m->monitor, i, &joules, &watts, &lost);
        const double at = kf_now_s();
        m->course[i].lost |= lost;
        take_energy(&m->course[i], at, joules);
        take_power(&m->course[i], at, watts);
    }
    m->samples++;
}

static void *run_meter(void *ctx)
{
    kerf_meter *m = ctx;
    double until = kf_now_s();
    pthread_mutex_lock(&m->lock);
    while (!m->stop) {
        take_sample(m);
        until += m->interval_s;
        while (!m->stop && kf_wait_until(&m->wake, &m->lock, until) == 0) continue;
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

/* --- meter --------------------------------------------------------------------------------- */

kerf_status kerf_meter_begin(kerf_monitor *monitor, double interval_s, kerf_meter **out,
                             kerf_error *err)
{
    kerf_meter *m = NULL;
    *out = NULL;
    if (interval_s == 0) interval_s = 0.01;
    if (!(interval_s >= 1e-3 && interval_s <= 3600))
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "an interval of %g s: 0.001 to 3600 can be",
                       interval_s);
    KF_TRY(kf_allocate(&m, 1, sizeof *m, err));
    m->monitor = monitor;
    m->interval_s = interval_s;
    m->count = kerf_monitor_sources(monitor);
    for (size_t i = 0; i < m->count; i++)
        m->course[i] = (course){.first_j = NAN, .last_j = NAN, .watts = NAN, .peak_w = NAN};
    pthread_mutex_init(&m->lock, NULL);
    kf_wake_init(&m->wake);
    take_sample(m);
    m->began_s = kf_now_s();
    const int failed = pthread_create(&m->thread, NULL, run_meter, m);
    if (failed) {
        pthread_cond_destroy(&m->wake);
        pthread_mutex_destroy(&m->lock);
        free(m);
        return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no thread for the meter: %s",
                       strerror(failed));
    }
    *out = m;
    return KERF_OK;
}

static void sum_up(const kerf_meter *m, size_t i, double seconds, kerf_source_energy *out)
{
    const course *c = &m->course[i];
    kf_source_name(m->monitor, i, &out->is_gpu, &out->index, out->name);
    out->lost = c->lost;
    out->peak_w = c->peak_w;
    out->steady_w = out->step_s = NAN;
    out->counted = !isnan(c->first_j);
    out->joules = out->counted ? c->last_j - c->first_j : isnan(c->watts) ? NAN : c->power_j;
    out->average_w = out->joules / seconds;
    if (c->steps < 3 || c->lost) return;
    const double between = c->step_last_s - c->step_first_s;
    out->steady_w = (c->step_last_j - c->step_first_j) / between;
    out->step_s = between / (double)(c->steps - 1);
    if (isnan(out->peak_w)) out->peak_w = out->steady_w;
}

void kerf_meter_end(kerf_meter *m, kerf_energy *out)
{
    if (!m) return;
    const double seconds = kf_now_s() - m->began_s;
    pthread_mutex_lock(&m->lock);
    m->stop = 1;
    pthread_cond_signal(&m->wake);
    pthread_mutex_unlock(&m->lock);
    pthread_join(m->thread, NULL);
    take_sample(m);
    if (out) {
        memset(out, 0, sizeof *out);
        out->seconds = seconds;
        out->samples = m->samples;
        out->count = m->count;
        for (size_t i = 0; i < m->count; i++) sum_up(m, i, seconds, &out->source[i]);
    }
    pthread_cond_destroy(&m->wake);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

kerf_status kerf_meter_idle(kerf_monitor *monitor, double seconds, kerf_energy *out,
                            kerf_error *err)
{
    kerf_meter *m = NULL;
    KF_TRY(kerf_meter_begin(monitor, 0, &m, err));
    struct timespec left = {(time_t)seconds, (long)(fmod(seconds, 1) * 1e9)};
    while (nanosleep(&left, &left) != 0) continue;
    kerf_meter_end(m, out);
    return KERF_OK;
}
