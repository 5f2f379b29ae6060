/* inspection.c - all that is found in a checkpoint at once, and as a document. */
#include <kerf/inspect.h>

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "layout/foreign.h"
#include "file/json/text.h"
#include "model/checkpoint_view.h"
#include "model/weight_json.h"

/* An inspection while it grows. */
typedef struct gathering {
    kerf_inspection *to;
    size_t room;
    int failed;
} gathering;

/* Names of files need not be UTF-8, which documents and terminals take: other bytes become '?'. */
static char *copy_text(const char *text)
{
    char *copy = strdup(text);
    const int is_sound = copy && kf_is_utf8(copy);
    for (char *p = copy; p && !is_sound && *p; p++)
        if ((unsigned char)*p >= 0x80) *p = '?';
    return copy;
}

static void gather(void *ctx, const kerf_finding *f)
{
    gathering *g = ctx;
    kerf_inspection *to = g->to;
    if (to->findings == g->room) {
        const size_t room = g->room ? 2 * g->room : 16;
        kerf_finding *more = realloc(to->finding, room * sizeof *more);
        if (!more) {
            g->failed = 1;
            return;
        }
        to->finding = more;
        g->room = room;
    }
    kerf_finding *next = &to->finding[to->findings++];
    *next = (kerf_finding){f->severity, copy_text(f->tensor), copy_text(f->text)};
    g->failed |= !next->tensor || !next->text;
    to->errors += f->severity == KERF_ERROR;
}

kerf_status kerf_inspect_all(const kerf_checkpoint *c, const kerf_job *job, kerf_inspection **out,
                             kerf_error *err)
{
    kerf_inspection *x = NULL;
    *out = NULL;
    KF_TRY(kf_allocate(&x, 1, sizeof *x, err));
    gathering g = {.to = x};
    x->checkpoint = c;
    kerf_status s = kerf_inspect(c, gather, &g, job, err);
    if (s == KERF_OK && g.failed)
        s = kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for what was found");
    if (s != KERF_OK) {
        kerf_inspection_free(x);
        return s;
    }
    x->weights = kerf_weights_count(c->weights);
    x->quantized = kerf_checkpoint_quantized(c);
    for (size_t i = 0; i < x->weights; i++) {
        x->bytes += kerf_weight_bytes(kerf_weights_at(c->weights, i));
        x->elements += kerf_weight_elements(kerf_weights_at(c->weights, i));
    }
    *out = x;
    return KERF_OK;
}

void kerf_inspection_free(kerf_inspection *x)
{
    if (!x) return;
    for (size_t i = 0; i < x->findings; i++) {
        free((char *)(uintptr_t)x->finding[i].tensor);
        free((char *)(uintptr_t)x->finding[i].text);
    }
    free(x->finding);
    free(x);
}

/* --- document ------------------------------------------------------------------------------ */

static json_t *plane_json(const kerf_checkpoint *c, const kerf_tensor *t)
{
    return json_pack(
        "{s:s, s:s, s:o, s:I, s:o, s:I}", "name", t->name, "dtype", kerf_dtype_name(t->dtype),
        "shape", kf_shape_json(&t->shape), "bytes", (json_int_t)t->bytes, "file",
        kf_json_path(kerf_reader_shard(c->reader, t->shard)), "offset", (json_int_t)t->offset);
}

static json_t *weight_json(const kerf_checkpoint *c, const kerf_weight *w)
{
    const kerf_codec codec = w->codec;
    const char *form = kf_foreign_form(w);
    json_t *planes = json_array();
    const kerf_tensor *part;
    for (size_t i = 0; form && (part = kf_foreign_part(w, i)); i++)
        kf_json_add(&planes, plane_json(c, part));
    for (kerf_plane_id p = 0; !form && p < KERF_PLANES; p++)
        if (w->plane[p]) kf_json_add(&planes, plane_json(c, w->plane[p]));
    for (size_t i = 0; i < KERF_EXTRAS; i++)
        if (w->extra[i]) kf_json_add(&planes, plane_json(c, w->extra[i]));
    json_t *row = json_pack(
        "{s:s, s:o, s:s, s:s?, s:s?, s:s?, s:I, s:f, s:o}", "name", w->name, "shape",
        kf_stored_shape_json(w), "dtype", kerf_dtype_name(w->dtype), "format",
        codec.format ? codec.format->name : form, "encoder",
        codec.encoder ? codec.encoder->name : NULL, "layout", w->layout ? w->layout->name : NULL,
        "bytes", (json_int_t)kerf_weight_bytes(w), "bpw",
        kf_bits_per_weight(kerf_weight_bytes(w), kerf_weight_elements(w)), "planes", planes);
    kf_json_set_place(&row, &w->place);
    return row;
}

kerf_status kerf_inspection_write(const kerf_inspection *x, char **text, size_t *n, kerf_error *err)
{
    const kerf_checkpoint *c = x->checkpoint;
    json_t *weights = json_array(), *files = json_array(), *findings = json_array();
    for (size_t i = 0; i < x->weights; i++)
        kf_json_add(&weights, weight_json(c, kerf_weights_at(c->weights, i)));
    for (size_t i = 0; i < kerf_reader_shard_count(c->reader); i++)
        kf_json_add(&files, kf_json_path(kerf_reader_shard(c->reader, i)));
    for (size_t i = 0; i < x->findings; i++) {
        const kerf_finding *f = &x->finding[i];
        kf_json_add(&findings, json_pack("{s:s, s:s, s:s}", "severity",
                                         f->severity == KERF_ERROR ? "error" : "note", "tensor",
                                         f->tensor, "text", f->text));
    }
    json_t *totals =
        json_pack("{s:I, s:I, s:I, s:I, s:f}", "weights", (json_int_t)x->weights, "quantized",
                  (json_int_t)x->quantized, "elements", (json_int_t)x->elements, "bytes",
                  (json_int_t)x->bytes, "bpw", kf_bits_per_weight(x->bytes, x->elements));
    json_t *doc = json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "schema", "kerf.inspect/1", "source",
                            kf_json_path(kerf_checkpoint_path(c)), "files", files, "weights",
                            weights, "totals", totals, "findings", findings);
    return kf_json_write(doc, JSON_INDENT(2), text, n, err);
}
