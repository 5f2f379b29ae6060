/* gemv_outline.c - tiles, clusters and shared memory of the matrix-vector product on a GPU.
 *
 * Shared memory of a block of the kernel for one column, two or four:
 *
 *   ring     each warp's units of codes and scales
 *   x        all of it, as halves: each column, then half a row of banks
 *   slots    (tiles + warps) x columns x 16 sums
 *   rows     tiles x 16 factors and zero points, and which warps had each tile
 *   mail     tiles x columns x 16 sums of the other block of a pair
 *   table    pairs of a code book
 *
 * of the one for more:
 *
 *   ring     each warp's units of codes and scales
 *   sums     of two tiles, of each warp
 *   own      of the passes so far, where there are several
 *   slots    of the tiles that end here, from each block of the cluster
 *   rows     tiles x 16 factors and zero points
 *   table    pairs of a code book
 *
 * and of the one for nine and more where the tensor core works beside the warps:
 *
 *   ring     each warp's units of codes and scales
 *   x        all columns of the block's part of K, as the tensor core reads them
 *   slots    of the tiles of a step that end here, from all warps of the cluster that had them
 *   rows     tiles x 16 factors and zero points
 *   table    pairs of a code book
 *
 * A ring of 64 KiB is twice what 132 multiprocessors need on their way to keep 4.8 TB/s busy, and
 * lets two blocks live on one: two of this kernel, or one and one of the next, whose weights then
 * arrive while this one works. */
#include "plan/gemv_outline.h"

#include "base/base.h"
#include "cpu/matrix.h"

#include <kerf/gemv.h>

#include <stdlib.h>

static int has_room(const kf_gemv_machine *m, size_t shared, unsigned per_sm)
{
    return shared <= (per_sm > 1 ? m->most_shared / per_sm - 1024 : m->most_shared);
}

/* Divides tiles among blocks or clusters. */
static void divide_tiles(kf_gemv_layout *l, unsigned teams)
{
    unsigned units = l->tiles / l->pair;
    l->team_tiles = units / teams;
    l->team_rest = units % teams;
    l->most = (l->team_tiles + (l->team_rest > 0)) * l->pair;
}

/* --- one column, or a few ------------------------------------------------------------------------
 * Each block has all of x, or two share rows and have a half of K each. */

/* Columns of x that the kernel is compiled for. */
static unsigned few(unsigned columns)
{
    return columns > 2 ? 4 : columns;
}

/* Stages of a row that a block has, at most. */
static uint32_t block_stages(const kf_gemv_layout *l)
{
    return (l->stages + l->cluster - 1) / l->cluster;
}

/* Bytes of all that a block has of x. */
static size_t x_bytes(const kf_gemv_layout *l, const kf_gemv_tiling *t)
{
    return few(l->columns) * ((size_t)block_stages(l) * t->stage_codes * 2 + KF_GEMV_GAP);
}

/* How much more than its share the busiest of n multiprocessors or pairs has. */
static double unevenness(uint64_t units, unsigned n)
{
    return (double)(kf_div_up(units, n) * n) / (double)units - 1;
}

static kf_gemv_pairing pairing = KF_GEMV_PAIR_BY_GAIN;

void kf_gemv_set_pairing(kf_gemv_pairing p)
{
    pairing = p;
}

/* Bytes that a pair must take off the busiest multiprocessor, times all of these, to be worth it:
 * what memory moves while two blocks wait for each other, a microsecond or so. In a chain the
 * launches beside it hide some of what is uneven, but not multiprocessors that have nothing to do.
 * Several columns below 8 bits gain besides, since each block makes half of x ready; beside a table
 * there is no room for the next launch anyway. */
static double least_gain(const kf_gemv_layout *l, const kf_gemv_tiling *t, int are_some_idle)
{
    static const double light[] = {0, 8.5e6, 4.3e6, 3.0e6, 3.0e6}; /* by columns */
    if (are_some_idle) return 3.5e6;
    if (!l->overlap) return t->bits < 8 ? 2.7e6 : 6.0e6;
    return t->bits < 8 && !t->table_bytes ? light[l->columns] : 8.5e6;
}

/* Whether two blocks share rows. Whole tiles of 16 rows do not come out even: of 448, some
 * multiprocessors have four and others three, where pairs have seven or six. */
