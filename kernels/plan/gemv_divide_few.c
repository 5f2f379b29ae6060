/* gemv_divide_few.c - one, two or four columns of x, of GGUF's blocks eight or 16: each block has
 * all of x, or the blocks of a cluster, a team, share rows and have a part of K each, or a block
 * has a part of K at a time.
 *
 * Shared memory of a block (cuda/few/gemv_column.cuh):
 *
 *   ring     each warp's units of codes and scales
 *   x        all of it, or of a step, as halves: each column, then half a row of banks; then, for
 *            GGUF's blocks with minima, each column's sums over groups
 *   slots    (tiles + warps) x columns x 16 sums
 *   rows     tiles x 16 factors and zero points, and which warps had each tile
 *   mail     tiles x columns x 16 sums of the other block of a pair, or of the steps so far; from
 *            five columns on those of own tiles, from each of the team's other blocks
 *   table    pairs of a code book
 *
 * A ring of 64 KiB is twice what 132 multiprocessors must have in flight to keep 4.8 TB/s busy. It
 * lets two blocks live on one multiprocessor: two of this launch, or one and one of the next, whose
 * weights then arrive while this one works. */
#include "plan/gemv_divide.h"

unsigned kf_gemv_few(unsigned columns)
{
    return columns > KF_GEMV_EIGHT ? KF_GEMV_SIXTEEN
           : columns > KF_GEMV_FEW ? KF_GEMV_EIGHT
           : columns > 2           ? KF_GEMV_FEW
                                   : columns;
}

/* Stages of a row that a block has, at most; and of them those of a step. */
static uint32_t all_stages(const kf_gemv_division *d)
{
    return (d->stages + d->cluster - 1) / d->cluster;
}
static uint32_t step_stages(const kf_gemv_division *d)
{
    return (all_stages(d) + d->steps - 1) / d->steps;
}

/* Bytes of what a block has of x at a time. */
static size_t x_bytes(const kf_gemv_launch *l, const kf_gemv_tiling *t)
{
    size_t column = (size_t)step_stages(&l->division) * (t->stage_codes * 2 + t->stage_sums);
    unsigned columns = kf_gemv_few(l->task.columns);
    return columns * (column + (columns >= KF_GEMV_EIGHT ? t->full_gap : KF_GEMV_GAP));
}

/* Of each step a warp has its part; steps differ by a stage at most. */
unsigned kf_gemv_few_units(const kf_gemv_launch *l)
{
    const kf_gemv_division *d = &l->division;
    const uint64_t most = l->share.most, short_stages = all_stages(d) / d->steps;
    const uint64_t long_steps = all_stages(d) % d->steps;
    return (unsigned)((d->steps - long_steps) * kf_div_up(most * short_stages, KF_GEMV_WARPS) +
                      long_steps * kf_div_up(most * (short_stages + 1), KF_GEMV_WARPS));
}

static int is_heavy(const kf_gemv_tiling *t)
{
    return t->bits >= 8;
}

/* --- whether two blocks share rows ------------------------------------------------------------ */

/* How much more than its share the busiest of n multiprocessors or pairs has. */
static double unevenness(uint64_t work, unsigned n)
{
    return (double)(kf_div_up(work, n) * n) / (double)work - 1;
}

/* Bytes that a pair must take off the busiest multiprocessor, times all of these, to be worth it.
 * Beside a table there is no room for the next launch anyway. */
static double least_gain(const kf_gemv_task *task, const kf_gemv_target *on, int are_some_idle)
{
    const kf_gemv_tuning *n = &on->machine->tuning;
    if (are_some_idle) return n->pair_gain_idle;
    if (!task->overlap) return n->pair_gain_plain[is_heavy(on->tiling)];
    if (is_heavy(on->tiling) || on->tiling->table) return n->pair_gain_heavy;
    return n->pair_gain_chain[task->columns < KF_GEMV_FEW ? task->columns : KF_GEMV_FEW];
}

/* Five columns and more: each block of a pair brings in half of x, and sends the sums of half its
 * tiles. Both grow with columns. */
static int is_half_of_x_worth(const kf_gemv_task *task, const kf_gemv_target *on, unsigned work)
{
    const double *cols = on->machine->tuning.pair_cols;
    const double tiles = (double)work * task->together / on->machine->multiprocessors;
    return task->columns > KF_GEMV_FEW && (double)task->cols >= cols[0] &&
           (double)task->cols >= cols[1] * tiles;
}

/* Whole tiles of 16 rows do not come out even: of 448, some multiprocessors have four and others
 * three, where pairs have seven or six. And x of many columns may be more than the weights. */
