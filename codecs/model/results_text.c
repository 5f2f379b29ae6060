/* results_text.c - what becomes of weights, and what was written, for people: results_json.c has
 * the same for programs. */
#include <kerf/quantize.h>
#include <string.h>

#include "base/text_page.h"
#include "model/plan.h"
#include "model/weight_json.h"

static void put_decision(kf_page *p, const kerf_decision *d)
{
    const kerf_weight *w = d->weight;
    char name[64];
    kf_weight_cells(p, w);
    if (!d->codec.format) {
        kf_table_cell(p, "%s%s (%s)",
                      d->dropped   ? "gone"
                      : d->decoded ? "decoded to "
                                   : "kept",
                      d->decoded ? kerf_dtype_name(w->dtype) : "", d->reason);
    } else if (d->asked) {
        kf_table_cell(p, "%s (%s)", kerf_codec_name(d->codec, name, sizeof name), d->reason);
    } else {
        kf_table_cell(p, "%s", kerf_codec_name(d->codec, name, sizeof name));
    }
    kf_table_cell(p, "%llu", (unsigned long long)kerf_weight_bytes(w));
    kf_table_cell(p, "%llu", (unsigned long long)kerf_decision_bytes(d));
    kf_table_cell(p, "%.3f", kf_bits_per_weight(kerf_decision_bytes(d), kerf_weight_elements(w)));
}

static void put_decisions(kf_page *p, const kerf_plan *plan)
{
    const kerf_totals *t = &plan->totals;
    char in[KERF_BYTES_TEXT], out[KERF_BYTES_TEXT];
    kf_table_begin(p, "~tensor|+role|+shape|+source|~becomes|+>bytes|+>after|>bpw");
    for (size_t i = 0; i < t->weights; i++) put_decision(p, kerf_plan_at(plan, i));
    kf_table_rule(p);
    kf_table_cell(p, "%zu quantized, %zu kept", t->quantized, t->weights - t->quantized);
    for (int i = 0; i < 4; i++) kf_table_cell(p, "%s", "");
    kf_table_cell(p, "%llu", (unsigned long long)t->bytes_in);
    kf_table_cell(p, "%llu", (unsigned long long)t->bytes_out);
    kf_table_cell(p, "%.3f", kf_bits_per_weight(t->bytes_out, t->elements));
    kf_table_end(p);
    fprintf(p->to, "\n%s of tensors become %s.\n", kerf_bytes_text(t->bytes_in, in),
            kerf_bytes_text(t->bytes_out, out));
    fprintf(p->to, "bpw: bits per weight with all scales; in the last line over all tensors.\n");
}

/* --- what was written ---------------------------------------------------------------------- */

/* What a call has done: `to` and `r` are of every kind of output. */
typedef struct results_text {
    const kerf_plan *plan;
    const kerf_checkpoint *source;
    const kerf_output *to;
    const kerf_layout *layout;
    const kerf_result *r;
    const kerf_losses *losses;
} results_text;

/* Of a part, what it has written; 0: it is none. */
static int put_part(kf_page *p, const kerf_output *to, const kerf_share *s)
{
    char text[KERF_BYTES_TEXT];
    if (!to->parts) return 0;
    const char *path = kf_page_plain(p, to->path);
    fprintf(p->to,
            "%s: part %u/%u is finished, %zu of %zu files of weights, %s; kerf merge %s when all "
            "are\n",
            path, to->part, to->parts, s->shards, s->of_shards, kerf_bytes_text(s->bytes, text),
            path);
    return 1;
}

static void put_written(kf_page *p, const kerf_plan *plan, const kerf_result *r)
{
    const kerf_totals *t = &plan->totals;
    char in[KERF_BYTES_TEXT], out[KERF_BYTES_TEXT];
    fprintf(p->to,
            "%s: %zu of %zu tensors quantized, %s -> %s, %.3f bits per weight of all tensors, "
            "%.2f s, %.0f MB/s\n",
            kf_page_plain(p, plan->to.path), t->quantized, t->weights,
            kerf_bytes_text(t->bytes_in, in), kerf_bytes_text(t->bytes_out, out),
            kf_bits_per_weight(t->bytes_out, t->elements), r->seconds,
            (double)t->bytes_in / 1e6 / (r->seconds > 0 ? r->seconds : 1));
}

static void put_plan(kf_page *p, const void *ctx)
{
    const results_text *x = ctx;
    const char *note;
    const int is_part = x->r && put_part(p, &x->plan->to, &x->r->share);
    if (x->r && !is_part) put_written(p, x->plan, x->r);
    if (!x->r) put_decisions(p, x->plan);
    /* what the plan says is of the whole, and each part would say it */
    for (size_t i = is_part ? x->plan->notes.count : 0; (note = kerf_plan_note(x->plan, i)) != NULL;
         i++)
        fprintf(p->to, "%s\n", kf_page_plain(p, note));
}

