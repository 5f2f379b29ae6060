/* gemv_divide_wide.c - nine columns of x and more of codes of 2 and 4 bits, on sm_90a, where the
 * tensor core multiplies while the warps decode. A multiprocessor has one block, a cluster divides
 * K, and within a block its groups of four warps may divide that once more.
 *
 * Shared memory of a block (cuda/wide/gemv_wide.cuh):
 *
 *   ring     each warp's units of codes and scales
 *   x        all columns of the block's part of K, as the tensor core reads them
 *   slots    of the tiles of a step that end here, from all warps of the cluster that had them
 *   rows     tiles x 16 factors and zero points
 *   table    pairs of a code book */
#include "plan/gemv_divide.h"

enum { WIDE_GROUPS = KF_GEMV_WIDE_WARPS / 4 };

/* Tiles that a cluster has at once. */
static unsigned tiles_of_step(const kf_gemv_division *d)
{
    return KF_GEMV_WIDE_WARPS / d->k_groups;
}

static size_t lay_out_memory(kf_gemv_launch *l, const kf_gemv_tiling *t)
{
    kf_gemv_division *d = &l->division;
    size_t work = tiles_of_step(d) / l->task.together; /* of a step */
    size_t ends_here = (work + d->cluster - 1) / d->cluster * l->task.together;
    size_t slot = (KF_GEMV_TILE + 1) * KERF_GEMV_COLUMNS * sizeof(float);
    size_t at = (size_t)KF_GEMV_WIDE_WARPS * KF_GEMV_WIDE_DEPTH * t->slice_unit;
    d->x_at = (uint32_t)at;
    at += (size_t)kf_div_up(d->slices, d->cluster) * (t->slice_codes / 32) * KF_GEMV_WIDE_X;
    d->slots_at = (uint32_t)at;
    d->rows_at = (uint32_t)(at += ends_here * d->cluster * d->k_groups * slot);
    at += (size_t)l->share.most * KF_GEMV_TILE * KF_GEMV_ROW_BYTES;
    return kf_gemv_end_layout(l, t, at);
}

/* Counted as if all groups had a tile in each step. */
uint32_t kf_gemv_wide_steps(const kf_gemv_launch *l)
{
    return (uint32_t)kf_div_up(l->share.most, tiles_of_step(&l->division));
}

/* A last step in which some groups have no tile takes less time, if not in proportion. */
double kf_gemv_wide_units(const kf_gemv_launch *l, const kf_gemv_machine *m)
{
    const kf_gemv_division *d = &l->division;
    uint32_t at_once = tiles_of_step(d), rest = l->share.most % at_once;
    uint32_t units = (uint32_t)kf_div_up(d->slices, (uint64_t)d->cluster * d->k_groups);
    uint32_t busy = (uint32_t)kf_div_up(rest, 4) * d->k_groups;
    return (l->share.most / at_once + m->tuning.wide_share[busy]) * units;
}

/* Us, roughly: they decide between divisions, and between this kernel and the other. */
static double wide_us(const kf_gemv_launch *l, const kf_gemv_machine *m)
{
    const kf_gemv_tuning *n = &m->tuning;
    return n->wide_base + n->wide_unit * kf_gemv_wide_units(l, m) +
           n->wide_step * (kf_gemv_wide_steps(l) - 1);
}

static int try_wide(kf_gemv_launch *l, const kf_gemv_target *on)
{
    const kf_gemv_machine *m = on->machine;
    unsigned cluster = l->division.cluster, work = kf_gemv_work(l), waves = kf_gemv_waves(l);
    unsigned teams = m->multiprocessors / cluster * waves;
    if (l->task.options.always_wide && teams > 1) teams = 1;
    if (teams > work) teams = work;
    if (teams == 0) return 0;
    for (int again = 0; again < 2; again++) {
        kf_gemv_share_tiles(l, teams);
        size_t n = lay_out_memory(l, on->tiling);
        if (!kf_gemv_has_room(m, n, 1)) return 0;
        l->grid.blocks = teams * cluster;
        l->grid.shared_bytes = (unsigned)n;
        int clusters = on->count(on->ctx, l);
        if (clusters < 1) return clusters;
        if ((unsigned)clusters * waves >= teams) break;
        teams = (unsigned)clusters * waves;
    }
    return 1;
}

/* Whether it takes these columns at all. Of small matrices too much is beginning and end; with 8
 * bits and more nothing is gained. */
static int are_wide(const kf_gemv_launch *l, const kf_gemv_target *on)
{
    const kf_gemv_machine *m = on->machine;
    uint64_t inputs = (uint64_t)l->task.tiles * KF_GEMV_TILE * l->task.cols;
    return m->has_wgmma && l->task.columns > 8 && on->tiling->has_wide &&
           (l->task.options.always_wide || (double)inputs >= m->tuning.wide_inputs);
}

int kf_gemv_divide_wide(kf_gemv_launch *l, const kf_gemv_target *on, double least)
{
    kf_gemv_launch best = {.division.k_groups = 0};
    kf_gemv_division *d = &l->division;
    if (!are_wide(l, on)) return 0;
    d->is_few = 0;
    d->passes = l->grid.per_sm = 1;
    for (d->cluster = 2; d->cluster <= 8; d->cluster *= 2)
        for (d->k_groups = 1; d->k_groups <= WIDE_GROUPS; d->k_groups *= 2) {
            if (d->cluster * d->k_groups > d->slices) continue;
            int fits = try_wide(l, on);
            if (fits < 0) return fits;
            if (fits == 0 || wide_us(l, on->machine) >= least) continue;
            best = *l;
            least = wide_us(l, on->machine);
        }
    if (best.division.k_groups == 0) return 0;
    *l = best;
    return 1;
}