static int are_pairs_better(const kf_gemv_layout *l, const kf_gemv_tiling *t,
                            const kf_gemv_machine *m, uint64_t weight_bytes)
{
    enum { LEAST_STAGES = 8 };
    uint64_t units = l->tiles / l->pair;
    unsigned pairs = m->multiprocessors / 2;
    if (!m->has_clusters || pairs == 0 || units == 0 || l->columns > KF_GEMV_FEW) return 0;
    if (pairing != KF_GEMV_PAIR_BY_GAIN) return pairing == KF_GEMV_PAIR_ALWAYS && l->stages > 1;
    if (l->stages < LEAST_STAGES) return 0;
    double half = (double)(l->stages + l->stages % 2) / (double)l->stages;
    double saved = 1 + unevenness(units, m->multiprocessors);
    saved -= (1 + unevenness(units, pairs)) * half;
    return (double)weight_bytes * saved >= least_gain(l, t, units < m->multiprocessors);
}

/* Whether these columns are better off where each block has all of x: a third and a fourth take the
 * product a second time, and past these sizes cost more than the clusters of the other kernel. */
static int are_few(const kf_gemv_layout *l, const kf_gemv_tiling *t)
{
    enum { MOST = 64 * 1024, MOST_OF_SMALL = 112 * 1024 };
    if (!t->stage_ring || l->columns > KF_GEMV_FEW) return 0;
    return l->columns < 3 ||
           x_bytes(l, t) <= (t->bits < 8 ? MOST_OF_SMALL : MOST) + KF_GEMV_FEW * KF_GEMV_GAP;
}

static size_t divide_column(kf_gemv_layout *l, const kf_gemv_tiling *t, unsigned blocks)
{
    size_t n = few(l->columns);
    divide_tiles(l, blocks / l->cluster);
    size_t at = t->stage_ring;
    l->x_at = (uint32_t)at;
    l->slots_at = (uint32_t)(at += x_bytes(l, t));
    size_t slots = (size_t)l->most + KF_GEMV_WARPS;
    l->rows_at = (uint32_t)(at += n * slots * KF_GEMV_TILE * sizeof(float));
    at += (size_t)l->most * (KF_GEMV_TILE * 2 + 1) * sizeof(float);
    if (l->cluster > 1) at += n * l->most * KF_GEMV_TILE * sizeof(float);
    l->table_at = (uint32_t)(at = (at + 127) / 128 * 128);
    return at + t->table_bytes;
}

/* Tries per_sm blocks on a multiprocessor; 0: no room. There are as many when some have no tiles:
 * of fewer, two come to one multiprocessor in a chain, and others have none. */
static int try_column(kf_gemv_layout *l, const kf_gemv_tiling *t, const kf_gemv_machine *m,
                      unsigned per_sm)
{
    l->blocks = m->multiprocessors / l->cluster * l->cluster * per_sm;
    l->per_sm = per_sm;
    size_t n = divide_column(l, t, l->blocks);
    l->shared_bytes = (unsigned)n;
    return has_room(m, n, per_sm);
}

static unsigned busiest_units(const kf_gemv_layout *l)
{
    return (unsigned)kf_div_up((uint64_t)l->most * block_stages(l), KF_GEMV_WARPS);
}

/* Whether every warp has so many rings full of units to do. */
static int fills_rings(const kf_gemv_layout *l, unsigned rings)
{
    return (uint64_t)l->most * block_stages(l) >= (uint64_t)rings * KF_GEMV_AHEAD * KF_GEMV_WARPS;
}

/* Whether two blocks share a multiprocessor, once they are laid out that way. In a chain they do
 * where a warp of them still has a ring full to do, and with fewer than 8 bits or more than two
 * columns, whose units take longer, two of them: of less, all is on its way before x is known, and
 * a second block would only read x again. An x of 32 KiB beside 8 bits and more asks for one. Where
 * x is there from the start, one block of longer runs is better as long as all of it is short. */
