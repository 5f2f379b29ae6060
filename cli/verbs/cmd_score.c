/* cmd_score.c - kerf score: what each format would cost these weights. */
#include <stdlib.h>
#include <string.h>

#include <kerf/calibrate.h>
#include <kerf/score.h>

#include "options.h"
#include "output.h"
#include "progress.h"
#include "terminal.h"

kerf_status print_scores(const kerf_scores *s, const args *a, kerf_error *err)
{
    char name[64], text[sizeof s->left_out->reason], *document = NULL;
    for (size_t i = s->left_outs; i-- > 0;) {
        const kerf_left_out *out = &s->left_out[i];
        print_note("left out: %s: %s", kerf_codec_name(out->codec, name, sizeof name),
                   kerf_text_printable(out->reason, text, sizeof text));
    }
    if (args_has(a, "json"))
        return put_document(kerf_scores_write(s, &document, NULL, err), &document, err);
    return put_text(
        kerf_scores_text(s, args_has(a, "per-tensor"), text_form(1), &document, NULL, err),
        &document, err);
}

/* --- verb ---------------------------------------------------------------------------------- */

/* Every format, and every encoder of those that have several to recommend. */
static const char usual_formats[] = "*,nvfp4:*,mx*:*";

typedef struct score_run {
    team_option team;
    select_option select;
    kerf_codec_list codecs;
    kerf_checkpoint *source, *imatrix;
    kerf_calibration *calibration;
    kerf_scores *scores;
    kerf_output to; /* where they are kept; path NULL: nowhere */
    progress progress;
} score_run;

/* Scores that were kept before are only shown: everything else was said when they were made. */
static kerf_status show_kept(score_run *j, const args *a, kerf_error *err)
{
    static const char *const shown_by[] = {"json",    "per-tensor", "wide",   "progress",
                                           "threads", "quiet",      "verbose"};
    const option *o;
    for (size_t i = 0; (o = verb_option(args_verb(a), i)) != NULL; i++) {
        int may = !args_has(a, o->name);
        for (size_t k = 0; k < sizeof shown_by / sizeof *shown_by; k++)
            may |= strcmp(o->name, shown_by[k]) == 0;
        if (!may)
            return USAGE(err, "--%s: %s holds scores that were measured before: name their source",
                         o->name, shown(args_operand(a, 0)));
    }
    TRY(kerf_scores_open(args_operand(a, 0), &j->scores, err));
    return print_scores(j->scores, a, err);
}

static kerf_status report(const score_run *j, const args *a, kerf_error *err)
{
    const kerf_scores *s = j->scores;
    const kerf_output *to = &j->to;
    if (!to->parts) return print_scores(s, a, err);
    return report_part(a,
                       &(kerf_finished_part){"kerf.score/1", to->path, to->part, to->parts,
                                             s->measured, s->tensors},
                       err);
}

static kerf_status read_output(kerf_output *to, const args *a, kerf_error *err)
{
    *to = (kerf_output){.path = args_value(a, "output"),
                        .overwrite = args_has(a, "overwrite"),
                        .resume = args_has(a, "resume")};
    TRY(option_part_of(a, &to->part, &to->parts, err));
    if (!to->path && (to->parts || to->resume))
        return USAGE(err, "--%s: -o SCORES is missing, the folder in which scores are kept",
                     to->parts ? "part" : "resume");
    return KERF_OK;
}

