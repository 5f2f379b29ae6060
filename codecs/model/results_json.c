/* results_json.c - what becomes of weights, and what was written, for programs: a document for each
 * verb that makes a checkpoint. */
#include <kerf/quantize.h>

#include "base/base.h"
#include "model/plan.h"
#include "model/weight_json.h"

/* Where one part of an output was written: which, and how much of it. */
static void set_part(json_t **doc, const kerf_output *to, const kerf_result *r)
{
    if (!to->parts) return;
    kf_json_set(doc, "part",
                json_pack("{s:I, s:I, s:I, s:I, s:I}", "part", (json_int_t)to->part, "parts",
                          (json_int_t)to->parts, "shards", (json_int_t)r->share.shards, "of_shards",
                          (json_int_t)r->share.of_shards, "bytes_out", (json_int_t)r->share.bytes));
}

/* --- plans --------------------------------------------------------------------------------- */

static json_t *decision_json(const kerf_decision *d)
{
    const kerf_weight *w = d->weight;
    const uint64_t bytes = kerf_decision_bytes(d);
    char source[64], format[64];
    json_t *row = json_pack(
        "{s:s, s:o, s:s, s:s?, s:o, s:I, s:I, s:f}", "name", w->name, "shape",
        kf_stored_shape_json(w), "source", kerf_weight_format(w, source, sizeof source), "format",
        d->codec.format ? kerf_codec_name(d->codec, format, sizeof format) : NULL, "reason",
        kf_json_path(d->reason[0] ? d->reason : NULL), "bytes_in", (json_int_t)kerf_weight_bytes(w),
        "bytes_out", (json_int_t)bytes, "bpw", kf_bits_per_weight(bytes, kerf_weight_elements(w)));
    kf_json_set_place(&row, &w->place);
    return row;
}

static json_t *totals_json(const kerf_plan *p, const kerf_result *r)
{
    const kerf_totals *t = &p->totals;
    json_t *totals =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:f}", "quantized", (json_int_t)t->quantized, "kept",
                  (json_int_t)(t->weights - t->quantized), "elements", (json_int_t)t->elements,
                  "bytes_in", (json_int_t)t->bytes_in, "bytes_out", (json_int_t)t->bytes_out, "bpw",
                  kf_bits_per_weight(t->bytes_out, t->elements));
    if (r) kf_json_set(&totals, "seconds", json_real(r->seconds));
    return totals;
}

kerf_status kerf_plan_write(const kerf_plan *p, const kerf_result *r, char **text, size_t *n,
                            kerf_error *err)
{
    json_t *tensors = json_array(), *notes = json_array();
    const char *note;
    for (size_t i = 0; i < p->totals.weights; i++)
        kf_json_add(&tensors, decision_json(kerf_plan_at(p, i)));
    for (size_t i = 0; (note = kerf_plan_note(p, i)) != NULL; i++)
        kf_json_add(&notes, kf_json_path(note));
    json_t *doc =
        json_pack("{s:s, s:o, s:o, s:s, s:b, s:o, s:o, s:o}", "schema", "kerf.quantize/1", "source",
                  kf_json_path(kerf_checkpoint_path(p->source)), "output", kf_json_path(p->to.path),
                  "layout", p->layout->name, "dry_run", r == NULL, "tensors", tensors, "totals",
                  totals_json(p, r), "notes", notes);
    if (r) set_part(&doc, &p->to, r);
    return kf_json_write(doc, JSON_INDENT(2), text, n, err);
}

/* --- other outputs ------------------------------------------------------------------------- */

kerf_status kerf_dequantized_write(const kerf_checkpoint *source, const kerf_output *to,
                                   const kerf_result *r, char **text, size_t *n, kerf_error *err)
{
    json_t *doc = json_pack(
        "{s:s, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:f}", "schema", "kerf.dequantize/1", "source",
        kf_json_path(kerf_checkpoint_path(source)), "output", kf_json_path(to->path), "decoded",
        (json_int_t)r->changed, "kept", (json_int_t)r->kept, "bytes_in", (json_int_t)r->bytes_in,
        "bytes_out", (json_int_t)r->bytes_out, "nonfinite", (json_int_t)r->nonfinite, "seconds",
        r->seconds);
    set_part(&doc, to, r);
    return kf_json_write(doc, JSON_INDENT(2), text, n, err);
}

kerf_status kerf_converted_write(const kerf_checkpoint *source, const kerf_output *to,
                                 const kerf_result *r, const kerf_losses *l, char **text, size_t *n,
                                 kerf_error *err)
{
    const kerf_layout *layout;
    const char *word;
    uint64_t count;
    KF_TRY(kf_manifest_layout(source->reader, to, &layout, err));
    json_t *losses = json_array();
    for (size_t i = 0; (word = kerf_losses_at(l, i, &count)) != NULL; i++)
        if (count) kf_json_add(&losses, json_sprintf("%llu %s", (unsigned long long)count, word));
    json_t *doc = json_pack("{s:s, s:o, s:o, s:s, s:I, s:o, s:f}", "schema", "kerf.convert/1",
                            "source", kf_json_path(kerf_checkpoint_path(source)), "output",
                            kf_json_path(to->path), "layout", layout->name, "converted",
                            (json_int_t)r->changed, "losses", losses, "seconds", r->seconds);
    set_part(&doc, to, r);
    return kf_json_write(doc, JSON_INDENT(2), text, n, err);
}

kerf_status kerf_merged_write(const char *path, const kerf_merged *r, char **text, size_t *n,
                              kerf_error *err)
{
    json_t *doc =
        json_pack("{s:s, s:o, s:I, s:I, s:I, s:f}", "schema", "kerf.merge/1", "output",
                  kf_json_path(path), "parts", (json_int_t)r->parts, "files", (json_int_t)r->files,
                  "bytes", (json_int_t)r->bytes, "seconds", r->seconds);
    return kf_json_write(doc, JSON_INDENT(2), text, n, err);
}

kerf_status kerf_finished_part_write(const kerf_finished_part *p, char **text, size_t *n,
                                     kerf_error *err)
{
    json_t *part =
        json_pack("{s:I, s:I}", "part", (json_int_t)p->part, "parts", (json_int_t)p->parts);
    if (p->of_tensors) {
        kf_json_set(&part, "tensors", json_integer((json_int_t)p->tensors));
        kf_json_set(&part, "of_tensors", json_integer((json_int_t)p->of_tensors));
    }
    return kf_json_write(json_pack("{s:s, s:o, s:o}", "schema", p->schema, "output",
                                   kf_json_path(p->path), "part", part),
                         JSON_INDENT(2), text, n, err);
}
