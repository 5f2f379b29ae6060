/* cmd_dequantize.c - kerf dequantize: a quantized checkpoint back into dense tensors. */
#include <kerf/quantize.h>

#include "options.h"
#include "output.h"
#include "progress.h"
#include "terminal.h"

typedef struct dequantize_run {
    const args *args;
    kerf_output to;
    team_option team;
    kerf_checkpoint *source;
    kerf_result result;
} dequantize_run;

static kerf_status report(const dequantize_run *j, kerf_error *err)
{
    char *text = NULL;
    if (progress_allows_text(j->args))
        TRY(put_note(kerf_dequantized_text(j->source, &j->to, &j->result, NULL, &text, NULL, err),
                     &text));
    if (!args_has(j->args, "json")) return KERF_OK;
    return put_document(kerf_dequantized_write(j->source, &j->to, &j->result, &text, NULL, err),
                        &text, err);
}

static kerf_status dequantize(dequantize_run *j, kerf_error *err)
{
    static const char *const types[] = {"source", "bf16", "fp16", "fp32", NULL};
    static const kerf_dtype type_of[] = {KERF_DTYPE_NONE, KERF_BF16, KERF_F16, KERF_F32};
    int type = 0;
    progress bar = {0};
    TRY(option_output(j->args, &j->to, err));
    if (!j->to.path) return USAGE(err, "dequantize: -o OUT is missing");
    TRY(args_choice(j->args, "dtype", types, &type, err));
    TRY(option_team_open(&j->team, j->args, err));
    TRY(option_source_open(j->args, &j->source, err));
    TRY(progress_open(&bar, j->args, err));
    kerf_status s =
        kerf_dequantize(j->source, type_of[type], &j->to, &j->team.team, &bar.job, &j->result, err);
    if (s == KERF_OK) note_output(&j->to);
    if (s == KERF_OK) s = args_checksums(j->args, err);
    progress_close(&bar);
    return s == KERF_OK ? report(j, err) : s;
}

static int run_dequantize(const args *a, kerf_error *err)
{
    dequantize_run j = {.args = a};
    kerf_status s = dequantize(&j, err);
    option_team_close(&j.team);
    kerf_checkpoint_close(j.source);
    return s;
}

static const option options[] = {
    {"output", 'o', "OUT", "NAME.safetensors, NAME.safetensors.zst, NAME.gguf, or a folder"},
    {"dtype", 0, "source|bf16|fp16|fp32",
     "type of decoded tensors (default: source, the type that "
     "each had before it was quantized; .gguf files do not tell it: fp32)"},
    {NULL, 0, NULL, NULL},
};

const verb verb_dequantize = {
    .name = "dequantize",
    .summary = "turn a quantized checkpoint back into dense tensors",
    .usage = "IN -o OUT [--dtype source|bf16|fp16|fp32] [options]",
    .details = "Decodes every quantized weight of IN into one dense tensor under its own name\n"
               "and copies the others, so that any program that reads safetensors, or GGUF, can\n"
               "use the result.",
    .examples = "  kerf dequantize model-nvfp4/ -o model-restored/\n"
                "  kerf dequantize model-nf4.safetensors --dtype fp32 -o restored.safetensors\n",
    .options = options,
    .shared = {&option_overwrite, &option_shard_size, &option_resume, &option_part,
               &option_zstd_level, &option_threads, &option_device, &option_json, &option_sha256,
               &option_progress},
    .writes = {"output"},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_dequantize,
};
