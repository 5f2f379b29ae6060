/* experts_device.c - plans of mixture-of-experts layers on a GPU: which kernels, how many blocks,
 * how shared memory is divided; a run fills in pointers and launches twice. */
#include "base/base.h"
#include "cuda/experts/experts_job.h"
#include "cuda/gemv/gemv_machine.h"
#include "cuda/handle.h"
#include "format/format.h"
#include "plan/experts_plan.h"

static const kf_experts_launches *const launches_of[] = {
#define KERF_FORMAT(ID, ...) &kf_experts_launches_##ID,
#include <kerf/formats.def>
#undef KERF_FORMAT
};

/* Both launches. */
typedef struct device_plan {
    const kf_experts_launches *launches;
    kf_experts_job job[2]; /* without pointers */
    kf_experts_grid grid[2];
    int ordinal, is_tiled;
    size_t parts_at, counts_at; /* in the workspace */
} device_plan;

/* --- planning --------------------------------------------------------------------------------- */

static void describe(const kerf_gemv_experts *plan, int which, kf_experts_job *j)
{
    const kerf_gemv_experts_shape *s = &plan->shape;
    const kf_experts_matrix *m = which ? &plan->down : &plan->in;
    j->cols = (uint32_t)m->cols;
    j->rows = (uint32_t)m->rows;
    j->out = (uint32_t)(which ? s->hidden : s->inter);
    j->tiles = (j->out + KF_GEMV_TILE - 1) / KF_GEMV_TILE;
    j->alternating = !which && s->rows == KERF_EXPERTS_ALTERNATING;
    j->step = j->alternating ? 2 * KF_GEMV_TILE : KF_GEMV_TILE;
    if (!which && s->rows == KERF_EXPERTS_HALVES) j->first[1] = (uint32_t)s->inter;
    if (j->alternating) j->first[1] = KF_GEMV_TILE;
    j->x_type = which ? s->between : s->x;
    j->y_type = which ? s->y : s->between;
    j->bias_type = s->bias;
    j->experts = (uint32_t)s->experts;
    j->tokens = s->tokens;
    j->top_k = s->top_k;
    j->clamped = s->activation == KERF_EXPERTS_CLAMPED;
    j->limit = s->limit;
    j->share = s->tokens < KF_EXPERTS_SHARE ? s->tokens : KF_EXPERTS_SHARE;
}

/* Rows of weights as the kernels for tiles see them; 0: those decline. */
static int lay_tiles(const kerf_gemv_experts *plan, int which, const kf_gemv_tiling *t,
                     kf_experts_job *j)
{
    const kf_experts_matrix *m = which ? &plan->down : &plan->in;
    const kf_gemv_launch l = {.task = {.cols = m->cols}};
    int is_tiled;
    j->strides = kf_gemv_strides_of(plan->shape.format, &m->geometry, m->cols, t, &is_tiled);
    if (!is_tiled) return 0;
    const unsigned copy = t->has_few ? t->stage_copy : t->slice_copy;
    j->slices = (uint32_t)kf_div_up(m->cols, t->has_few ? t->stage_codes : t->slice_codes);
    j->plain_scales = copy == 0 || j->strides.row_groups * t->scale % copy == 0;
    j->words = kf_gemv_end_of(&j->strides, &l, t) != KF_GEMV_END_SCALES;
    j->zero_words = j->strides.zero_bytes % 4 == 0;
    j->copy_rows = (uint32_t)(t->stage_rows * j->strides.row_bytes);
    /* 16 rows of up must not lie in two rows of tiles. */
    return !(t->is_shared && j->first[1] % KF_GEMV_TILE);
}

/* Of a unit: its scales as they lie in memory, experts_weights.cuh. */
static unsigned raw_bytes(const kf_experts_job *j, const kf_gemv_tiling *t)
{
    return t->has_groups && !t->is_shared && !j->plain_scales ? KF_GEMV_TILE * (t->slice_row + 4)
                                                              : 0;
}

