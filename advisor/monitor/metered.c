/* metered.c - the energy of a command beside that of the idle machine, and readings as lines of
 * values. */
#include <kerf/monitor.h>
#include <kerf/words.h>
#include <math.h>
#include <stdio.h>

#include "base/growing_text.h"
#include "file/json/json_text.h"

double kerf_metered_idle_w(const kerf_metered *m, size_t i)
{
    return m->idle_s > 0 ? m->idle.source[i].average_w : NAN;
}

double kerf_metered_above_idle(const kerf_metered *m, size_t i)
{
    return m->used.source[i].joules - kerf_metered_idle_w(m, i) * m->used.seconds;
}

static json_t *source_json(const kerf_metered *m, size_t i)
{
    const kerf_source_energy *e = &m->used.source[i];
    return json_pack("{s:s, s:I, s:o, s:b, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "kind",
                     e->is_gpu ? "gpu" : "rapl", "index", (json_int_t)e->index, "name",
                     kf_json_path(e->name), "counted", e->counted, "lost", e->lost, "joules",
                     kf_json_number(e->joules), "average_w", kf_json_number(e->average_w), "peak_w",
                     kf_json_number(e->peak_w), "steady_w", kf_json_number(e->steady_w), "step_s",
                     kf_json_number(e->step_s), "idle_w", kf_json_number(kerf_metered_idle_w(m, i)),
                     "joules_above_idle", kf_json_number(kerf_metered_above_idle(m, i)));
}

kerf_status kerf_metered_write(const kerf_metered *m, char **text, size_t *n, kerf_error *err)
{
    json_t *words = json_array(), *rows = json_array();
    for (const char *const *w = m->word; *w; w++) kf_json_add(&words, kf_json_path(*w));
    for (size_t i = 0; i < m->used.count; i++) kf_json_add(&rows, source_json(m, i));
    json_t *doc =
        json_pack("{s:s, s:o, s:i, s:f, s:I, s:f, s:f, s:o}", "schema", "kerf.monitor-command/1",
                  "command", words, "exit_code", m->exit_code, "seconds", m->used.seconds,
                  "samples", (json_int_t)m->used.samples, "interval_s", m->interval_s,
                  "idle_seconds", m->idle_s, "sources", rows);
    return kf_json_write(doc, JSON_INDENT(2), text, n, err);
}

/* --- lines of values ----------------------------------------------------------------------- */

char *kerf_throttles_text(const kerf_reading *r, char *out, size_t size)
{
    const char *word;
    uint64_t bit;
    size_t n = 0;
    out[0] = 0;
    for (size_t i = 0; r->throttles_known && (bit = kerf_throttle_at(i, &word)) != 0; i++) {
        const int k = r->throttles & bit && n < size
                          ? snprintf(out + n, size - n, "%s%s", n ? " " : "", word)
                          : 0;
        n += k > 0 ? (size_t)k : 0;
    }
    return out;
}

static void put_names(FILE *to)
{
    fputs("unix_s,elapsed_s,kind,index,name", to);
    for (int g = 0; g < KERF_GAUGE_COUNT; g++) fprintf(to, ",%s", kerf_gauge_key((kerf_gauge)g));
    fputs(",throttles,lost\n", to);
}

static void put_reading(FILE *to, const kerf_sample *s, const kerf_reading *r)
{
    char name[sizeof r->name], throttles[160];
    fprintf(to, "%.3f,%.3f,%s,%u,\"%s\"", s->unix_s, s->elapsed_s, r->is_gpu ? "gpu" : "rapl",
            r->index, kerf_text_printable(r->name, name, sizeof name));
    for (int g = 0; g < KERF_GAUGE_COUNT; g++)
        isnan(r->gauge[g]) ? fputc(',', to) : fprintf(to, ",%.10g", r->gauge[g]);
    fprintf(to, ",%s,%d\n", kerf_throttles_text(r, throttles, sizeof throttles), r->lost);
}

kerf_status kerf_sample_write_csv(const kerf_sample *s, char **text, size_t *n, kerf_error *err)
{
    kf_text all = {0};
    FILE *to = kf_text_stream(&all);
    if (to && !s) put_names(to);
    for (size_t i = 0; to && s && i < s->count; i++) put_reading(to, s, &s->reading[i]);
    if (kf_text_close(&all, to, text, n)) return KERF_OK;
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a line of values");
}
