/* fused.c - the layers that runtimes merge with a weight: those whose names differ from its own in
 * the part that a row of roles/groups.def has, and whose places say that they are these pieces. */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "layout/weights.h"
#include "roles/groups.h"

/* The row of a weight; a name alone does not make it a member. */
static const kf_fused_row *row_of(const kerf_weight *w)
{
    kerf_piece piece;
    const kerf_place *p = &w->place;
    if (!p->piece_bytes) return NULL;
    const kf_fused_row *g = kf_group_find(w->name + p->piece_at, p->piece_bytes, &piece);
    return g && piece == p->piece ? g : NULL;
}

const char *kerf_fused_name(const kerf_weight *w)
{
    const kf_fused_row *g = row_of(w);
    return g ? g->name : NULL;
}

size_t kerf_fused_group(const kerf_weights *all, const kerf_weight *w,
                        const kerf_weight *out[KERF_FUSED_MOST])
{
    const kf_fused_row *g = row_of(w);
    size_t count = 0;
    for (size_t i = 0; g && i < KF_GROUP_MOST && g->member[i].name; i++) {
        char name[KERF_MAX_NAME_BYTES + 32];
        snprintf(name, sizeof name, "%.*s%s%s", (int)w->place.piece_at, w->name, g->member[i].name,
                 w->name + w->place.piece_at + w->place.piece_bytes);
        const kerf_weight *other = kerf_weights_find(all, name);
        if (other && other->place.piece == g->member[i].piece) out[count++] = other;
    }
    return count > 1 ? count : 0;
}