static kf_experts_need need_of(const kf_experts_job *j, int which, const kf_gemv_tiling *t,
                               const kf_gemv_machine *m)
{
    unsigned parts = t->way == KF_WAY_BF16 ? 2 : 1;
    unsigned halves = t->slice_codes * 2 * parts;
    unsigned raw = t->slice_codes * (kerf_dtype_bits(j->x_type) / 8);
    return (kf_experts_need){.columns = which ? j->tokens : 0,
                             .mats = which ? 1 : 2,
                             .unit = t->slice_unit + raw_bytes(j, t),
                             .x_bytes = raw > halves ? raw : halves,
                             .zeros = halves,
                             .table = t->table,
                             .lists = KF_EXPERTS_LISTS,
                             .scratch = KF_EXPERTS_SCRATCH + 128,
                             .most_shared = m->most_shared};
}

/* Two blocks for a multiprocessor if at least two tokens share weights in both launches; else one.
 */
static int divide(device_plan *p, const kf_gemv_tiling *t, const kf_gemv_machine *m,
                  kf_experts_room room[2])
{
    const unsigned most = p->job[0].share, least = most < 2 ? most : 2;
    for (unsigned blocks = 2; blocks >= 1; blocks--)
        for (unsigned share = most; share >= (blocks == 2 ? least : 1); share--) {
            int fits = 1;
            for (int i = 0; i < 2; i++) {
                const kf_experts_need need = need_of(&p->job[i], i, t, m);
                fits =
                    fits && kf_experts_divide(&room[i], &need, share) && room[i].blocks >= blocks;
            }
            if (fits) return 1;
        }
    return 0;
}

static void take_room(kf_experts_job *j, const kf_experts_room *r, unsigned mats, unsigned unit,
                      unsigned raw)
{
    j->share = r->share;
    j->warps = r->warps;
    j->depth = r->depth;
    j->x_pitch = r->x_pitch;
    j->raw_at = raw ? mats * unit : 0;
    j->x_at = mats * (unit + raw);
    j->slot = r->slot;
    j->sums_at = r->sums_at;
    j->sum_cols = r->sum_cols;
    j->zeros_at = r->zeros_at;
    j->lists_at = r->lists_at;
    j->table_at = r->table_at;
}

static unsigned blocks_for(const kf_experts_job *j, int which, uint64_t per_item, unsigned most)
{
    uint64_t items = (uint64_t)j->tiles * (which ? 1 : j->tokens * j->top_k);
    uint64_t blocks = items * per_item;
    return blocks < most ? (unsigned)blocks : most;
}

/* *blocks: of a multiprocessor. */
static kerf_status prepare(const device_plan *p, int which, const kf_gemv_machine *m, int *blocks,
                           kerf_error *err)
{
    KF_CUDA(p->launches->prepare(which, &p->grid[which], m->most_shared, blocks),
            "preparing a kernel");
    return KERF_OK;
}

static kf_experts_one_need need_of_one(const kf_experts_job *j, int which, const kf_gemv_tiling *t,
                                       const kf_gemv_machine *m)
{
    return (kf_experts_one_need){.is_down = which,
                                 .tiles = j->tiles,
                                 .slices = j->slices,
                                 .top_k = j->top_k,
                                 .unit = kf_experts_unit(*t),
                                 .x_stage = t->stage_codes * 2,
                                 .x_sums = t->stage_sums,
                                 .table = t->table,
                                 .multiprocessors = m->multiprocessors,
                                 .most_shared = m->most_shared,
                                 .has_clusters = m->has_clusters};
}

