/* cmd_hardware.c - kerf hardware: what the registry knows of a machine, and where it stands. */
#include <string.h>

#include "machine/measure.h"
#include "machine/machine.h"
#include "machine/measured.h"
#include "output.h"

/* --- JSON ---------------------------------------------------------------------------------- */

static json_t *facts_json(const kerf_hardware *h)
{
    json_t *all = json_object();
    for (kerf_fact_id id = 0; id < KERF_FACT_COUNT; id++) {
        const kerf_fact *f = &h->fact[id];
        if (f->value == 0) continue;
        json_t *row = json_pack("{s:f, s:s, s:s, s:s}", "value", f->value, "unit",
                                kerf_fact_unit(id), "source", f->source, "date", f->date);
        if (f->unverified) json_object_set_new(row, "unverified", json_true());
        json_object_set_new(all, kerf_fact_key(id), row);
    }
    return all;
}

static void put_rate(json_t *row, const char *key, double value)
{
    if (value > 0) json_object_set_new(row, key, json_real(value));
}

static json_t *numbers_json(const double *x, size_t n)
{
    json_t *a = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(a, json_real(x[i]));
    return a;
}

/* Left out where all are 0. */
static void put_by_end(json_t *row, const char *key, const double x[KERF_ROW_ENDS])
{
    for (int i = 0; i < KERF_ROW_ENDS; i++) {
        if (x[i] == 0) continue;
        json_object_set_new(row, key, numbers_json(x, KERF_ROW_ENDS));
        return;
    }
}

static json_t *fits_json(const kerf_hardware *h)
{
    json_t *all = json_array();
    for (size_t i = 0; i < h->fits; i++) {
        const kerf_fit *f = &h->fit[i];
        json_t *row = json_pack("{s:s, s:[I, I], s:f, s:f}", "format", f->format, "batch",
                                (json_int_t)f->batch_min, (json_int_t)f->batch_max, "fixed_us",
                                f->fixed_us, "bandwidth_gbps", f->bandwidth_gbps);
        put_rate(row, "decode_gweights", f->decode_gweights);
        put_rate(row, "tflops", f->tflops);
        put_rate(row, "input_us", f->input_us);
        put_by_end(row, "round_us", f->round_us);
        put_by_end(row, "stage_us", f->stage_us);
        put_rate(row, "error_median", f->error_median);
        put_rate(row, "error_p90", f->error_p90);
        json_object_set_new(row, "source", json_string(f->source));
        json_object_set_new(row, "date", json_string(f->date));
        json_array_append_new(all, row);
    }
    return all;
}

static json_t *tables_json(const kerf_hardware *h)
{
    json_t *all = json_array();
    for (size_t i = 0; i < h->tables; i++) {
        const kerf_anchors *t = &h->anchors[i];
        json_t *row = json_pack("{s:s, s:I, s:o, s:o, s:o}", "format", t->format, "batch",
                                (json_int_t)t->batch, "n", numbers_json(t->n, t->count), "k",
                                numbers_json(t->k, t->count), "us", numbers_json(t->us, t->count));
        put_rate(row, "error_median", t->error_median);
        put_rate(row, "error_p90", t->error_p90);
        json_object_set_new(row, "source", json_string(t->source));
        json_object_set_new(row, "date", json_string(t->date));
        json_array_append_new(all, row);
    }
    return all;
}

static json_t *machine_json(const kerf_hardware *h)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:o}", "name", h->name, "title",
                     h->title, "kind", h->kind, "arch", h->arch, "native", h->native, "note",
                     h->note, "facts", facts_json(h), "fits", fits_json(h), "tables",
                     tables_json(h));
}

static kerf_status print_list_json(kerf_error *err)
{
    json_t *all = json_array();
    for (size_t i = 0; i < kerf_hardware_count(); i++) {
        json_array_append_new(all, machine_json(kerf_hardware_at(i)));
    }
    return print_json("hardware-list", json_pack("{s:o}", "hardware", all), err);
}

/* --- text ---------------------------------------------------------------------------------- */

/* The fact as it stands in the list, a question mark behind what nothing confirms. */
static void fact_cell(table *t, const kerf_hardware *h, kerf_fact_id id)
{
    const kerf_fact *f = &h->fact[id];
    if (f->value == 0) {
        table_cell(t, "-");
    } else {
        table_cell(t, "%g%s", f->value, f->unverified ? "?" : "");
    }
}

static kerf_status print_list(kerf_error *err)
{
    static const kerf_fact_id shown[] = {KERF_FACT_BANDWIDTH, KERF_FACT_STREAM, KERF_FACT_MEMORY,
                                         KERF_FACT_BF16,      KERF_FACT_FP8,    KERF_FACT_INT8,
                                         KERF_FACT_FP4};
    table *t = NULL;
    TRY(table_open(&t, "name|machine|>GB/s|>measured|>GB|>bf16|>fp8|>int8|>fp4|>ridge", err));
    for (size_t i = 0; i < kerf_hardware_count(); i++) {
        const kerf_hardware *h = kerf_hardware_at(i);
        table_cell(t, "%s", h->name);
        table_cell(t, "%s", h->title);
        for (size_t k = 0; k < sizeof shown / sizeof *shown; k++) fact_cell(t, h, shown[k]);
        double peak = h->fact[KERF_FACT_BF16].value;
        if (peak == 0) peak = h->fact[KERF_FACT_FP32].value;
        table_cell(t, "%.0f", peak * 1e3 / h->fact[KERF_FACT_BANDWIDTH].value);
    }
    kerf_status s = table_print(t, stdout, err);
    table_close(t);
    printf("\nDense TFLOPS, sums in fp32. ridge: bf16 (else fp32) operations per byte above which\n"
           "arithmetic is the limit. ?: unverified. kerf hardware NAME shows sources.\n");
    return s;
}

