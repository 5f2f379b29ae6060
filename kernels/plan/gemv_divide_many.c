/* gemv_divide_many.c - five columns of x and more, and fewer where x is large: a warp keeps a slice
 * of K of all columns in registers, and the blocks of a cluster share K.
 *
 * Shared memory of a block (cuda/many/gemv_columns.cuh):
 *
 *   ring     each warp's units of codes and scales
 *   sums     of two tiles, of each warp
 *   own      of the passes so far, where there are several
 *   slots    of the tiles that end here, from each block of the cluster
 *   rows     tiles x 16 factors and zero points
 *   table    pairs of a code book */
#include "plan/gemv_divide.h"

static size_t lay_out_memory(kf_gemv_launch *l, const kf_gemv_tiling *t)
{
    kf_gemv_division *d = &l->division;
    size_t columns = l->task.columns <= 8 ? 8 : 16;
    size_t sums = KF_GEMV_TILE * columns * sizeof(float);
    size_t slot = (KF_GEMV_TILE + 1) * columns * sizeof(float);
    size_t work = l->share.most / l->task.together; /* of a team */
    size_t ends_here = (work + d->cluster - 1) / d->cluster * l->task.together;
    size_t at = (size_t)KF_GEMV_WARPS * t->slice_depth * t->slice_unit;
    d->sums_at = (uint32_t)(at = (at + 127) / 128 * 128);
    d->own_at = (uint32_t)(at += 2 * KF_GEMV_WARPS * sums);
    if (d->passes > 1) at += l->share.most * sums;
    d->slots_at = (uint32_t)at;
    d->rows_at = (uint32_t)(at += ends_here * d->cluster * slot);
    at += (size_t)l->share.most * KF_GEMV_TILE * KF_GEMV_ROW_BYTES;
    return kf_gemv_end_layout(l, t, at);
}

/* A warp has a slice, a block up to 8 warps; what a cluster has no warps for is left to passes. */
static void divide_slices(kf_gemv_division *d, uint32_t cluster)
{
    d->cluster = cluster;
    d->cluster_part = (UINT16_MAX + cluster) / cluster;
    d->passes = (uint32_t)kf_div_up(d->slices, cluster * KF_GEMV_WARPS);
    d->warps = (uint32_t)kf_div_up(d->slices, (uint64_t)cluster * d->passes);
}

/* Tries grid.per_sm blocks on a multiprocessor. How many clusters there is room for depends on
 * where multiprocessors lie; a block that is meant to be alone is counted as if it filled its own.
 */
static int try_many(kf_gemv_launch *l, const kf_gemv_target *on)
{
    const kf_gemv_machine *m = on->machine;
    kf_gemv_grid *g = &l->grid;
    unsigned cluster = l->division.cluster, work = kf_gemv_work(l), waves = kf_gemv_waves(l);
    unsigned teams = m->multiprocessors * g->per_sm / cluster * waves;
    if (l->task.options.team && teams > 1) teams = 1;
    if (teams > work) teams = work;
    if (teams == 0) return 0;
    for (int again = 0; again < 2; again++) {
        kf_gemv_share_tiles(l, teams);
        size_t n = lay_out_memory(l, on->tiling);
        if (!kf_gemv_has_room(m, n, g->per_sm)) return 0;
        g->blocks = teams * cluster;
        g->shared_bytes = g->per_sm > 1 ? (unsigned)n : m->most_shared;
        int clusters = on->count(on->ctx, l);
        g->shared_bytes = (unsigned)n;
        if (clusters < 1) return clusters;
        /* Beside what is left of another kernel the last of many does not always find room. */
        if (g->per_sm > 1 && clusters > 1) clusters--;
        if (cluster == 1 || (unsigned)clusters * waves >= teams) break;
        teams = (unsigned)clusters * waves;
    }
    return 1;
}

/* What a division costs, in the time that one more warp of a multiprocessor adds to a step, in
 * which each warp takes 16 rows of its slice. A step waits for one unit, and then for as many as
 * there are warps; a pass reads x anew, and a second block on a multiprocessor leaves no room for
 * the next launch. */
static double price(const kf_gemv_launch *l, const kf_gemv_machine *m)
{
    const kf_gemv_tuning *n = &m->tuning;
    const kf_gemv_division *d = &l->division;
    const double second = d->cluster > 2 ? n->many_blocks : n->many_pair[l->task.columns > 8];
    const double step = n->many_step + l->grid.per_sm * d->warps;
    return step * d->passes * l->share.most + n->many_pass * (d->passes - 1) +
           n->many_cluster * (d->cluster - 1) + second * (l->grid.per_sm - 1);
}

/* Keeps in *best what is cheaper, of two blocks on a multiprocessor and one. Clusters of three and
 * more have one only where two find no room: they do not lie evenly beside another kernel's, so
 * that some multiprocessors have two blocks anyway where others have none. */
static int try_cluster(kf_gemv_launch *l, const kf_gemv_target *on, kf_gemv_launch *best)
{
    for (l->grid.per_sm = 2; l->grid.per_sm; l->grid.per_sm--) {
        const int fits = try_many(l, on);
        if (fits < 0) return fits;
        if (fits == 0) continue;
        const int is_first = best->division.passes == 0;
        if (is_first || price(l, on->machine) < price(best, on->machine)) *best = *l;
        if (l->division.cluster > 2) break;
    }
    return 0;
}

/* A cluster may be of any size up to eight blocks: 20 slices are three blocks of seven warps, or
 * four of five, and then a multiprocessor has 14 warps at work, or 10. But of some sizes fewer find
 * room: the device says how many. */
int kf_gemv_divide_many(kf_gemv_launch *l, const kf_gemv_target *on)
{
    const uint32_t most = on->machine->has_clusters ? 8 : 1, asked = l->task.options.team;
    kf_gemv_launch best = {.division.passes = 0};
    l->division.is_few = 0;
    l->division.k_groups = 0;
    for (uint32_t cluster = 1; cluster <= most; cluster++) {
        if (asked && cluster != (asked < most ? asked : most)) continue;
        divide_slices(&l->division, cluster);
        if (try_cluster(l, on, &best) < 0) return -1;
    }
    if (best.division.passes == 0) return 0;
    *l = best;
    return 1;
}

double kf_gemv_many_us(const kf_gemv_launch *l, const kf_gemv_machine *m)
{
    return m->tuning.many_base + m->tuning.many_unit * price(l, m);
}