static kerf_status plan_one(device_plan *p, const kf_gemv_tiling *t, const kf_gemv_machine *m,
                            kerf_error *err)
{
    for (int i = 0; i < 2; i++) {
        kf_experts_one_room r;
        kf_experts_job *j = &p->job[i];
        const kf_experts_one_need need = need_of_one(j, i, t, m);
        int blocks;
        if (!kf_experts_one_divide(&r, &need)) return KERF_OK;
        p->grid[i] = (kf_experts_grid){.blocks = r.blocks,
                                       .threads = 32 * KF_GEMV_WARPS,
                                       .shared_bytes = r.bytes,
                                       .team = r.team,
                                       .kind = KF_EXPERTS_ONE,
                                       .overlap = m->has_clusters};
        KF_TRY(prepare(p, i, m, &blocks, err));
        if (blocks < 1) return KERF_OK;
        j->is_down = (uint32_t)i;
        j->team = r.team;
        j->x_at = r.x_at;
        j->backs_at = r.backs_at;
        j->x_sums_at = r.x_sums_at;
        j->sums_at = r.sums_at;
        j->runs_at = r.runs_at;
        j->mail_at = r.mail_at;
        j->table_at = r.table_at;
    }
    p->is_tiled = 1;
    return KERF_OK;
}

static kf_experts_few_need need_of_few(const kf_experts_job *j, int which, const kf_gemv_tiling *t,
                                       const kf_gemv_machine *m)
{
    return (kf_experts_few_need){.is_down = which,
                                 .tiles = j->tiles,
                                 .slices = j->slices,
                                 .groups = j->tokens * j->top_k,
                                 .unit = kf_experts_unit(*t),
                                 .x_stage = t->stage_codes * 2,
                                 .x_sums = t->stage_sums,
                                 .table = t->table,
                                 .lists = KF_EXPERTS_LISTS,
                                 .multiprocessors = m->multiprocessors,
                                 .most_shared = m->most_shared};
}

/* What each column adds to y, and counts of those that are there, come behind h. */
static void plan_parts(device_plan *p, kerf_gemv_experts *plan)
{
    const kf_experts_job *j = &p->job[1];
    const size_t columns = (size_t)j->tokens * j->top_k * j->chunks;
    p->parts_at = (plan->workspace + 127) / 128 * 128;
    p->counts_at = p->parts_at + columns * j->tiles * KF_GEMV_TILE * sizeof(float);
    plan->workspace = p->counts_at + KF_EXPERTS_COUNTS * sizeof(uint32_t);
}

static kerf_status plan_few(device_plan *p, kerf_gemv_experts *plan, const kf_gemv_tiling *t,
                            const kf_gemv_machine *m, kerf_error *err)
{
    kf_experts_few_need need[2];
    for (int i = 0; i < 2; i++) need[i] = need_of_few(&p->job[i], i, t, m);
    const unsigned share =
        kf_experts_few_share(need, *t, p->job->tokens, p->job->top_k, p->job->experts);
    if (share > KF_EXPERTS_FEW) p->launches = p->launches->fours;
    for (int i = 0; i < 2; i++) {
        kf_experts_few_room r;
        kf_experts_job *j = &p->job[i];
        int blocks;
        need[i].share = share;
        if (!kf_experts_few_divide(&r, &need[i])) return KERF_OK;
        p->grid[i] = (kf_experts_grid){.blocks = r.blocks,
                                       .threads = 32 * KF_GEMV_WARPS,
                                       .shared_bytes = r.bytes,
                                       .kind = KF_EXPERTS_FEW_TOKENS,
                                       .overlap = m->has_clusters};
        KF_TRY(prepare(p, i, m, &blocks, err));
        if (blocks < 1) return KERF_OK;
        j->is_down = (uint32_t)i;
        j->share = j->tokens < share ? j->tokens : share;
        j->chunks = r.chunks;
        j->chunk_stages = r.chunk_stages;
        j->most_items = r.most_items;
        j->by_blocks = kf_inverse(r.blocks);
        j->by_tiles = kf_inverse(j->tiles);
        j->by_stages = kf_inverse(r.chunk_stages);
        j->x_pitch = r.x_pitch;
        j->x_at = r.x_at;
        j->backs_at = r.backs_at;
        j->x_sums_at = r.x_sums_at;
        j->lists_at = r.lists_at;
        j->table_at = r.table_at;
        j->sums_at = r.sums_at;
    }
    plan_parts(p, plan);
    p->is_tiled = 1;
    return KERF_OK;
}

