/* cmd_score.c - kerf score: what each format would cost these weights. Every tensor is encoded,
 * decoded from the bytes that quantize would write, and compared; nothing is written. */
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "progress.h"
#include "verbs/codec_list.h"
#include "model/select.h"
#include "verbs/figures.h"
#include "score/importance.h"
#include "score/score_tensor.h"
#include "stream/team.h"

enum { FEW_TENSORS = 8 }; /* up to so many are listed one by one unasked */

typedef struct job {
    const args *args;
    team_option team;
    kerf_checkpoint *source, *imatrix;
    codec_list codecs;
    kf_selected plan;
    int zstd_level;
    kerf_score *score; /* [codec][tensor of the plan that is quantized] */
    kerf_score *total; /* [codec]                                       */
    score_room room;
    progress progress;
} job;

/* --- all tensors --------------------------------------------------------------------------- */

static const char *codecs_text(const job *j, char *out, size_t size)
{
    if (j->codecs.count == 1) return kerf_codec_name(j->codecs.item[0], out, size);
    snprintf(out, size, "%zu formats", j->codecs.count);
    return out;
}

static kerf_status score_codecs(void *ctx, size_t column, const kerf_exec *exec, kerf_error *err)
{
    job *j = ctx;
    const kerf_weight *w = j->plan.weight[column];
    float *importance = NULL;
    score_candidate *candidate = NULL;
    char text[64];
    TRY(allocate(&candidate, j->codecs.count, sizeof *candidate, err));
    for (size_t c = 0; c < j->codecs.count; c++)
        candidate[c] = (score_candidate){j->codecs.item[c], &j->score[c * j->plan.count + column]};
    kerf_status s = importance_read(j->imatrix, w, &importance, err);
    kf_work_item(&j->progress.work, w->name, codecs_text(j, text, sizeof text));
    const score_job all = {.room = &j->room,
                           .reader = kerf_checkpoint_reader(j->source),
                           .weight = w,
                           .candidate = candidate,
                           .count = j->codecs.count,
                           .options = {importance, j->zstd_level},
                           .exec = exec,
                           .progress = &j->progress.work};
    if (s == KERF_OK) s = score_tensor(&all, err);
    free(candidate);
    free(importance);
    return s;
}

static kerf_status add_scores(void *ctx, size_t column, kerf_error *err)
{
    job *j = ctx;
    (void)err;
    for (size_t c = 0; c < j->codecs.count; c++)
        kerf_score_merge(&j->total[c], &j->score[c * j->plan.count + column]);
    return KERF_OK;
}

static kerf_status score_all(job *j, kerf_error *err)
{
    static const kf_team_work work = {score_codecs, add_scores};
    uint64_t bytes = 0;
    for (size_t i = 0; i < j->plan.count; i++) {
        const kerf_weight *w = j->plan.weight[i];
        for (size_t c = 0; c < j->codecs.count; c++) {
            kerf_geometry g;
            TRY(kerf_geometry_init(&g, j->codecs.item[c].format, &w->shape, err));
            bytes += kerf_weight_bytes(w) * (kerf_needs_stats(&g) ? 2 : 1);
        }
    }
    TRY(allocate(&j->score, j->codecs.count * j->plan.count, sizeof *j->score, err));
    TRY(allocate(&j->total, j->codecs.count, sizeof *j->total, err));
    TRY(progress_open(&j->progress, j->args, bytes, err));
    kerf_status s = kf_team_run(&j->team.team, j->plan.count, &work, j, err);
    progress_close(&j->progress);
    return s;
}

/* --- report -------------------------------------------------------------------------------- */

static unsigned columns_shown(const job *j)
{
    return (j->imatrix ? SHOW_WEIGHTED : 0u) | (j->zstd_level ? SHOW_ZSTD : 0u);
}

static kerf_status print_tensors(const job *j, kerf_error *err)
{
    table *t = NULL;
    char headings[160], name[64];
    snprintf(headings, sizeof headings, "tensor|format%s", figures_headings(columns_shown(j)));
    TRY(table_open(&t, headings, err));
    for (size_t k = 0; k < j->plan.count; k++) {
        for (size_t c = 0; c < j->codecs.count; c++) {
            table_cell(t, "%s", j->plan.weight[k]->name);
            table_cell(t, "%s", kerf_codec_name(j->codecs.item[c], name, sizeof name));
            figures_cells(t, &j->score[c * j->plan.count + k], columns_shown(j));
        }
    }
    kerf_status s = table_print(t, stdout, err);
    table_close(t);
    return s;
}

static kerf_status print_totals(const job *j, kerf_error *err)
{
    table *t = NULL;
    char headings[160], name[64];
    snprintf(headings, sizeof headings, "format%s", figures_headings(columns_shown(j)));
    TRY(table_open(&t, headings, err));
    for (size_t c = 0; c < j->codecs.count; c++) {
        table_cell(t, "%s", kerf_codec_name(j->codecs.item[c], name, sizeof name));
        figures_cells(t, &j->total[c], columns_shown(j));
    }
    kerf_status s = table_print(t, stdout, err);
    table_close(t);
    return s;
}

