/* cmd_advise.c - kerf advise: the best format for every group of layers under a budget, and why. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kerf/advise.h>
#include <kerf/hardware.h>

#include "options.h"
#include "options_tokens.h"
#include "output.h"
#include "progress.h"
#include "terminal.h"
#include "options_products.h"
#include "verbs/advise_typical.h"

typedef struct advise_run {
    const args *args;
    kerf_exec exec;
    select_option select;
    kerf_codec_list codecs;
    unsigned char *optional; /* [codecs] not named by -f */
    kerf_hardware *hardware; /* NULL: none was named */
    kerf_checkpoint *source, *imatrix;
    kerf_model model;
    kerf_alphas *alphas;
    kerf_calibration *calibration;
    tokens_option tokens;
    char made[24];
    kerf_advise_request request;
    kerf_advice *advice;
    progress progress;
} advise_run;

/* --- input --------------------------------------------------------------------------------- */

/* Of a model that kerf does not know there are products alone. */
static kerf_status find_model(advise_run *j, kerf_error *err)
{
    char why[sizeof err->text], text[sizeof why];
    int found;
    TRY(kerf_model_find(j->source, args_value(j->args, "config"), &j->model, &found, why,
                        sizeof why, err));
    if (found) j->request.model = &j->model;
    if (why[0]) print_note("products alone: %s", kerf_text_printable(why, text, sizeof text));
    return KERF_OK;
}

/* --alpha: flat, depth, or the path of a file of rules. */
static kerf_status find_alpha(advise_run *j, kerf_error *err)
{
    kerf_advise_request *r = &j->request;
    const char *text = args_value(j->args, "alpha"), *cal = args_value(j->args, "calibration");
    if (cal) TRY(kerf_calibration_open(cal, &j->calibration, err));
    r->calibration = j->calibration;
    if (cal && !text) r->alpha = KERF_ALPHA_CALIBRATED;
    if (!text || strcmp(text, "flat") == 0) return KERF_OK;
    r->alpha = strcmp(text, "depth") == 0 ? KERF_ALPHA_DEPTH : KERF_ALPHA_RULES;
    if (r->alpha == KERF_ALPHA_DEPTH) return KERF_OK;
    TRY(kerf_alphas_open(text, &j->alphas, err));
    r->alpha_rule = j->alphas->rule;
    r->alpha_rules = j->alphas->rules;
    r->alpha_name = text;
    return KERF_OK;
}

static kerf_status make_request(advise_run *j, kerf_error *err)
{
    const args *a = j->args;
    kerf_advise_request *r = &j->request;
    const char *hardware = args_value(a, "hardware"), *imatrix = args_value(a, "imatrix");
    const char *formats = args_value(a, "format");
    int batch = 1, context = 4096, gpus = 1;
    TRY(option_exec_open(a, &j->exec, err));
    TRY(args_integer(a, "batch", 1, 1 << 20, &batch, err));
    TRY(args_integer(a, "context", 1, 1 << 30, &context, err));
    TRY(option_gpus(a, &gpus, &r->expert_parallel, err));
    if (gpus > 1 && !hardware) return USAGE(err, "advise: --gpus needs --hardware NAME");
    if (hardware) TRY(kerf_hardware_get(hardware, &j->hardware, err));
    if (args_has(a, "layout")) TRY(args_layout(a, &r->layout, err));
    if (args_has(a, "runtime")) TRY(kerf_runtime_get(args_value(a, "runtime"), &r->runtime, err));
    if (!formats) formats = kerf_advise_candidates_for(r->layout, r->runtime);
    TRY(option_codecs(formats, &j->codecs, err));
    TRY(allocate(&j->optional, j->codecs.count, 1, err));
    for (size_t i = 0; i < j->codecs.count; i++)
        j->optional[i] = (unsigned char)(!args_has(a, "format") || !j->codecs.named[i]);
    TRY(option_select_open(&j->select, a, err));
    TRY(option_budget(a, &r->budget, &r->minimise, err));
    TRY(option_source_open(a, &j->source, err));
    if (imatrix) TRY(kerf_checkpoint_open(imatrix, &j->imatrix, err));
    TRY(find_model(j, err));
    TRY(find_alpha(j, err));
    r->select = &j->select.select;
    r->codec = j->codecs.codec;
    r->codecs = j->codecs.count;
    r->optional = j->optional;
    r->nested = args_has(a, "nested");
    r->hardware = j->hardware;
    r->batch = batch;
    r->context = context;
    r->gpus = (unsigned)gpus;
    const time_t now = time(NULL);
    struct tm day;
    if (gmtime_r(&now, &day) && strftime(j->made, sizeof j->made, "%Y-%m-%d", &day))
        r->made = j->made;
    r->imatrix = j->imatrix;
    if (args_has(a, "again") && !args_has(a, "feedback"))
        return USAGE(err, "advise: --again is for --feedback");
    r->feedback = args_has(a, "feedback") ? 1 + args_has(a, "again") : 0;
    static const char *const of_rows[] = {"length", "bos", "rows"};
    const int has_rows = args_has(a, "text") || args_has(a, "tokens");
    for (size_t i = 0; !has_rows && i < sizeof of_rows / sizeof *of_rows; i++)
        if (args_has(a, of_rows[i]))
            return USAGE(err, "advise: --%s is for --text or --tokens", of_rows[i]);
    if (has_rows) TRY(option_tokens_open(&j->tokens, a, j->source, 1, err));
    r->tokens = j->tokens.tokens;
    r->cache = args_value(a, "cache");
    return KERF_OK;
}

