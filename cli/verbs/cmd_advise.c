/* cmd_advise.c - kerf advise: the best format for every group of layers under a budget, and why. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "advice/advice.h"
#include "score/importance.h"
#include "options.h"

/* Candidates unasked: the best encoder of each format that earns its bits. */
#define ADVISE_FORMATS                                                                \
    "nvfp4:4/6,nvfp4:sweep,mxfp4:even,nf4-dq,int4-g128:search,int4-g128-asym:search," \
    "int4-g32-asym:search,mxfp6-e2m3:even,mxfp8-e4m3:rceil,fp8-e4m3-row,int8:search," \
    "int8-g128:search"

/* --- input --------------------------------------------------------------------------------- */

/* The config.json beside the weights, or --config; without one there are products alone. */
static kerf_status find_model(advice *a, kerf_error *err)
{
    char path[4096];
    struct stat st;
    kerf_error why = {0};
    const char *given = args_value(a->args, "config");
    snprintf(path, sizeof path, "%s",
             given ? given : kerf_reader_folder(kerf_checkpoint_reader(a->source)));
    if (!given) {
        size_t n = strlen(path);
        snprintf(path + n, sizeof path - n, "/config.json");
        if (stat(path, &st) != 0) return KERF_OK;
    }
    kerf_status s = kerf_model_open(path, &a->model, &why);
    a->has_model = s == KERF_OK;
    if (s == KERF_OK || !given) {
        if (s != KERF_OK) fprintf(stderr, "products alone: %s\n", why.text);
        return KERF_OK;
    }
    *err = why;
    return s;
}

static kerf_status choose_tensors(advice *a, kerf_error *err)
{
    select_option o;
    kerf_status s = option_select_open(&o, a->args, err);
    if (s == KERF_OK) s = kf_select_tensors(a->source, &o.select, &a->plan, err);
    option_select_close(&o);
    return s;
}

static kerf_status open_input(advice *a, kerf_error *err)
{
    const char *hardware = args_value(a->args, "hardware");
    const char *imatrix = args_value(a->args, "imatrix");
    const char *formats = args_value(a->args, "format");
    int batch = 1, context = 4096;
    TRY(option_exec_open(a->args, &a->exec, err));
    TRY(args_integer(a->args, "batch", 1, 1 << 20, &batch, err));
    TRY(args_integer(a->args, "context", 1, 1 << 30, &context, err));
    a->batch = batch;
    a->context = context;
    if (hardware) TRY(machine_open(&a->machine, hardware, err));
    TRY(codec_list_parse(&a->codecs, formats ? formats : ADVISE_FORMATS, err));
    TRY(kerf_checkpoint_open(args_operand(a->args, 0), &a->source, err));
    if (imatrix) TRY(kerf_checkpoint_open(imatrix, &a->imatrix, err));
    TRY(find_model(a, err));
    TRY(advice_parse_limits(a, err));
    TRY(choose_tensors(a, err));
    if (!a->plan.count) {
        return USAGE(err, "%.200s: no tensor to choose for; --all-tensors takes embeddings too",
                     kerf_checkpoint_path(a->source));
    }
    return imatrix ? importance_check(a->imatrix, &a->plan, kerf_checkpoint_path(a->source),
                                      &a->weighted, err)
                   : KERF_OK;
}

/* --- output -------------------------------------------------------------------------------- */

static int ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static kerf_status write_whole(const advice *a, const char *path, const char *text, size_t n,
                               kerf_error *err)
{
    kerf_status s = kerf_file_replace(path, text, n, args_has(a->args, "overwrite"), err);
    if (s == KERF_E_EXISTS) return fail(err, s, "%.300s exists; -y replaces it", path);
    return s;
}

static kerf_status write_json_file(const advice *a, const char *path, json_t *doc, kerf_error *err)
{
    char *text = doc ? json_dumps(doc, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) : NULL;
    kerf_status s = text ? write_whole(a, path, text, strlen(text), err)
                         : fail(err, KERF_E_NOMEM, "no memory for %.200s", path);
    free(text);
    json_decref(doc);
    return s;
}

static kerf_status write_report(const advice *a, const char *path, kerf_error *err)
{
    char *text = NULL;
    size_t n = 0;
    if (ends_in(path, ".json")) {
        json_t *doc = advice_json(a);
        if (doc) json_object_set_new(doc, "schema", json_string("kerf.advise/1"));
        return write_json_file(a, path, doc, err);
    }
    FILE *to = open_memstream(&text, &n);
    if (!to) return fail(err, KERF_E_NOMEM, "no memory for %.200s", path);
    kerf_status s = KERF_OK;
    if (ends_in(path, ".md")) {
        s = advice_write_markdown(a, to, err);
    } else {
        advice_write_html(a, to);
    }
    if (fclose(to) != 0 && s == KERF_OK) s = fail(err, KERF_E_NOMEM, "no memory for %.200s", path);
    if (s == KERF_OK) s = write_whole(a, path, text, n, err);
    free(text);
    return s;
}

