/* experts_outline.c - see experts_outline.h. */
#include "plan/experts_outline.h"

#include "base/base.h"
#include "format/format.h"

/* What an outline is made for. */
typedef struct target {
    const kerf_gemv_experts *plan;
    const kf_gemv_machine *machine;
    kf_experts_ask ask;
    void *ctx;
} target;

/* --- what there is to do ------------------------------------------------------------------------
 */

static void describe(const kerf_gemv_experts *plan, int which, kf_experts_launch *l)
{
    const kerf_gemv_experts_shape *s = &plan->shape;
    const kf_experts_matrix *m = which ? &plan->down : &plan->in;
    *l = (kf_experts_launch){.is_down = which,
                             .cols = (uint32_t)m->cols,
                             .rows = (uint32_t)m->rows,
                             .out = (uint32_t)(which ? s->hidden : s->inter),
                             .x_type = which ? s->between : s->x};
    l->tiles = (l->out + KF_GEMV_TILE - 1) / KF_GEMV_TILE;
    l->alternating = !which && s->rows == KERF_EXPERTS_ALTERNATING;
    l->step = l->alternating ? 2 * KF_GEMV_TILE : KF_GEMV_TILE;
    if (!which && s->rows == KERF_EXPERTS_HALVES) l->first[1] = (uint32_t)s->inter;
    if (l->alternating) l->first[1] = KF_GEMV_TILE;
    l->share = s->tokens < KF_EXPERTS_SHARE ? s->tokens : KF_EXPERTS_SHARE;
}

/* Rows of weights as the kernels for tiles see them; 0: those decline. t->has_few: by stages. */
static int lay_tiles(const kerf_gemv_experts *plan, kf_experts_launch *l, const kf_gemv_tiling *t)
{
    const kerf_format *f = plan->shape.format;
    const kf_experts_matrix *m = l->is_down ? &plan->down : &plan->in;
    const kf_gemv_launch row = {.task = {.cols = m->cols}};
    kf_gemv_tiling of_rows = *t;
    int is_tiled;
    if (t->has_few) of_rows.has_many = 0; /* rows need not be whole slices */
    l->strides = kf_gemv_strides_of(f, &m->geometry, m->cols, &of_rows, &is_tiled);
    if (!is_tiled) return 0;
    const unsigned copy = t->has_few ? t->stage_copy : t->slice_copy;
    l->slices = (uint32_t)kf_div_up(m->cols, t->has_few ? t->stage_codes : t->slice_codes);
    l->plain_scales = copy == 0 || l->strides.row_groups * t->scale % copy == 0;
    l->words = kf_gemv_end_of(&l->strides, &row, t) != KF_GEMV_END_SCALES;
    l->zero_words = l->strides.zero_bytes % 4 == 0;
    l->copy_rows = (uint32_t)(t->stage_rows * l->strides.row_bytes);
    /* 16 rows of up must not lie in two rows of tiles. */
    return !(t->is_shared && l->first[1] % KF_GEMV_TILE);
}

/* --- one token ----------------------------------------------------------------------------------
 */

static kf_experts_one_need need_of_one(const kf_experts_launch *l, const target *on,
                                       const kf_gemv_tiling *t)
{
    return (kf_experts_one_need){.is_down = l->is_down,
                                 .tiles = l->tiles,
                                 .slices = l->slices,
                                 .top_k = on->plan->shape.top_k,
                                 .unit = kf_experts_unit(*t),
                                 .x_stage = t->stage_codes * 2,
                                 .x_sums = t->stage_sums,
                                 .table = t->table,
                                 .multiprocessors = on->machine->multiprocessors,
                                 .most_shared = on->machine->most_shared,
                                 .has_clusters = on->machine->has_clusters};
}

static int outline_one(kf_experts_outline *o, const target *on, const kf_gemv_tiling *t)
{
    for (int i = 0; i < 2; i++) {
        kf_experts_launch *l = &o->launch[i];
        const kf_experts_one_need need = need_of_one(l, on, t);
        if (!kf_experts_one_divide(&l->one, &need)) return 0;
        l->blocks = l->one.blocks;
        l->threads = 32 * KF_GEMV_WARPS;
        l->shared_bytes = l->one.bytes;
        l->team = l->one.team;
        const int blocks = on->ask(on->ctx, o, i);
        if (blocks < 1) return blocks;
    }
    return 1;
}

