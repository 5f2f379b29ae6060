/* experts_device.c - plans of mixture-of-experts layers on a GPU, by their outline
 * (plan/experts_outline.h); a run fills in pointers and launches twice. */
#include "base/base.h"
#include "cuda/experts/experts_job.h"
#include "cuda/gemv/gemv_machine.h"
#include "cuda/handle.h"
#include "format/format.h"
#include "plan/experts_outline.h"

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

static void describe(const kerf_gemv_experts *plan, const kf_experts_launch *l, kf_experts_job *j)
{
    const kerf_gemv_experts_shape *s = &plan->shape;
    j->is_down = (uint32_t)l->is_down;
    j->cols = l->cols;
    j->rows = l->rows;
    j->out = l->out;
    j->tiles = l->tiles;
    j->alternating = l->alternating;
    j->step = l->step;
    for (int i = 0; i < 2; i++) j->first[i] = l->first[i];
    j->x_type = l->x_type;
    j->y_type = l->is_down ? s->y : s->between;
    j->bias_type = s->bias;
    j->experts = (uint32_t)s->experts;
    j->tokens = s->tokens;
    j->top_k = s->top_k;
    j->clamped = s->activation == KERF_EXPERTS_CLAMPED;
    j->limit = s->limit;
    j->share = l->share;
    j->strides = l->strides;
    j->slices = l->slices;
    j->plain_scales = l->plain_scales;
    j->words = l->words;
    j->zero_words = l->zero_words;
    j->copy_rows = l->copy_rows;
}

static void take_one(kf_experts_job *j, const kf_experts_one_room *r)
{
    j->team = r->team;
    j->x_at = r->x_at;
    j->backs_at = r->backs_at;
    j->x_sums_at = r->x_sums_at;
    j->sums_at = r->sums_at;
    j->runs_at = r->runs_at;
    j->mail_at = r->mail_at;
    j->table_at = r->table_at;
}

static void take_few(kf_experts_job *j, const kf_experts_few_room *r)
{
    j->chunks = r->chunks;
    j->chunk_stages = r->chunk_stages;
    j->most_items = r->most_items;
    j->by_blocks = kf_inverse(r->blocks);
    j->by_tiles = kf_inverse(j->tiles);
    j->by_stages = kf_inverse(r->chunk_stages);
    j->x_pitch = r->x_pitch;
    j->x_at = r->x_at;
    j->backs_at = r->backs_at;
    j->x_sums_at = r->x_sums_at;
    j->lists_at = r->lists_at;
    j->table_at = r->table_at;
    j->sums_at = r->sums_at;
}

static void take_slices(kf_experts_job *j, const kf_experts_launch *l)
{
    const kf_experts_room *r = &l->slice;
    const unsigned mats = l->is_down ? 1 : 2;
    j->warps = r->warps;
    j->depth = r->depth;
    j->x_pitch = r->x_pitch;
    j->raw_at = l->raw ? mats * l->unit : 0;
    j->x_at = mats * (l->unit + l->raw);
    j->slot = r->slot;
    j->sums_at = r->sums_at;
    j->sum_cols = r->sum_cols;
    j->zeros_at = r->zeros_at;
    j->lists_at = r->lists_at;
    j->table_at = r->table_at;
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

static kf_experts_grid grid_of(const kf_experts_outline *o, int which, const kf_gemv_machine *m)
{
    const kf_experts_launch *l = &o->launch[which];
    return (kf_experts_grid){.blocks = l->blocks,
                             .threads = l->threads,
                             .shared_bytes = l->shared_bytes,
                             .team = l->team,
                             .kind = o->kind,
                             .overlap = m->has_clusters};
}

/* Whose kernels those of an outline are. */
static const kf_experts_launches *launches_for(const kf_experts_outline *o,
                                               const kerf_gemv_experts_shape *s)
{
    const kf_experts_launches *l = launches_of[kf_gemv_lender_of(s->format)];
    if (s->flags & KERF_GEMV_SHUFFLED) return l->shuffled;
    return o->has_fours ? l->fours : l;
}

/* What asks the device of an outline. */
typedef struct question {
    const kerf_gemv_experts_shape *shape;
    const kf_gemv_machine *machine;
    unsigned most_bytes; /* of shared memory that a block may have */
    kerf_status status;
    kerf_error *err;
} question;

static kerf_status prepare(const question *q, const kf_experts_outline *o, int which, int *blocks)
{
    const kf_experts_grid g = grid_of(o, which, q->machine);
    kerf_error *err = q->err;
    KF_CUDA(launches_for(o, q->shape)->prepare(which, &g, q->most_bytes, blocks),
            "preparing a kernel");
    return KERF_OK;
}

static int ask(void *ctx, const kf_experts_outline *o, int which)
{
    question *q = ctx;
    int blocks = 0;
    q->status = prepare(q, o, which, &blocks);
    return q->status == KERF_OK ? blocks : -1;
}

static void take_outline(device_plan *p, kerf_gemv_experts *plan, const kf_experts_outline *o,
                         const kf_gemv_machine *m)
{
    p->is_tiled = o->is_tiled;
    p->launches = o->is_tiled ? launches_for(o, &plan->shape)
                              : launches_of[kf_format_index(plan->shape.format)];
    for (int i = 0; i < 2; i++) {
        const kf_experts_launch *l = &o->launch[i];
        describe(plan, l, &p->job[i]);
        p->grid[i] = grid_of(o, i, m);
        if (!o->is_tiled)
            p->grid[i] = (kf_experts_grid){.blocks = kf_experts_any_blocks(l, &plan->shape, m),
                                           .threads = 32 * KF_GEMV_WARPS,
                                           .overlap = m->has_clusters};
        else if (o->kind == KF_EXPERTS_ONE)
            take_one(&p->job[i], &l->one);
        else if (o->kind == KF_EXPERTS_FEW_TOKENS)
            take_few(&p->job[i], &l->few);
        else
            take_slices(&p->job[i], l);
    }
    if (o->is_tiled && o->kind == KF_EXPERTS_FEW_TOKENS) plan_parts(p, plan);
}

kerf_status kf_experts_device_plan(kerf_gemv_experts *plan, kerf_device *device,
                                   const struct kf_gemv_machine *as, kerf_error *err)
{
    const kerf_format *f = plan->shape.format;
    kf_gemv_machine m;
    kf_experts_outline o;
    question q = {&plan->shape, &m, 0, KERF_OK, err};
    device_plan *p = kf_alloc_zero(1, sizeof *p);
    if (!p) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "out of memory");
    plan->state = p;
    p->ordinal = kf_gpu_of(device)->ordinal;
    KF_TRY(kf_gemv_ask_machine(p->ordinal, &m, err));
    q.most_bytes = m.most_shared;
    if (as) m = *as;
    if (kf_experts_outline_of(&o, plan, &m, ask, &q) < 0) return q.status;
    if (!o.is_tiled && plan->shape.flags & KERF_GEMV_SHUFFLED)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "shuffled codes take rows of whole 16 bytes that fit a block, and %llu x "
                       "%llu do not; unshuffled they work",
                       (unsigned long long)plan->shape.hidden,
                       (unsigned long long)plan->shape.inter);
    take_outline(p, plan, &o, &m);
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