static int are_two_better(const kf_gemv_layout *l, const kf_gemv_tiling *t, uint64_t weight_bytes)
{
    enum { WIDE = 16384, LARGE = 70000000 };
    if (!l->overlap) return weight_bytes >= LARGE;
    if (t->bits >= 8 && l->cols >= WIDE) return 0;
    return fills_rings(l, t->bits < 8 || l->columns > 2 ? 2 : 1);
}

/* Shared memory that keeps two blocks of a launch apart where one would do for each multiprocessor:
 * more than half of it, which leaves room for a block of the launch after it. 0: they need none, or
 * are too large for that. */
static unsigned apart_bytes(const kf_gemv_layout *l, const kf_gemv_machine *m)
{
    enum { OWN = 1024 }; /* the system's, and the kernel's */
    unsigned half = (m->most_shared + 2 * OWN) / 2;
    return l->overlap && l->per_sm == 1 && l->shared_bytes + 3 * OWN <= half ? half - OWN / 2 : 0;
}

/* Blocks, from the first, that ask for all of their ring before x. Of two on a multiprocessor the
 * first comes early enough for that, unless the ring is all that it has. With fewer than 8 bits the
 * block beside it, which still works, would lose more by it. */
static unsigned eager_blocks(const kf_gemv_layout *l, const kf_gemv_tiling *t)
{
    int has_more = busiest_units(l) > KF_GEMV_AHEAD;
    return l->overlap && l->per_sm == 2 && t->bits >= 8 && has_more ? l->blocks / 2 : 0;
}

/* Half of a ring is left until x is asked for where the busiest warp has two rings full to do, or
 * where no block of the next launch has room beside one of this, so that x is there by then. Where
 * x is there from the start, all of it. 1: done; 0: x does not fit; -1: `count` failed. */
static int lay_out_column(kf_gemv_layout *l, const kf_gemv_tiling *t, const kf_gemv_machine *m,
                          uint64_t weight_bytes, kf_gemv_count count, void *ctx)
{
    l->is_column = 1;
    l->passes = 1;
    int are_two = l->tiles / l->pair > m->multiprocessors / l->cluster && try_column(l, t, m, 2) &&
                  are_two_better(l, t, weight_bytes);
    if (!are_two && !try_column(l, t, m, 1)) return 0;
    l->apart_bytes = apart_bytes(l, m);
    int is_short = busiest_units(l) < 2 * KF_GEMV_AHEAD && l->apart_bytes;
    l->early = is_short ? KF_GEMV_AHEAD : KF_GEMV_AHEAD / 2;
    if (!l->overlap) l->early = 0;
    l->eager_blocks = eager_blocks(l, t);
    return count(ctx, l) < 0 ? -1 : 1;
}

/* --- several columns -----------------------------------------------------------------------------
 */

static size_t divide_columns(kf_gemv_layout *l, const kf_gemv_tiling *t, unsigned teams)
{
    divide_tiles(l, teams);
    size_t wide = l->columns <= 8 ? 8 : 16, sums = KF_GEMV_TILE * wide * sizeof(float);
    size_t slot = (KF_GEMV_TILE + 1) * wide * sizeof(float);
    size_t units = l->most / l->pair, home = (units + l->cluster - 1) / l->cluster * l->pair;
    size_t at = (size_t)KF_GEMV_WARPS * t->slice_ring;
    l->sums_at = (uint32_t)(at = (at + 127) / 128 * 128);
    l->own_at = (uint32_t)(at += 2 * KF_GEMV_WARPS * sums);
    if (l->passes > 1) at += l->most * sums;
    l->slots_at = (uint32_t)at;
    l->rows_at = (uint32_t)(at += home * l->cluster * slot);
    at += (size_t)l->most * KF_GEMV_TILE * 2 * sizeof(float);
    l->table_at = (uint32_t)(at = (at + 127) / 128 * 128);
    return at + t->table_bytes;
}

/* A warp has a slice, a block up to 8 warps: as few blocks as it takes, then passes. */
static void divide_slices(kf_gemv_layout *l, const kf_gemv_machine *m)
{
    uint32_t most = m->has_clusters ? 8 : 1;
    l->cluster = 1;
    while (l->cluster < most && l->cluster * KF_GEMV_WARPS < l->slices) l->cluster *= 2;
    l->passes = (uint32_t)kf_div_up(l->slices, l->cluster * KF_GEMV_WARPS);
    l->warps = (uint32_t)kf_div_up(l->slices, (uint64_t)l->cluster * l->passes);
}

