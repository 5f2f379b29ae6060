/* input_scales.c - finds scales of activations by their name, and writes them as another layout
 * names and stores them. */
#include "layout/input_scales.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

static const struct {
    const char *end;
    int is_inverse;
} names[] = {{".input_scale", 0}, {".input_global_scale", 1}};

/* The quantized weight of the layer that `name` belongs to, without its last `cut` bytes. */
static const kerf_weight *layer_of(const kerf_weights *all, const char *name, size_t cut)
{
    char weight[KERF_MAX_NAME_BYTES + 32];
    snprintf(weight, sizeof weight, "%.*s.weight", (int)(strlen(name) - cut), name);
    const kerf_weight *w = kerf_weights_find(all, weight);
    return w && w->codec.format ? w : NULL;
}

kerf_status kf_input_scale_make(const kerf_weight *beside, const char *tail, const char *end,
                                int is_vector, kf_input_scale **out, kerf_error *err)
{
    const size_t cut = kf_has_suffix(beside->name, tail) ? strlen(tail) : 0;
    const size_t stem = strlen(beside->name) - cut, room = stem + strlen(end) + 2;
    kf_input_scale *s = calloc(1, sizeof *s);
    if (s) s->name = malloc(room);
    if (!s || !s->name) {
        free(s);
        return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a scale of inputs");
    }
    snprintf(s->name, room, "%.*s.%s", (int)stem, beside->name, end);
    s->tensor = *beside->plane[0];
    s->tensor.name = s->name;
    s->tensor.dtype = KERF_F32;
    s->tensor.bytes = sizeof(float);
    s->tensor.block_type = NULL;
    s->tensor.shape = (kerf_shape){is_vector != 0, {1}};
    *out = s;
    return KERF_OK;
}

kerf_status kf_input_scale_open(const kerf_weights *all, const kerf_layout *l, const kerf_weight *w,
                                kf_input_scale **out, kerf_error *err)
{
    *out = NULL;
    if (w->codec.format || w->dtype != KERF_F32 || w->plane[0]->bytes != sizeof(float)) {
        return KERF_OK;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t cut = strlen(names[i].end);
        if (!kf_has_suffix(w->name, names[i].end)) continue;
        const kerf_weight *layer = layer_of(all, w->name, cut);
        int to_inverse = 0, is_vector = 0;
        const char *end =
            layer ? kerf_layout_input(l, layer->codec.format, &to_inverse, &is_vector) : NULL;
        if (!end) return KERF_OK;
        KF_TRY(kf_input_scale_make(w, names[i].end, end, is_vector, out, err));
        (*out)->is_inverse = names[i].is_inverse;
        (*out)->to_inverse = to_inverse;
    }
    return KERF_OK;
}

void kf_input_scale_close(kf_input_scale *s)
{
    if (!s) return;
    free(s->name);
    free(s);
}

kerf_status kf_input_scale_write(const kf_input_scale *s, const kerf_reader *r,
                                 const kerf_weight *from, kerf_writer *to, size_t entry,
                                 uint64_t *inexact, kerf_error *err)
{
    float x, back;
    KF_TRY(kerf_reader_read(r, from->plane[0], 0, &x, sizeof x, err));
    const float stored = s->is_inverse == s->to_inverse ? x
                         : s->to_inverse                ? kerf_inverse_of(x)
                                                        : 1 / x;
    back = s->is_inverse == s->to_inverse ? x
           : s->to_inverse                ? 1 / stored
                                          : kerf_inverse_of(stored);
    *inexact += memcmp(&back, &x, sizeof x) != 0;
    return kerf_writer_write(to, entry, 0, &stored, sizeof stored, err);
}
