/* gemv_outline.c - counts of a product, from its division. */
#include "plan/gemv_outline.h"

#include "base/base.h"
#include "format/format.h"
#include "plan/gemv_launches.h"

/* Clusters of three blocks and more leave places of a device without one, for its multiprocessors
 * lie in parts of unlike size: of an H200's 264, two for each, so many were filled by clusters of 1
 * to 8. Where few columns have clusters of more than two it has: four of an H100's 132 are left,
 * whose parts are of 16 and 18. */
static int count_clusters(void *ctx, const kf_gemv_launch *l)
{
    static const unsigned filled[] = {264, 264, 237, 248, 235, 234, 224, 240};
    const kf_gemv_machine *m = ctx;
    const unsigned cluster = l->division.cluster, places = m->multiprocessors * l->grid.per_sm;
    if (l->division.is_few) return (int)(cluster > 2 ? places * 32 / 33 / cluster : l->grid.blocks);
    return (int)(places * filled[cluster - 1] / 264 / cluster);
}

static unsigned resident_blocks(const kf_gemv_launch *l, const kf_gemv_machine *m)
{
    enum { THREADS_OF_AN_SM = 2048, OWN = 1024 };
    unsigned warps = l->division.k_groups ? KF_GEMV_WIDE_WARPS : KF_GEMV_WARPS;
    unsigned by_threads = THREADS_OF_AN_SM / (32 * warps);
    unsigned by_memory = (m->most_shared + 2 * OWN) / (l->grid.shared_bytes + OWN);
    if (l->division.is_few && l->task.columns > KF_GEMV_FEW) return 1; /* it takes all registers */
    return by_memory < by_threads ? by_memory : by_threads;
}

/* Adds a launch of `columns` columns by l's division, which may be for more of them. In a round a
 * thread makes 8 octets ready, or 16 of all columns. */
static void add_few(kf_gemv_outline *out, const kf_gemv_launch *l, const kf_gemv_tiling *t,
                    unsigned columns)
{
    enum { THREADS = 32 * KF_GEMV_WARPS };
    const unsigned alike = out->team > 2 && columns <= KF_GEMV_FEW ? KF_GEMV_EIGHT : columns;
    const unsigned n = kf_gemv_few(alike), waves = l->task.waves, steps = l->division.steps * waves;
    const unsigned octets = l->division.block_stages * t->stage_codes / 8;
    const unsigned round = THREADS * (n == 1 ? 8 : 16 / n);
    out->inputs += (double)octets * 8 * n * steps;
    out->rounds += (double)kf_div_up(octets, round) * steps;
    out->stages += (double)out->units * l->grid.per_sm * waves;
}

static void outline_few(kf_gemv_outline *out, const kf_gemv_launch *l, const kf_gemv_tiling *t,
                        unsigned columns)
{
    const uint32_t at_once = l->task.columns;
    out->team = l->division.cluster;
    out->units = kf_gemv_few_units(l);
    out->ahead = l->division.ahead;
    out->steps = l->division.steps;
    out->launches = 0;
    for (uint32_t done = 0; done < columns; done += at_once, out->launches++)
        add_few(out, l, t, kf_gemv_next_columns(columns, done, at_once));
}

static void outline_more(kf_gemv_outline *out, const kf_gemv_launch *l, const kf_gemv_tiling *t,
                         const kf_gemv_machine *m, unsigned columns)
{
    const kf_gemv_division *d = &l->division;
    uint64_t slices = d->k_groups ? kf_div_up(d->slices, d->cluster) : d->warps;
    out->launches = (unsigned)kf_div_up(columns, l->task.columns);
    const unsigned times = l->task.waves * out->launches;
    out->inputs = (double)slices * t->slice_codes * l->task.columns * times;
    out->rounds = times * (d->k_groups ? kf_gemv_wide_steps(l) : d->passes);
    out->stages = d->k_groups ? kf_gemv_wide_units(l, m) : (double)l->share.most * d->passes;
    out->stages *= times;
}

kerf_status kf_gemv_outline_of(const kerf_format *f, uint64_t rows, uint64_t cols, unsigned columns,
                               const kf_gemv_machine *m, kf_gemv_outline *out)
{
    const kf_gemv_tiling t = kf_gemv_tiling_for(f, cols);
    kerf_geometry g;
    int is_tiled = 0;
    *out = (kf_gemv_outline){.end = KF_GEMV_END_ANY};
    if (m->multiprocessors == 0 || columns < 1 || columns > KERF_GEMV_COLUMNS || rows == 0 ||
        cols == 0 || rows > UINT32_MAX / 2 || cols > UINT32_MAX / 2)
        return KERF_E_NOSUP;
    KF_TRY(kerf_geometry_init(&g, f, &(kerf_shape){2, {rows, cols}}, NULL));
    kf_gemv_strides s = kf_gemv_strides_of(f, &g, cols, &t, &is_tiled);
    if (!is_tiled) return KERF_OK;
    kf_gemv_launch l = {.task = {.cols = cols,
                                 .weight_bytes = g.bytes,
                                 .tiles = (uint32_t)kf_div_up(rows, KF_GEMV_TILE),
                                 .columns = columns,
                                 .together = 1,
                                 .overlap = m->has_clusters}};
    if (kf_gemv_divide_product(&l, &t, m, count_clusters, (void *)m) < 1) return KERF_OK;
    out->end = kf_gemv_end_of(&s, &l, &t);
    out->launches = out->steps = 1;
    out->ahead = KF_GEMV_AHEAD;
    out->per_sm = l.grid.per_sm;
    out->resident = resident_blocks(&l, m);
    out->before_x = l.division.before_x;
    if (l.division.is_few)
        outline_few(out, &l, &t, columns);
    else
        outline_more(out, &l, &t, m, columns);
    return KERF_OK;
}