kerf_status kerf_plan_text(const kerf_plan *p, const kerf_result *r, const kerf_text_form *form,
                           char **text, size_t *n, kerf_error *err)
{
    const results_text x = {.plan = p, .r = r};
    return kf_page_print(put_plan, &x, form, text, n, err);
}

/* What a plain checkpoint of such a model has another way. */
static void put_experts_note(kf_page *p, const kerf_weights *all)
{
    for (size_t i = 0; i < kerf_weights_count(all); i++) {
        const kerf_weight *w = kerf_weights_at(all, i);
        if (!w->codec.format || w->stored.rank || strcmp(w->layout->name, "gpt-oss") != 0) continue;
        fprintf(p->to,
                "note: stacked experts are [experts, out, in], as they were stored; transformers "
                "holds plain ones as [experts, in, out]\n");
        return;
    }
}

static void put_dequantized(kf_page *p, const void *ctx)
{
    const results_text *x = ctx;
    const kerf_result *r = x->r;
    char in[KERF_BYTES_TEXT], out[KERF_BYTES_TEXT];
    if (put_part(p, x->to, &r->share)) return;
    fprintf(p->to, "%s: %zu of %zu tensors decoded, %s -> %s, %.2f s\n",
            kf_page_plain(p, x->to->path), r->changed, r->changed + r->kept,
            kerf_bytes_text(r->bytes_in, in), kerf_bytes_text(r->bytes_out, out), r->seconds);
    if (r->nonfinite)
        fprintf(p->to, "note: %s%s NaN or Inf in the output\n",
                kf_page_plain(p, r->first_nonfinite),
                r->nonfinite > 1 ? " and others have" : " has");
    put_experts_note(p, kerf_checkpoint_weights(x->source));
}

kerf_status kerf_dequantized_text(const kerf_checkpoint *source, const kerf_output *to,
                                  const kerf_result *r, const kerf_text_form *form, char **text,
                                  size_t *n, kerf_error *err)
{
    const results_text x = {.source = source, .to = to, .r = r};
    return kf_page_print(put_dequantized, &x, form, text, n, err);
}

static void put_converted(kf_page *p, const void *ctx)
{
    const results_text *x = ctx;
    const char *word;
    uint64_t count, all = 0;
    for (size_t i = 0; kerf_losses_at(x->losses, i, &count) != NULL; i++) all |= count;
    if (!put_part(p, x->to, &x->r->share))
        fprintf(p->to, "%s: %zu weights in layout %s, %s, %.2f s\n", kf_page_plain(p, x->to->path),
                x->r->changed, x->layout->name, all ? "not without loss" : "nothing lost",
                x->r->seconds);
    for (size_t i = 0; (word = kerf_losses_at(x->losses, i, &count)) != NULL; i++)
        if (count) fprintf(p->to, "lost: %llu %s\n", (unsigned long long)count, word);
}

kerf_status kerf_converted_text(const kerf_checkpoint *source, const kerf_output *to,
                                const kerf_result *r, const kerf_losses *losses,
                                const kerf_text_form *form, char **text, size_t *n, kerf_error *err)
{
    results_text x = {.to = to, .r = r, .losses = losses};
    KF_TRY(kf_manifest_layout(source->reader, to, &x.layout, err));
    return kf_page_print(put_converted, &x, form, text, n, err);
}

/* --- parts --------------------------------------------------------------------------------- */

typedef struct merged_text {
    const char *path;
    const kerf_merged *r;
} merged_text;

static void put_merged(kf_page *p, const void *ctx)
{
    const merged_text *x = ctx;
    char bytes[KERF_BYTES_TEXT];
    fprintf(p->to, "%s: %u parts, %zu files, %s, %.2f s\n", kf_page_plain(p, x->path), x->r->parts,
            x->r->files, kerf_bytes_text(x->r->bytes, bytes), x->r->seconds);
}

kerf_status kerf_merged_text(const char *path, const kerf_merged *r, const kerf_text_form *form,
                             char **text, size_t *n, kerf_error *err)
{
    const merged_text x = {path, r};
    return kf_page_print(put_merged, &x, form, text, n, err);
}

static void put_finished_part(kf_page *p, const void *ctx)
{
    const kerf_finished_part *part = ctx;
    const char *path = kf_page_plain(p, part->path);
    fprintf(p->to, "%s: part %u/%u is finished", path, part->part, part->parts);
    if (part->of_tensors) fprintf(p->to, ", %zu of %zu tensors", part->tensors, part->of_tensors);
    fprintf(p->to, "; kerf merge %s when all are\n", path);
}

kerf_status kerf_finished_part_text(const kerf_finished_part *p, const kerf_text_form *form,
                                    char **text, size_t *n, kerf_error *err)
{
    return kf_page_print(put_finished_part, p, form, text, n, err);
}
