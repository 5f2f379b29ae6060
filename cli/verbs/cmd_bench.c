/* cmd_bench.c - kerf bench: how fast kerf's kernels are on this machine, as `kerf compare` and
 * `kerf hardware --measured` read it. */
#include <string.h>
#include <sys/utsname.h>

#include "options_products.h"
#include "output.h"
#include "progress.h"

static double joules_per_gb(const kerf_gemv_times *all, size_t i)
{
    return all->energy[i].joules / all->time[i].bytes * 1e9;
}

static json_t *energy_json(const kerf_gemv_times *all, size_t i)
{
    const kerf_product_energy *e = &all->energy[i];
    return json_pack("{s:f, s:f, s:f, s:o, s:f, s:f, s:o}", "joules", e->joules, "joules_per_gb",
                     joules_per_gb(all, i), "watts", e->watts, "peak_w", json_figure(e->peak_w),
                     "idle_w", all->idle_w, "seconds", e->seconds, "step_s",
                     json_figure(e->step_s));
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
        json_set(&row, "plain_us", json_real(t->plain_us));
        json_set(&row, "plain_share", json_real(t->plain_share));
    }
    if (all->energy) json_set(&row, "energy", energy_json(all, i));
    return row;
}

/* What was timed. */
static json_t *machine_json(const kerf_gemv_times *all)
{
    struct utsname u;
    const kerf_device_info *d = &all->device;
    json_t *here =
        json_pack("{s:o, s:i, s:f, s:f}", "cpu", json_path(all->processor), "threads", all->threads,
                  "stream_gbps", all->stream_gbps, "copy_gbps", all->copy_gbps);
    if (uname(&u) == 0) json_set(&here, "arch", json_string(u.machine));
    if (d->name[0]) {
        json_set(&here, "gpu", json_path(d->name));
        json_set(&here, "multiprocessors", json_integer(d->multiprocessors));
        json_set(&here, "l2_bytes", json_integer((json_int_t)d->l2_bytes));
    }
    return here;
}

static json_t *times_json(const kerf_gemv_times *all)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < all->count; i++) {
        json_add(&rows, time_json(all, i));
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "bench", "gemv", "x",
                     kerf_dtype_name(all->x), "version", KERF_VERSION_TEXT, "compiler", __VERSION__,
                     "machine", machine_json(all), "results", rows);
}

static void energy_cells(table *t, const kerf_gemv_times *all, size_t i)
{
    const kerf_product_energy *e = &all->energy[i];
    table_cell(t, "%.4g", e->joules * 1e3);
    table_cell(t, "%.0f", e->watts);
    table_cell(t, "%.3g", joules_per_gb(all, i));
}

/* What the table's figures are. */
static void print_notes(const kerf_gemv_times *all)
{
    const char *x = kerf_dtype_name(all->x);
    if (all->device.name[0]) {
        printf(
            "\n%s; x and y %s, weights cold; this machine reads %.1f GB/s and copies %.1f.\n"
            "us: of a product in a graph of many, which may read weights while the one before it\n"
            "works; plain: which waits. of a read: time to only read the same bytes so, over that\n"
            "of the product.\n",
            all->device.name, x, all->stream_gbps, all->copy_gbps);
        return;
    }
    printf(
        "\n%d threads; x %s, y fp32, weights cold; this machine reads %.1f GB/s and copies %.1f.\n"
        "of a read: time to read the same bytes right before each run, over the time of the run.\n",
        all->threads, x, all->stream_gbps, all->copy_gbps);
}

static kerf_status print_times(const kerf_gemv_times *all, kerf_error *err)
{
    table *t = NULL;
    const int on_gpu = all->device.name[0] != 0;
    char headings[160];
    snprintf(headings, sizeof headings,
             "NxK|>batch|format|+backend|>us|+>quartiles|>GB/s|>of a read%s%s",
             on_gpu ? "|>plain us|>of a read" : "", all->energy ? "|>mJ|>W|>J/GB" : "");
    TRY(table_open(&t, headings, err));
    for (size_t i = 0; i < all->count; i++) {
        const kerf_gemv_time *g = &all->time[i];
        table_cell(t, "%llux%llu", (unsigned long long)g->rows, (unsigned long long)g->cols);
        table_cell(t, "%u", g->columns);
        table_cell(t, "%s", g->format->name);
        table_cell(t, "%s", g->backend);
        table_cell(t, "%.2f", g->us);
        table_cell(t, "%.2f %.2f", g->low_us, g->high_us);
        table_cell(t, "%.2f", g->bytes / g->us * 1e-3);
        table_cell(t, "%.2f", g->share);
        if (on_gpu) {
            table_cell(t, "%.2f", g->plain_us);
            table_cell(t, "%.2f", g->plain_share);
        }
        if (all->energy) energy_cells(t, all, i);
    }
    TRY(table_end(t, KERF_OK, err));
    print_notes(all);
    if (all->energy)
        printf("mJ: of one product done for %.0f s, idle power (%.0f W) included.\n",
               all->count ? all->energy[0].seconds : 0, all->idle_w);
    return KERF_OK;
}

