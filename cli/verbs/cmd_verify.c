/* cmd_verify.c - kerf verify: the gate for CI. Every weight of the source must be there, and must
 * have lost no more than its limits allow, counted on the bytes in the file. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "progress.h"
#include "model/arrange_experts.h"
#include "score/compare.h"
#include "verbs/figures.h"
#include "score/limits.h"
#include "stream/team.h"

enum { WORST_SHOWN = 10 };

typedef struct job {
    const args *args;
    team_option team;
    kerf_checkpoint *source, *other;
    limits limits;
    comparison *row; /* one per weight of the source */
    size_t rows, measured, equal, over;
    json_t *problems; /* of {"tensor", "text"} */
    kerf_score total;
    progress progress;
} job;

/* --- compare ------------------------------------------------------------------------------- */

static void add_problem(job *j, const char *tensor, const char *text)
{
    json_array_append_new(j->problems, json_pack("{s:s, s:s}", "tensor", tensor, "text", text));
}

static int is_over(const job *j, const comparison *c, size_t f)
{
    return c->measured &&
           !(limited_figures[f].of(&c->score) <= limit_of(&j->limits, c->weight->name, f));
}

static kerf_status compare_row(void *ctx, size_t i, const kerf_exec *exec, kerf_error *err)
{
    job *j = ctx;
    comparison *c = &j->row[i];
    const compare_job compare = {j->source, j->other, args_has(j->args, "by-value"), exec,
                                 &j->progress.work};
    c->weight = kerf_weights_at(kerf_checkpoint_weights(j->source), i);
    c->other = kerf_weights_find(kerf_checkpoint_weights(j->other), c->weight->name);
    if (!c->other) return KERF_OK;
    kf_work_item(&j->progress.work, c->weight->name, "verify");
    kerf_status s = compare_weights(&compare, c, err);
    return s == KERF_OK ? s : fail_at(err, s, c->weight->name);
}

static kerf_status count_row(void *ctx, size_t i, kerf_error *err)
{
    job *j = ctx;
    const comparison *c = &j->row[i];
    (void)err;
    j->rows = i + 1;
    if (!c->other) {
        add_problem(j, c->weight->name, "is missing");
        return KERF_OK;
    }
    if (c->problem[0]) add_problem(j, c->weight->name, c->problem);
    if (c->measured) kerf_score_merge(&j->total, &c->score);
    j->measured += c->measured != 0;
    j->equal += !c->measured && !c->problem[0];
    for (size_t f = 0; f < FIGURES; f++) j->over += is_over(j, c, f) != 0;
    return KERF_OK;
}

static kerf_status compare_all(job *j, kerf_error *err)
{
    static const kf_team_work work = {compare_row, count_row};
    uint64_t bytes = 0;
    size_t count = kerf_weights_count(kerf_checkpoint_weights(j->source));
    TRY(allocate(&j->row, count, sizeof *j->row, err));
    for (size_t i = 0; i < count; i++)
        bytes += kerf_weight_bytes(kerf_weights_at(kerf_checkpoint_weights(j->source), i));
    TRY(progress_open(&j->progress, j->args, bytes, err));
    kerf_status s = kf_team_run(&j->team.team, count, &work, j, err);
    progress_close(&j->progress);
    TRY(s);
    for (size_t i = 0; i < kerf_weights_count(kerf_checkpoint_weights(j->other)); i++) {
        const char *name = kerf_weights_at(kerf_checkpoint_weights(j->other), i)->name;
        if (!kerf_weights_find(kerf_checkpoint_weights(j->source), name))
            add_problem(j, name, "is not in the source");
    }
    return KERF_OK;
}

/* --- report -------------------------------------------------------------------------------- */

static int by_t2(const void *a, const void *b)
{
    const comparison *x = *(const comparison *const *)a, *y = *(const comparison *const *)b;
    double tx = kerf_score_t2(&x->score), ty = kerf_score_t2(&y->score);
    return tx < ty ? 1 : tx > ty ? -1 : strcmp(x->weight->name, y->weight->name);
}

