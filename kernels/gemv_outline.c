/* gemv_outline.c - tiles, clusters and shared memory of the matrix-vector product on a GPU.
 *
 * Shared memory of a block of the tiled kernel:
 *
 *   ring     each warp's stages of codes              (later: the block's sums, for its cluster)
 *   x        columns x the block's part of cols, as halves, and one stage of zeros
 *   slots    (tiles + warps) x 16 rows x columns
 *   rows     tiles x 16 factors and zero points, and which warps had each tile
 *   table    pairs of a code book
 *
 * A ring of 64 KiB is twice what 132 multiprocessors need on their way to keep 4.8 TB/s busy, and
 * lets two blocks live on one: two of this kernel, or one and one of the next, whose weights then
 * arrive while this one works. */
#include "gemv_outline.h"

#include "base/base.h"
#include "cpu/matrix.h"

#include <kerf/gemv.h>

#include <stdlib.h>

/* --- choosing ------------------------------------------------------------------------------------
 */

/* Divides work among `teams` clusters of blocks, and shared memory; what that comes to. */
static size_t divide(kf_gemv_layout *l, const kf_gemv_tiling *t, unsigned teams)
{
    unsigned units = l->tiles / l->pair;
    unsigned slot = KF_GEMV_TILE * (l->columns == 1 ? 1 : l->columns <= 8 ? 8 : 16);
    l->team_tiles = units / teams;
    l->team_rest = units % teams;
    l->most = (l->team_tiles + (l->team_rest > 0)) * l->pair;
    l->rank_stages = l->stages / l->cluster;
    l->rank_rest = l->stages % l->cluster;
    unsigned stages = l->rank_stages + (l->rank_rest > 0);
    l->x_pitch = stages * t->stage_codes * 2 + 64; /* columns in other banks */

    size_t at = t->ring_bytes, x = (size_t)l->columns * l->x_pitch;
    size_t sums = (size_t)l->most * KF_GEMV_TILE * l->columns * sizeof(float);
    if (l->cluster > 1 && at + x < sums) at = (sums - x + 127) / 128 * 128;
    l->x_at = (uint32_t)at;
    at += x + t->stage_codes * 2;
    l->slots_at = (uint32_t)(at = (at + 127) / 128 * 128);
    l->rows_at = (uint32_t)(at += (size_t)(l->most + KF_GEMV_WARPS) * slot * sizeof(float));
    at += (size_t)l->most * (KF_GEMV_TILE * 2 + 1) * sizeof(float);
    l->table_at = (uint32_t)(at = (at + 127) / 128 * 128);
    return at + t->table_bytes;
}

/* Tries clusters of l->cluster blocks, l->per_sm blocks on a multiprocessor; as kf_gemv_lay_out. */
static int try_cluster(kf_gemv_layout *l, const kf_gemv_tiling *t, const kf_gemv_machine *m,
                       kf_gemv_count count, void *ctx)
{
    unsigned units = l->tiles / l->pair, teams = m->multiprocessors * l->per_sm / l->cluster;
    for (int again = 0; again < 2; again++) {
        if (teams > units) teams = units;
        if (teams == 0) return 0;
        size_t n = divide(l, t, teams);
        if (n > m->most_shared || (l->per_sm > 1 && n > m->most_shared / l->per_sm - 1024))
            return 0;
        l->blocks = teams * l->cluster;
        l->shared_bytes = (unsigned)n;
        int clusters = count(ctx, l);
        if (clusters < 1) return clusters;
        if (l->cluster == 1 || (unsigned)clusters >= teams) return 1;
        teams = (unsigned)clusters; /* a multiprocessor or two that no cluster fits on */
    }
    return 1;
}

/* --- one column ----------------------------------------------------------------------------------
 * Its ring holds scales, too; each block has all of x; behind the rows are masks of warps, and
 * zeros for the lanes whose columns of the tensor core are empty. */
static size_t divide_column(kf_gemv_layout *l, const kf_gemv_tiling *t, unsigned blocks)
{
    unsigned units = l->tiles / l->pair;
    l->team_tiles = units / blocks;
    l->team_rest = units % blocks;
    l->most = (l->team_tiles + (l->team_rest > 0)) * l->pair;
    l->rank_stages = l->stages;
    l->rank_rest = 0;
    l->x_pitch = 0;

    size_t at = t->column_ring;
    l->x_at = (uint32_t)at;
    l->slots_at = (uint32_t)(at += (size_t)l->stages * t->stage_codes * 2);
    size_t slots = (size_t)l->most + KF_GEMV_WARPS;
    l->rows_at = (uint32_t)(at += slots * KF_GEMV_TILE * sizeof(float));
    at += (size_t)l->most * (KF_GEMV_TILE * 2 + 1) * sizeof(float);
    at += t->stage_codes * 2 + 64; /* zeros */
    l->table_at = (uint32_t)(at = (at + 127) / 128 * 128);
    return at + t->table_bytes;
}

/* 1: done; 0: x does not fit; -1: `count` failed. Beside one block of a matrix of up to 48 MB the
 * next kernel's is ready when x is; what is larger gains more from two. */
static int lay_out_column(kf_gemv_layout *l, const kf_gemv_tiling *t, const kf_gemv_machine *m,
                          uint64_t weight_bytes, kf_gemv_count count, void *ctx)
{
    l->cluster = 1;
    l->is_column = 1;
    for (l->per_sm = weight_bytes >= 48000000 ? 2 : 1; l->per_sm; l->per_sm--) {
        unsigned units = l->tiles / l->pair, blocks = m->multiprocessors * l->per_sm;
        if (blocks > units) blocks = units;
        size_t n = divide_column(l, t, blocks);
        if (n > m->most_shared || (l->per_sm > 1 && n > m->most_shared / l->per_sm - 1024))
            continue;
        l->blocks = blocks;
        l->shared_bytes = (unsigned)n;
        return count(ctx, l) < 0 ? -1 : 1;
    }
    l->is_column = 0;
    return 0;
}