/* Tries l->per_sm blocks on a multiprocessor. How many clusters there is room for is a matter of
 * where multiprocessors lie; a block that is meant to be alone is counted as if it filled its own.
 */
static int try_columns(kf_gemv_layout *l, const kf_gemv_tiling *t, const kf_gemv_machine *m,
                       kf_gemv_count count, void *ctx)
{
    unsigned units = l->tiles / l->pair, teams = m->multiprocessors * l->per_sm / l->cluster;
    if (teams > units) teams = units;
    if (teams == 0) return 0;
    for (int again = 0; again < 2; again++) {
        size_t n = divide_columns(l, t, teams);
        if (!has_room(m, n, l->per_sm)) return 0;
        l->blocks = teams * l->cluster;
        l->shared_bytes = l->per_sm > 1 ? (unsigned)n : m->most_shared;
        int clusters = count(ctx, l);
        l->shared_bytes = (unsigned)n;
        if (clusters < 1) return clusters;
        /* Beside what is left of another kernel the last of many does not always find room. */
        if (l->per_sm > 1 && clusters > 1) clusters--;
        if (l->cluster == 1 || (unsigned)clusters >= teams) break;
        teams = (unsigned)clusters;
    }
    return 1;
}

/* Clusters of four and more do not lie evenly beside another kernel's: some multiprocessors have
 * two blocks where others have none, unless all have two. */
static int lay_out_columns(kf_gemv_layout *l, const kf_gemv_tiling *t, const kf_gemv_machine *m,
                           uint64_t weight_bytes, kf_gemv_count count, void *ctx)
{
    l->is_column = 0;
    divide_slices(l, m);
    l->per_sm = l->cluster > 2 || weight_bytes >= 20000000 ? 2 : 1;
    for (; l->per_sm; l->per_sm--) {
        int fits = try_columns(l, t, m, count, ctx);
        if (fits) return fits;
    }
    return 0;
}

/* --- nine columns and more, where the tensor core works beside the warps -------------------------
 * A multiprocessor has one block, a cluster divides K, and within a block its groups of four warps
 * may divide that once more. */

enum { WIDE_GROUPS = KF_GEMV_WIDE_WARPS / 4 };

static int is_always_wide;

void kf_gemv_set_wide(int always)
{
    is_always_wide = always;
}

/* Tiles that a cluster has at once. */
static unsigned tiles_of_step(const kf_gemv_layout *l)
{
    return KF_GEMV_WIDE_WARPS / l->side;
}

static size_t divide_wide(kf_gemv_layout *l, const kf_gemv_tiling *t, unsigned teams)
{
    divide_tiles(l, teams);
    size_t pairs = tiles_of_step(l) / l->pair;
    size_t home = (pairs + l->cluster - 1) / l->cluster * l->pair;
    size_t slot = (KF_GEMV_TILE + 1) * KERF_GEMV_COLUMNS * sizeof(float);
    size_t at = (size_t)KF_GEMV_WIDE_WARPS * KF_GEMV_WIDE_DEPTH * t->slice_unit;
    l->x_at = (uint32_t)at;
    at += (size_t)kf_div_up(l->slices, l->cluster) * (t->slice_codes / 32) * KF_GEMV_WIDE_X;
    l->slots_at = (uint32_t)at;
    l->rows_at = (uint32_t)(at += home * l->cluster * l->side * slot);
    at += (size_t)l->most * KF_GEMV_TILE * 2 * sizeof(float);
    l->table_at = (uint32_t)(at = (at + 127) / 128 * 128);
    return at + t->table_bytes;
}

/* Steps of the busiest cluster, and units of one of its warps, as if all groups had a tile in each:
 * what is left to fewer takes less time, if not in proportion. */
static uint32_t wide_steps(const kf_gemv_layout *l)
{
    return (uint32_t)kf_div_up(l->most, tiles_of_step(l));
}
static double wide_units(const kf_gemv_layout *l)
{
    static const double share[WIDE_GROUPS + 1] = {0, 0.5, 0.55, 0.78, 1};
    uint32_t rest = l->most % tiles_of_step(l),
             units = (uint32_t)kf_div_up(l->slices, (uint64_t)l->cluster * l->side);
    uint32_t busy = (uint32_t)kf_div_up(rest, 4) * l->side;
    return (l->most / tiles_of_step(l) + share[busy]) * units;
}

