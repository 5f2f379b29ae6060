/* cmd_convert.c - kerf convert: the same codes and scales in another layout, and what was lost. */
#include <kerf/quantize.h>

#include "options.h"
#include "output.h"
#include "progress.h"
#include "terminal.h"

typedef struct convert_run {
    const args *args;
    kerf_output to;
    kerf_checkpoint *source;
    kerf_result result;
    kerf_losses losses;
} convert_run;

/* --- report -------------------------------------------------------------------------------- */

static kerf_status report(const convert_run *j, kerf_error *err)
{
    char *text = NULL;
    if (progress_allows_text(j->args))
        TRY(put_note(
            kerf_converted_text(j->source, &j->to, &j->result, &j->losses, NULL, &text, NULL, err),
            &text));
    if (!args_has(j->args, "json")) return KERF_OK;
    return put_document(
        kerf_converted_write(j->source, &j->to, &j->result, &j->losses, &text, NULL, err), &text,
        err);
}

/* --- verb ---------------------------------------------------------------------------------- */

static kerf_status convert(convert_run *j, kerf_error *err)
{
    progress bar = {0};
    TRY(option_output(j->args, &j->to, err));
    if (!j->to.path) return USAGE(err, "convert: -o OUT is missing");
    if (!j->to.layout && !kerf_glob_matches("*.gguf", j->to.path))
        return USAGE(err, "convert: --layout NAME is missing; kerf formats lists them");
    TRY(option_source_open(j->args, &j->source, err));
    TRY(progress_open(&bar, j->args, err));
    kerf_status s = kerf_convert(j->source, &j->to, &bar.job, &j->result, &j->losses, err);
    if (s == KERF_OK) note_output(&j->to);
    if (s == KERF_OK) s = args_checksums(j->args, err);
    progress_close(&bar);
    return s == KERF_OK ? report(j, err) : s;
}

static int run_convert(const args *a, kerf_error *err)
{
    convert_run j = {.args = a};
    kerf_status s = convert(&j, err);
    kerf_checkpoint_close(j.source);
    return s;
}

static const option options[] = {
    {"output", 'o', "OUT", "NAME.safetensors, NAME.safetensors.zst, NAME.gguf, or a folder"},
    {NULL, 0, NULL, NULL},
};

const verb verb_convert = {
    .name = "convert",
    .summary = "move quantized weights to another layout, code for code",
    .usage = "IN --layout NAME -o OUT [options]",
    .details =
        "Writes the codes and scales of every quantized weight of IN under the names and in\n"
        "the arrangement of another layout, and copies all other tensors. Nothing is\n"
        "quantized again, so nothing changes but what is said at the end: a scale that the\n"
        "new layout stores as its reciprocal may not turn back to the last bit. What cannot\n"
        "move at all is refused with the reason: GPTQ's columns that were sorted (act-order),\n"
        "zero points where the other layout has none. Out of GGUF, blocks become planes where\n"
        "kerf has them (nvfp4, mxfp4, int4-g32-f16), in one file or a folder of layout kerf;\n"
        "its keys go along, so that --layout gguf can write the file again.",
    .examples = "  kerf convert model-modelopt/ --layout compressed-tensors -o model-ct/\n"
                "  kerf convert model/ -o model-bf16.gguf\n"
                "  kerf convert model-nvfp4.gguf --layout kerf -o model.safetensors\n",
    .options = options,
    .shared = {&option_layout, &option_overwrite, &option_shard_size, &option_resume, &option_part,
               &option_zstd_level, &option_threads, &option_json, &option_sha256, &option_progress},
    .writes = {"output"},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_convert,
};
