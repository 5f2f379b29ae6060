/* cmd_bench.c - kerf bench: how fast kerf's kernels are on this machine, as `kerf compare` and
 * `kerf hardware --measured` read it. */
#include <string.h>
#include <sys/utsname.h>

#include "machine/gemv_sweep.h"
#include "machine/machine.h"
#include "output.h"

static json_t *time_json(const gemv_sweep *s, const gemv_time *t)
{
    const kerf_matmul *p = &t->time.product;
    char name[160];
    snprintf(name, sizeof name, "gemv/%s/%llux%llu/%.0f/%s/%s", p->format->name,
             (unsigned long long)p->n, (unsigned long long)p->k, p->rows,
             kerf_dtype_name(s->timer.x), t->backend);
    json_t *row =
        json_pack("{s:s, s:s, s:I, s:I, s:I, s:s, s:f, s:s, s:f, s:f, s:f, s:I, s:s, s:f, s:f, "
                  "s:f}",
                  "name", name, "format", p->format->name, "n", (json_int_t)p->n, "k",
                  (json_int_t)p->k, "batch", (json_int_t)p->rows, "backend", t->backend, "us",
                  t->time.us, "unit", "us", "median", t->time.us, "low", t->low_us, "high",
                  t->high_us, "trials", (json_int_t)s->timer.trials, "ceiling", "read", "share",
                  t->share, "bytes", t->bytes, "rms_error", t->error);
    if (row && t->plain_us > 0) {
        json_object_set_new(row, "plain_us", json_real(t->plain_us));
        json_object_set_new(row, "plain_share", json_real(t->plain_share));
    }
    return row;
}

/* What was timed. */
static json_t *machine_json(const gemv_sweep *s)
{
    struct utsname u;
    char name[96];
    const kerf_device_info *d = &s->device;
    processor_name(name, sizeof name);
    json_t *here =
        json_pack("{s:o, s:i, s:f, s:f}", "cpu", json_path(name), "threads", s->timer.exec.threads,
                  "stream_gbps", s->stream_gbps, "copy_gbps", s->copy_gbps);
    if (uname(&u) == 0) json_object_set_new(here, "arch", json_string(u.machine));
    if (d->name[0]) {
        json_object_set_new(here, "gpu", json_path(d->name));
        json_object_set_new(here, "multiprocessors", json_integer(d->multiprocessors));
        json_object_set_new(here, "l2_bytes", json_integer((json_int_t)d->l2_bytes));
    }
    return here;
}

static json_t *sweep_json(const gemv_sweep *s)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < s->count; i++) json_array_append_new(rows, time_json(s, &s->item[i]));
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "bench", "gemv", "x",
                     kerf_dtype_name(s->timer.x), "version", KERF_VERSION_TEXT, "compiler",
                     __VERSION__, "machine", machine_json(s), "results", rows);
}

/* What the table's figures are. */
static void print_notes(const gemv_sweep *s)
{
    const char *x = kerf_dtype_name(s->timer.x);
    if (s->device.name[0]) {
        printf(
            "\n%s; x and y %s, weights cold; this machine reads %.1f GB/s and copies %.1f.\n"
            "us: of a product in a graph of many, which may read weights while the one before it\n"
            "works; plain: which waits. of a read: time to only read the same bytes so, over that\n"
            "of the product.\n",
            s->device.name, x, s->stream_gbps, s->copy_gbps);
        return;
    }
    printf(
        "\n%d threads; x %s, y fp32, weights cold; this machine reads %.1f GB/s and copies %.1f.\n"
        "of a read: time to read the same bytes right before each run, over the time of the run.\n",
        s->timer.exec.threads, x, s->stream_gbps, s->copy_gbps);
}

static kerf_status print_sweep(const gemv_sweep *s, kerf_error *err)
{
    table *t = NULL;
    const char *columns = "NxK|>batch|format|backend|>us|>quartiles|>GB/s|>of a read";
    int on_gpu = s->device.name[0] != 0;
    if (on_gpu)
        columns = "NxK|>batch|format|backend|>us|>quartiles|>GB/s|>of a read|>plain us|>of a read";
    TRY(table_open(&t, columns, err));
    for (size_t i = 0; i < s->count; i++) {
        const gemv_time *g = &s->item[i];
        const kerf_matmul *p = &g->time.product;
        table_cell(t, "%llux%llu", (unsigned long long)p->n, (unsigned long long)p->k);
        table_cell(t, "%.0f", p->rows);
        table_cell(t, "%s", p->format->name);
        table_cell(t, "%s", g->backend);
        table_cell(t, "%.2f", g->time.us);
        table_cell(t, "%.2f %.2f", g->low_us, g->high_us);
        table_cell(t, "%.2f", g->bytes / g->time.us * 1e-3);
        table_cell(t, "%.2f", g->share);
        if (!on_gpu) continue;
        table_cell(t, "%.2f", g->plain_us);
        table_cell(t, "%.2f", g->plain_share);
    }
    kerf_status status = table_print(t, stdout, err);
    table_close(t);
    print_notes(s);
    return status;
}

static int run_bench(const args *a, kerf_error *err)
{
    static const char *const benches[] = {"gemv", NULL};
    const char *what = args_operand(a, 0), *shapes = args_value(a, "shape");
    gemv_sweep s = {0};
    if (strcmp(what, benches[0]) != 0) {
        const char *near = kerf_nearest_word(what, benches);
        return USAGE(err, "bench %.40s: there is %s%s", what,
                     near ? "no such; did you mean " : "only ", benches[0]);
    }
    kerf_status status = gemv_sweep_run(&s, a, shapes ? shapes : "4096x4096,4096x14336", 0, err);
    if (status == KERF_OK) {
        status = args_has(a, "json") ? print_json("bench.gemv", sweep_json(&s), err)
                                     : print_sweep(&s, err);
    }
    gemv_sweep_close(&s);
    return status;
}

static const option options[] = {
    {"shape", 's', "NxK,...", "outputs x inputs (default: 4096x4096,4096x14336)"},
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
        "plain; the chain's time is `us`. The JSON feeds kerf compare, kerf hardware --measured\n"
        "and bench/compare.",
    .examples =
        "  kerf bench gemv\n"
        "  kerf bench gemv -f nvfp4,int8 --shape 4096x4096 --batch 1,4,16\n"
        "  kerf bench gemv --device cuda -f nvfp4\n"
        "  kerf bench gemv --json >gemv.json && kerf compare gemv.json --hardware mine.json\n",
    .options = options,
    .shared = {&option_sweep_format, &option_sweep_batch, &option_sweep_type, &option_sweep_trials,
               &option_threads, &option_device, &option_json, &option_progress},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_bench,
};
