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

static kerf_status print_models(const eval_run *j, kerf_error *err)
{
    const kerf_evaluation *e = j->evaluation;
    table *t = NULL;
    TRY(table_open(&t, "~model|>bits|>perplexity|>KL|+>95 %|>99th|>same top", err));
    for (size_t i = 0; i < e->models; i++) {
        const kerf_eval_model *m = &e->model[i];
        table_cell(t, "%s", shown(m->path));
        table_cell(t, "%.3f", m->bits);
        table_cell(t, "%.4f", m->perplexity);
        table_cell(t, "%.5f", m->figure[KERF_EVAL_KL]);
        table_cell(t, "%.5f to %.5f", m->kl_low, m->kl_high);
        table_cell(t, "%.4f", m->figure[KERF_EVAL_KL_P99]);
        table_cell(t, "%.2f %%", 100 * (1 - m->figure[KERF_EVAL_FLIPS]));
    }
    TRY(table_end(t, KERF_OK, err));
    for (size_t i = 1; i < e->models; i++)
        for (unsigned f = 0; f < KERF_EVAL_FIGURES; f++)
            if (e->model[i].over >> f & 1u)
                printf("%s: %s %.4g is over its limit %.4g\n", shown(e->model[i].path),
                       kerf_eval_figure_name((kerf_eval_figure)f), e->model[i].figure[f],
                       e->limits.most[f]);
    printf("%llu predictions in %llu rows, %.1f s\n", (unsigned long long)e->predictions,
           (unsigned long long)e->rows, e->seconds);
    return KERF_OK;
}

static kerf_status report(const void *e, int kind, char **text, size_t *n, kerf_error *err)
{
    return kerf_evaluation_report(e, (kerf_eval_kind)kind, text, n, err);
}

static kerf_status print_result(const eval_run *j, kerf_error *err)
{
    char *text = NULL;
    TRY(ci_reports_write(j->args, report, j->evaluation, err));
    if (!args_has(j->args, "json")) return print_models(j, err);
    return put_document(kerf_evaluation_write(j->evaluation, &text, NULL, err), &text, err);
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
        "candidate is over a limit of --limits.",
    .examples = "  kerf eval model/ model-nvfp4/ --text wiki.txt\n"
                "  kerf eval model/ a/ b/ --tokens eval.u16 --length 256 --rows 128:256 --json\n"
                "  kerf eval model/ model-nvfp4/ --text wiki.txt --limits eval.json --junit e.xml\n"
                "  kerf eval model/ model-nvfp4/ --text wiki.txt --limits eval.json --summary "
                "--annotations\n"
                "  kerf eval model/ --text wiki.txt    # its perplexity\n",
    .options = options,
    .shared = {&option_summary, &option_annotations, &option_text, &option_tokens, &option_length,
               &option_rows, &option_overwrite, &option_threads, &option_device, &option_json,
               &option_wide, &option_progress},
    .reads = {"text", "tokens", "limits"},
    .writes = {"junit", "markdown"},
    .operands_min = 1,
    .operands_max = 16,
    .run = run_eval,
};
