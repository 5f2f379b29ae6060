/* cmd_hardware.c - kerf hardware: the machines of the registry with the source of each number, or
 * this machine, measured. */
#include "options_products.h"
#include "output.h"
#include "progress.h"
#include "terminal.h"

/* The machine with what a benchmark on it says. */
static kerf_status add_times(const kerf_hardware *h, const char *path, kerf_hardware **out,
                             kerf_error *err)
{
    kerf_timings times;
    TRY(kerf_timings_read(path, &times, err));
    kerf_status s = kerf_hardware_with_times(h, times.item, times.count, path, out, err);
    kerf_timings_free(&times);
    return s;
}

/* This machine, with what is known of it already, or NULL. */
static kerf_status measure(const kerf_hardware *known, const args *a, kerf_hardware **out,
                           kerf_error *err)
{
    measure_option m = {0};
    progress p;
    TRY(progress_open(&p, a, err));
    kerf_status s = option_measure_open(&m, a, NULL, err);
    if (s == KERF_OK) s = kerf_measure_machine(&m.request, known, &p.job, out, err);
    progress_close(&p);
    option_measure_close(&m);
    return s;
}

static int run_hardware(const args *a, kerf_error *err)
{
    const char *name = args_operand(a, 0), *path = args_value(a, "measured");
    static const char *const timed[] = {"shape", "format", "batch", "dtype", "trials", NULL};
    int json = args_has(a, "json"), measures = args_has(a, "measure");
    kerf_hardware *known = NULL, *made = NULL;
    char *text = NULL;
    if (path && measures) return USAGE(err, "--measured and --measure are two ways to one end");
    for (size_t i = 0; !measures && timed[i]; i++)
        if (args_has(a, timed[i])) return USAGE(err, "--%s is for --measure", timed[i]);
    if (!name && path) return USAGE(err, "--measured needs the machine that was measured");
    if (!name && !measures && json)
        return put_document(kerf_hardware_list_json(&text, err), &text, err);
    if (name) TRY(kerf_hardware_get(name, &known, err));
    kerf_status s = KERF_OK;
    if (path) s = add_times(known, path, &made, err);
    if (measures) s = measure(known, a, &made, err);
    if (s == KERF_OK && !made && !json) {
        s = put_text(kerf_hardware_text(known, text_form(1), &text, NULL, err), &text, err);
    } else if (s == KERF_OK) {
        s = put_document(kerf_hardware_json(made ? made : known, &text, err), &text, err);
    }
    kerf_hardware_close(known);
    kerf_hardware_close(made);
    return s;
}

static const option options[] = {
    {"measured", 0, "BENCH.json",
     "print the machine with fits and tables of these times (see kerf help compare) as JSON"},
    {"measure", 0, NULL, "measure this machine and print it as JSON"},
    {"shape", 's', "NxK,...", "--measure: shapes of your own, four at least"},
    {NULL, 0, NULL, NULL},
};

const verb verb_hardware = {
    .name = "hardware",
    .summary = "what is known of a machine, with sources",
    .usage = "[NAME|FILE.json] [--measured BENCH.json | --measure [--device D]] [--json]",
    .details =
        "Lists the registry, or the facts of one machine with source and date. All rates are\n"
        "dense. A file describes a machine of your own: take `kerf hardware h200 --json` as\n"
        "a pattern. It is checked as strictly as a checkpoint; sparse figures are refused. With\n"
        "--measured, the times of a benchmark become fits and tables, one of each per format and\n"
        "batch with four shapes; predict and advise then use them. --measure takes such times\n"
        "here and now: how fast this machine, or the GPU of --device, reads and copies, and\n"
        "kerf's matrix-vector products at anchor shapes: 24 from 1024x1024 to 8192x8192, on a GPU\n"
        "200 up to 32768x16384; GGUF's blocks have shapes of their own. On a GPU it also tries,\n"
        "within about a minute, which plans of those products are faster there than kerf's rules\n"
        "make, and keeps that as `tuning`, by which kerf bench gemv --hardware FILE makes plans.",
    .examples = "  kerf hardware\n"
                "  kerf hardware h200\n"
                "  kerf hardware h200 --json >mine.json   # edit, then --hardware mine.json\n"
                "  kerf hardware h200 --measured gemv.json >measured.json\n"
                "  kerf hardware --measure -f nvfp4,int8 >mine.json   # then --hardware mine.json\n"
                "  kerf hardware h200 --measure --device cuda >mine.json\n"
                "  kerf hardware h200 --measure --device cuda -f q4_k,q6_k -b 1,8,16 >gguf.json\n",
    .options = options,
    .shared = {&option_json, &option_wide, &option_measure_format, &option_measure_batch,
               &option_measure_type, &option_measure_trials, &option_threads, &option_device,
               &option_progress},
    .operands_max = 1,
    .run = run_hardware,
};