static int are_pairs_better(const kf_gemv_launch *l, const kf_gemv_target *on)
{
    const kf_gemv_machine *m = on->machine;
    const kf_gemv_task *task = &l->task;
    unsigned pairs = m->multiprocessors / 2, work = kf_gemv_work(l), stages = l->division.stages;
    if (!m->has_clusters || pairs == 0 || work == 0) return 0;
    switch (task->options.pairing) {
    case KF_GEMV_PAIR_NEVER: return 0;
    case KF_GEMV_PAIR_ALWAYS: return stages > 1;
    default: break;
    }
    if (stages < m->tuning.pair_stages) return 0;
    if (is_half_of_x_worth(task, on, work)) return 1;
    double half = (double)(stages + stages % 2) / (double)stages;
    double saved = 1 + unevenness(work, m->multiprocessors);
    saved -= (1 + unevenness(work, pairs)) * half;
    int are_some_idle = work < m->multiprocessors;
    return (double)task->weight_bytes * saved >= least_gain(task, on, are_some_idle);
}

/* --- how many blocks a multiprocessor has ----------------------------------------------------- */

/* Whether these columns are for this kernel: a third and a fourth take the product a second time,
 * and where x is large cost more than the clusters of the kernel for more columns, if there is one.
 */
static int are_few(const kf_gemv_launch *l, const kf_gemv_target *on)
{
    const kf_gemv_tiling *t = on->tiling;
    if (!t->has_few || l->task.columns > t->few) return 0;
    if (l->task.columns < 3 || !t->has_many) return 1;
    return (double)x_bytes(l, t) <=
           on->machine->tuning.x_bytes[is_heavy(t)] + KF_GEMV_FEW * KF_GEMV_GAP;
}

/* Bytes of sums that come from other blocks, or are kept from step to step; `tile` of a tile's. */
static size_t mail_bytes(const kf_gemv_launch *l, size_t tile)
{
    const kf_gemv_division *d = &l->division;
    const uint32_t together = l->task.together;
    const size_t own = kf_div_up(l->share.most / together, d->cluster);
    if (d->cluster == 1 && d->steps == 1) return 0;
    if (d->cluster == 1 || l->task.columns <= KF_GEMV_FEW) return l->share.most * tile;
    return 16 + (d->cluster - 1) * own * together * tile;
}

static size_t lay_out_memory(kf_gemv_launch *l, const kf_gemv_tiling *t)
{
    kf_gemv_division *d = &l->division;
    size_t columns = kf_gemv_few(l->task.columns), at = t->stage_ring / KF_GEMV_AHEAD * d->ahead;
    size_t slots = (size_t)l->share.most + KF_GEMV_WARPS, sums = KF_GEMV_TILE * sizeof(float);
    d->x_at = (uint32_t)at;
    d->slots_at = (uint32_t)(at += x_bytes(l, t));
    d->rows_at = (uint32_t)(at += columns * slots * sums);
    at += (size_t)l->share.most * (KF_GEMV_TILE * KF_GEMV_ROW_BYTES + sizeof(uint32_t));
    at += mail_bytes(l, columns * sums);
    return kf_gemv_end_layout(l, t, at);
}

/* Tries per_sm blocks on a multiprocessor; 0: no room. There are as many when some have no tiles:
 * of fewer, two come to one multiprocessor in a chain, and others have none. Clusters of more than
 * two leave some multiprocessors of a GPU without one: the device says how many run at once. */
static int try_few(kf_gemv_launch *l, const kf_gemv_target *on, unsigned per_sm)
{
    const unsigned cluster = l->division.cluster;
    const unsigned waves = kf_gemv_waves(l);
    unsigned teams = on->machine->multiprocessors / cluster * per_sm * waves;
    l->grid.per_sm = per_sm;
    for (;;) {
        l->grid.blocks = teams * cluster;
        kf_gemv_share_tiles(l, teams);
        size_t n = lay_out_memory(l, on->tiling);
        l->grid.shared_bytes = (unsigned)n;
        if (!kf_gemv_has_room(on->machine, n, per_sm)) return 0;
        if (cluster <= 2) return 1;
        const int clusters = on->count(on->ctx, l);
        if (clusters < 1) return 0;
        if ((unsigned)clusters * waves >= teams) return 1;
        teams = (unsigned)clusters * waves;
    }
}

/* Whether every warp has so many rings full of units to do. */
static int fills_rings(const kf_gemv_launch *l, double rings)
{
    uint64_t units = (uint64_t)l->share.most * all_stages(&l->division);
    return (double)units >= rings * KF_GEMV_AHEAD * KF_GEMV_WARPS;
}

