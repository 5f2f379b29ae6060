/* cmd_verify.c - kerf verify: the gate for CI. Every weight of the source must be there, and must
 * have lost no more than its limits allow, counted on the bytes in the file. */
#include <kerf/verify.h>

#include "ci_reports.h"
#include "options.h"
#include "output.h"
#include "progress.h"
#include "terminal.h"

static kerf_status report(const void *v, int kind, char **text, size_t *n, kerf_error *err)
{
    return kerf_verification_report(v, (kerf_verify_kind)kind, text, n, err);
}

static kerf_status print_report(const kerf_verification *v, const args *a, kerf_error *err)
{
    const char *path = args_value(a, "write-limits");
    char *document = NULL;
    if (path)
        TRY(put_file(kerf_verification_limits(v, &document, NULL, err), path, &document,
                     args_has(a, "overwrite"), err));
    TRY(ci_reports_write(a, report, v, err));
    if (args_has(a, "json"))
        return put_document(kerf_verification_write(v, &document, NULL, err), &document, err);
    return put_text(
        kerf_verification_text(v, args_has(a, "all"), text_form(1), &document, NULL, err),
        &document, err);
}

/* --- verb ---------------------------------------------------------------------------------- */

typedef struct verify_run {
    team_option team;
    kerf_limits *limits;
    kerf_checkpoint *source, *other;
    kerf_calibration *calibration;
    kerf_verification *verification;
    progress progress;
} verify_run;

static kerf_status verify(verify_run *j, const args *a, kerf_error *err)
{
    const char *limits = args_value(a, "limits"), *cal = args_value(a, "calibration");
    static const char *const json[] = {".json", NULL};
    TRY(ci_reports_check(a, err));
    TRY(args_suffix(a, "write-limits", json, 0, err));
    TRY(option_team_open(&j->team, a, err));
    if (limits) TRY(kerf_limits_open(limits, &j->limits, err));
    TRY(kerf_checkpoint_open(model_path(args_operand(a, 0)), &j->source, err));
    TRY(kerf_checkpoint_open(model_path(args_operand(a, 1)), &j->other, err));
    kerf_moments moments = {0};
    if (cal && !args_has(a, "exact")) return USAGE(err, "verify: --calibration is for --exact");
    if (cal) TRY(kerf_calibration_open(cal, &j->calibration, err));
    if (cal) TRY(kerf_calibration_moments(j->calibration, &moments, err));
    const kerf_verify_options options = {j->limits, args_has(a, "by-value"), args_has(a, "exact"),
                                         cal ? &moments : NULL};
    TRY(progress_open(&j->progress, a, err));
    kerf_status s = kerf_verify(j->source, j->other, &options, &j->team.team, &j->progress.job,
                                &j->verification, err);
    progress_close(&j->progress);
    return s == KERF_OK ? print_report(j->verification, a, err) : s;
}

static int run_verify(const args *a, kerf_error *err)
{
    verify_run j = {.source = NULL};
    kerf_status s = verify(&j, a, err);
    int passed = j.verification && j.verification->passed;
    kerf_verification_close(j.verification);
    kerf_checkpoint_close(j.other);
    kerf_checkpoint_close(j.source);
    kerf_calibration_close(j.calibration);
    kerf_limits_close(j.limits);
    option_team_close(&j.team);
    if (s != KERF_OK) return s;
    return passed ? EXIT_OK : EXIT_MISMATCH;
}

static const option options[] = {
    {"limits", 0, "FILE",
     "JSON of what each tensor may lose (schema kerf.limits/1); without it t2 may be 16 times "
     "that of normal numbers in each format, and 0.5 without outliers"},
    {"write-limits", 0, "FILE", "write such a file from what was measured, with 2 % of margin"},
    {"junit", 0, "FILE.xml", "write the result as JUnit XML, a test per tensor"},
    {"markdown", 0, "FILE.md", "write the result as Markdown: what is over, and the worst ten"},
    {"by-value", 0, NULL,
     "measure dense tensors too, for a dequantized checkpoint; else they must "
     "be equal byte for byte"},
    {"exact", 0, NULL,
     "encode every quantized tensor again, by the encoder that QUANTIZED names, and compare bytes"},
    {"calibration", 0, "CAL", "for --exact, where tensors were rounded with error feedback by it"},
    {"all", 0, NULL, "list every tensor instead of the worst ten; --json always does"},
    {NULL, 0, NULL, NULL},
};

const verb verb_verify = {
    .name = "verify",
    .summary = "compare a quantized checkpoint with its source",
    .usage = "SOURCE QUANTIZED [--limits FILE] [options]",
    .details =
        "Decodes every weight of QUANTIZED and compares it with SOURCE. Exit code 1 when\n"
        "a tensor is missing, extra, of another shape, not finite or over a limit, or\n"
        "when one that was kept differs by a byte. A limits file, whose patterns must match:\n"
        "  {\"schema\": \"kerf.limits/1\", \"default\": {\"t2\": 0.02},\n"
        "   \"tensors\": {\"*down_proj*\": {\"t2\": 0.03, \"max_error\": 0.1}}}\n"
        "Figures: t2, max_error, bias (magnitude), clip_share, bpw, rest_t2 (without outliers),\n"
        "zero_share (of that, became zero), lost_share (blocks of 128 that lost over half).",
    .examples = "  kerf verify model/ model-nvfp4/\n"
                "  kerf verify model/ model-nvfp4/ --write-limits limits.json\n"
                "  kerf verify model/ model-nvfp4/ --limits limits.json --json\n"
                "  kerf verify model/ model-nvfp4/ --junit kerf.xml --markdown kerf.md\n"
                "  kerf verify model-nvfp4/ restored/    # is it the exact decoding?\n",
    .options = options,
    .shared = {&option_nan, &option_summary, &option_annotations, &option_overwrite,
               &option_threads, &option_device, &option_json, &option_wide, &option_progress},
    .reads = {"limits", "calibration"},
    .writes = {"write-limits", "junit", "markdown"},
    .operands_min = 2,
    .operands_max = 2,
    .run = run_verify,
};
