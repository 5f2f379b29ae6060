/* cmd_calibrate.c - kerf calibrate: what a model's inputs are like, and how much its weights
 * matter. */
#include <kerf/calibrate.h>

#include "options.h"
#include "options_tokens.h"
#include "output.h"
#include "progress.h"
#include "terminal.h"

typedef struct calibrate_run {
    const args *args;
    tokens_option tokens;
    kerf_checkpoint *source;
    kerf_calibration *result;
    progress progress;
} calibrate_run;

static void tell_plan(void *ctx, const kerf_calibrate_plan *p)
{
    calibrate_run *j = ctx;
    char memory[KERF_BYTES_TEXT], file[KERF_BYTES_TEXT];
    if (!progress_allows_text(j->args)) return;
    progress_pause(&j->progress);
    print_note("%llu tokens, %llu layers, %llu weights, %llu groups for alpha: about %.0f s, %s of "
               "memory, %s of output",
               (unsigned long long)p->tokens, (unsigned long long)p->layers,
               (unsigned long long)p->weights, (unsigned long long)p->groups, p->seconds,
               kerf_bytes_text(p->memory_bytes, memory), kerf_bytes_text(p->file_bytes, file));
}

static kerf_status report(calibrate_run *j, const char *path, kerf_error *err)
{
    const char *gguf = IS_FIRST ? args_value(j->args, "imatrix-gguf") : NULL;
    char *text = NULL;
    TRY(kerf_calibration_open(path, &j->result, err));
    if (gguf) {
        TRY(kerf_imatrix_write(kerf_calibration_imatrix(j->result), j->source,
                               j->tokens.tokens.rows, j->tokens.tokens.length, gguf,
                               args_has(j->args, "overwrite"), err));
        note_written(gguf);
    }
    const kerf_calibration_kind kind =
        args_has(j->args, "json") ? KERF_CALIBRATION_JSON : KERF_CALIBRATION_TEXT;
    return put_document(kerf_calibration_write(j->result, j->source, kind, &text, NULL, err), &text,
                        err);
}

static kerf_status calibrate(calibrate_run *j, kerf_error *err)
{
    static const char *const by[] = {"kl", "loss", "none", NULL}, *const ends[] = {".gguf", NULL};
    const args *a = j->args;
    kerf_output to = {.path = args_value(a, "output")};
    int alpha = 0, draws = 4;
    if (!to.path) return USAGE(err, "calibrate: -o CAL is missing");
    TRY(option_part_of(a, &to.part, &to.parts, err));
    if (to.parts && args_has(a, "imatrix-gguf"))
        return USAGE(err, "--imatrix-gguf is of the whole calibration: leave it out, or --part");
    TRY(args_suffix(a, "imatrix-gguf", ends, 0, err));
    TRY(args_choice(a, "alpha-by", by, &alpha, err));
    TRY(args_integer(a, "alpha", 2, 64, &draws, err));
    if (alpha == KERF_ALPHA_BY_NONE && args_has(a, "alpha"))
        return USAGE(err, "--alpha %d and --alpha-by none: not both", draws);
    TRY(kerf_checkpoint_open(model_path(args_operand(a, 0)), &j->source, err));
    TRY(option_tokens_open(&j->tokens, a, j->source, company.ranks ? 1 : SIZE_MAX, err));
    const kerf_calibrate_request request = {.tokens = j->tokens.tokens,
                                            .gram = args_has(a, "gram"),
                                            .alpha = (kerf_alpha_by)alpha,
                                            .draws = (unsigned)draws,
                                            .path = to.path,
                                            .overwrite = args_has(a, "overwrite"),
                                            .resume = args_has(a, "resume"),
                                            .ranks = company.ranks,
                                            .team = &j->tokens.team.team,
                                            .part = to.part,
                                            .parts = to.parts,
                                            .planned = tell_plan,
                                            .ctx = j};
    TRY(progress_open(&j->progress, a, err));
    kerf_status s = kerf_calibrate(j->source, &request, NULL, &j->progress.job, err);
    if (s == KERF_OK) note_output(&to);
    progress_close(&j->progress);
    TRY(s);
    if (!to.parts) return report(j, to.path, err);
    /* what is said of the weights is of the whole calibration */
    const kerf_finished_part part = {
        .schema = "kerf.calibrate/1", .path = to.path, .part = to.part, .parts = to.parts};
    return report_part(a, &part, err);
}

static int run_calibrate(const args *a, kerf_error *err)
{
    calibrate_run j = {.args = a};
    kerf_status s = calibrate(&j, err);
    kerf_calibration_close(j.result);
    kerf_checkpoint_close(j.source);
    option_tokens_close(&j.tokens);
    return s;
}

static const option options[] = {
    {"output", 'o', "CAL", "the folder to write, for --calibration and --imatrix"},
    {"gram", 0, NULL, "also the Gram matrix of each input: columns x columns"},
    {"alpha-by", 0, "kl|loss|none",
     "what the noise in a group of weights is judged by (default: kl, the divergence of next "
     "tokens)"},
    {"alpha", 0, "DRAWS", "of noise per group, 2 to 64 (default: 4)"},
    {"imatrix-gguf", 0, "FILE.gguf", "write the mean squares for llama.cpp as well"},
    {NULL, 0, NULL, NULL},
};

const verb verb_calibrate = {
    .name = "calibrate",
    .summary = "run a text through a model: which inputs and weights matter",
    .usage = "IN --text FILE|--tokens FILE -o CAL [options]",
    .details =
        "Runs the tokens through IN, layer by layer, in float32 (--device cuda:all: GPUs). Kept\n"
        "are of every weight's input the mean square of each column, the largest value and the\n"
        "tokens of each expert; of each layer's cache the largest key and value.\n"
        "alpha: noise of t2 = 0.02 is added to one group of weights at a time (what runtimes\n"
        "fuse, all experts of a layer), and the rise of the end is divided by t2: what an\n"
        "error there costs, with its standard error. CAL is a folder of safetensors.",
    .examples =
        "  kerf calibrate model/ --text wiki.txt -o cal/\n"
        "  kerf advise model/ --calibration cal/ --budget 4.5bits -o recipe.json\n"
        "  kerf calibrate model/ --tokens eval.u16 --rows 0:128 --gram -o cal/ --device cuda:all\n"
        "  kerf calibrate model/ --text t.txt --alpha-by none --imatrix-gguf i.gguf -o c/\n"
        "  kerf calibrate model/ --text wiki.txt --gram -o cal/ --part 3/8; kerf help merge\n",
    .options = options,
    .shared = {&option_text, &option_tokens, &option_length, &option_bos, &option_rows,
               &option_overwrite, &option_resume, &option_part, &option_threads, &option_device,
               &option_json, &option_wide, &option_progress},
    .reads = {"text", "tokens"},
    .writes = {"output", "imatrix-gguf"},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_calibrate,
};
