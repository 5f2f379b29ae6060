/* experts_few.c - how the launches of a mixture-of-experts layer of several tokens are divided
 * (cuda/experts/experts_few.cuh): blocks, parts of their work, and a block's shared memory. */
#include "plan/experts_plan.h"

static unsigned round_up(unsigned n, unsigned to)
{
    return (n + to - 1) / to * to;
}

static unsigned div_up(unsigned n, unsigned by)
{
    return (n + by - 1) / by;
}

static unsigned smaller(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* So many blocks for a multiprocessor, and chunks of a row. A part has as many items as there is
 * room for sums; with few units for each warp, warps would mostly wait for each other. */
static int try_way(kf_experts_few_room *r, const kf_experts_few_need *n, unsigned beside,
                   unsigned chunks)
{
    enum { OWN = 1024 }; /* bytes that the driver takes of each block */
    enum { SLOT = KF_EXPERTS_FEW * KF_GEMV_TILE * 4, LEAST_UNITS = 8 * KF_GEMV_WARPS, MOST = 256 };
    const unsigned room = (n->most_shared + OWN) / beside - OWN;
    const unsigned results = n->is_down ? 1 : 2; /* of an item */
    *r = (kf_experts_few_room){.chunk_stages = div_up(n->slices, chunks)};
    r->chunks = div_up(n->slices, r->chunk_stages);
    const unsigned all = n->groups * r->chunks * n->tiles;
    r->blocks = smaller(all, beside * n->multiprocessors);
    r->x_at = KF_GEMV_WARPS * KF_GEMV_AHEAD * n->unit;
    r->x_pitch = r->chunk_stages * n->x_stage + KF_GEMV_GAP;
    r->backs_at = r->x_at + KF_EXPERTS_FEW * r->x_pitch;
    r->x_sums_at = round_up(r->backs_at + r->chunk_stages * KF_EXPERTS_FEW * 4, 128);
    r->lists_at = round_up(r->x_sums_at + r->chunk_stages * KF_EXPERTS_FEW * n->x_sums, 128);
    r->table_at = round_up(r->lists_at + n->lists, 128);
    r->sums_at = r->table_at + n->table;
    const unsigned used = r->sums_at + KF_GEMV_WARPS * SLOT;
    if (used >= room) return 0;
    if ((uint64_t)all * (r->blocks > n->tiles ? r->blocks : n->tiles) > UINT32_MAX) return 0;
    const unsigned most = smaller(div_up(all, r->blocks), MOST); /* items of a block */
    r->most_items = smaller((room - used) / (SLOT * results), most);
    r->bytes = used + r->most_items * SLOT * results;
    return r->most_items == most || r->most_items * results * r->chunk_stages >= LEAST_UNITS;
}

/* Two blocks for a multiprocessor: while one waits for x, the other reads weights. Rows of h, which
 * may be long, can be cut in chunks for it; those of gate and up cannot, since h needs whole sums.
 */
int kf_experts_few_divide(kf_experts_few_room *out, const kf_experts_few_need *n)
{
    enum { MOST_CHUNKS = 8, LEAST_STAGES = 4 };
    for (unsigned beside = 2; beside >= 1; beside--)
        for (unsigned chunks = 1; chunks == 1 || (n->is_down && chunks <= MOST_CHUNKS &&
                                                  n->slices >= chunks * LEAST_STAGES);
             chunks++)
            if (try_way(out, n, beside, chunks)) return 1;
    return 0;
}