/* Plans by the tuning of --hardware, which must be of the GPU that is timed. */
static kerf_status take_tuning(const args *a, measure_option *m, kerf_hardware **out,
                               kerf_error *err)
{
    const char *name = args_value(a, "hardware");
    kerf_device_info gpu;
    char arch[16];
    if (!name) return KERF_OK;
    if (!m->exec.device) return USAGE(err, "--hardware is of a GPU: add --device cuda");
    TRY(kerf_hardware_get(name, out, err));
    const kerf_hardware *h = *out;
    if (!h->tuning)
        return USAGE(err,
                     "--hardware %.200s has no tuning; kerf hardware --measure --device cuda "
                     ">mine.json writes one",
                     name);
    TRY(kerf_device_describe(kerf_device_ordinal(m->exec.device), &gpu, err));
    snprintf(arch, sizeof arch, "sm_%d%d", gpu.compute_major, gpu.compute_minor);
    if (h->arch[0] && strcmp(h->arch, arch) != 0)
        return USAGE(err, "--hardware %.200s is of an %.16s, and this GPU is an %s", name, h->arch,
                     arch);
    m->request.timer.tuning = h->tuning;
    return KERF_OK;
}

static int run_bench(const args *a, kerf_error *err)
{
    static const char *const benches[] = {"gemv", NULL};
    const char *what = args_operand(a, 0);
    measure_option m = {0};
    kerf_gemv_times *all = NULL;
    kerf_hardware *machine = NULL;
    progress p;
    if (strcmp(what, benches[0]) != 0) {
        const char *near = kerf_nearest_word(what, benches);
        return USAGE(err, "bench %.40s: there is %s%s", what,
                     near ? "no such; did you mean " : "only ", benches[0]);
    }
    TRY(progress_open(&p, a, err));
    kerf_status s = option_measure_open(&m, a, "4096x4096,4096x14336", err);
    if (s == KERF_OK && args_has(a, "energy")) s = kerf_monitor_open(NULL, &m.request.monitor, err);
    if (s == KERF_OK) s = take_tuning(a, &m, &machine, err);
    if (s == KERF_OK) s = kerf_measure_gemv(&m.request, &p.job, &all, err);
    progress_close(&p);
    if (s == KERF_OK) {
        s = args_has(a, "json") ? print_json("bench.gemv", times_json(all), err)
                                : print_times(all, err);
    }
    kerf_gemv_times_free(all);
    kerf_monitor_close(m.request.monitor);
    kerf_hardware_close(machine);
    option_measure_close(&m);
    return s;
}

static const option options[] = {
    {"shape", 's', "NxK,...", "outputs x inputs (default: 4096x4096,4096x14336)"},
    {"hardware", 0, "NAME|FILE", "GPU: make plans by the tuning of this machine"},
    {"energy", 0, NULL,
     "meter each product for 2 s besides: joules, watts, joules per GB of weights"},
    {NULL, 0, NULL, NULL},
};

const verb verb_bench = {
    .name = "bench",
    .summary = "time kerf's matrix-vector products on this machine",
    .usage = "gemv [-f LIST] [--shape NxK,...] [--batch N,...] [-n TRIALS] [-j N] [--json]",
    .details =
        "Y = W X straight from the planes, for every shape, batch and format of the lists: median\n"
        "and quartiles, and the share of the speed at which the same threads just read as many\n"
        "bytes. Weights come from memory, not from a cache. Each result is compared with the\n"
        "reference. With --device cuda the products are replayed as graphs of 100 and more, once\n"
        "as a chain, where each may read its weights while the one before it works, and once\n"
        "plain; the chain's time is `us`. With --hardware, a file that kerf hardware --measure\n"
        "wrote on this GPU, plans are those that were found faster there. The JSON feeds kerf\n"
        "compare, kerf hardware --measured and bench/compare.",
    .examples =
        "  kerf bench gemv\n"
        "  kerf bench gemv -f nvfp4,int8 --shape 4096x4096 --batch 1,4,16\n"
        "  kerf bench gemv --device cuda -f nvfp4\n"
        "  kerf bench gemv --device cuda --hardware mine.json\n"
        "  kerf bench gemv --json >gemv.json && kerf compare gemv.json --hardware mine.json\n",
    .options = options,
    .shared = {&option_measure_format, &option_measure_batch, &option_measure_type,
               &option_measure_trials, &option_threads, &option_device, &option_json, &option_wide,
               &option_progress},
    .operands_min = 1,
    .operands_max = 1,
    .reads = {"hardware"},
    .run = run_bench,
};