static kerf_status print_machine(const kerf_hardware *h, kerf_error *err)
{
    table *t = NULL;
    printf("%s: %s", h->name, h->title[0] ? h->title : h->kind);
    if (h->arch[0]) printf(", %s", h->arch);
    if (h->native[0]) printf("; matrix instructions: %s", h->native);
    printf("\n");
    if (h->note[0]) printf("Note: %s.\n", h->note);
    printf("\n");
    TRY(table_open(&t, "fact|>value|unit|date|source", err));
    for (kerf_fact_id id = 0; id < KERF_FACT_COUNT; id++) {
        const kerf_fact *f = &h->fact[id];
        if (f->value == 0) continue;
        table_cell(t, "%s", kerf_fact_key(id));
        table_cell(t, "%g", f->value);
        table_cell(t, "%s", kerf_fact_unit(id));
        table_cell(t, "%s", f->date);
        table_cell(t, "%s%s", f->unverified ? "unverified: " : "", f->source);
    }
    kerf_status s = table_print(t, stdout, err);
    table_close(t);
    if (h->fits || h->tables) {
        printf("\n%zu fitted kernels, %zu tables of measured shapes\n", h->fits, h->tables);
    }
    return s;
}

/* --- verb ---------------------------------------------------------------------------------- */

/* The machine with what a benchmark on it says; printed as JSON, to be kept as a file. */
static kerf_status print_measured(const kerf_hardware *h, const char *path, kerf_error *err)
{
    measured m = {0};
    kerf_hardware with = *h;
    kerf_status s = measured_open(&m, path, h, err);
    with.fit = m.fit;
    with.fits = m.fits;
    with.anchors = m.anchors;
    with.tables = m.tables;
    if (s == KERF_OK) s = print_json("hardware", machine_json(&with), err);
    measured_close(&m);
    return s;
}

static kerf_status print_calibrated(const kerf_hardware *base, const args *a, kerf_error *err)
{
    calibration c;
    kerf_status s = calibrate(&c, base, a, err);
    if (s == KERF_OK) s = print_json("hardware", machine_json(&c.hardware), err);
    calibration_close(&c);
    return s;
}

static int run_hardware(const args *a, kerf_error *err)
{
    const char *name = args_operand(a, 0), *path = args_value(a, "measured");
    int json = args_has(a, "json"), measures = args_has(a, "calibrate");
    if (path && measures) return USAGE(err, "--measured and --calibrate are two ways to one end");
    if (!name && path) return USAGE(err, "--measured needs the machine that was measured");
    if (!name && measures) return print_calibrated(NULL, a, err);
    if (!name) return json ? print_list_json(err) : print_list(err);
    machine m = {0};
    kerf_status s;
    TRY(machine_open(&m, name, err));
    if (path) {
        s = print_measured(m.hardware, path, err);
    } else if (measures) {
        s = print_calibrated(m.hardware, a, err);
    } else {
        s = json ? print_json("hardware", machine_json(m.hardware), err)
                 : print_machine(m.hardware, err);
    }
    machine_close(&m);
    return s;
}

static const option options[] = {
    {"measured", 0, "BENCH.json",
     "print the machine with fits and tables of these times (see kerf help compare) as JSON"},
    {"calibrate", 0, NULL, "measure this machine and print it as JSON"},
    {"shape", 's', "NxK,...", "--calibrate: anchors of your own, four at least"},
    {NULL, 0, NULL, NULL},
};

const verb verb_hardware = {
    .name = "hardware",
    .summary = "what is known of a machine, with sources",
    .usage = "[NAME|FILE.json] [--measured BENCH.json | --calibrate [--device D]] [--json]",
    .details =
        "Lists the registry, or the facts of one machine with source and date. All rates are\n"
        "dense. A file describes a machine of your own: take `kerf hardware h200 --json` as\n"
        "a pattern. It is checked as strictly as a checkpoint; sparse figures are refused. With\n"
        "--measured, the times of a benchmark become fits and tables, one of each per format and\n"
        "batch with four shapes; predict and advise then use them. --calibrate takes such times\n"
        "here and now: how fast this machine, or the GPU of --device, reads and copies, and\n"
        "kerf's matrix-vector products at anchor shapes: 24 from 1024x1024 to 8192x8192, on a GPU\n"
        "200 up to 32768x16384.",
    .examples =
        "  kerf hardware\n"
        "  kerf hardware h200\n"
        "  kerf hardware h200 --json >mine.json   # edit, then --hardware mine.json\n"
        "  kerf hardware h200 --measured gemv.json >measured.json\n"
        "  kerf hardware --calibrate -f nvfp4,int8 >mine.json   # then --hardware mine.json\n"
        "  kerf hardware h200 --calibrate --device cuda >mine.json\n",
    .options = options,
    .shared = {&option_json, &option_sweep_format, &option_sweep_batch, &option_sweep_type,
               &option_sweep_trials, &option_threads, &option_device, &option_progress},
    .operands_max = 1,
    .run = run_hardware,
};
