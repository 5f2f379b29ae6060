/* cmd_eval.c - kerf eval: what a quantized model loses in the end, on tokens. */
#include <stdlib.h>

#include <kerf/eval.h>

#include "ci_reports.h"
#include "options.h"
#include "options_tokens.h"
#include "output.h"
#include "progress.h"
#include "terminal.h"

typedef struct eval_run {
    const args *args;
    tokens_option tokens;
    kerf_checkpoint **model; /* [operands] */
    kerf_evaluation *evaluation;
} eval_run;

static kerf_status report(const void *e, int kind, char **text, size_t *n, kerf_error *err)
{
    return kerf_evaluation_report(e, (kerf_eval_kind)kind, text, n, err);
}

static kerf_status print_result(const eval_run *j, kerf_error *err)
{
    char *text = NULL;
    TRY(ci_reports_write(j->args, report, j->evaluation, err));
    if (args_has(j->args, "json"))
        return put_document(kerf_evaluation_write(j->evaluation, &text, NULL, err), &text, err);
    return put_text(kerf_evaluation_text(j->evaluation, text_form(1), &text, NULL, err), &text,
                    err);
}

/* --- verb ---------------------------------------------------------------------------------- */

static kerf_status evaluate(eval_run *j, kerf_error *err)
{
    const args *a = j->args;
    kerf_eval_limits limits;
    progress bar = {0};
    TRY(ci_reports_check(a, err));
    if (args_has(a, "limits")) TRY(kerf_eval_limits_read(args_value(a, "limits"), &limits, err));
    TRY(allocate(&j->model, args_operands(a), sizeof(kerf_checkpoint *), err));
    for (size_t i = 0; i < args_operands(a); i++)
        TRY(kerf_checkpoint_open(model_path(args_operand(a, i)), &j->model[i], err));
    TRY(option_tokens_open(&j->tokens, a, j->model[0], 1, err));
    const kerf_eval_request request = {.source = j->model[0],
                                       .candidate = (const kerf_checkpoint *const *)j->model + 1,
                                       .candidates = args_operands(a) - 1,
                                       .tokens = j->tokens.tokens,
                                       .weights_only = args_has(a, "weights-only"),
                                       .limits = args_has(a, "limits") ? &limits : NULL};
    TRY(progress_open(&bar, a, err));
    kerf_status s = kerf_eval(&request, j->tokens.team.member, &bar.job, &j->evaluation, err);
    progress_close(&bar);
    return s == KERF_OK ? print_result(j, err) : s;
}

static int run_eval(const args *a, kerf_error *err)
{
    eval_run j = {.args = a};
    kerf_status s = evaluate(&j, err);
    const int passed = j.evaluation && j.evaluation->passed;
    kerf_evaluation_close(j.evaluation);
    for (size_t i = 0; j.model && i < args_operands(a); i++) kerf_checkpoint_close(j.model[i]);
    free(j.model);
    option_tokens_close(&j.tokens);
    if (s != KERF_OK) return s;
    return passed ? EXIT_OK : EXIT_MISMATCH;
}

static const option options[] = {
    {"limits", 0, "FILE",
     "JSON of what a candidate may lose: {\"schema\": \"kerf.eval-limits/1\", \"kl\": 0.05, "
     "\"kl_p99\": 0.6, \"flips\": 0.1, \"perplexity_rise\": 0.04}"},
    {"weights-only", 0, NULL,
     "leave inputs of layers and the KV cache as they are: by default they are rounded as the "
     "runtimes of a model do it, by its config.json and its scales"},
    {"junit", 0, "FILE.xml", "write the result as JUnit XML, a test per candidate"},
    {"markdown", 0, "FILE.md", "write the result as Markdown"},
    {NULL, 0, NULL, NULL},
};

const verb verb_eval = {
    .name = "eval",
    .summary = "perplexity and KL of quantized models on a text",
    .usage = "SOURCE [QUANTIZED...] --text FILE|--tokens FILE [options]",
    .details =
        "Runs all models over the same tokens, layer by layer, in float32 (--device cuda: GPU).\n"
        "  perplexity  e to the mean of -ln p(next token)\n"
        "  KL          mean of sum p ln(p / q) over next tokens, p of SOURCE, in nats; its\n"
        "              95 % interval is found by drawing rows anew\n"
        "  99th        percentile of KL over predictions\n"
        "  same top    predictions with the same most likely token\n"
        "--json also has the drift of the states behind each layer. Exit code 1 when a\n"
        "candidate is over a limit of --limits or predicts NaN, 3 when SOURCE does.",
    .examples = "  kerf eval model/ model-nvfp4/ --text wiki.txt\n"
                "  kerf eval model/ a/ b/ --tokens eval.u16 --length 256 --rows 128:256 --json\n"
                "  kerf eval model/ a/ --text wiki.txt --limits eval.json --junit e.xml\n"
                "  kerf eval gemma/ --text wiki.txt --bos    # its perplexity\n",
    .options = options,
    .shared = {&option_summary, &option_annotations, &option_text, &option_tokens, &option_length,
               &option_bos, &option_rows, &option_overwrite, &option_threads, &option_device,
               &option_json, &option_wide, &option_progress},
    .reads = {"text", "tokens", "limits"},
    .writes = {"junit", "markdown"},
    .operands_min = 1,
    .operands_max = 16,
    .run = run_eval,
};
