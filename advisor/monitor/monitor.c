/* monitor.c - GPUs and processors in one list, read one after the other. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/base.h"
#include "monitor/monitor_source.h"

const char *kerf_gauge_key(kerf_gauge g)
{
    static const char *const keys[] = {
#define X(ID, key, text) key,
        KERF_GAUGES(X)
#undef X
    };
    return (unsigned)g < KERF_GAUGE_COUNT ? keys[g] : NULL;
}

uint64_t kerf_throttle_at(size_t i, const char **word)
{
    static const struct {
        uint64_t bit;
        const char *word;
    } rows[] = {
#define X(bit, word) {bit, word},
        KERF_THROTTLES(X)
#undef X
    };
    if (i >= sizeof rows / sizeof *rows) return 0;
    if (word) *word = rows[i].word;
    return rows[i].bit;
}

/* --- opening ------------------------------------------------------------------------------- */

kerf_status kerf_monitor_open(const kerf_monitor_options *o, kerf_monitor **out, kerf_error *err)
{
    kerf_error no_gpu = {0}, no_counter = {0};
    kerf_monitor *m = NULL;
    *out = NULL;
    KF_TRY(kf_allocate(&m, 1, sizeof *m, err));
    const kerf_status s =
        kf_nvml_open(o && o->nvml ? o->nvml : "libnvidia-ml.so.1", &m->nvml, &no_gpu);
    if (s == KERF_OK) m->gpus = kf_nvml_gpus(m->nvml);
    const kerf_status t =
        kf_rapl_open(o && o->powercap ? o->powercap : "/sys/class/powercap", &m->rapl, &no_counter);
    if (t != KERF_OK && t != KERF_E_CUDA) { /* it could not be looked at */
        kerf_monitor_close(m);
        return kf_fail(err, t, KF_NOWHERE, "%s", no_counter.text);
    }
    if (s != KERF_OK && t != KERF_OK) {
        kerf_monitor_close(m);
        return kf_fail(err, KERF_E_CUDA, KF_NOWHERE, "nothing to monitor: %.200s, and %.200s",
                       no_gpu.text, no_counter.text);
    }
    m->opened_s = m->read_s = kf_now_s();
    *out = m;
    return KERF_OK;
}

void kerf_monitor_close(kerf_monitor *m)
{
    if (!m) return;
    kf_nvml_close(m->nvml);
    free(m);
}

size_t kerf_monitor_sources(const kerf_monitor *m)
{
    return m->gpus + m->rapl.count;
}

size_t kerf_monitor_gpus(const kerf_monitor *m)
{
    return m->gpus;
}

const char *kerf_monitor_driver(const kerf_monitor *m)
{
    return m->nvml ? kf_nvml_driver(m->nvml) : "";
}

/* --- reading ------------------------------------------------------------------------------- */

void kf_source_energy(kerf_monitor *m, size_t i, double *joules, double *watts, int *lost)
{
    *watts = NAN;
    *lost = 0;
    if (i < m->gpus)
        kf_nvml_energy(m->nvml, (unsigned)i, joules, watts, lost);
    else
        *joules = kf_rapl_joules(&m->rapl, (unsigned)(i - m->gpus));
}

void kf_source_name(const kerf_monitor *m, size_t i, int *is_gpu, unsigned *index, char name[96])
{
    *is_gpu = i < m->gpus;
    *index = (unsigned)(*is_gpu ? i : i - m->gpus);
    if (*is_gpu) {
        kerf_reading r = {0};
        kf_nvml_read(m->nvml, *index, &r);
        memcpy(name, r.name, sizeof r.name);
    } else {
        snprintf(name, 96, "%s", m->rapl.counter[*index].name);
    }
}

static void read_counter(kerf_monitor *m, unsigned i, double seconds, kerf_reading *out)
{
    const double joules = kf_rapl_joules(&m->rapl, i);
    out->index = i;
    snprintf(out->name, sizeof out->name, "%s", m->rapl.counter[i].name);
    for (int g = 0; g < KERF_GAUGE_COUNT; g++) out->gauge[g] = NAN;
    out->gauge[KERF_GAUGE_ENERGY] = joules;
    if (seconds > 0) out->gauge[KERF_GAUGE_POWER] = (joules - m->read_j[i]) / seconds;
    if (!isnan(joules)) m->read_j[i] = joules;
}

void kerf_monitor_read(kerf_monitor *m, kerf_sample *out)
{
    struct timespec t;
    memset(out, 0, sizeof *out);
    clock_gettime(CLOCK_REALTIME, &t);
    out->unix_s = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    const double now = kf_now_s(), seconds = now - m->read_s;
    out->elapsed_s = now - m->opened_s;
    out->count = kerf_monitor_sources(m);
    for (unsigned i = 0; i < m->gpus; i++) kf_nvml_read(m->nvml, i, &out->reading[i]);
    for (unsigned i = 0; i < m->rapl.count; i++)
        read_counter(m, i, seconds, &out->reading[m->gpus + i]);
    m->read_s = now;
}
