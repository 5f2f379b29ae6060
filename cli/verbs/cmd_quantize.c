/* cmd_quantize.c - kerf quantize: the options as a plan, the plan as a table or a checkpoint. */
#include <kerf/quantize.h>

#include "options.h"
#include "options_products.h"
#include "output.h"
#include "progress.h"
#include "terminal.h"

typedef struct quantize_run {
    const args *args;
    kerf_output to;
    kerf_codec base;
    team_option team;
    select_option select;
    rules_option rules;
    kerf_checkpoint *source, *imatrix;
    kerf_calibration *calibration;
    kerf_moments moments;
    kerf_plan *plan;
    progress progress;
    kerf_result result;
} quantize_run;

static kerf_status read_options(quantize_run *j, kerf_error *err)
{
    const args *a = j->args;
    const char *format = args_value(a, "format");
    TRY(option_output(a, &j->to, err));
    if (!format && !args_has(a, "recipe"))
        return USAGE(err, "quantize: -f FORMAT[:ENCODER] is missing; see kerf formats");
    if (!j->to.path && !args_has(a, "dry-run"))
        return USAGE(err, "quantize: -o OUT is missing; --dry-run needs none");
    if (format) TRY(option_codec(format, &j->base, err));
    TRY(option_select_open(&j->select, a, err));
    TRY(option_rules_open(&j->rules, a, err));
    if (j->rules.recipe && !j->to.layout) j->to.layout = j->rules.recipe->layout;
    return option_team_open(&j->team, a, err);
}

static kerf_status write_output(quantize_run *j, kerf_error *err)
{
    TRY(progress_open(&j->progress, j->args, err));
    kerf_status s = kerf_quantize(j->plan, &j->team.team, &j->progress.job, &j->result, err);
    if (s == KERF_OK) note_output(&j->to); /* before the last event, which takes memory */
    if (s == KERF_OK) s = args_checksums(j->args, err);
    progress_pause(&j->progress);
    return s;
}

static kerf_status open_calibration(quantize_run *j, kerf_error *err)
{
    const args *a = j->args;
    kerf_calibrated what = {.feedback = args_has(a, "feedback"),
                            .again = args_has(a, "again"),
                            .input_scales = args_has(a, "input-scales")};
    TRY(option_format(a, "kv", &what.kv, err));
    if (args_has(a, "calibration"))
        TRY(kerf_calibration_open(args_value(a, "calibration"), &j->calibration, err));
    return kerf_output_calibrate(&j->to, &what, j->rules.recipe, j->calibration, j->source,
                                 &j->moments, err);
}

static kerf_status quantize(quantize_run *j, kerf_error *err)
{
    const args *a = j->args;
    char *text = NULL;
    TRY(read_options(j, err));
    TRY(option_source_open(a, &j->source, err));
    if (args_has(a, "imatrix"))
        TRY(kerf_checkpoint_open(args_value(a, "imatrix"), &j->imatrix, err));
    j->to.imatrix = j->imatrix;
    TRY(open_calibration(j, err));
    TRY(kerf_plan_make(j->source, &j->select.select, j->rules.rule, j->rules.count, j->base, &j->to,
                       &j->plan, err));
    if (!args_has(a, "dry-run")) {
        TRY(write_output(j, err));
        if (progress_allows_text(a))
            TRY(put_note(kerf_plan_text(j->plan, &j->result, NULL, &text, NULL, err), &text));
    } else if (!args_has(a, "json")) {
        return put_text(kerf_plan_text(j->plan, NULL, text_form(1), &text, NULL, err), &text, err);
    }
    if (!args_has(a, "json")) return KERF_OK;
    const kerf_result *result = args_has(a, "dry-run") ? NULL : &j->result;
    return put_document(kerf_plan_write(j->plan, result, &text, NULL, err), &text, err);
}

/* Measures what was written and compares it with the promises of the recipe. EXIT_OK,
 * EXIT_MISMATCH, or a kerf_status. */
static int check_recipe(quantize_run *j, kerf_error *err)
{
    const kerf_recipe *r = j->rules.recipe;
    kerf_checkpoint *written = NULL;
    kerf_recipe_result result = {0};
    TRY(kerf_checkpoint_open(j->to.path, &written, err));
    kerf_status s = kerf_recipe_check(r, j->rules.rule + r->rules, j->rules.count - r->rules,
                                      kerf_plan_source(j->plan), written, &j->team.member[0],
                                      &j->progress.job, &result, err);
    kerf_checkpoint_close(written);
    progress_pause(&j->progress);
    TRY(s);
    if (progress_allows_text(j->args))
        print_note("%s: %zu tensors measured as promised, %zu not, %zu edited since",
                   shown(r->name), result.kept, result.broken, result.edited);
    if (result.broken == 0) return EXIT_OK;
    char text[sizeof result.first];
    fprintf(stderr, "kerf: %s: %s\n", shown(j->to.path),
            kerf_text_printable(result.first, text, sizeof text));
    return EXIT_MISMATCH;
}