/* Microseconds on an H200 with 16 columns in nvfp4, which decide between layouts, and between this
 * kernel and the other; with other formats both are faster or slower. */
static double wide_time(const kf_gemv_layout *l)
{
    return 4.5 + 1.62 * wide_units(l) + 1.9 * (wide_steps(l) - 1);
}
static double columns_time(const kf_gemv_layout *l, const kf_gemv_machine *m)
{
    return 4.2 + 31e-6 * KF_GEMV_TILE * l->tiles * (double)l->cols / m->multiprocessors;
}

/* 1: done; 0: no room; -1: `count` failed. */
static int try_wide(kf_gemv_layout *l, const kf_gemv_tiling *t, const kf_gemv_machine *m,
                    kf_gemv_count count, void *ctx)
{
    unsigned units = l->tiles / l->pair, teams = m->multiprocessors / l->cluster;
    if (is_always_wide && teams > 1) teams = 1;
    if (teams > units) teams = units;
    for (int again = 0; again < 2; again++) {
        size_t n = divide_wide(l, t, teams);
        if (teams == 0 || !has_room(m, n, 1)) return 0;
        l->blocks = teams * l->cluster;
        l->shared_bytes = (unsigned)n;
        int clusters = count(ctx, l);
        if (clusters < 1) return clusters;
        if ((unsigned)clusters >= teams) break;
        teams = (unsigned)clusters;
    }
    return 1;
}

/* Whether it takes these columns at all. Of small matrices too much is beginning and end; with 8
 * bits and more nothing is gained. */
static int are_wide(const kf_gemv_layout *l, const kf_gemv_tiling *t, const kf_gemv_machine *m)
{
    enum { LEAST = 32 << 20 };
    uint64_t inputs = (uint64_t)l->tiles * KF_GEMV_TILE * l->cols;
    return m->has_wgmma && l->columns > 8 && t->bits == 4 && (is_always_wide || inputs >= LEAST);
}

static int lay_out_wide(kf_gemv_layout *l, const kf_gemv_tiling *t, const kf_gemv_machine *m,
                        kf_gemv_count count, void *ctx)
{
    kf_gemv_layout best = {0};
    double least = is_always_wide ? 1e30 : columns_time(l, m);
    if (!are_wide(l, t, m)) return 0;
    l->is_column = 0;
    l->passes = l->per_sm = 1;
    for (l->cluster = 2; l->cluster <= 8; l->cluster *= 2)
        for (l->side = 1; l->side <= WIDE_GROUPS; l->side *= 2) {
            if (l->cluster * l->side > l->slices) continue;
            int fits = try_wide(l, t, m, count, ctx);
            if (fits < 0) return fits;
            if (fits == 0 || wide_time(l) >= least) continue;
            best = *l;
            least = wide_time(l);
        }
    if (best.side == 0) return 0;
    *l = best;
    return 1;
}

int kf_gemv_lay_out(kf_gemv_layout *l, const kf_gemv_tiling *t, const kf_gemv_machine *m,
                    uint64_t weight_bytes, kf_gemv_count count, void *ctx)
{
    l->stages = (uint32_t)kf_div_up(l->cols, t->stage_codes);
    l->slices = (uint32_t)kf_div_up(l->cols, t->slice_codes);
    l->cluster = are_pairs_better(l, t, m, weight_bytes) ? 2 : 1;
    int fits = are_few(l, t) ? lay_out_column(l, t, m, weight_bytes, count, ctx) : 0;
    if (fits == 0) fits = lay_out_wide(l, t, m, count, ctx);
    if (fits) return fits;
    l->side = 0;
    return lay_out_columns(l, t, m, weight_bytes, count, ctx);
}

/* --- formats and machines ------------------------------------------------------------------------
 */