static kerf_status check_report(const args *a, kerf_error *err)
{
    const char *path = args_value(a, "report");
    if (!path || ends_in(path, ".html") || ends_in(path, ".md") || ends_in(path, ".json")) {
        return KERF_OK;
    }
    return USAGE(err, "--report %.200s: expected a name that ends in .html, .md or .json", path);
}

static kerf_status advise(advice *a, kerf_error *err)
{
    const char *output = args_value(a->args, "output"), *report = args_value(a->args, "report");
    TRY(check_report(a->args, err));
    TRY(open_input(a, err));
    TRY(advice_find_groups(a, err));
    TRY(advice_score(a, err));
    TRY(advice_find_costs(a, err));
    TRY(advice_choose(a, err));
    if (output) TRY(write_json_file(a, output, advice_recipe(a), err));
    if (report) TRY(write_report(a, report, err));
    return args_has(a->args, "json") ? print_json("advise", advice_json(a), err)
                                     : advice_print_text(a, err);
}

static void advice_free(advice *a)
{
    for (size_t i = 0; i < a->groups; i++) {
        free(a->group[i].member);
        free(a->group[i].cost);
    }
    for (size_t t = 0; t < a->tensors; t++) free(a->tensor[t].score);
    free(a->group);
    free(a->tensor);
    kf_selected_free(&a->plan);
    codec_list_free(&a->codecs);
    machine_close(&a->machine);
    kerf_checkpoint_close(a->imatrix);
    kerf_checkpoint_close(a->source);
    option_exec_close(&a->exec);
}

static int run_advise(const args *a, kerf_error *err)
{
    advice *work = NULL;
    TRY(allocate(&work, 1, sizeof *work, err));
    work->args = a;
    kerf_status s = advise(work, err);
    advice_free(work);
    free(work);
    return s;
}

static const option options[] = {
    {"budget", 0, "LIMIT",
     "4.5bits (per weight of what is chosen), 3.2GB or GiB (all tensors), 250us or ms, 90tok/s (a "
     "decoding step), 0.1t2 (error); repeatable, all hold"},
    {"minimise", 0, "error|bytes|time", "what to make small under the budget (default: error)"},
    {"hardware", 0, "NAME|FILE", "predict times for this machine: kerf hardware"},
    {"format", 'f', "LIST", "candidates, as for score (default: a choice of twelve)"},
    {"output", 'o', "RECIPE", "write the choice as JSON for quantize --recipe"},
    {"report", 0, "FILE", "write a report: .html, .md or .json"},
    {"batch", 'b', "N", "sequences of a decoding step (default: 1)"},
    {"context", 0, "S", "tokens of each (default: 4096)"},
    {"imatrix", 0, "FILE", "weight errors by the importance of columns, as for score"},
    {"alpha", 0, "flat|depth|FILE",
     "how much the error of a tensor matters: alike (default), by curves over depth, or "
     "{\"schema\": \"kerf.alpha/1\", \"alpha\": {GLOB: NUMBER}}"},
    {"config", 0, "FILE", "config.json of the model (default: the one beside the weights)"},
    {"cache", 0, "FILE", "keep scores here; a second budget then costs seconds"},
    {"nested", 0, NULL, "choices that only grow with the budget, not always the best"},
    {"all-tensors", 0, NULL, "also those that quantize keeps by default"},
    {NULL, 0, NULL, NULL},
};

const verb verb_advise = {
    .name = "advise",
    .summary = "the best format for every layer under a budget, and why",
    .usage = "IN --budget LIMIT [--hardware NAME] [-o RECIPE] [options]",
    .details =
        "Encodes every tensor of IN in every candidate format, measures the error of the bytes,\n"
        "predicts times, and chooses one format for each group of layers that runtimes fuse: "
        "least\n"
        "sum of alpha t2 under the budget, t2 = ||W' - W||^2 / ||W||^2. The choice is exact; the\n"
        "gap says how far below it the optimum could lie. Keeping a group as it is always is a\n"
        "candidate. Times are predictions with the tier that `kerf predict` explains.",
    .examples =
        "  kerf advise model/ --budget 4.5bits -o recipe.json --report report.html\n"
        "  kerf quantize model/ --recipe recipe.json -o out/\n"
        "  kerf advise model/ --hardware gb10 --budget 6GiB --budget 40tok/s --cache s.json\n"
        "  kerf advise model/ --hardware h200 --minimise time --budget 0.1t2\n",
    .options = options,
    .shared = {&option_keep, &option_only, &option_overwrite, &option_threads, &option_device,
               &option_json, &option_progress},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_advise,
};