static int run_quantize(const args *a, kerf_error *err)
{
    quantize_run j = {.args = a};
    int s = quantize(&j, err);
    if (s == KERF_OK && j.rules.recipe && !args_has(a, "dry-run") && !j.to.parts && IS_FIRST)
        s = check_recipe(&j, err);
    progress_close(&j.progress);
    kerf_plan_free(j.plan);
    kerf_checkpoint_close(j.source);
    kerf_checkpoint_close(j.imatrix);
    kerf_calibration_close(j.calibration);
    option_rules_close(&j.rules);
    option_select_close(&j.select);
    option_team_close(&j.team);
    return s;
}

static const option options[] = {
    {"format", 'f', "FORMAT[:ENCODER]",
     "number format, and how its bytes are chosen: kerf formats"},
    {"output", 'o', "OUT", "NAME.safetensors, NAME.safetensors.zst, NAME.gguf, or a folder"},
    {"tensor", 0, "GLOB=FORMAT[:ENC]",
     "another format for matching tensors; for those kept by default where GLOB matches no others "
     "('*lm_head*'); GLOB=keep keeps them (repeatable, last wins)"},
    {"recipe", 0, "FILE",
     "formats of a recipe of kerf advise, whose promises are measured again; -f is for the rest"},
    {"imatrix", 0, "FILE",
     "importance of columns, for encoders called imatrix: a file of llama.cpp, or safetensors"},
    {"calibration", 0, "CAL", "the same from what kerf calibrate found for IN"},
    {"feedback", 0, NULL,
     "round each weight so that the error of its layer's output is small, not its own: takes the "
     "Gram matrices of --calibration, made with kerf calibrate --gram"},
    {"again", 0, NULL,
     "with --feedback: go over all columns again, four times at most, on the processor"},
    {"input-scales", 0, NULL,
     "store scales of inputs by --calibration, so that runtimes multiply in 4 or 8 bits (W4A4): of "
     "nvfp4 and fp8-e4m3, in layouts modelopt and compressed-tensors"},
    {"kv", 0, "FORMAT",
     "fp8-e4m3: the KV cache is in it, with scales by --calibration; in the same layouts"},
    {"dry-run", 'n', NULL, "show what would become of every tensor and write nothing"},
    {NULL, 0, NULL, NULL},
};

const verb verb_quantize = {
    .name = "quantize",
    .summary = "write a checkpoint in a few-bit format",
    .usage = "IN -f FORMAT[:ENCODER] -o OUT [options]",
    .details =
        "Quantizes the weights of IN (a .safetensors, .safetensors.zst or .gguf file, a model\n"
        "folder, or org/name in the local cache of the hub) into OUT. What others have quantized,\n"
        "in FP8 tiles for one, is decoded on the way in. Norms, biases, embeddings, output heads,\n"
        "routers, towers and what no table knows stay in their source type unless --tensor names\n"
        "them; --dry-run shows every decision. OUT appears only when it is whole. GLOB is a\n"
        "shell pattern over tensor names. In a layout other than kerf, layers that its loaders\n"
        "fuse share their tensor scale, and what the layout cannot store is kept. An OUT\n"
        "named .gguf has the keys of the .gguf that IN is, or once was.",
    .examples = "  kerf quantize model/ -f nvfp4:4/6 -o model-nvfp4/\n"
                "  kerf quantize model.safetensors -f mxfp4 --dry-run\n"
                "  kerf quantize model/ -f int4-g128:search --tensor '*down_proj*=int8' -o out/\n"
                "  kerf quantize model/ -f nvfp4 --layout modelopt --calibration cal/ "
                "--input-scales -o o/\n"
                "  kerf quantize model/ -f nvfp4 --layout modelopt --calibration cal/ "
                "--kv fp8-e4m3 -o o/\n"
                "  kerf quantize model-bf16.gguf -f nvfp4:4/6 -o model-nvfp4.gguf\n"
                "  kerf quantize model.gguf -f q4_k:imatrix --imatrix imatrix.gguf -o q4_k.gguf\n"
                "  kerf quantize model/ -f mxfp4 --shard-size 5GB -o out/ --resume\n"
                "  kerf quantize model/ -f mxfp4 -o out/ --part 3/8; kerf help merge\n",
    .options = options,
    .shared = {&option_layout, &option_keep, &option_only, &option_nan, &option_overwrite,
               &option_shard_size, &option_resume, &option_part, &option_zstd_level,
               &option_threads, &option_device, &option_json, &option_wide, &option_sha256,
               &option_progress},
    .reads = {"recipe", "imatrix", "calibration"},
    .writes = {"output"},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_quantize,
};
