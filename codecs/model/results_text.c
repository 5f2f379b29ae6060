/* results_text.c - what becomes of weights, for people: a row for each. */
#include <kerf/quantize.h>

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
    } else {
        kf_table_cell(p, "%s", kerf_codec_name(d->codec, name, sizeof name));
    }
    kf_table_cell(p, "%llu", (unsigned long long)kerf_weight_bytes(w));
    kf_table_cell(p, "%llu", (unsigned long long)kerf_decision_bytes(d));
    kf_table_cell(p, "%.3f", kf_bits_per_weight(kerf_decision_bytes(d), kerf_weight_elements(w)));
}

static void put(kf_page *p, const void *ctx)
{
    const kerf_plan *plan = ctx;
    const kerf_totals *t = &plan->totals;
    const char *note;
    kf_table_begin(p, "~tensor|+role|+shape|+source|~becomes|+>bytes|+>after|>bpw");
    for (size_t i = 0; i < t->weights; i++) put_decision(p, kerf_plan_at(plan, i));
    kf_table_rule(p);
    kf_table_cell(p, "%zu quantized, %zu kept", t->quantized, t->weights - t->quantized);
    for (int i = 0; i < 4; i++) kf_table_cell(p, "%s", "");
    kf_table_cell(p, "%llu", (unsigned long long)t->bytes_in);
    kf_table_cell(p, "%llu", (unsigned long long)t->bytes_out);
    kf_table_cell(p, "%.3f", kf_bits_per_weight(t->bytes_out, t->elements));
    kf_table_end(p);
    fprintf(p->to, "\nbpw: bits per weight with all scales; in the last line over all tensors.\n");
    for (size_t i = 0; (note = kerf_plan_note(plan, i)) != NULL; i++)
        fprintf(p->to, "%s\n", kf_page_plain(p, note));
}

kerf_status kerf_plan_text(const kerf_plan *p, const kerf_text_form *form, char **text, size_t *n,
                           kerf_error *err)
{
    return kf_page_print(put, p, form, text, n, err);
}
