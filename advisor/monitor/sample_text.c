/* sample_text.c - what sources say of themselves, and what a command has used, for people. */
#include <kerf/monitor.h>
#include <math.h>

#include "base/text_page.h"

/* --- a sample ------------------------------------------------------------------------------ */

static void put_throttles(kf_page *p, const kerf_reading *r)
{
    char text[160];
    kerf_throttles_text(r, text, sizeof text);
    if (r->lost) snprintf(text, sizeof text, "lost: %.90s", r->why);
    kf_table_cell(p, "%s", text[0] ? text : "-");
}

static void put_sources(kf_page *p, const kerf_sample *s)
{
    kf_table_begin(p, "source|+~name|>W|+>limit|>MHz|+>mem MHz|>C|+>GB|+>of|+>busy|+>kJ|~held by");
    for (size_t i = 0; i < s->count; i++) {
        const kerf_reading *r = &s->reading[i];
        kf_table_cell(p, "%s%u", r->is_gpu ? "gpu" : "rapl", r->index);
        kf_table_cell(p, "%s", r->name);
        kf_table_figure(p, "%.1f", r->gauge[KERF_GAUGE_POWER]);
        kf_table_figure(p, "%.0f", r->gauge[KERF_GAUGE_POWER_LIMIT]);
        kf_table_figure(p, "%.0f", r->gauge[KERF_GAUGE_SM_CLOCK]);
        kf_table_figure(p, "%.0f", r->gauge[KERF_GAUGE_MEMORY_CLOCK]);
        kf_table_figure(p, "%.0f", r->gauge[KERF_GAUGE_TEMPERATURE]);
        kf_table_figure(p, "%.1f", r->gauge[KERF_GAUGE_MEMORY_USED] / 1e9);
        kf_table_figure(p, "%.1f", r->gauge[KERF_GAUGE_MEMORY] / 1e9);
        kf_table_figure(p, "%.0f", r->gauge[KERF_GAUGE_BUSY]);
        kf_table_figure(p, "%.1f", r->gauge[KERF_GAUGE_ENERGY] / 1e3);
        put_throttles(p, r);
    }
    kf_table_end(p);
}

static void put_process(kf_page *p, const kerf_reading *r, const kerf_gpu_process *process)
{
    fprintf(p->to, "gpu%u: %u %s", r->index, process->pid,
            process->name[0] ? kf_page_plain(p, process->name) : "?");
    if (!isnan(process->memory_bytes)) fprintf(p->to, ", %.2f GB", process->memory_bytes * 1e-9);
    fprintf(p->to, "\n");
}

typedef struct sample_text {
    const kerf_sample *sample;
    int lines;
} sample_text;

static void put_sample(kf_page *p, const void *ctx)
{
    const sample_text *t = ctx;
    const kerf_sample *s = t->sample;
    size_t left_out = 0;
    int lines = t->lines;
    put_sources(p, s);
    for (size_t i = 0; i < s->count; i++) {
        const kerf_reading *r = &s->reading[i];
        left_out += r->processes_left_out;
        for (size_t k = 0; k < r->processes; k++) {
            if (--lines < 1)
                left_out++;
            else
                put_process(p, r, &r->process[k]);
        }
    }
    if (left_out) fprintf(p->to, "and %zu processes more\n", left_out);
}

kerf_status kerf_sample_text(const kerf_sample *s, int lines, const kerf_text_form *form,
                             char **text, size_t *n, kerf_error *err)
{
    const sample_text t = {s, lines};
    return kf_page_print(put_sample, &t, form, text, n, err);
}

/* --- a command ----------------------------------------------------------------------------- */

static void put_metered(kf_page *p, const void *ctx)
{
    const kerf_metered *m = ctx;
    double step = 0;
    fprintf(p->to, "%s: %.2f s, exit code %d\n", kf_page_plain(p, m->word[0]), m->used.seconds,
            m->exit_code);
    kf_table_begin(p, "source|+~name|>J|>average W|>peak W|>idle W|>J above idle");
    for (size_t i = 0; i < m->used.count; i++) {
        const kerf_source_energy *e = &m->used.source[i];
        kf_table_cell(p, "%s%u", e->is_gpu ? "gpu" : "rapl", e->index);
        kf_table_cell(p, "%s%s", e->name, e->lost ? " (lost)" : "");
        kf_table_figure(p, "%.1f", e->joules);
        kf_table_figure(p, "%.1f", e->average_w);
        kf_table_figure(p, "%.1f", e->peak_w);
        kf_table_figure(p, "%.1f", kerf_metered_idle_w(m, i));
        kf_table_figure(p, "%.1f", kerf_metered_above_idle(m, i));
        if (e->step_s > step) step = e->step_s;
    }
    kf_table_end(p);
    if (m->idle_s > 0)
        fprintf(p->to, "idle: average of the %.1f s before the command\n", m->idle.seconds);
    if (step > 0)
        fprintf(p->to, "counters go in steps of up to %.0f ms%s\n", step * 1e3,
                m->used.seconds < 2 ? ": too coarse for so short a command" : "");
}

kerf_status kerf_metered_text(const kerf_metered *m, const kerf_text_form *form, char **text,
                              size_t *n, kerf_error *err)
{
    return kf_page_print(put_metered, m, form, text, n, err);
}
