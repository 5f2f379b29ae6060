/* experts_divide.c - how the shared memory of a block of a mixture-of-experts launch is divided:
 * rings of warps, sums of items, the lists of groups. */
#include "plan/experts_plan.h"

static void lay_out(kf_experts_room *r, const kf_experts_need *n)
{
    r->x_pitch = kf_experts_whole(n->x_bytes) + 64; /* neighbours in other banks */
    r->slot = kf_experts_whole(n->mats * n->unit + r->share * r->x_pitch);
    r->sum_cols = n->columns ? n->columns : r->share;
    unsigned sums = KF_EXPERTS_TURNS * r->warps * n->mats * r->sum_cols * 64;
    r->sums_at = r->warps * r->depth * r->slot;
    r->zeros_at = r->sums_at + kf_experts_whole(sums > n->scratch ? sums : n->scratch);
    r->lists_at = r->zeros_at + kf_experts_whole(n->zeros);
    r->table_at = r->lists_at + kf_experts_whole(n->lists);
    r->bytes = r->table_at + n->table;
}

typedef struct way {
    unsigned blocks, warps, depth;
} way;

static int try_way(kf_experts_room *out, const kf_experts_need *need, unsigned share, way w)
{
    enum { OWN = 1024 }; /* bytes that the driver takes of each block */
    unsigned all = need->most_shared + OWN;
    unsigned room = w.blocks == 2 ? (all + OWN) / 2 - OWN : need->most_shared;
    *out =
        (kf_experts_room){.share = share, .warps = w.warps, .depth = w.depth, .blocks = w.blocks};
    lay_out(out, need);
    return out->bytes <= room;
}

int kf_experts_divide(kf_experts_room *out, const kf_experts_need *need, unsigned share)
{
    static const way ways[] = {{2, 8, 4}, {2, 8, 3}, {2, 8, 2}, {2, 7, 2}, {2, 6, 2},
                               {2, 5, 2}, {1, 8, 4}, {1, 8, 3}, {1, 8, 2}, {1, 4, 2}};
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++)
        if (try_way(out, need, share, ways[i])) return 1;
    return 0;
}