static int is_decoded_in_tiles(const kerf_format *f)
{
    switch (f->element) {
    case KERF_ELEM_E2M1:
    case KERF_ELEM_S4:
    case KERF_ELEM_U4:
    case KERF_ELEM_NF4:
    case KERF_ELEM_E4M3:
    case KERF_ELEM_E5M2:
    case KERF_ELEM_S8:
    case KERF_ELEM_MXI8:
    case KERF_ELEM_E2M3:
    case KERF_ELEM_E3M2:
    case KERF_ELEM_F16:
    case KERF_ELEM_BF16: return f->geometry != KERF_GROUP_STRUCT;
    default: return 0;
    }
}

static unsigned scale_size(kerf_scale_kind k)
{
    switch (k) {
    case KERF_SCALE_NONE: return 0;
    case KERF_SCALE_F32: return 4;
    case KERF_SCALE_F16:
    case KERF_SCALE_BF16: return 2;
    default: return 1;
    }
}

/* What gemv_quarters.cuh and gemv_slices.cuh say when they are compiled for the format. */
kf_gemv_tiling kf_gemv_tiling_of(const kerf_format *f)
{
    kf_gemv_tiling none = {0};
    int has_groups = f->geometry == KERF_GROUP_BLOCK || f->geometry == KERF_GROUP_FLAT ||
                     f->geometry == KERF_GROUP_TILE;
    if (!is_decoded_in_tiles(f)) return none;
    unsigned slice = f->bits == 16 ? 128 : 256, stage = (f->bits == 6 ? 192u : 256u) * 8 / f->bits;
    if (has_groups && f->group == 16 && f->scale != KERF_SCALE_E4M3) return none;
    if (has_groups && f->group != 16 && (slice < f->group || f->group % 32)) return none;
    unsigned size = has_groups ? scale_size(f->scale) : 0, group = has_groups ? f->group : stage;
    unsigned stage_scales = stage / group * size, slice_scales = slice / group * size;
    unsigned stage_unit = KF_GEMV_TILE * stage * f->bits / 8;
    unsigned slice_unit = KF_GEMV_TILE * (slice * f->bits / 8 + (f->bits == 6 ? 16 : 0));
    int is_shared = f->geometry == KERF_GROUP_TILE; /* a row of scales, by all rows of a unit */
    stage_unit += is_shared ? 64 : KF_GEMV_TILE * stage_scales;
    unsigned zeros = has_groups && f->zero == KERF_ZERO_CODE ? 4 : 0; /* a word of each row */
    slice_unit += ((is_shared ? 1 : KF_GEMV_TILE) * (slice_scales + zeros) + 127) / 128 * 128;
    int has_table = f->element == KERF_ELEM_NF4, has_column = f->element != KERF_ELEM_BF16;
    return (kf_gemv_tiling){.bits = f->bits,
                            .stage_codes = stage,
                            .stage_ring =
                                has_column ? KF_GEMV_WARPS * KF_GEMV_AHEAD * stage_unit : 0,
                            .stage_scales = stage_scales < 16 ? stage_scales : 16,
                            .slice_codes = slice,
                            .slice_unit = slice_unit,
                            .slice_ring = (f->bits == 4 ? 3 : 2) * slice_unit,
                            .slice_scales = slice_scales < 16 ? slice_scales : 16,
                            .table_bytes = has_table ? 32768 : 0,
                            .rounding = has_table ? 0x1p-11 : 0};
}

/* Shared memory by the compute capability, as the CUDA programming guide lists it; 1 KiB of it is
 * the system's and 1 KiB the kernel's own. */
kf_gemv_machine kf_gemv_machine_of(const char *arch, unsigned multiprocessors)
{
    static const struct {
        int capability;
        unsigned kib;
    } known[] = {{80, 163},  {86, 99},   {87, 163}, {89, 99}, {90, 227},
                 {100, 227}, {103, 227}, {120, 99}, {121, 99}};
    int capability = strncmp(arch, "sm_", 3) == 0 ? atoi(arch + 3) : 0;
    for (size_t i = 0; multiprocessors && i < sizeof known / sizeof *known; i++) {
        if (known[i].capability != capability) continue;
        return (kf_gemv_machine){multiprocessors, known[i].kib * 1024 - 1024,
                                 capability / 10 == 9 || capability / 10 == 10,
                                 capability / 10 == 9};
    }
    return (kf_gemv_machine){0};
}

