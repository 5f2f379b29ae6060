/* block_weights.c - weights of GGUF files, where the type of each tensor names its blocks.
 *
 * The first row of the layout table of this type that finds all its tensors is the format: NVFP4
 * with a scale per matrix beside it (llama.cpp's conversion of other projects' checkpoints) is
 * nvfp4, without one ggml-nvfp4. A scale that is there but does not fit is refused: without it the
 * numbers would be others. */
#include "layout/block_weights.h"

#include <inttypes.h>
#include <string.h>

#include "base/base.h"
#include "file/gguf/gguf.h"

/* One value for each matrix, in whatever shape. */
static int is_scale(const kerf_tensor *t, const kerf_entry *e)
{
    uint64_t have, need;
    return t->dtype == e->dtype && !t->block_type &&
           kerf_shape_count(&t->shape, &have, NULL) == KERF_OK &&
           kerf_shape_count(&e->shape, &need, NULL) == KERF_OK && have == need;
}

/* Finds what w has besides its blocks; *all is 0 when something is missing. */
static kerf_status take_others(const kerf_reader *r, kerf_weight *w, int *all, kerf_error *err)
{
    char name[KERF_MAX_NAME_BYTES + 32];
    kerf_entry e;
    kerf_plane_id p;
    *all = 1;
    for (size_t i = 1; kerf_layout_entry(w->layout, w, i, name, sizeof name, &e, &p); i++) {
        w->plane[p] = kerf_reader_find(r, name);
        if (!w->plane[p]) {
            *all = 0;
        } else if (!is_scale(w->plane[p], &e)) {
            return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                           "%s: tensor \"%.*s\": not %" PRIu64 " numbers of type F32, which the "
                           "%s blocks of \"%.*s\" need",
                           kerf_reader_shard(r, w->plane[p]->shard), KF_NAME(name), e.shape.dim[0],
                           w->plane[KERF_PLANE_CODES]->block_type, KF_NAME(w->name));
        }
    }
    return KERF_OK;
}

kerf_status kf_blocks_recognize(const kerf_reader *r, const kerf_tensor *t, kerf_weight *w,
                                kerf_error *err)
{
    const kf_gguf_type *type = kf_gguf_type_find(t->block_type);
    kerf_weight dense = {.name = t->name, .shape = t->shape, .dtype = t->dtype, .plane = {t}};
    uint64_t *last = &dense.shape.dim[dense.shape.rank - 1];
    *last = *last / type->bytes * type->elements;
    for (size_t i = 0; i < kf_stored_count; i++) {
        const kf_stored *s = &kf_stored_table[i];
        int all;
        kerf_geometry g;
        if (s->layout != KF_LAYOUT_GGUF || strcmp(s->scheme, t->block_type) != 0) continue;
        *w = dense;
        w->dtype = KERF_F32; /* which holds every number of blocks; their source is not recorded */
        w->codec.format = kf_format_of(s->format);
        w->layout = &kf_layouts[KF_LAYOUT_GGUF];
        if (kerf_geometry_init(&g, w->codec.format, &w->shape, NULL) != KERF_OK) continue;
        if (s->part[KERF_PLANE_SECOND].suffix && !kf_has_suffix(t->name, ".weight")) continue;
        KF_TRY(take_others(r, w, &all, err));
        if (all) return KERF_OK;
    }
    *w = dense;
    return KERF_OK;
}