static kerf_status plan_slices(device_plan *p, const kf_gemv_tiling *t, const kf_gemv_machine *m,
                               kerf_error *err)
{
    kf_experts_room room[2];
    if (!divide(p, t, m, room)) return KERF_OK;
    for (int i = 0; i < 2; i++) {
        kf_experts_grid *g = &p->grid[i];
        int blocks;
        *g = (kf_experts_grid){.threads = 32 * room[i].warps,
                               .shared_bytes = room[i].bytes,
                               .kind = KF_EXPERTS_BY_SLICES,
                               .overlap = m->has_clusters};
        KF_TRY(prepare(p, i, m, &blocks, err));
        if (blocks < 1) return KERF_OK;
        take_room(&p->job[i], &room[i], i ? 1 : 2, t->slice_unit, raw_bytes(&p->job[i], t));
        g->blocks = blocks_for(&p->job[i], i, 1, (unsigned)blocks * m->multiprocessors);
    }
    p->is_tiled = 1;
    return KERF_OK;
}

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

/* The kernel for one token; for several; by slices. The first that takes the layer. */
static kerf_status plan_tiles(device_plan *p, kerf_gemv_experts *plan, const kf_gemv_machine *m,
                              kerf_error *err)
{
    const kf_gemv_tiling tiling = kf_gemv_tiling_of(kf_spec_of(plan->shape.format));
    const int takes[] = {[KF_EXPERTS_ONE] = goes_as_one(&plan->shape, &tiling, m),
                         [KF_EXPERTS_FEW_TOKENS] = goes_as_few(&plan->shape, &tiling),
                         [KF_EXPERTS_BY_SLICES] =
                             kf_experts_has_slices(kf_spec_of(plan->shape.format))};
    for (int kind = 0; kind <= KF_EXPERTS_BY_SLICES && !p->is_tiled; kind++) {
        if (!takes[kind]) continue;
        kf_gemv_tiling t = tiling;
        int tiled = 1;
        p->launches = launches_of[kf_gemv_lender_of(plan->shape.format)];
        t.has_few = kind != KF_EXPERTS_BY_SLICES;
        for (int i = 0; i < 2; i++) tiled = lay_tiles(plan, i, &t, &p->job[i]) && tiled;
        if (!tiled) continue;
        if (kind == KF_EXPERTS_ONE)
            KF_TRY(plan_one(p, &t, m, err));
        else if (kind == KF_EXPERTS_FEW_TOKENS)
            KF_TRY(plan_few(p, plan, &t, m, err));
        else
            KF_TRY(plan_slices(p, &t, m, err));
    }
    return KERF_OK;
}

static void plan_any(device_plan *p, const kerf_gemv_experts *plan, const kf_gemv_machine *m)
{
    p->launches = launches_of[kf_format_index(plan->shape.format)];
    for (int i = 0; i < 2; i++) {
        const kf_gemv_tiling none = {.way = KF_WAY_NONE};
        lay_tiles(plan, i, &none, &p->job[i]);
        p->grid[i] = (kf_experts_grid){
            .blocks =
                blocks_for(&p->job[i], i, KF_GEMV_TILE / KF_GEMV_WARPS, 16 * m->multiprocessors),
            .threads = 32 * KF_GEMV_WARPS,
            .overlap = m->has_clusters,
        };
    }
}

