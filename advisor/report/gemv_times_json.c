/* gemv_times_json.c - measured products for programs: what kerf_timings_read, and so kerf compare
 * and kerf hardware --measured, read. */
#include <kerf/measure.h>
#include <stdio.h>
#include <sys/utsname.h>

#include "file/json/json_text.h"

static json_t *energy_json(const kerf_gemv_times *all, size_t i)
{
    const kerf_product_energy *e = &all->energy[i];
    return json_pack("{s:f, s:f, s:f, s:o, s:f, s:f, s:o}", "joules", e->joules, "joules_per_gb",
                     kerf_joules_per_gb(all, i), "watts", e->watts, "peak_w",
                     kf_json_number(e->peak_w), "idle_w", all->idle_w, "seconds", e->seconds,
                     "step_s", kf_json_number(e->step_s));
}

static json_t *time_json(const kerf_gemv_times *all, size_t i)
{
    const kerf_gemv_time *t = &all->time[i];
    char name[160];
    snprintf(name, sizeof name, "gemv/%s/%llux%llu/%u/%s/%s", t->format->name,
             (unsigned long long)t->rows, (unsigned long long)t->cols, t->columns,
             kerf_dtype_name(all->x), t->backend);
    json_t *row = json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:s, s:f, s:s, s:f, s:f, s:f, s:I, s:s, s:f, s:f, "
        "s:f}",
        "name", name, "format", t->format->name, "n", (json_int_t)t->rows, "k", (json_int_t)t->cols,
        "batch", (json_int_t)t->columns, "backend", t->backend, "us", t->us, "unit", "us", "median",
        t->us, "low", t->low_us, "high", t->high_us, "trials", (json_int_t)all->trials, "ceiling",
        "read", "share", t->share, "bytes", t->bytes, "rms_error", t->error);
    if (row && t->plain_us > 0) {
        kf_json_set(&row, "plain_us", json_real(t->plain_us));
        kf_json_set(&row, "plain_share", json_real(t->plain_share));
    }
    if (all->energy) kf_json_set(&row, "energy", energy_json(all, i));
    return row;
}

/* What was timed. */
static json_t *machine_json(const kerf_gemv_times *all)
{
    struct utsname u;
    const kerf_device_info *d = &all->device;
    json_t *here =
        json_pack("{s:o, s:i, s:f, s:f}", "cpu", kf_json_path(all->processor), "threads",
                  all->threads, "stream_gbps", all->stream_gbps, "copy_gbps", all->copy_gbps);
    if (uname(&u) == 0) kf_json_set(&here, "arch", json_string(u.machine));
    if (d->name[0]) {
        kf_json_set(&here, "gpu", kf_json_path(d->name));
        kf_json_set(&here, "multiprocessors", json_integer(d->multiprocessors));
        kf_json_set(&here, "l2_bytes", json_integer((json_int_t)d->l2_bytes));
    }
    return here;
}

double kerf_joules_per_gb(const kerf_gemv_times *t, size_t i)
{
    return t->energy[i].joules / t->time[i].bytes * 1e9;
}

kerf_status kerf_gemv_times_write(const kerf_gemv_times *t, char **text, size_t *n, kerf_error *err)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < t->count; i++) kf_json_add(&rows, time_json(t, i));
    json_t *doc =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:o}", "schema", "kerf.bench.gemv/1", "bench",
                  "gemv", "x", kerf_dtype_name(t->x), "version", KERF_VERSION_TEXT, "compiler",
                  __VERSION__, "machine", machine_json(t), "results", rows);
    return kf_json_write(doc, JSON_INDENT(2), text, n, err);
}
