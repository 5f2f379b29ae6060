/* experts_few.c - how the launches of a mixture-of-experts layer of several tokens are divided
 * (cuda/experts/experts_few.cuh): blocks, parts of their work, and a block's shared memory. */
#include "plan/experts_plan.h"

#include "base/base.h"

static unsigned smaller(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* So many blocks for a multiprocessor, and chunks of a row; those of gate and up are turns of one
 * block, which warps must cut alike. A part has as many items as there is room for sums; with few
 * units for each warp, warps would mostly wait for each other. */
static int try_way(kf_experts_few_room *r, const kf_experts_few_need *n, unsigned beside,
                   unsigned chunks)
{
    enum { OWN = 1024 }; /* bytes that the driver takes of each block */
    enum { LEAST_UNITS = 8 * KF_GEMV_WARPS, MOST = 256 };
    const unsigned slot = n->share * KF_GEMV_TILE * 4;
    const unsigned room = (n->most_shared + OWN) / beside - OWN;
    const unsigned results = n->is_down ? 1 : 2; /* of an item */
    *r = (kf_experts_few_room){.chunk_stages = (unsigned)kf_div_up(n->slices, chunks),
                               .beside = beside};
    r->chunks = n->is_down ? (unsigned)kf_div_up(n->slices, r->chunk_stages) : 1;
    if (!n->is_down && n->slices % chunks) return 0;
    const unsigned all = n->groups * r->chunks * n->tiles;
    r->blocks = smaller(all, beside * n->multiprocessors);
    r->x_at = KF_GEMV_WARPS * KF_GEMV_AHEAD * n->unit;
    r->x_pitch = r->chunk_stages * n->x_stage + KF_GEMV_GAP;
    r->backs_at = r->x_at + n->share * r->x_pitch;
    r->x_sums_at = kf_experts_whole(r->backs_at + r->chunk_stages * n->share * 4);
    r->lists_at = kf_experts_whole(r->x_sums_at + r->chunk_stages * n->share * n->x_sums);
    r->table_at = kf_experts_whole(r->lists_at + n->lists);
    r->sums_at = r->table_at + n->table;
    const unsigned used = r->sums_at + KF_GEMV_WARPS * slot;
    if (used >= room) return 0;
    if ((uint64_t)all * (r->blocks > n->tiles ? r->blocks : n->tiles) > UINT32_MAX) return 0;
    const unsigned most = smaller((unsigned)kf_div_up(all, r->blocks), MOST); /* items of a block */
    r->most_items = smaller((room - used) / (slot * results), most);
    r->bytes = used + r->most_items * slot * results;
    return r->most_items == most || r->most_items * results * r->chunk_stages >= LEAST_UNITS;
}

/* Two blocks for a multiprocessor: while one waits for x, the other reads weights. Rows of h, which
 * may be long, can be cut in chunks for it. Those of gate and up need whole sums, so a block would
 * take all chunks: what only groups of more tokens do. */
int kf_experts_few_divide(kf_experts_few_room *out, const kf_experts_few_need *n)
{
    enum { MOST_CHUNKS = 8, LEAST_STAGES = 4 };
    for (unsigned beside = 2; beside >= 1; beside--)
        for (unsigned chunks = 1;
             chunks == 1 || ((n->is_down || n->share > KF_EXPERTS_FEW) && chunks <= MOST_CHUNKS &&
                             n->slices >= chunks * LEAST_STAGES);
             chunks++)
            if (try_way(out, n, beside, chunks)) return 1;
    return 0;
}

unsigned kf_experts_few_share(const kf_experts_few_need need[2], kf_gemv_tiling t, unsigned tokens,
                              unsigned top_k, unsigned experts)
{
    enum { NARROW = 2, WIDE = 6 }; /* bits of a code that take long enough to decode */
    const unsigned most = kf_experts_few_most(t);
    const unsigned least = t.bits <= NARROW || t.bits >= WIDE ? experts : experts + 1;
    if (most == KF_EXPERTS_FEW || tokens <= KF_EXPERTS_FEW || tokens * top_k < least)
        return KF_EXPERTS_FEW;
    for (int i = 0; i < 2; i++) {
        kf_experts_few_need n = need[i];
        kf_experts_few_room r;
        n.share = most;
        if (!kf_experts_few_divide(&r, &n) || r.beside < 2) return KF_EXPERTS_FEW;
    }
    return most;
}