/* How many blocks share rows: one, unless reading x would cost more than an eighth of W. */
int kf_gemv_lay_out(kf_gemv_layout *l, const kf_gemv_tiling *t, const kf_gemv_machine *m,
                    uint64_t weight_bytes, kf_gemv_count count, void *ctx)
{
    kf_gemv_layout best = {.cluster = 0};
    unsigned most = m->has_clusters ? 8 : 1;
    /* Two blocks of a large matrix hide each other's waiting; beside one of a small matrix the next
     * kernel's first block fits. */
    unsigned per_sm = weight_bytes >= 16u << 20 ? 2 : 1;
    int fits = l->columns == 1 ? lay_out_column(l, t, m, weight_bytes, count, ctx) : 0;
    if (fits) return fits;
    for (unsigned cluster = 1; cluster <= most && cluster <= l->stages; cluster *= 2) {
        l->cluster = cluster;
        l->per_sm = per_sm;
        fits = try_cluster(l, t, m, count, ctx);
        if (fits == 0 && per_sm > 1) {
            l->per_sm = 1;
            fits = try_cluster(l, t, m, count, ctx);
        }
        if (fits < 0) return fits;
        if (!fits) continue;
        best = *l;
        uint64_t read = (uint64_t)l->blocks / cluster * l->columns * l->cols * 2;
        if (l->columns == 1 || read <= weight_bytes / 8) break;
    }
    *l = best;
    return best.cluster != 0;
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
    case KERF_ELEM_F16: return f->geometry != KERF_GROUP_STRUCT;
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

/* What gemv_ring.cuh and gemv_scales.cuh say when they are compiled for the format. */
kf_gemv_tiling kf_gemv_tiling_of(const kerf_format *f)
{
    kf_gemv_tiling none = {0};
    int has_groups = f->geometry == KERF_GROUP_BLOCK || f->geometry == KERF_GROUP_FLAT ||
                     f->geometry == KERF_GROUP_TILE;
    if (!is_decoded_in_tiles(f)) return none;
    unsigned row_bytes = f->bits == 6 ? 192 : 256, pitch = f->bits == 6 ? 208 : row_bytes;
    unsigned depth = f->bits == 6 ? 3 : 2, steps = f->bits == 4 ? 2 : 1;
    unsigned stage = row_bytes * 8 / f->bits;
    unsigned groups = has_groups && f->group ? stage / steps / f->group : 0;
    if (has_groups && f->group == 16 && f->scale != KERF_SCALE_E4M3) return none;
    if (has_groups && f->group != 16 && (groups < 1 || f->group % 32)) return none;
    int has_table = f->element == KERF_ELEM_NF4;
    unsigned row_scales = has_groups && f->group ? stage / f->group * scale_size(f->scale) : 0;
    unsigned scales = f->geometry == KERF_GROUP_TILE ? 64 : KF_GEMV_TILE * row_scales;
    return (kf_gemv_tiling){.stage_codes = stage,
                            .ring_bytes = KF_GEMV_WARPS * depth * KF_GEMV_TILE * pitch,
                            .table_bytes = has_table ? 32768 : 0,
                            .scale_bytes = groups * scale_size(f->scale),
                            .column_ring = KF_GEMV_WARPS * 2 * (KF_GEMV_TILE * row_bytes + scales),
                            .column_row = row_scales < 16 ? row_scales : 16,
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
                                 capability / 10 == 9 || capability / 10 == 10};
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
    unsigned by_threads = THREADS_OF_AN_SM / (32 * KF_GEMV_WARPS);
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
                        .stages = (uint32_t)kf_div_up(cols, t.stage_codes),
                        .columns = columns,
                        .pair = 1,
                        .cols = cols};
    int wide = row_groups * scale_size(f->scale) % (t.scale_bytes ? t.scale_bytes : 1) == 0;
    if (f->second == KERF_SECOND_NESTED && !wide) return KERF_OK;
    if (kf_gemv_lay_out(&l, &t, m, g.bytes, count_all, NULL) < 1) return KERF_OK;

    enum { THREADS = 32 * KF_GEMV_WARPS, OCTETS_OF_A_ROUND = 4 };
    uint64_t stages = l.rank_stages + (l.rank_rest > 0), inputs = stages * t.stage_codes;
    uint64_t row_scales = row_groups * scale_size(f->scale);
    int astray = l.is_column ? row_scales % 4 != 0 : !wide;
    int inside =
        cols % t.stage_codes || (l.is_column && row_scales % (t.column_row ? t.column_row : 1));
    out->end = astray                                      ? KF_GEMV_END_SCALES
               : inside || (!l.is_column && f->bits == 16) ? KF_GEMV_END_X
                                                           : KF_GEMV_END_WHOLE;
    out->per_sm = l.per_sm;
    out->resident = resident_blocks(&l, m);
    out->inputs = (double)inputs * columns;
    out->rounds = (double)kf_div_up(inputs / 8 * columns,
                                    l.is_column ? THREADS * OCTETS_OF_A_ROUND : THREADS);
    out->stages = (double)kf_div_up(l.most * stages, KF_GEMV_WARPS);
    return KERF_OK;
}