/* --- several tokens -----------------------------------------------------------------------------
 */

static kf_experts_few_need need_of_few(const kf_experts_launch *l, const target *on,
                                       const kf_gemv_tiling *t)
{
    const kerf_gemv_experts_shape *s = &on->plan->shape;
    return (kf_experts_few_need){.is_down = l->is_down,
                                 .tiles = l->tiles,
                                 .slices = l->slices,
                                 .groups = s->tokens * s->top_k,
                                 .unit = kf_experts_unit(*t),
                                 .x_stage = t->stage_codes * 2,
                                 .x_sums = t->stage_sums,
                                 .table = t->table,
                                 .lists = KF_EXPERTS_LISTS,
                                 .multiprocessors = on->machine->multiprocessors,
                                 .most_shared = on->machine->most_shared};
}

/* How several tokens may go: columns that the kernel is compiled for, tokens of a group. */
typedef struct few_way {
    unsigned columns, most, least; /* columns 0: no more ways */
    int is_tight;
} few_way;

/* One launch so, with as many tokens as there is room for. */
static int divide_few(kf_experts_launch *l, kf_experts_few_need *need, const few_way *w)
{
    need->share = w->columns;
    need->is_tight = w->is_tight;
    for (need->tokens = w->most; need->tokens && need->tokens >= w->least; need->tokens /= 2)
        if (kf_experts_few_divide(&l->few, need)) return 1;
    return 0;
}

static int take_few(kf_experts_outline *o, const target *on, const kf_experts_few_need need[2],
                    const few_way *w)
{
    const unsigned tokens = on->plan->shape.tokens;
    o->has_fours = w->columns > KF_EXPERTS_FEW;
    for (int i = 0; i < 2; i++) {
        kf_experts_launch *l = &o->launch[i];
        kf_experts_few_need n = need[i];
        if (!divide_few(l, &n, w)) return 0;
        l->blocks = l->few.blocks;
        l->threads = 32 * KF_GEMV_WARPS;
        l->shared_bytes = l->few.bytes;
        l->share = tokens < n.tokens ? tokens : n.tokens;
    }
    for (int i = 0; i < 2; i++) {
        const int blocks = on->ask(on->ctx, o, i);
        if (blocks < 1) return blocks;
    }
    return 1;
}

static int outline_few(kf_experts_outline *o, const target *on, const kf_gemv_tiling *t)
{
    const kerf_gemv_experts_shape *s = &on->plan->shape;
    kf_experts_few_need need[2];
    for (int i = 0; i < 2; i++) need[i] = need_of_few(&o->launch[i], on, t);
    const unsigned share =
        kf_experts_few_share(need, *t, s->tokens, s->top_k, (unsigned)s->experts);
    return take_few(o, on, need, &(few_way){share, share, share, 0});
}

/* Where x of two tokens finds no room beside the ring, groups have one, and weights that two share
 * are read twice; or, of GGUF's blocks, x comes in turns, what the kernel for four columns does.
 * The latter first where experts mostly have several tokens. At last small parts, whose warps wait
 * for each other. */
static int outline_last(kf_experts_outline *o, const target *on, const kf_gemv_tiling *t)
{
    enum { FEW = KF_EXPERTS_FEW, FOURS = KF_EXPERTS_FOURS };
    static const few_way apart[] = {
        {FEW, 1, 1, 0}, {FOURS, FEW, 1, 0}, {FEW, FEW, 1, 1}, {FOURS, 1, 1, 1}, {0, 0, 0, 0}};
    static const few_way together[] = {{FOURS, FOURS, FEW, 0}, {FEW, 1, 1, 0},   {FOURS, 1, 1, 0},
                                       {FOURS, FOURS, 1, 1},   {FEW, FEW, 1, 1}, {0, 0, 0, 0}};
    const kerf_gemv_experts_shape *s = &on->plan->shape;
    const int meet = s->tokens > 1 && (uint64_t)s->tokens * s->top_k > s->experts;
    kf_experts_few_need need[2];
    int fits = 0;
    for (int i = 0; i < 2; i++) need[i] = need_of_few(&o->launch[i], on, t);
    for (const few_way *w = meet ? together : apart; w->columns && fits == 0; w++)
        if (w->columns <= kf_experts_few_most(*t)) fits = take_few(o, on, need, w);
    return fits;
}