/* Whether two blocks share a multiprocessor, once they are divided that way. In a chain they do
 * where a warp of them still has a ring full to do, and with fewer than 8 bits or more than two
 * columns, whose units take longer, two of them: of less, all is in flight before x is known, and
 * a second block would only read x again. A long x beside 8 bits and more wants one block. Where x
 * is there from the start, one block of longer runs is better as long as all of it is short. */
static int are_two_better(const kf_gemv_launch *l, const kf_gemv_target *on)
{
    const kf_gemv_tuning *n = &on->machine->tuning;
    const kf_gemv_task *task = &l->task;
    int heavy = is_heavy(on->tiling);
    if (task->columns > KF_GEMV_FEW) return 0; /* one takes all registers */
    if (!task->overlap) return (double)task->weight_bytes >= n->two_blocks_plain;
    if (heavy && (double)task->cols >= n->one_block_cols) return 0;
    return fills_rings(l, n->two_blocks_rings[heavy && task->columns <= 2]);
}

/* Shared memory that keeps two blocks of a launch off one multiprocessor where each multiprocessor
 * is meant to have one: more than half of it, which leaves room for a block of the launch after it.
 * 0: there is no need, or the blocks are too large for that. */
static unsigned solo_bytes(const kf_gemv_launch *l, const kf_gemv_machine *m)
{
    enum { OWN = 1024 }; /* the system's, and the kernel's */
    unsigned half = (m->most_shared + 2 * OWN) / 2;
    int is_one = l->task.overlap && l->grid.per_sm == 1;
    return is_one && l->grid.shared_bytes + 3 * OWN <= half ? half - OWN / 2 : 0;
}

/* Blocks, from the first, that fetch all of their ring before x. Of two on a multiprocessor the
 * first starts soon enough for that, unless the ring is all that it has. With fewer than 8 bits the
 * block beside it, which still works, would lose more by it. */
static unsigned full_blocks(const kf_gemv_launch *l, const kf_gemv_tiling *t)
{
    int has_more = kf_gemv_few_units(l) > KF_GEMV_AHEAD;
    int is_shared = l->task.overlap && l->grid.per_sm == 2;
    return is_shared && is_heavy(t) && has_more ? l->grid.blocks / 2 : 0;
}

/* Two blocks of threads for each multiprocessor, or one; 0: no room. Where two units of a warp
 * have none, or all of x, two blocks have none either. */
static int try_blocks(kf_gemv_launch *l, const kf_gemv_target *on)
{
    kf_gemv_division *d = &l->division;
    d->block_stages = step_stages(d);
    int are_two = d->ahead == KF_GEMV_AHEAD && d->steps == 1 &&
                  kf_gemv_work(l) > on->machine->multiprocessors / d->cluster &&
                  try_few(l, on, 2) && are_two_better(l, on);
    return are_two || try_few(l, on, 1);
}

/* A long x finds room if blocks share it. */
static int try_team(kf_gemv_launch *l, const kf_gemv_target *on, unsigned blocks)
{
    kf_gemv_division *d = &l->division;
    if (d->cluster >= blocks || d->stages < blocks) return 0;
    if (on->machine->multiprocessors < blocks) return 0;
    if (!on->machine->has_clusters || l->task.options.pairing == KF_GEMV_PAIR_NEVER) return 0;
    d->cluster = blocks;
    return try_blocks(l, on);
}

/* Of GGUF's blocks, which have no other kernel, a long x: two blocks share it, and then rings have
 * one unit a warp, whose seven neighbours keep memory busy while it multiplies; of many columns
 * four blocks or eight share it; then a block has it in as few steps as it takes. 0: no room for a
 * stage. */
static int try_long(kf_gemv_launch *l, const kf_gemv_target *on)
{
    kf_gemv_division *d = &l->division;
    const uint32_t cluster = d->cluster;
    for (; d->ahead; d->ahead--) {
        d->cluster = cluster;
        if (try_blocks(l, on) || try_team(l, on, 2)) return 1;
    }
    if (l->task.columns > KF_GEMV_FEW)
        for (unsigned blocks = 4; blocks <= KF_GEMV_TEAM; blocks *= 2)
            for (d->ahead = KF_GEMV_AHEAD; d->ahead; d->ahead--) {
                d->cluster = 1;
                if (try_team(l, on, blocks)) return 1;
            }
    d->cluster = 1;
    for (d->steps = 2; d->steps <= d->stages; d->steps++)
        for (d->ahead = KF_GEMV_AHEAD; d->ahead; d->ahead--)
            if (try_blocks(l, on)) return 1;
    return 0;
}

