/* monitoring.c - a thread that reads the monitor at intervals and hands each reading to all open
 * streams. */
#include "serve/monitoring.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kerf/monitor.h>

#include "serve/json_built.h"
#include "serve/streams.h"

static struct {
    pthread_mutex_t lock;
    pthread_cond_t stopped;
    pthread_t thread;
    kerf_monitor *monitor; /* NULL: none, as `why` says */
    kerf_error why;
    kerf_sample sample;
    char *line; /* of the sample */
    topic *topic;
    int stop;
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER, .stopped = PTHREAD_COND_INITIALIZER};

static void take_sample(void)
{
    char *line = NULL;
    size_t n = 0;
    kerf_error err = {0};
    static kerf_sample sample;
    kerf_monitor_read(seen.monitor, &sample);
    if (kerf_sample_write(&sample, &line, &n, &err) != KERF_OK) return;
    pthread_mutex_lock(&seen.lock);
    memcpy(&seen.sample, &sample, sizeof sample);
    free(seen.line);
    seen.line = line;
    topic_publish(seen.topic, "sample", line);
    pthread_mutex_unlock(&seen.lock);
}

static void *run_monitor(void *ctx)
{
    struct timespec until;
    (void)ctx;
    clock_gettime(CLOCK_REALTIME, &until);
    pthread_mutex_lock(&seen.lock);
    while (!seen.stop) {
        pthread_mutex_unlock(&seen.lock);
        take_sample();
        const double next = (double)until.tv_nsec * 1e-9 + serving.interval_s;
        until.tv_sec += (time_t)next;
        until.tv_nsec = (long)(fmod(next, 1) * 1e9);
        pthread_mutex_lock(&seen.lock);
        while (!seen.stop && pthread_cond_timedwait(&seen.stopped, &seen.lock, &until) == 0)
            continue;
    }
    pthread_mutex_unlock(&seen.lock);
    return NULL;
}

kerf_status monitoring_start(kerf_error *err)
{
    seen.topic = topic_open();
    if (!seen.topic) return kerf_fail(err, KERF_E_NOMEM, "no memory for a stream");
    if (kerf_monitor_open(NULL, &seen.monitor, &seen.why) != KERF_OK) {
        json_t *doc = json_pack("{s:s, s:[], s:o}", "schema", "kerf.monitor/1", "sources",
                                "unavailable", json_path(seen.why.text));
        seen.line = doc ? json_dumps(doc, JSON_COMPACT) : NULL;
        json_decref(doc);
        if (!seen.line) return kerf_fail(err, KERF_E_NOMEM, "no memory for a stream");
        topic_publish(seen.topic, "sample", seen.line);
        topic_end(seen.topic);
        return KERF_OK;
    }
    take_sample();
    const int why = pthread_create(&seen.thread, NULL, run_monitor, NULL);
    return why ? kerf_fail(err, KERF_E_NOMEM, "no thread for the monitor: %s", strerror(why))
               : KERF_OK;
}

void monitoring_stop(void)
{
    pthread_mutex_lock(&seen.lock);
    seen.stop = 1;
    pthread_cond_broadcast(&seen.stopped);
    pthread_mutex_unlock(&seen.lock);
    if (seen.monitor) pthread_join(seen.thread, NULL);
    topic_end(seen.topic);
}

void monitoring_close(void)
{
    topic_close(seen.topic);
    kerf_monitor_close(seen.monitor);
    free(seen.line);
}

int answer_monitor(request *r)
{
    pthread_mutex_lock(&seen.lock);
    char *line = seen.line ? strdup(seen.line) : NULL;
    pthread_mutex_unlock(&seen.lock);
    if (!line) return reply_error(r, 503, "no memory for a sample");
    return reply_text(r, 200, "application/json", line, strlen(line));
}

int answer_monitor_stream(request *r)
{
    return topic_reply(r, seen.topic);
}

void monitoring_metrics(FILE *to)
{
    pthread_mutex_lock(&seen.lock);
    for (int g = 0; g < KERF_GAUGE_COUNT && seen.sample.count; g++) {
        const char *key = kerf_gauge_key((kerf_gauge)g);
        fprintf(to, "# TYPE kerf_%s gauge\n", key);
        for (size_t i = 0; i < seen.sample.count; i++) {
            const kerf_reading *r = &seen.sample.reading[i];
            if (isnan(r->gauge[g])) continue;
            fprintf(to, "kerf_%s{source=\"%s%u\"} %.10g\n", key, r->is_gpu ? "gpu" : "rapl",
                    r->index, r->gauge[g]);
        }
    }
    pthread_mutex_unlock(&seen.lock);
}