/* --- by slices ----------------------------------------------------------------------------------
 */

/* Of a unit: its scales as they lie in memory, experts_weights.cuh. */
static unsigned raw_bytes(const kf_experts_launch *l, const kf_gemv_tiling *t)
{
    return t->has_groups && !t->is_shared && !l->plain_scales ? KF_GEMV_TILE * (t->slice_row + 4)
                                                              : 0;
}

static kf_experts_need need_of(const kf_experts_launch *l, const target *on,
                               const kf_gemv_tiling *t)
{
    unsigned parts = t->way == KF_WAY_BF16 ? 2 : 1;
    unsigned halves = t->slice_codes * 2 * parts;
    unsigned raw = t->slice_codes * (kerf_dtype_bits(l->x_type) / 8);
    return (kf_experts_need){.columns = l->is_down ? on->plan->shape.tokens : 0,
                             .mats = l->is_down ? 1 : 2,
                             .unit = t->slice_unit + raw_bytes(l, t),
                             .x_bytes = raw > halves ? raw : halves,
                             .zeros = halves,
                             .table = t->table,
                             .lists = KF_EXPERTS_LISTS,
                             .scratch = KF_EXPERTS_SCRATCH + 128,
                             .most_shared = on->machine->most_shared};
}

/* Two blocks for a multiprocessor if at least two tokens share weights in both launches; else one.
 */
static int divide_slices(kf_experts_outline *o, const target *on, const kf_gemv_tiling *t)
{
    const unsigned most = o->launch->share, least = most < 2 ? most : 2;
    for (unsigned blocks = 2; blocks >= 1; blocks--)
        for (unsigned share = most; share >= (blocks == 2 ? least : 1); share--) {
            int fits = 1;
            for (int i = 0; i < 2; i++) {
                kf_experts_room *r = &o->launch[i].slice;
                const kf_experts_need need = need_of(&o->launch[i], on, t);
                fits = fits && kf_experts_divide(r, &need, share) && r->blocks >= blocks;
            }
            if (fits) return 1;
        }
    return 0;
}

/* Blocks for items of which each takes per_item. */
static unsigned blocks_for(const kf_experts_launch *l, const kerf_gemv_experts_shape *s,
                           uint64_t per_item, unsigned most)
{
    uint64_t items = (uint64_t)l->tiles * (l->is_down ? 1 : s->tokens * s->top_k);
    uint64_t blocks = items * per_item;
    return blocks < most ? (unsigned)blocks : most;
}

static int outline_slices(kf_experts_outline *o, const target *on, const kf_gemv_tiling *t)
{
    if (!divide_slices(o, on, t)) return 0;
    for (int i = 0; i < 2; i++) {
        kf_experts_launch *l = &o->launch[i];
        l->threads = 32 * l->slice.warps;
        l->shared_bytes = l->slice.bytes;
        l->share = l->slice.share;
        l->unit = t->slice_unit;
        l->raw = raw_bytes(l, t);
        const int blocks = on->ask(on->ctx, o, i);
        if (blocks < 1) return blocks;
        l->blocks =
            blocks_for(l, &on->plan->shape, 1, (unsigned)blocks * on->machine->multiprocessors);
    }
    return 1;
}

/* --- which of them ------------------------------------------------------------------------------
 */

/* Whether one token goes by the kernel for it. With 8 bits reading is what takes time once warps
 * have many units, and the kernel by slices has more of it under way. */
