/* cmd_bench.c - kerf bench: how fast kerf's kernels are on this machine, as `kerf compare` and
 * `kerf hardware --measured` read it. */
#include <string.h>

#include "options_products.h"
#include "output.h"
#include "progress.h"
#include "terminal.h"

/* Plans by the tuning of --hardware, which must be of the GPU that is timed. */
static kerf_status take_tuning(const args *a, measure_option *m, kerf_hardware **out,
                               kerf_error *err)
{
    const char *name = args_value(a, "hardware");
    kerf_device_info gpu;
    kerf_error why = {0};
    if (!name) return KERF_OK;
    if (!m->exec.device) return USAGE(err, "--hardware is of a GPU: add --device cuda");
    TRY(kerf_hardware_get(name, out, err));
    TRY(kerf_device_describe(kerf_device_ordinal(m->exec.device), &gpu, err));
    if (kerf_hardware_tuning(*out, &gpu, &m->request.timer.tuning, &why) == KERF_OK) return KERF_OK;
    return USAGE(err, "--hardware %.200s %s", name, why.text);
}

static int run_bench(const args *a, kerf_error *err)
{
    static const char *const benches[] = {"gemv", NULL};
    const char *what = args_operand(a, 0);
    measure_option m = {0};
    kerf_gemv_times *all = NULL;
    char *text = NULL;
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
        s = args_has(a, "json")
                ? put_document(kerf_gemv_times_write(all, &text, NULL, err), &text, err)
                : put_text(kerf_gemv_times_text(all, text_form(1), &text, NULL, err), &text, err);
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