/* --- output -------------------------------------------------------------------------------- */

static kerf_status write_advice(const advise_run *j, kerf_advice_kind kind, const char *path,
                                kerf_error *err)
{
    char *text = NULL;
    return put_file(kerf_advice_write(j->advice, kind, &text, NULL, err), path, &text,
                    args_has(j->args, "overwrite"), err);
}

static kerf_status print_advice(const advise_run *j, kerf_error *err)
{
    const int json = args_has(j->args, "json");
    char *text = NULL;
    if (json)
        return put_document(kerf_advice_write(j->advice, KERF_ADVICE_JSON, &text, NULL, err), &text,
                            err);
    TRY(put_text(kerf_advice_text(j->advice, text_form(1), &text, NULL, err), &text, err));
    if (!is_wide()) printf("--wide and --report say why each group got what it got.\n");
    return KERF_OK;
}

/* --- verb ---------------------------------------------------------------------------------- */

static kerf_status advise(advise_run *j, kerf_error *err)
{
    const char *recipe = args_value(j->args, "output"), *report = args_value(j->args, "report");
    static const char *const ends[] = {".json", NULL};
    TRY(args_suffix(j->args, "output", ends, 0, err));
    kerf_advice_kind kind = KERF_ADVICE_JSON;
    if (report && !kerf_advice_kind_of(report, &kind))
        return USAGE(err, "--report %.200s: expected a name that ends in .html, .md or .json",
                     report);
    TRY(make_request(j, err));
    TRY(progress_open(&j->progress, j->args, err));
    kerf_status s =
        kerf_advise(j->source, &j->request, &j->exec, &j->progress.job, &j->advice, err);
    progress_close(&j->progress);
    TRY(s);
    if (recipe) TRY(write_advice(j, KERF_ADVICE_RECIPE, recipe, err));
    if (report) TRY(write_advice(j, kind, report, err));
    return print_advice(j, err);
}

static int run_advise(const args *a, kerf_error *err)
{
    if (is_config_alone(args_operand(a, 0))) return advise_typical(a, err);
    advise_run *j = NULL; /* a model is large */
    TRY(allocate(&j, 1, sizeof *j, err));
    j->args = a;
    kerf_status s = advise(j, err);
    kerf_advice_close(j->advice);
    kerf_alphas_close(j->alphas);
    kerf_calibration_close(j->calibration);
    option_tokens_close(&j->tokens);
    kerf_checkpoint_close(j->imatrix);
    kerf_checkpoint_close(j->source);
    kerf_hardware_close(j->hardware);
    kerf_codec_list_free(&j->codecs);
    free(j->optional);
    option_select_close(&j->select);
    option_exec_close(&j->exec);
    free(j);
    return s;
}