kerf_status kf_experts_device_plan(kerf_gemv_experts *plan, kerf_device *device, kerf_error *err)
{
    const kerf_format *f = plan->shape.format;
    kf_gemv_machine m;
    device_plan *p = kf_alloc_zero(1, sizeof *p);
    if (!p) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "out of memory");
    plan->state = p;
    p->ordinal = kf_gpu_of(device)->ordinal;
    KF_TRY(kf_gemv_ask_machine(p->ordinal, &m, err));
    for (int i = 0; i < 2; i++) describe(plan, i, &p->job[i]);
    KF_TRY(plan_tiles(p, plan, &m, err));
    if (!p->is_tiled) plan_any(p, plan, &m);
    plan->backend = p->is_tiled ? "cuda" : "cuda-any";

    /* As in gemv_device.c; sums over slices and experts are a few steps more. */
    const kf_gemv_tiling t = kf_gemv_tiling_of(kf_spec_of(f));
    for (int i = 0; i < 2; i++) {
        double steps = (double)p->job[i].cols / 16 + 64 + 2 * KERF_EXPERTS_TOP_K;
        plan->bound[i] = p->is_tiled ? steps * 0x1p-20 + t.rounding : steps * 0x1p-24;
        if (p->is_tiled && t.stage_sums) plan->bound[i] *= 3; /* cuda/few/blocks_scales.cuh */
        if (p->is_tiled && p->job[i].x_type == KERF_F32) plan->bound[i] += 0x1p-11;
    }
    return KERF_OK;
}

/* --- running ---------------------------------------------------------------------------------- */

static int is_aligned(const void *p, uint64_t stride, unsigned n)
{
    return (uintptr_t)p % n == 0 && stride % n == 0;
}

static void fill_stack(kf_experts_job *j, int m, const kerf_experts_stack *s)
{
    for (int i = 0; i < KERF_PLANES; i++) {
        j->stack[m].plane[i] = s->weights[i].p;
        j->stack[m].stride[i] = s->stride[i];
    }
    j->stack[m].bias = s->bias.p;
    const kerf_cspan *w = s->weights;
    j->aligned = j->aligned && is_aligned(w[KERF_PLANE_CODES].p, s->stride[KERF_PLANE_CODES], 16);
    j->plain_scales =
        j->plain_scales && is_aligned(w[KERF_PLANE_SCALES].p, s->stride[KERF_PLANE_SCALES], 16);
    j->words = j->words && is_aligned(w[KERF_PLANE_SCALES].p, s->stride[KERF_PLANE_SCALES], 4);
    j->zero_words =
        j->zero_words && is_aligned(w[KERF_PLANE_ZEROS].p, s->stride[KERF_PLANE_ZEROS], 4);
}

kerf_status kf_experts_device_run(const kerf_gemv_experts *plan, const kerf_gemv_experts_args *a,
                                  void *stream, kerf_error *err)
{
    const device_plan *p = plan->state;
    KF_CUDA(cudaSetDevice(p->ordinal), "choosing a GPU");
    for (int i = 0; i < 2; i++) {
        kf_experts_job j = p->job[i];
        j.aligned = 1;
        fill_stack(&j, 0, i ? &a->down : &a->gate);
        if (!i) fill_stack(&j, 1, plan->stacks == 2 ? &a->up : &a->gate);
        j.ids = a->ids.p;
        j.weights = a->weights.p;
        j.x = i ? a->workspace.p : a->x.p;
        j.y = i ? a->y.p : a->workspace.p;
        j.x_stride = i ? plan->h_stride : a->x_stride;
        j.y_stride = i ? a->y_stride : plan->h_stride;
        j.parts = (float *)((uint8_t *)a->workspace.p + p->parts_at);
        j.counts = (uint32_t *)((uint8_t *)a->workspace.p + p->counts_at);
        j.x_wide = is_aligned(j.x, j.x_stride * (kerf_dtype_bits(j.x_type) / 8), 16);
        KF_CUDA((p->is_tiled ? p->launches->tiles : p->launches->any)(i, &j, &p->grid[i], stream),
                "starting a layer of experts");
    }
    return KERF_OK;
}
