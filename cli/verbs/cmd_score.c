/* cmd_score.c - kerf score: what each format would cost these weights. */
#include <stdlib.h>

#include <kerf/calibrate.h>
#include <kerf/score.h>

#include "options.h"
#include "output.h"
#include "progress.h"
#include "terminal.h"
#include "options_codecs.h"
#include "verbs/figures.h"

enum { FEW_ROWS = 8 }; /* up to so many are listed one by one without --per-tensor */

/* --- report -------------------------------------------------------------------------------- */

static unsigned columns_shown(const kerf_scores *s)
{
    return (s->imatrix ? SHOW_WEIGHTED : 0u) | (s->zstd_level ? SHOW_ZSTD : 0u);
}

static kerf_status print_tensors(const kerf_scores *s, kerf_error *err)
{
    table *t = NULL;
    char headings[160], name[64];
    snprintf(headings, sizeof headings, "~tensor|~format%s", figures_headings(columns_shown(s)));
    TRY(table_open(&t, headings, err));
    for (size_t i = 0; i < s->tensors * s->codecs; i++) {
        table_cell(t, "%s", s->weight[i / s->codecs]->name);
        table_cell(t, "%s", kerf_codec_name(s->codec[i % s->codecs], name, sizeof name));
        figures_cells(t, &s->score[i], columns_shown(s));
    }
    kerf_status status = table_print(t, stdout, err);
    table_close(t);
    return status;
}

static kerf_status print_totals(const kerf_scores *s, kerf_error *err)
{
    table *t = NULL;
    char headings[160], name[64];
    snprintf(headings, sizeof headings, "~format%s", figures_headings(columns_shown(s)));
    TRY(table_open(&t, headings, err));
    for (size_t c = 0; c < s->codecs; c++) {
        table_cell(t, "%s", kerf_codec_name(s->codec[c], name, sizeof name));
        figures_cells(t, &s->total[c], columns_shown(s));
    }
    kerf_status status = table_print(t, stdout, err);
    table_close(t);
    return status;
}

static kerf_status print_report(const kerf_scores *s, const args *a, kerf_error *err)
{
    char name[64], text[sizeof s->left_out->reason], *document = NULL;
    for (size_t i = s->left_outs; i-- > 0;) {
        const kerf_left_out *out = &s->left_out[i];
        print_note("left out: %s: %s", kerf_codec_name(out->codec, name, sizeof name),
                   kerf_text_printable(out->reason, text, sizeof text));
    }
    if (args_has(a, "json")) {
        size_t n;
        TRY(kerf_scores_write(s, &document, &n, err));
        return put_document(document, err);
    }
    if (args_has(a, "per-tensor") || s->tensors * s->codecs <= FEW_ROWS) {
        TRY(print_tensors(s, err));
        printf("\n");
    }
    for (size_t i = 0; i < s->tensors * s->codecs; i++) {
        char label[400];
        snprintf(label, sizeof label, "%.300s in %s", s->weight[i / s->codecs]->name,
                 kerf_codec_name(s->codec[i % s->codecs], name, sizeof name));
        print_ruined(label, &s->score[i]);
    }
    printf("%zu of %zu tensors of %s\n", s->tensors, s->considered, shown(s->source));
    return print_totals(s, err);
}

/* --- verb ---------------------------------------------------------------------------------- */

typedef struct score_run {
    team_option team;
    select_option select;
    codec_list codecs;
    kerf_checkpoint *source, *imatrix;
    kerf_calibration *calibration;
    kerf_scores *scores;
    progress progress;
} score_run;

static kerf_status score(score_run *j, const args *a, kerf_error *err)
{
    const char *imatrix = args_value(a, "imatrix"), *cal = args_value(a, "calibration");
    int zstd_level = 3;
    TRY(option_team_open(&j->team, a, err));
    TRY(args_integer(a, "zstd-level", 0, 22, &zstd_level, err));
    TRY(codec_list_parse(&j->codecs, args_value(a, "format"), err));
    TRY(option_select_open(&j->select, a, err));
    TRY(kerf_checkpoint_open(model_path(args_operand(a, 0)), &j->source, err));
    TRY(note_ruined(j->source, err));
    if (imatrix) TRY(kerf_checkpoint_open(imatrix, &j->imatrix, err));
    if (cal) {
        TRY(kerf_calibration_open(cal, &j->calibration, err));
        TRY(kerf_calibration_check(j->calibration, j->source, err));
    }
    const kerf_score_request request = {
        .select = &j->select.select,
        .codec = j->codecs.item,
        .codecs = j->codecs.count,
        .required = j->codecs.named,
        .imatrix = cal && !imatrix ? kerf_calibration_imatrix(j->calibration) : j->imatrix,
        .calibration = j->calibration,
        .feedback = args_has(a, "feedback"),
        .zstd_level = zstd_level,
        .ranks = company.ranks};
    TRY(progress_open(&j->progress, a, err));
    kerf_status s = kerf_score_checkpoint(j->source, &request, &j->team.team, &j->progress.job,
                                          &j->scores, err);
    progress_close(&j->progress);
    return s == KERF_OK ? print_report(j->scores, a, err) : s;
}

static int run_score(const args *a, kerf_error *err)
{
    score_run j = {.source = NULL};
    kerf_status s = score(&j, a, err);
    kerf_scores_close(j.scores);
    kerf_calibration_close(j.calibration);
    kerf_checkpoint_close(j.imatrix);
    kerf_checkpoint_close(j.source);
    codec_list_free(&j.codecs);
    option_select_close(&j.select);
    option_team_close(&j.team);
    return s;
}

static const option options[] = {
    {"format", 'f', "LIST",
     "formats, comma-separated: nvfp4, nvfp4:4/6, patterns such as 'int4*' or "
     "'nvfp4:*', or all (every encoder); default: every format, and every "
     "encoder of nvfp4 and the mx formats"},
    {"imatrix", 0, "FILE",
     "importance of columns: a file of llama.cpp, .gguf or .dat, or safetensors with F32 [columns] "
     "per weight"},
    {"calibration", 0, "CAL", "the same from what kerf calibrate found for these weights"},
    {"feedback", 0, NULL, "encode with error feedback by that: kerf quantize --feedback"},
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
               "that quantize would write. Writes nothing. Columns:\n"
               "  bpw        bits per weight, all scales counted\n"
               "  t2         ||W' - W||^2 / ||W||^2; weighted: each column by its importance\n"
               "  SQNR dB    -10 log10 t2\n"
               "  bias       sum (W' - W) W / sum W^2: below zero, the format shrinks the weights\n"
               "  clipped    share of elements outside the range of their scale\n"
               "  max error  largest |W' - W|\n"
               "  zstd       size of the codes compressed, of their size as they are",
    .examples = "  kerf score model.safetensors\n"
                "  kerf score model/ -f 'nvfp4:*,mxfp4:*' --imatrix imatrix.safetensors\n"
                "  kerf score model/ -f int4-g128,nf4 --only '*down_proj*' --per-tensor\n",
    .options = options,
    .shared = {&option_keep, &option_only, &option_nan, &option_threads, &option_device,
               &option_json, &option_wide, &option_progress},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_score,
};
