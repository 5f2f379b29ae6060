/* experts_one.c - how the launches of a mixture-of-experts layer of one token are divided
 * (cuda/experts/experts_one.cuh): teams of blocks, and a block's shared memory. */
#include "plan/experts_plan.h"

#include "base/base.h"

/* 16 numbers of what comes out. */
static unsigned items_of(const kf_experts_one_need *n)
{
    return n->tiles * (n->is_down ? 1 : n->top_k);
}

/* Results that a team has at most, and units that each of them takes. */
static unsigned results_of(const kf_experts_one_need *n, const kf_experts_one_room *r)
{
    return (unsigned)kf_div_up(items_of(n), r->blocks / r->team) * (n->is_down ? 1 : 2);
}

static unsigned stages_of(const kf_experts_one_need *n)
{
    return n->slices * (n->is_down ? n->top_k : 1);
}

/* Units that a block has at most. */
static double work_of(const kf_experts_one_need *n, const kf_experts_one_room *r)
{
    return (double)results_of(n, r) * stages_of(n) / r->team;
}

/* One block for a multiprocessor. */
static int try_team(kf_experts_one_room *r, const kf_experts_one_need *n, unsigned team)
{
    enum { SLOT = KF_GEMV_TILE * 4 };
    const unsigned places = n->multiprocessors / team * team, all = items_of(n) * team;
    if (!places || stages_of(n) < team) return 0;
    *r = (kf_experts_one_room){.team = team, .blocks = all < places ? all : places};
    const unsigned steps = (unsigned)kf_div_up(stages_of(n), team), results = results_of(n, r);
    r->x_at = KF_GEMV_WARPS * KF_GEMV_AHEAD * n->unit;
    r->backs_at = r->x_at + steps * n->x_stage;
    r->x_sums_at = kf_experts_whole(r->backs_at + steps * 4);
    r->sums_at = kf_experts_whole(r->x_sums_at + steps * n->x_sums);
    r->runs_at = r->sums_at + (results + KF_GEMV_WARPS) * SLOT;
    r->mail_at = r->runs_at + results * 4;
    r->table_at = kf_experts_whole(r->mail_at + (team > 1 ? team * results * SLOT : 0));
    r->bytes = r->table_at + n->table;
    return r->bytes <= n->most_shared;
}

/* For y, pairs of blocks: each has half of h to bring into shared memory. Not where whole tiles for
 * pairs leave much undone. */
int kf_experts_one_divide(kf_experts_one_room *out, const kf_experts_one_need *n)
{
    kf_experts_one_room pairs;
    const int alone = try_team(out, n, 1);
    if (!n->is_down || !n->has_clusters || !try_team(&pairs, n, 2)) return alone;
    if (!alone || work_of(n, &pairs) <= 1.1 * work_of(n, out)) *out = pairs;
    return 1;
}
