/* checkpoint.c - opens a source and answers small questions about its weights. */
#include "model/checkpoint.h"
#include "base/base.h"
#include <stdio.h>

#include <string.h>

kerf_status checkpoint_open(checkpoint *c, const char *path, kerf_error *err)
{
    *c = (checkpoint){.path = path};
    KF_TRY(kerf_reader_open(path, &c->reader, err));
    kerf_status s = kerf_weights_open(c->reader, &c->weights, err);
    if (s != KERF_OK) checkpoint_close(c);
    return s;
}

void checkpoint_close(checkpoint *c)
{
    if (c->weights) kerf_weights_close(c->weights);
    kerf_reader_close(c->reader);
    *c = (checkpoint){0};
}

uint64_t weight_bytes(const kerf_weight *w)
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

uint64_t weight_elements(const kerf_weight *w)
{
    uint64_t n = 0;
    return kerf_shape_count(&w->shape, &n, NULL) == KERF_OK ? n : 0;
}

int is_float(kerf_dtype t)
{
    return t == KERF_F32 || t == KERF_F16 || t == KERF_BF16;
}

char *weight_format(const kerf_weight *w, char *out, size_t size)
{
    const char *blocks = w->plane[0] ? w->plane[0]->block_type : NULL;
    if (w->codec.format) return kerf_codec_name(w->codec, out, size);
    snprintf(out, size, "%s", blocks ? blocks : kerf_dtype_name(w->dtype));
    return out;
}

size_t count_quantized(const checkpoint *c)
{
    size_t n = 0;
    for (size_t i = 0; i < kerf_weights_count(c->weights); i++) {
        n += kerf_weights_at(c->weights, i)->codec.format != NULL;
    }
    return n;
}