static int goes_as_one(const kerf_gemv_experts_shape *s, const kf_gemv_tiling *t,
                       const kf_gemv_machine *m)
{
    enum { MOST_UNITS = 40 }; /* of a warp, of gate and up */
    const uint64_t units =
        s->top_k * 2 * kf_div_up(s->inter, KF_GEMV_TILE) * kf_div_up(s->hidden, t->stage_codes);
    if (s->tokens != 1 || !t->has_few) return 0;
    return t->bits < 8 || !t->has_many ||
           units <= (uint64_t)MOST_UNITS * m->multiprocessors * KF_GEMV_WARPS;
}

/* Whether tokens go by the kernel for several. By slices four of them share a reading, where here
 * two do; with 8 bits that counts for more than instructions while a few experts have three or four
 * tokens each, or where many tokens leave no time but for reading (section 30 of
 * bench/notes-gemv.md). */
static int goes_as_few(const kerf_gemv_experts_shape *s, const kf_gemv_tiling *t)
{
    enum { MANY = 8 }; /* tokens */
    const int is_spread = s->tokens * s->top_k < s->experts;
    const int is_light = !t->has_groups || t->is_shared; /* no scales within a row */
    if (!t->has_few) return 0;
    if (t->bits < 8 || !t->has_many) return 1;
    if (s->tokens == 1) return 0;
    return is_spread ? s->tokens <= MANY || !is_light : s->tokens > MANY;
}

/* One way to divide a layer among the kernels of a kind. 1: done; 0: they decline, or find no room;
 * -1: `ask` failed. */
typedef int (*outline_way)(kf_experts_outline *o, const target *on, const kf_gemv_tiling *t);

static int outline_kind(kf_experts_outline *o, const target *on, kf_experts_kind kind,
                        outline_way divide)
{
    kf_gemv_tiling t = kf_gemv_tiling_of(kf_spec_of(on->plan->shape.format));
    int is_tiled = 1;
    t.has_few = kind != KF_EXPERTS_BY_SLICES;
    *o = (kf_experts_outline){.kind = kind};
    for (int i = 0; i < 2; i++) {
        describe(on->plan, i, &o->launch[i]);
        is_tiled = lay_tiles(on->plan, &o->launch[i], &t) && is_tiled;
    }
    return is_tiled ? divide(o, on, &t) : 0;
}

static void outline_any(kf_experts_outline *o, const kerf_gemv_experts *plan)
{
    const kf_gemv_tiling none = {.way = KF_WAY_NONE};
    *o = (kf_experts_outline){.is_tiled = 0};
    for (int i = 0; i < 2; i++) {
        describe(plan, i, &o->launch[i]);
        lay_tiles(plan, &o->launch[i], &none);
    }
}

/* The kernel for one token; for several; by slices; for several, however it finds room. The first
 * that takes the layer. */
int kf_experts_outline_of(kf_experts_outline *out, const kerf_gemv_experts *plan,
                          const kf_gemv_machine *m, kf_experts_ask ask, void *ctx)
{
    const target on = {plan, m, ask, ctx};
    const kf_spec spec = kf_spec_of(plan->shape.format);
    const kf_gemv_tiling t = kf_gemv_tiling_of(spec);
    const struct {
        int takes;
        kf_experts_kind kind;
        outline_way divide;
    } ways[] = {{goes_as_one(&plan->shape, &t, m), KF_EXPERTS_ONE, outline_one},
                {goes_as_few(&plan->shape, &t), KF_EXPERTS_FEW_TOKENS, outline_few},
                {kf_experts_has_slices(spec), KF_EXPERTS_BY_SLICES, outline_slices},
                {t.has_few, KF_EXPERTS_FEW_TOKENS, outline_last}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const int fits = ways[i].takes ? outline_kind(out, &on, ways[i].kind, ways[i].divide) : 0;
        out->is_tiled = fits > 0;
        if (fits) return fits;
    }
    outline_any(out, plan);
    return 1;
}

unsigned kf_experts_any_blocks(const kf_experts_launch *l, const kerf_gemv_experts_shape *s,
                               const kf_gemv_machine *m)
{
    return blocks_for(l, s, KF_GEMV_TILE / KF_GEMV_WARPS, 16 * m->multiprocessors);
}