static kerf_status print_worst(const job *j, kerf_error *err)
{
    table *t = NULL;
    const comparison **order = NULL;
    char headings[160], name[64];
    snprintf(headings, sizeof headings, "tensor|format%s", figures_headings(0));
    TRY(allocate(&order, j->rows, sizeof *order, err));
    kerf_status s = table_open(&t, headings, err);
    size_t n = 0;
    for (size_t i = 0; i < j->rows; i++) {
        if (j->row[i].measured) order[n++] = &j->row[i];
    }
    qsort(order, n, sizeof *order, by_t2);
    size_t shown = args_has(j->args, "all") || n < WORST_SHOWN ? n : WORST_SHOWN;
    for (size_t i = 0; s == KERF_OK && i < shown; i++) {
        table_cell(t, "%s", order[i]->weight->name);
        table_cell(t, "%s", kerf_weight_format(order[i]->other, name, sizeof name));
        figures_cells(t, &order[i]->score, 0);
    }
    if (s == KERF_OK && n > 0) {
        table_rule(t);
        table_cell(t, shown < n ? "all %zu, of which the worst are above" : "all %zu", n);
        table_cell(t, "%s", "");
        figures_cells(t, &j->total, 0);
        s = table_print(t, stdout, err);
    }
    table_close(t);
    free(order);
    return s;
}

static kerf_status print_over(const job *j, kerf_error *err)
{
    table *t = NULL;
    if (j->over == 0) return KERF_OK;
    TRY(table_open(&t, "over its limit|figure|>measured|>limit|>over by", err));
    for (size_t i = 0; i < j->rows; i++) {
        for (size_t f = 0; f < FIGURES; f++) {
            const comparison *c = &j->row[i];
            if (!is_over(j, c, f)) continue;
            double value = limited_figures[f].of(&c->score);
            double limit = limit_of(&j->limits, c->weight->name, f);
            table_cell(t, "%s", c->weight->name);
            table_cell(t, "%s", limited_figures[f].name);
            table_cell(t, "%.4g", value);
            table_cell(t, "%.4g", limit);
            if (limit > 0) {
                table_cell(t, "%.2f %%", 100 * (value / limit - 1));
            } else {
                table_cell(t, "%.3g", value - limit);
            }
        }
    }
    printf("\n");
    kerf_status s = table_print(t, stdout, err);
    table_close(t);
    return s;
}

static kerf_status print_text(const job *j, kerf_error *err)
{
    size_t i;
    json_t *row;
    TRY(print_worst(j, err));
    TRY(print_over(j, err));
    if (j->measured) printf("\n");
    json_array_foreach(j->problems, i, row)
    {
        char name[256];
        printf("%s: %s\n",
               kerf_text_printable(json_string_value(json_object_get(row, "tensor")), name,
                                   sizeof name),
               json_string_value(json_object_get(row, "text")));
    }
    size_t wrong = json_array_size(j->problems);
    printf("%s: %zu tensors measured, %zu equal to the source, %zu over a limit, %zu wrong\n",
           j->over || wrong ? "failed" : "passed", j->measured, j->equal, j->over, wrong);
    return KERF_OK;
}

static json_t *row_json(const job *j, const comparison *c)
{
    char name[64];
    json_t *row = json_pack("{s:s}", "name", c->weight->name);
    if (c->other) {
        json_object_set_new(row, "format",
                            json_string(kerf_weight_format(c->other, name, sizeof name)));
    }
    if (!c->measured) return row;
    json_t *over = json_array();
    figures_json(row, &c->score);
    for (size_t f = 0; f < FIGURES; f++) {
        if (!is_over(j, c, f)) continue;
        json_array_append_new(
            over, json_pack("{s:s, s:o, s:o}", "figure", limited_figures[f].name, "measured",
                            json_figure(limited_figures[f].of(&c->score)), "limit",
                            json_figure(limit_of(&j->limits, c->weight->name, f))));
    }
    json_object_set_new(row, "over", over);
    return row;
}