static kerf_status print_text(const job *j, kerf_error *err)
{
    size_t rows = j->plan.count * j->codecs.count;
    if (args_has(j->args, "per-tensor") || rows <= FEW_TENSORS) {
        TRY(print_tensors(j, err));
        printf("\n");
    }
    printf("%zu of %zu tensors of %s\n", j->plan.count,
           kerf_weights_count(kerf_checkpoint_weights(j->source)), kerf_checkpoint_path(j->source));
    return print_totals(j, err);
}

static kerf_status print_document(const job *j, kerf_error *err)
{
    json_t *tensors = json_array(), *totals = json_array();
    char name[64];
    for (size_t k = 0; k < j->plan.count; k++) {
        for (size_t c = 0; c < j->codecs.count; c++) {
            json_t *row = json_pack("{s:s, s:s}", "name", j->plan.weight[k]->name, "format",
                                    kerf_codec_name(j->codecs.item[c], name, sizeof name));
            figures_json(row, &j->score[c * j->plan.count + k]);
            json_array_append_new(tensors, row);
        }
    }
    for (size_t c = 0; c < j->codecs.count; c++) {
        json_t *row =
            json_pack("{s:s}", "format", kerf_codec_name(j->codecs.item[c], name, sizeof name));
        figures_json(row, &j->total[c]);
        json_array_append_new(totals, row);
    }
    json_t *doc =
        json_pack("{s:o, s:o, s:o, s:o}", "source", json_path(kerf_checkpoint_path(j->source)),
                  "imatrix", json_path(j->imatrix ? kerf_checkpoint_path(j->imatrix) : NULL),
                  "totals", totals, "tensors", tensors);
    return print_json("score", doc, err);
}

/* --- verb ---------------------------------------------------------------------------------- */

/* Why a codec cannot encode all that is scored. */
static kerf_status check_codec(const job *j, kerf_codec codec, kerf_error *err)
{
    for (size_t i = 0; i < j->plan.count; i++) {
        const kerf_weight *w = j->plan.weight[i];
        kerf_status s = kerf_codec_check(codec, &w->shape, w->dtype, err);
        if (s != KERF_OK) return fail_at(err, s, w->name);
    }
    return KERF_OK;
}

/* What was asked for by name must work; what a pattern swept in is left out, with the reason. */
static kerf_status drop_unfit(job *j, kerf_error *err)
{
    for (size_t c = j->codecs.count; c-- > 0;) {
        kerf_error why = {0};
        char name[64], text[sizeof why.text];
        kerf_status s = check_codec(j, j->codecs.item[c], &why);
        if (s == KERF_OK) continue;
        if (j->codecs.named[c] || s != KERF_E_NOSUP) {
            if (err) *err = why;
            return s;
        }
        fprintf(stderr, "left out: %s: %s\n", kerf_codec_name(j->codecs.item[c], name, sizeof name),
                kerf_text_printable(why.text, text, sizeof text));
        codec_list_drop(&j->codecs, c);
    }
    if (j->codecs.count) return KERF_OK;
    return USAGE(err, "-f picks no format that can encode all of %.200s",
                 kerf_checkpoint_path(j->source));
}

static kerf_status choose_tensors(job *j, kerf_error *err)
{
    select_option o;
    kerf_status s = option_select_open(&o, j->args, err);
    if (s == KERF_OK) s = kf_select_tensors(j->source, &o.select, &j->plan, err);
    option_select_close(&o);
    return s;
}

static kerf_status score(job *j, kerf_error *err)
{
    const args *a = j->args;
    const char *imatrix = args_value(a, "imatrix");
    TRY(option_team_open(&j->team, a, err));
    j->zstd_level = 3;
    TRY(args_integer(a, "zstd-level", 0, 22, &j->zstd_level, err));
    TRY(codec_list_parse(&j->codecs, args_value(a, "format"), err));
    TRY(kerf_checkpoint_open(args_operand(a, 0), &j->source, err));
    if (imatrix) TRY(kerf_checkpoint_open(imatrix, &j->imatrix, err));
    TRY(choose_tensors(j, err));
    if (j->plan.count == 0) {
        return USAGE(err,
                     "%.200s: no tensor to score; --all-tensors takes norms and embeddings too",
                     kerf_checkpoint_path(j->source));
    }
    if (imatrix)
        TRY(importance_check(j->imatrix, &j->plan, kerf_checkpoint_path(j->source), NULL, err));
    TRY(drop_unfit(j, err));
    TRY(score_all(j, err));
    return args_has(a, "json") ? print_document(j, err) : print_text(j, err);
}

static int run_score(const args *a, kerf_error *err)
{
    job j = {.args = a};
    kerf_status s = score(&j, err);
    option_team_close(&j.team);
    score_room_close(&j.room);
    free(j.score);
    free(j.total);
    kf_selected_free(&j.plan);
    codec_list_free(&j.codecs);
    kerf_checkpoint_close(j.imatrix);
    kerf_checkpoint_close(j.source);
    return s;
}

static const option options[] = {
    {"format", 'f', "LIST",
     "formats, comma-separated: nvfp4, nvfp4:4/6, patterns such as 'int4*' or "
     "'nvfp4:*', or all (every encoder); default: every format, and every "
     "encoder of nvfp4 and the mx formats"},
    {"imatrix", 0, "FILE",
     "importance of columns: a safetensors file with F32 [columns] per weight"},
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
               &option_json, &option_progress},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_score,
};