static const option options[] = {
    {"budget", 0, "LIMIT",
     "4.5bits (per weight of what is chosen, to three digits), 3.2GB or GiB (all tensors), 250us "
     "or ms, 90tok/s (a decoding step, at the slow end of its band; 90tok/s:likely in the middle), "
     "0.1t2 (error); repeatable, all hold"},
    {"minimise", 0, "error|bytes|time", "what to make small under the budget (default: error)"},
    {"hardware", 0, "NAME|FILE", "predict times for this machine: kerf hardware"},
    {"format", 'f', "LIST",
     "candidates, as for score (default: twelve; for gguf and llama.cpp its blocks, q2_k to q8_0)"},
    {"output", 'o', "RECIPE", "write the choice as JSON for quantize --recipe"},
    {"report", 0, "FILE", "write a report: .html, .md or .json"},
    {"runtime", 0, "NAME",
     "what shall load the result: vllm, sglang, trtllm, transformers or llama.cpp; candidates are "
     "what it has kernels for, on --hardware if given, from --layout (default: its usual one)"},
    {"batch", 'b', "N", "sequences of a decoding step (default: 1)"},
    {"context", 0, "S", "tokens of each (default: 4096)"},
    {"calibration", 0, "CAL",
     "weight errors by what kerf calibrate found: alpha of each tensor, columns of its input"},
    {"feedback", 0, NULL, "candidates with error feedback: kerf quantize --feedback"},
    {"again", 0, NULL, "with --feedback: and columns are gone over again: kerf quantize --again"},
    {"imatrix", 0, "FILE", "weight errors by the importance of columns, as for score"},
    {"alpha", 0, "flat|depth|FILE",
     "how much the error of a tensor matters: alike (default without --calibration), by curves "
     "over depth, or {\"schema\": \"kerf.alpha/1\", \"alpha\": {GLOB: NUMBER}}"},
    {"config", 0, "FILE", "config.json of the model (default: the one beside the weights)"},
    {"cache", 0, "FILE",
     "keep scores here, also those of a run that fails; a second budget then costs seconds"},
    {"nested", 0, NULL, "choices that only grow with the budget, not always the best"},
    {"all-tensors", 0, NULL, "also those that quantize keeps by default"},
    {NULL, 0, NULL, NULL},
};

const verb verb_advise = {
    .name = "advise",
    .summary = "the best format for every layer under a budget, and why",
    .usage = "IN|config.json --budget LIMIT [--hardware NAME] [-o RECIPE] [options]",
    .details =
        "Encodes every tensor of IN in every candidate format, measures the error of the bytes,\n"
        "predicts times, and chooses one format for each group of layers that runtimes fuse: "
        "least\n"
        "sum of alpha t2 under the budget, t2 = ||W' - W||^2 / ||W||^2. The choice is exact; the\n"
        "gap says how far below it the optimum could lie. Keeping a group as it is always is a\n"
        "candidate. With --text or --tokens the end is measured: the choice, single formats of\n"
        "its size and its neighbours run over these tokens, and one format for all is recommended\n"
        "where it measures better. Times are predictions with the tier that `kerf predict`\n"
        "explains. For a config.json alone it lists what each format would take on --hardware,\n"
        "with typical errors.",
    .examples =
        "  kerf advise model/ --budget 4.5bits -o recipe.json --report report.html\n"
        "  kerf quantize model/ --recipe recipe.json -o out/\n"
        "  kerf advise model/ --calibration cal/ --budget 4.5bits -o recipe.json\n"
        "  kerf advise model/ --budget 5bits --layout compressed-tensors -f 'nvfp4*,int8' -o "
        "r.json\n"
        "  kerf advise config.json --hardware rtx4090 --budget 60tok/s    # before the download\n"
        "  kerf advise model/ --runtime vllm --hardware h100 --budget 60tok/s -o recipe.json\n"
        "  kerf advise model/ --hardware gb10 --budget 6GiB --budget 40tok/s --cache s.json\n"
        "  kerf advise model/ --hardware h200 --minimise time --budget 0.1t2\n",
    .options = options,
    .shared = {&option_layout, &option_keep, &option_only, &option_nan, &option_overwrite,
               &option_threads, &option_device, &option_json, &option_wide, &option_progress,
               &option_gpu_count, &option_expert_parallel, &option_text, &option_tokens,
               &option_length, &option_bos, &option_rows},
    .reads = {"hardware", "imatrix", "alpha", "config", "cache", "calibration", "text", "tokens"},
    .writes = {"output", "report", "cache"},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_advise,
};
