/* cmd_merge.c - kerf merge: an output of the parts that --part has written; and what a run that
 * writes one says of it. */
#include <string.h>

#include <kerf/parts.h>
#include <kerf/score.h>

#include "args.h"
#include "output.h"
#include "progress.h"
#include "terminal.h"

void note_output(const kerf_output *to)
{
    char text[1024];
    size_t n = strlen(to->path);
    while (n > 1 && to->path[n - 1] == '/') n--;
    snprintf(text, sizeof text, "part %u/%u in %.*s.kerf-parts", to->part, to->parts, (int)n,
             to->path);
    note_written(to->parts ? text : to->path);
}

kerf_status report_part(const args *a, const kerf_finished_part *p, kerf_error *err)
{
    char *text = NULL;
    if (args_has(a, "json"))
        return put_document(kerf_finished_part_write(p, &text, NULL, err), &text, err);
    if (!progress_allows_text(a)) return KERF_OK;
    return put_note(kerf_finished_part_text(p, NULL, &text, NULL, err), &text);
}

static kerf_status merge(const args *a, progress *bar, kerf_merged *r, kerf_error *err)
{
    const char *path = args_operand(a, 0);
    kerf_merge_options opt = {.overwrite = args_has(a, "overwrite")};
    TRY(args_integer(a, "threads", 1, 4096, &opt.threads, err));
    TRY(progress_open(bar, a, err));
    TRY(kerf_merge(path, &opt, &bar->job, r, err));
    note_written(path);
    return args_checksums(a, err);
}

/* Scores are there to be read: the same table, or document, as from one process. */
static kerf_status show_scores(const args *a, kerf_error *err)
{
    kerf_scores *scores = NULL;
    TRY(kerf_scores_open(args_operand(a, 0), &scores, err));
    const kerf_status s = print_scores(scores, a, err);
    kerf_scores_close(scores);
    return s;
}

static int run_merge(const args *a, kerf_error *err)
{
    char *text = NULL;
    int is_scores = 0;
    progress bar = {0};
    kerf_merged r = {0};
    kerf_status s = merge(a, &bar, &r, err);
    if (s == KERF_OK) s = kerf_scores_find(args_operand(a, 0), &is_scores, err);
    progress_close(&bar);
    TRY(s);
    if (progress_allows_text(a))
        TRY(put_note(kerf_merged_text(args_operand(a, 0), &r, NULL, &text, NULL, err), &text));
    if (is_scores) return show_scores(a, err);
    if (args_has(a, "per-tensor")) print_note("--per-tensor lists scores, and here are none");
    if (!args_has(a, "json")) return EXIT_OK;
    return put_document(kerf_merged_write(args_operand(a, 0), &r, &text, NULL, err), &text, err);
}

static const option options[] = {
    {"per-tensor", 0, NULL, "of scores: list every tensor; --json always does"},
    {NULL, 0, NULL, NULL},
};

const verb verb_merge = {
    .name = "merge",
    .summary = "make a checkpoint of parts that several processes wrote",
    .usage = "OUT [options]",
    .details =
        "Makes the folder OUT of what kerf quantize, convert, dequantize, score or calibrate\n"
        "has written with -o OUT --part I/N, in processes on any machines, in any order. The\n"
        "parts wait in OUT.kerf-parts, a folder each; parts of machines that share no disk are\n"
        "copied there. Every byte is compared with its hash, files are renamed, and OUT appears\n"
        "when it is whole, with the bytes that one process would have written. A part that is\n"
        "missing, damaged, or of another source or other options is named, and OUT stays\n"
        "absent. Of scores, it prints what one process would have printed.",
    .examples = "  kerf quantize model/ -f nvfp4 -o out/ --part 1/2 & \\\n"
                "  kerf quantize model/ -f nvfp4 -o out/ --part 2/2; wait; kerf merge out/\n"
                "  rsync -a node2:out.kerf-parts/ out.kerf-parts/ && kerf merge out/\n",
    .options = options,
    .shared = {&option_overwrite, &option_threads, &option_json, &option_wide, &option_sha256,
               &option_progress},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_merge,
};