/* --- outlines ------------------------------------------------------------------------------------
 */

/* As many as there are: a device may have a multiprocessor or two on which no cluster fits. */
static int count_all(void *ctx, const kf_gemv_layout *l)
{
    (void)ctx;
    return (int)l->blocks;
}

static unsigned resident_blocks(const kf_gemv_layout *l, const kf_gemv_machine *m)
{
    enum { THREADS_OF_AN_SM = 2048, OWN = 1024 };
    unsigned warps = l->side ? KF_GEMV_WIDE_WARPS : KF_GEMV_WARPS;
    unsigned by_threads = THREADS_OF_AN_SM / (32 * warps);
    unsigned by_memory = (m->most_shared + 2 * OWN) / (l->shared_bytes + OWN);
    return by_memory < by_threads ? by_memory : by_threads;
}

kerf_status kf_gemv_outline_of(const kerf_format *f, uint64_t rows, uint64_t cols, unsigned columns,
                               const kf_gemv_machine *m, kf_gemv_outline *out)
{
    const kf_gemv_tiling t = kf_gemv_tiling_of(f);
    const kerf_cspan none[KERF_PLANES] = {{NULL, 0}};
    kerf_geometry g;
    *out = (kf_gemv_outline){.end = KF_GEMV_END_ANY};
    if (m->multiprocessors == 0 || columns < 1 || columns > KERF_GEMV_COLUMNS || rows == 0 ||
        cols == 0 || rows > UINT32_MAX / 2 || cols > UINT32_MAX / 2)
        return KERF_E_NOSUP;
    KF_TRY(kerf_geometry_init(&g, f, &(kerf_shape){2, {rows, cols}}, NULL));
    kf_matrix w = kf_matrix_of(&g, none);
    uint64_t row_bytes = w.row_bytes, row_groups = w.row_groups;
    if (f->geometry == KERF_GROUP_FLAT) {
        if (cols % f->group) return KERF_OK;
        row_bytes = cols * f->bits / 8;
        row_groups = cols / f->group;
    }
    if (!t.stage_codes || row_bytes % 16) return KERF_OK;
    kf_gemv_layout l = {.tiles = (uint32_t)kf_div_up(rows, KF_GEMV_TILE),
                        .columns = columns,
                        .pair = 1,
                        .overlap = m->has_clusters,
                        .cols = cols};
    uint64_t row_scales = row_groups * scale_size(f->scale);
    if (f->second == KERF_SECOND_NESTED && row_scales % t.slice_scales) return KERF_OK;
    if (kf_gemv_lay_out(&l, &t, m, g.bytes, count_all, NULL) < 1) return KERF_OK;

    unsigned unit = l.is_column ? t.stage_codes : t.slice_codes;
    unsigned copy = l.is_column ? t.stage_scales : t.slice_scales;
    out->end = row_scales % 4                                         ? KF_GEMV_END_SCALES
               : cols % unit || (copy != 0 && row_scales % copy != 0) ? KF_GEMV_END_X
                                                                      : KF_GEMV_END_WHOLE;
    out->per_sm = l.per_sm;
    out->pairs = l.is_column && l.cluster > 1;
    out->resident = resident_blocks(&l, m);
    out->early = l.early;
    enum { THREADS = 32 * KF_GEMV_WARPS, OCTETS_OF_A_ROUND = 8 };
    if (l.is_column) {
        unsigned n = few(columns), octets = block_stages(&l) * t.stage_codes / 8;
        unsigned round = THREADS * (n == 4 ? OCTETS_OF_A_ROUND / 2 : OCTETS_OF_A_ROUND);
        out->inputs = (double)octets * 8 * n;
        out->rounds = (double)kf_div_up(octets, round);
        out->units = busiest_units(&l);
        out->stages = (double)out->units * l.per_sm;
    } else if (l.side) {
        out->inputs = (double)kf_div_up(l.slices, l.cluster) * t.slice_codes * columns;
        out->rounds = wide_steps(&l);
        out->stages = wide_units(&l);
    } else {
        out->inputs = (double)l.warps * t.slice_codes * columns;
        out->rounds = (double)l.passes;
        out->stages = (double)l.most * l.passes;
    }
    return KERF_OK;
}