static kerf_status print_document(const job *j, kerf_error *err)
{
    json_t *tensors = json_array(), *total = json_object();
    for (size_t i = 0; i < j->rows; i++) json_array_append_new(tensors, row_json(j, &j->row[i]));
    figures_json(total, &j->total);
    int pass = j->over == 0 && json_array_size(j->problems) == 0;
    json_t *doc =
        json_pack("{s:o, s:o, s:b, s:I, s:I, s:I, s:o, s:o, s:O}", "source",
                  json_path(kerf_checkpoint_path(j->source)), "quantized",
                  json_path(kerf_checkpoint_path(j->other)), "pass", pass, "measured",
                  (json_int_t)j->measured, "equal", (json_int_t)j->equal, "over",
                  (json_int_t)j->over, "total", total, "tensors", tensors, "problems", j->problems);
    return print_json("verify", doc, err);
}

static kerf_status write_limits(const job *j, const char *path, kerf_error *err)
{
    json_t *tensors = json_object();
    for (size_t i = 0; i < j->rows; i++) {
        if (!j->row[i].measured) continue;
        json_object_set_new(tensors, j->row[i].weight->name, limits_measured(&j->row[i].score));
    }
    kerf_status s = limits_write(path, tensors, args_has(j->args, "overwrite"), err);
    json_decref(tensors);
    if (s == KERF_E_EXISTS) fail(err, s, "%.300s: exists already; -y replaces it", path);
    return s;
}

/* --- verb ---------------------------------------------------------------------------------- */

static kerf_status verify(job *j, kerf_error *err)
{
    const char *write_path = args_value(j->args, "write-limits");
    j->problems = json_array();
    TRY(option_team_open(&j->team, j->args, err));
    TRY(limits_open(&j->limits, args_value(j->args, "limits"), err));
    TRY(kerf_checkpoint_open(args_operand(j->args, 0), &j->source, err));
    TRY(kerf_checkpoint_open(args_operand(j->args, 1), &j->other, err));
    TRY(kf_arrange_experts_like(j->source, j->other, err));
    TRY(compare_all(j, err));
    if (write_path) TRY(write_limits(j, write_path, err));
    return args_has(j->args, "json") ? print_document(j, err) : print_text(j, err);
}

static int run_verify(const args *a, kerf_error *err)
{
    job j = {.args = a};
    kerf_status s = verify(&j, err);
    int wrong = j.over > 0 || json_array_size(j.problems) > 0;
    option_team_close(&j.team);
    free(j.row);
    json_decref(j.problems);
    limits_close(&j.limits);
    kerf_checkpoint_close(j.other);
    kerf_checkpoint_close(j.source);
    if (s != KERF_OK) return s;
    return wrong ? EXIT_MISMATCH : EXIT_OK;
}

static const option options[] = {
    {"limits", 0, "FILE",
     "JSON of what each tensor may lose (schema kerf.limits/1); without it only "
     "t2 > 0.5 is over"},
    {"write-limits", 0, "FILE", "write such a file from what was measured, with 2 % of margin"},
    {"by-value", 0, NULL,
     "measure dense tensors too, for a dequantized checkpoint; else they must "
     "be equal byte for byte"},
    {"all", 0, NULL, "list every tensor instead of the worst ten; --json always does"},
    {NULL, 0, NULL, NULL},
};

const verb verb_verify = {
    .name = "verify",
    .summary = "compare a quantized checkpoint with its source",
    .usage = "SOURCE QUANTIZED [--limits FILE] [options]",
    .details = "Decodes every weight of QUANTIZED and compares it with SOURCE. Exit code 1 when\n"
               "a tensor is missing, extra, of another shape, not finite or over a limit, or\n"
               "when one that was kept differs by a byte. A limits file:\n"
               "  {\"schema\": \"kerf.limits/1\", \"default\": {\"t2\": 0.02},\n"
               "   \"tensors\": {\"*down_proj*\": {\"t2\": 0.03, \"max_error\": 0.1}}}\n"
               "Figures: t2, max_error, bias (its magnitude), clip_share, bpw.",
    .examples = "  kerf verify model/ model-nvfp4/\n"
                "  kerf verify model/ model-nvfp4/ --write-limits limits.json\n"
                "  kerf verify model/ model-nvfp4/ --limits limits.json --json\n"
                "  kerf verify model-nvfp4/ restored/    # is it the exact decoding?\n",
    .options = options,
    .shared = {&option_overwrite, &option_threads, &option_device, &option_json, &option_progress},
    .operands_min = 2,
    .operands_max = 2,
    .run = run_verify,
};
