/* sample_json.c - a sample as one line of JSON: what is not known is null, so that every line has
 * the same members. */
#include <kerf/monitor.h>

#include "file/json/json_text.h"

static json_t *throttles_json(const kerf_reading *r)
{
    const char *word;
    uint64_t bit;
    if (!r->throttles_known) return json_null();
    json_t *words = json_array();
    for (size_t i = 0; (bit = kerf_throttle_at(i, &word)) != 0; i++)
        if (r->throttles & bit) kf_json_add(&words, json_string(word));
    return words;
}

static json_t *processes_json(const kerf_reading *r)
{
    json_t *all = json_array();
    for (size_t i = 0; i < r->processes; i++) {
        const kerf_gpu_process *p = &r->process[i];
        kf_json_add(&all, json_pack("{s:I, s:o, s:o}", "pid", (json_int_t)p->pid, "name",
                                    kf_json_path(p->name), "memory_bytes",
                                    kf_json_number(p->memory_bytes)));
    }
    return all;
}

static json_t *reading_json(const kerf_reading *r)
{
    json_t *row = json_pack("{s:s, s:I, s:o}", "kind", r->is_gpu ? "gpu" : "rapl", "index",
                            (json_int_t)r->index, "name", kf_json_path(r->name));
    for (int g = 0; g < KERF_GAUGE_COUNT; g++)
        kf_json_set(&row, kerf_gauge_key((kerf_gauge)g), kf_json_number(r->gauge[g]));
    if (!r->is_gpu) return row;
    kf_json_set(&row, "uuid", kf_json_path(r->uuid));
    kf_json_set(&row, "throttles", throttles_json(r));
    kf_json_set(&row, "lost", r->lost ? kf_json_path(r->why) : json_null());
    kf_json_set(&row, "processes", processes_json(r));
    kf_json_set(&row, "processes_left_out", json_integer((json_int_t)r->processes_left_out));
    return row;
}

kerf_status kerf_sample_write(const kerf_sample *s, char **text, size_t *n, kerf_error *err)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < s->count; i++) kf_json_add(&rows, reading_json(&s->reading[i]));
    return kf_json_write(json_pack("{s:s, s:f, s:f, s:o}", "schema", "kerf.monitor/1", "unix_s",
                                   s->unix_s, "elapsed_s", s->elapsed_s, "sources", rows),
                         JSON_COMPACT, text, n, err);
}