/* Whether x of up to four columns is too long for one block to have all of it, so that a pair,
 * each of whose blocks has half, takes less time (section 52 of bench/notes-gemv.md):
 *
 *   the kernel would not take all of x, and that for more columns takes much longer; or
 *   two blocks with all of x have no room on a multiprocessor, and the eight warps of one are too
 *       few to hide what each of them waits for.
 *
 * In the second case two blocks of pairs need not have room either: there is still less of x to
 * read. But they must where rings alone leave no room for two, and beside the table of a code book,
 * where pairs are slower else, and are never taken without a chain. */
static int is_x_too_long(const kf_gemv_launch *l, const kf_gemv_target *on)
{
    const kf_gemv_machine *m = on->machine;
    const kf_gemv_task *task = &l->task;
    const int has_table = on->tiling->table != 0;
    kf_gemv_launch alone = *l, pair = *l;
    if (task->columns > KF_GEMV_FEW || task->options.pairing != KF_GEMV_PAIR_BY_GAIN) return 0;
    if (!m->has_clusters || m->multiprocessors < 2) return 0;
    if (l->division.stages < m->tuning.pair_stages) return 0;
    alone.division.cluster = 1;
    alone.division.block_stages = step_stages(&alone.division);
    pair.division.cluster = 2;
    pair.division.block_stages = step_stages(&pair.division);
    if (!are_few(&pair, on)) return 0;
    if (!are_few(&alone, on) || !try_few(&alone, on, 1)) return try_few(&pair, on, 1);
    if (try_few(&alone, on, 2) || (has_table && !task->overlap)) return 0;
    const int is_for_two = has_table || !kf_gemv_has_room(m, on->tiling->stage_ring, 2);
    return try_few(&pair, on, is_for_two ? 2 : 1);
}

/* Blocks of a team where rows are to be shared. */
static unsigned team_of(const kf_gemv_launch *l, const kf_gemv_target *on)
{
    const unsigned asked = l->task.columns > KF_GEMV_FEW ? l->task.options.team : 0;
    const int fits = l->division.stages >= asked && on->machine->multiprocessors >= asked;
    return (asked == 4 || asked == 8) && fits ? asked : 2;
}

/* Fills in all but who is asked how many run at once; 0: no room. */
static int divide(kf_gemv_launch *l, const kf_gemv_target *on)
{
    kf_gemv_division *d = &l->division;
    d->steps = 1;
    d->ahead = KF_GEMV_AHEAD;
    d->cluster = are_pairs_better(l, on) ? team_of(l, on) : is_x_too_long(l, on) ? 2 : 1;
    if (!are_few(l, on)) return 0;
    d->is_few = 1;
    d->passes = 1;
    return on->tiling->way == KF_WAY_BLOCKS ? try_long(l, on) : try_blocks(l, on);
}

/* Nine columns and more read and decode weights once where two launches of eight do so twice, but
 * for a long x in more steps. Each of these costs the time of so many bytes (section 34 of
 * bench/notes-gemv.md). */
static int are_steps_too_many(const kf_gemv_launch *l, const kf_gemv_target *on)
{
    if (l->task.columns <= KF_GEMV_EIGHT || l->division.steps == 1) return 0;
    kf_gemv_launch eight = *l;
    eight.task.columns = KF_GEMV_EIGHT;
    if (!divide(&eight, on)) return 0;
    const double more = (double)l->division.steps - 1 - 2 * ((double)eight.division.steps - 1);
    const double bytes = on->machine->tuning.step_bytes[on->tiling->stage_sums != 0];
    return more * bytes > (double)l->task.weight_bytes;
}

/* Half of a ring is left until x has been asked for where the busiest warp has two rings full to
 * do, or where no block of the next launch has room beside one of this. Where x is there from the
 * start, all of the ring is. */
int kf_gemv_divide_few(kf_gemv_launch *l, const kf_gemv_target *on)
{
    kf_gemv_division *d = &l->division;
    if (l->task.columns > on->tiling->few) return 0;
    if (!divide(l, on) || are_steps_too_many(l, on)) return 0;
    l->grid.solo_bytes = solo_bytes(l, on->machine);
    int is_short = kf_gemv_few_units(l) < 2 * d->ahead && l->grid.solo_bytes;
    d->before_x = is_short ? d->ahead : KF_GEMV_AHEAD / 2;
    if (!l->task.overlap) d->before_x = 0;
    d->full_blocks = full_blocks(l, on->tiling);
    return on->count(on->ctx, l) < 0 ? -1 : 1;
}
