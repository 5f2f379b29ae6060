/* twins.c - the same numbers in the arrangement that another layout can store: planes of their own
 * in place of blocks, scales that are 1 left out. */
#include <string.h>

#include "base/base.h"
#include "layout/layout.h"

/* Scales per matrix of 1 change nothing: ggml's blocks stand without them. */
static kerf_status find_unit_second(const kerf_reader *r, kerf_weight *w, kerf_error *err)
{
    const kerf_geometry g = kerf_weight_geometry(w);
    const kerf_plane *second = &g.plane[KERF_PLANE_SECOND];
    int all = second->dtype != KERF_DTYPE_NONE;
    for (uint64_t at = 0; all && !w->unit_second && at < second->bytes; at += sizeof(float)) {
        float x;
        KF_TRY(kerf_weight_read(r, w, KERF_PLANE_SECOND, at, &x, sizeof x, err));
        all = x == 1;
    }
    w->unit_second = all;
    return KERF_OK;
}

kerf_status kerf_weight_fit(const kerf_reader *r, const kerf_layout *l, kerf_weight *w,
                            unsigned *foreign_from, kerf_error *err)
{
    const kerf_layout *gguf = &kf_layouts[KF_LAYOUT_GGUF];
    const int to_blocks = l == gguf, from_blocks = w->layout == gguf;
    const int is_own = l == &kf_layouts[KF_LAYOUT_KERF];
    kerf_geometry g;
    *foreign_from = 256;
    if (!w->codec.format || l == w->layout) return KERF_OK;
    for (size_t i = 0; i < kf_twin_count; i++) {
        const kf_twins *t = &kf_twin_table[i];
        const kerf_format *planes = kf_format_of(t->planes);
        if (w->codec.format->id == t->planes && (to_blocks || from_blocks))
            *foreign_from = t->foreign_from;
        if (w->codec.format->id != t->blocks || to_blocks) continue;
        if (!is_own && !kf_stored_find(l, planes)) continue;
        if (is_own && !from_blocks) continue; /* which it holds as they are */
        w->codec = (kerf_codec){planes, NULL};
        w->layout = gguf; /* whose rows know how planes lie in blocks */
        KF_TRY(kerf_geometry_init(&g, planes, &w->shape, err));
        w->unit_second = planes->second != KERF_SECOND_NONE;
        *foreign_from = t->foreign_from;
        return KERF_OK;
    }
    return to_blocks ? find_unit_second(r, w, err) : KERF_OK;
}
