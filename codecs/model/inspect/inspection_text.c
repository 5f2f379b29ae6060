/* inspection_text.c - what a checkpoint holds and what is wrong with it, for people. */
#include <kerf/inspect.h>

#include "base/text_page.h"
#include "model/weight_json.h"

static void put_weights(kf_page *p, const kerf_inspection *x)
{
    kf_table_begin(p, "~weight|+role|+shape|format|+layout|+from|+>bytes|>bpw");
    for (size_t i = 0; i < x->weights; i++) {
        const kerf_weight *w = kerf_weights_at(kerf_checkpoint_weights(x->checkpoint), i);
        kf_weight_cells(p, w);
        kf_table_cell(p, "%s", w->layout ? w->layout->name : "");
        kf_table_cell(p, "%s", w->codec.format ? kerf_dtype_name(w->dtype) : "");
        kf_table_cell(p, "%llu", (unsigned long long)kerf_weight_bytes(w));
        kf_table_cell(p, "%.3f", kf_bits_per_weight(kerf_weight_bytes(w), kerf_weight_elements(w)));
    }
    kf_table_rule(p);
    kf_table_cell(p, "%zu weights, %zu quantized", x->weights, x->quantized);
    for (int i = 0; i < 5; i++) kf_table_cell(p, "%s", "");
    kf_table_cell(p, "%llu", (unsigned long long)x->bytes);
    kf_table_cell(p, "%.3f", kf_bits_per_weight(x->bytes, x->elements));
    kf_table_end(p);
    fprintf(p->to, "\nbpw: bits per weight with all scales; in the last line over all weights.");
}

static void put_planes(kf_page *p, const kerf_reader *r)
{
    char text[KERF_SHAPE_TEXT];
    kf_table_begin(p, "~tensor|type|+shape|>bytes|+file|>offset");
    for (size_t i = 0; i < kerf_reader_count(r); i++) {
        const kerf_tensor *tensor = kerf_reader_at(r, i);
        kf_table_cell(p, "%s", tensor->name);
        kf_table_cell(p, "%s", kerf_dtype_name(tensor->dtype));
        kf_table_cell(p, "%s", kerf_shape_text(&tensor->shape, text));
        kf_table_cell(p, "%llu", (unsigned long long)tensor->bytes);
        kf_table_cell(p, "%s", kerf_reader_shard(r, tensor->shard));
        kf_table_cell(p, "%llu", (unsigned long long)tensor->offset);
    }
    kf_table_end(p);
}

typedef struct inspection_text {
    const kerf_inspection *inspection;
    int planes;
} inspection_text;

static void put(kf_page *p, const void *ctx)
{
    const inspection_text *t = ctx;
    const kerf_inspection *x = t->inspection;
    const kerf_reader *r = kerf_checkpoint_reader(x->checkpoint);
    const size_t shards = kerf_reader_shard_count(r);
    if (t->planes)
        put_planes(p, r);
    else
        put_weights(p, x);
    fprintf(p->to, "\n%zu tensors in %zu file%s\n", kerf_reader_count(r), shards,
            shards == 1 ? "" : "s");
    for (size_t i = 0; i < x->findings; i++) {
        const kerf_finding *f = &x->finding[i];
        char name[256];
        fprintf(p->to, "%s: %s: %s\n", f->severity == KERF_ERROR ? "error" : "note",
                kerf_text_printable(f->tensor, name, sizeof name), kf_page_plain(p, f->text));
    }
}

kerf_status kerf_inspection_text(const kerf_inspection *x, int planes, const kerf_text_form *form,
                                 char **text, size_t *n, kerf_error *err)
{
    const inspection_text t = {x, planes};
    return kf_page_print(put, &t, form, text, n, err);
}
