/* weight_facts.c - small questions about one weight. */
#include <stdio.h>

#include <kerf/layouts.h>

uint64_t kerf_weight_bytes(const kerf_weight *w)
{
    uint64_t bytes = 0;
    for (kerf_plane_id p = 0; p < KERF_PLANES; p++) {
        if (w->plane[p]) bytes += w->plane[p]->bytes;
    }
    for (size_t i = 0; i < KERF_EXTRAS; i++) {
        if (w->extra[i]) bytes += w->extra[i]->bytes;
    }
    return bytes;
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
    if (w->codec.format) return kerf_codec_name(w->codec, out, size);
    snprintf(out, size, "%s", blocks ? blocks : kerf_dtype_name(w->dtype));
    return out;
}