static kerf_status score(score_run *j, const args *a, kerf_error *err)
{
    const char *formats = args_value(a, "format"), *imatrix = args_value(a, "imatrix"),
               *cal = args_value(a, "calibration");
    int zstd_level = 3, is_kept;
    TRY(kerf_scores_find(args_operand(a, 0), &is_kept, err));
    if (is_kept) return show_kept(j, a, err);
    TRY(read_output(&j->to, a, err));
    TRY(option_team_open(&j->team, a, err));
    TRY(args_integer(a, "zstd-level", 0, 22, &zstd_level, err));
    TRY(option_codecs(formats ? formats : usual_formats, &j->codecs, err));
    TRY(option_select_open(&j->select, a, err));
    TRY(option_source_open(a, &j->source, err));
    if (imatrix) TRY(kerf_checkpoint_open(imatrix, &j->imatrix, err));
    if (cal) {
        TRY(kerf_calibration_open(cal, &j->calibration, err));
        TRY(kerf_calibration_check(j->calibration, j->source, err));
    }
    if (args_has(a, "again") && !args_has(a, "feedback"))
        return USAGE(err, "score: --again is for --feedback");
    const kerf_score_request request = {
        .select = &j->select.select,
        .codec = j->codecs.codec,
        .codecs = j->codecs.count,
        .required = j->codecs.named,
        .imatrix = cal && !imatrix ? kerf_calibration_imatrix(j->calibration) : j->imatrix,
        .calibration = j->calibration,
        .feedback = args_has(a, "feedback") ? 1 + args_has(a, "again") : 0,
        .zstd_level = zstd_level,
        .ranks = company.ranks,
        .path = j->to.path,
        .overwrite = j->to.overwrite,
        .resume = j->to.resume,
        .part = j->to.part,
        .parts = j->to.parts};
    TRY(progress_open(&j->progress, a, err));
    kerf_status s = kerf_score_checkpoint(j->source, &request, &j->team.team, &j->progress.job,
                                          &j->scores, err);
    if (s == KERF_OK && j->to.path) note_output(&j->to);
    progress_close(&j->progress);
    return s == KERF_OK ? report(j, a, err) : s;
}

static int run_score(const args *a, kerf_error *err)
{
    score_run j = {.source = NULL};
    kerf_status s = score(&j, a, err);
    kerf_scores_close(j.scores);
    kerf_calibration_close(j.calibration);
    kerf_checkpoint_close(j.imatrix);
    kerf_checkpoint_close(j.source);
    kerf_codec_list_free(&j.codecs);
    option_select_close(&j.select);
    option_team_close(&j.team);
    return s;
}

static const option options[] = {
    {"format", 'f', "LIST",
     "formats, comma-separated: nvfp4, nvfp4:4/6, patterns such as 'int4*' or "
     "'nvfp4:*', or all (every encoder); default: every format, and every "
     "encoder of nvfp4 and the mx formats"},
    {"output", 'o', "SCORES", "also keep the scores in this folder; kerf score SCORES shows them"},
    {"imatrix", 0, "FILE",
     "importance of columns: a file of llama.cpp, .gguf or .dat, or safetensors with F32 [columns] "
     "per weight"},
    {"calibration", 0, "CAL", "the same from what kerf calibrate found for these weights"},
    {"feedback", 0, NULL, "encode with error feedback by that: kerf quantize --feedback"},
    {"again", 0, NULL, "with --feedback: and columns are gone over again: kerf quantize --again"},
    {"per-tensor", 0, NULL, "list every tensor; --json always does"},
    {"all-tensors", 0, NULL, "also those that quantize keeps by default"},
    {"zstd-level", 0, "N", "level at which codes are compressed, 0: not at all (default: 3)"},
    {NULL, 0, NULL, NULL},
};

const verb verb_score = {
    .name = "score",
    .summary = "error and size of these weights in each format",
    .usage = "IN [-f LIST] [--imatrix FILE] [options]",
    .details = "Encodes the weights of IN in each format and measures the error of the bytes\n"
               "that quantize would write. Columns:\n"
               "  bpw        bits per weight: codes and all scales, as verify and inspect have it\n"
               "  t2         ||W' - W||^2 / ||W||^2; weighted: each column by its importance\n"
               "  SQNR dB    -10 log10 t2\n"
               "  bias       sum (W' - W) W / sum W^2: below zero, the format shrinks the weights\n"
               "  clipped    share of elements outside the range of their scale\n"
               "  max error  largest |W' - W|\n"
               "  zstd       size of the codes compressed, of their size as they are",
    .examples = "  kerf score model.safetensors\n"
                "  kerf score model/ -f nvfp4 -o scores/ --part 3/8; kerf help merge\n"
                "  kerf score model/ -f 'nvfp4:*,mxfp4:*' --imatrix imatrix.safetensors\n"
                "  kerf score model/ -f int4-g128,nf4 --only '*down_proj*' --per-tensor\n",
    .options = options,
    .shared = {&option_keep, &option_only, &option_nan, &option_threads, &option_device,
               &option_overwrite, &option_resume, &option_part, &option_json, &option_wide,
               &option_progress},
    .writes = {"output"},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_score,
};
