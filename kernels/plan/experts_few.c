/* experts_few.c - how the launches of a mixture-of-experts layer of several tokens are divided
 * (cuda/experts/experts_few.cuh): blocks, parts of their work, and a block's shared memory. */
#include "plan/experts_plan.h"

#include "base/base.h"

static unsigned smaller(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Tokens whose x is in a block. Where groups have minima, sums of x that are not finite are found
 * an element at a time, of two columns always: what is read of one that has no token counts for
 * nothing, but must lie within the block's memory. */
static unsigned tokens_of(const kf_experts_few_need *n)
{
    return n->tokens ? smaller(n->tokens, n->share) : n->share;
}

/* So many blocks for a multiprocessor, and chunks of a row; those of gate and up are turns of one
 * block, which warps must cut alike. A part has as many items as there is room for sums; with few
 * units for each warp, warps would mostly wait for each other. */
static int try_way(kf_experts_few_room *r, const kf_experts_few_need *n, unsigned beside,
                   unsigned chunks)
{
    enum { OWN = 1024 }; /* bytes that the driver takes of each block */
    enum { LEAST_UNITS = 8 * KF_GEMV_WARPS, MOST = 256 };
    const unsigned slot = n->share * KF_GEMV_TILE * 4, tokens = tokens_of(n);
    const unsigned room = (n->most_shared + OWN) / beside - OWN;
    const unsigned results = n->is_down ? 1 : 2; /* of an item */
    *r = (kf_experts_few_room){.chunk_stages = (unsigned)kf_div_up(n->slices, chunks),
                               .beside = beside};
    r->chunks = n->is_down ? (unsigned)kf_div_up(n->slices, r->chunk_stages) : 1;
    if (!n->is_down && n->slices % chunks) return 0;
    const uint64_t items = (uint64_t)n->groups * r->chunks * n->tiles;
    if (items > UINT32_MAX) return 0;
    const unsigned all = (unsigned)items;
    r->blocks = smaller(all, beside * n->multiprocessors);
    r->x_at = KF_GEMV_WARPS * KF_GEMV_AHEAD * n->unit;
    r->x_pitch = r->chunk_stages * n->x_stage + KF_GEMV_GAP;
    r->backs_at = r->x_at + tokens * r->x_pitch;
    r->x_sums_at = kf_experts_whole(r->backs_at + r->chunk_stages * n->share * 4);
    r->lists_at = kf_experts_whole(r->x_sums_at + r->chunk_stages * n->share * n->x_sums);
    r->table_at = kf_experts_whole(r->lists_at + n->lists);
    r->sums_at = r->table_at + n->table;
    const unsigned used = r->sums_at + KF_GEMV_WARPS * slot;
    const unsigned pairs_end = n->x_sums ? r->x_at + 2 * r->x_pitch : 0;
    if (used >= room || pairs_end > room) return 0;
    if ((uint64_t)all * (r->blocks > n->tiles ? r->blocks : n->tiles) > UINT32_MAX) return 0;
    const unsigned most = smaller((unsigned)kf_div_up(all, r->blocks), MOST); /* items of a block */
    r->most_items = smaller((room - used) / (slot * results), most);
    r->bytes = used + r->most_items * slot * results;
    if (r->bytes < pairs_end) r->bytes = pairs_end;
    if (n->is_tight) return r->most_items > 0;
    return r->most_items == most || r->most_items * results * r->chunk_stages >= LEAST_UNITS;
}

/* Whether rows may be cut in so many chunks. Those of h can; those of gate and up need whole sums,
 * so a block would take all chunks: what only groups of more tokens do. */
static int can_cut(const kf_experts_few_need *n, unsigned chunks, unsigned least_stages)
{
    return chunks == 1 ||
           ((n->is_down || n->share > KF_EXPERTS_FEW) && n->slices >= chunks * least_stages);
}

/* Where no way leaves room for as many units as warps should have, the one that leaves most. */
static int divide_tight(kf_experts_few_room *out, const kf_experts_few_need *n)
{
    enum { MOST_CHUNKS = 64 };
    unsigned most = 0;
    for (unsigned chunks = 1; chunks <= MOST_CHUNKS && can_cut(n, chunks, 1); chunks++) {
        kf_experts_few_room r;
        if (!try_way(&r, n, 1, chunks) || r.most_items * r.chunk_stages <= most) continue;
        most = r.most_items * r.chunk_stages;
        *out = r;
    }
    return most > 0;
}

/* Two blocks for a multiprocessor: while one waits for x, the other reads weights. Rows may be cut
 * in chunks for it. */
int kf_experts_few_divide(kf_experts_few_room *out, const kf_experts_few_need *n)
{
    enum { MOST_CHUNKS = 8, LEAST_STAGES = 4 };
    if (n->is_tight) return divide_tight(out, n);
    for (unsigned beside = 2; beside >= 1; beside--)
        for (unsigned chunks = 1; chunks <= MOST_CHUNKS && can_cut(n, chunks, LEAST_STAGES);
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
