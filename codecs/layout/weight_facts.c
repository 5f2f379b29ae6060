/* weight_facts.c - small questions about one weight. */
#include <stdio.h>

#include <kerf/layouts.h>

#include "file/read/view.h"
#include "layout/foreign.h"

kerf_geometry kerf_weight_geometry(const kerf_weight *w)
{
    kerf_geometry g;
    if (w->codec.format && kerf_geometry_init(&g, w->codec.format, &w->shape, NULL) == KERF_OK)
        return g;
    return (kerf_geometry){0};
}

uint64_t kerf_weight_bytes(const kerf_weight *w)
{
    uint64_t bytes = 0;
    for (kerf_plane_id p = 0; p < KERF_PLANES; p++) {
        if (w->plane[p]) bytes += kf_stored_bytes(w->plane[p]);
    }
    for (size_t i = 0; i < KERF_EXTRAS; i++) {
        if (w->extra[i]) bytes += kf_stored_bytes(w->extra[i]);
    }
    return bytes;
}

uint64_t kerf_weight_kept_bytes(const kerf_weight *w, const kerf_layout *l)
{
    if (!w->codec.format && w->plane[0]) return w->plane[0]->bytes;
    if (!w->codec.format || !w->decoded || w->layout == (l ? l : kerf_layout_at(0)))
        return kerf_weight_bytes(w);
    return kerf_weight_elements(w) * kerf_dtype_bits(w->dtype) / 8;
}

uint64_t kerf_weight_elements(const kerf_weight *w)
{
    uint64_t n = 0;
    return kerf_shape_count(&w->shape, &n, NULL) == KERF_OK ? n : 0;
}

int kerf_dtype_is_float(kerf_dtype t)
{
    return t == KERF_F32 || t == KERF_F16 || t == KERF_BF16;
}

char *kerf_weight_format(const kerf_weight *w, char *out, size_t size)
{
    const char *blocks = w->plane[0] ? w->plane[0]->block_type : NULL;
    const char *form = kf_foreign_form(w);
    if (w->codec.format) return kerf_codec_name(w->codec, out, size);
    snprintf(out, size, "%s", form ? form : blocks ? blocks : kerf_dtype_name(w->dtype));
    return out;
}
