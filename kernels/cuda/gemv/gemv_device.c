/* gemv_device.c - plans of the matrix-vector product on a GPU: which kernel, how many blocks, how
 * shared memory is divided. All of it is decided when a plan is made; a run fills in pointers and
 * launches one kernel, or the same one several times, each time for some of the columns
 * (plan/gemv_launches.h). The arithmetic is in plan/gemv_divide*.c. */
#include "base/base.h"
#include "cuda/gemv/gemv_job.h"
#include "cuda/gemv/gemv_machine.h"
#include "cuda/handle.h"
#include "format/format.h"
#include "plan/gemv_device.h"
#include "plan/gemv_launches.h"

#include <stdlib.h>
#include <string.h>

static const kf_gemv_launches *const launches_of[] = {
#define KERF_FORMAT(ID, ...) &kf_gemv_launches_##ID,
#include <kerf/formats.def>
#undef KERF_FORMAT
};

typedef struct device_plan {
    const kf_gemv_launches *launches, *tile_launches;
    kf_gemv_tiling tiling;
    kf_gemv_job job; /* without pointers */
    kf_gemv_grid tiled, any;
    kf_gemv_spacing spacing;
    uint32_t at_once; /* columns of a tiled launch, at most; the last of several has fewer */
    kf_gpu *gpu;
    int ordinal;
    int is_tiled;
} device_plan;

/* --- planning --------------------------------------------------------------------------------- */

typedef struct preparation {
    device_plan *plan;
    kerf_error *err;
    kerf_status status;
} preparation;

/* Puts a launch into the plan, and asks the device how many clusters of it run at once. */
static int take_launch(void *ctx, const kf_gemv_launch *l)
{
    preparation *a = ctx;
    device_plan *p = a->plan;
    int clusters = 0;
    p->job.columns = l->task.columns;
    p->job.share = l->share;
    p->job.division = l->division;
    p->tiled = l->grid;
    cudaError_t e = p->tile_launches->prepare(&p->job, &p->tiled, &clusters);
    if (e == cudaSuccess) return clusters < 1 ? 0 : clusters;
    a->status = kf_cuda_fail(a->err, e, "preparing a kernel");
    return -1;
}

/* Divides the task and prepares the device for its launches; 0: nothing fits, or *status says why.
 */
static int choose_launches(device_plan *p, kf_gemv_launch *l, const kf_gemv_machine *m,
                           kerf_error *err, kerf_status *status)
{
    const uint32_t columns = l->task.columns;
    preparation a = {p, err, KERF_OK};
    int fits = kf_gemv_divide_product(l, &p->tiling, m, take_launch, &a);
    p->at_once = l->task.columns;
    p->job.columns = columns;
    *status = a.status;
    return fits > 0;
}

/* Whether the kernels for tiles take the plan's matrices; then the job says how. */
static int plan_tiles(device_plan *p, const kerf_gemv *plan, const kf_gemv_machine *m,
                      const kf_gemv_options *options, kerf_error *err, kerf_status *status)
{
    kf_gemv_job *j = &p->job;
    kf_gemv_launch l = {.task = {.cols = j->cols,
                                 .columns = j->columns,
                                 .together = j->swiglu ? 2 : 1,
                                 .overlap = j->constant_weights && m->has_clusters,
                                 .options = *options}};
    int is_tiled;
    j->strides =
        kf_gemv_strides_of(plan->shape.format, &plan->part[0], j->cols, &p->tiling, &is_tiled);
    const kf_gemv_job untiled = *j;
    for (unsigned i = 0; i < j->parts; i++) {
        l.task.weight_bytes += plan->part[i].bytes;
        l.task.tiles += (j->part[i].rows + KF_GEMV_TILE - 1) / KF_GEMV_TILE;
        j->part[i].tiles = l.task.tiles;
    }
    if (!is_tiled || l.task.tiles == 0 || !choose_launches(p, &l, m, err, status)) {
        *j = untiled;
        return 0;
    }
    j->whole = kf_gemv_ends_whole(&j->strides, &l, &p->tiling);
    j->pieces = kf_gemv_scales_in_pieces(&j->strides, &l, &p->tiling);
    j->words = kf_gemv_end_of(&j->strides, &l, &p->tiling) != KF_GEMV_END_SCALES;
    j->zero_words = j->strides.zero_bytes % 4 == 0;
    return 1;
}

kerf_status kf_gemv_device_plan(kerf_gemv *plan, kerf_device *device,
                                const kf_gemv_options *options, kerf_error *err)
{
    kf_gemv_machine m;
    device_plan *p = kf_alloc_zero(1, sizeof *p);
    if (!p) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "out of memory");
    plan->state = p;
    const kerf_gemv_shape *s = &plan->shape;
    p->gpu = kf_gpu_of(device);
    p->ordinal = p->gpu->ordinal;
    p->launches = launches_of[kf_format_index(s->format)];
    p->tile_launches = launches_of[kf_gemv_lender_of(s->format)];
    if (s->flags & KERF_GEMV_SHUFFLED) p->launches = p->tile_launches = p->launches->shuffled;
    p->tiling = kf_gemv_tiling_for(s->format, s->cols);
    p->spacing = options->spacing;
    KF_TRY(kf_gemv_ask_machine(p->ordinal, &m, err));
    kf_gemv_apply(&m.tuning, options->tuning);

    kf_gemv_job *j = &p->job;
    uint64_t rows = 0;
    j->parts = plan->parts;
    for (unsigned i = 0; i < j->parts; i++) {
        if (s->cols > UINT32_MAX / 2 || plan->part_rows[i] > UINT32_MAX / 2)
            return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                           "%llu x %llu: a GPU takes up to 2^31 each",
                           (unsigned long long)plan->part_rows[i], (unsigned long long)s->cols);
        j->part[i].rows = (uint32_t)plan->part_rows[i];
        rows += plan->part_rows[i];
    }
    j->cols = (uint32_t)s->cols;
    j->columns = s->columns;
    j->x_type = s->x;
    j->y_type = s->y;
    j->swiglu = (s->flags & KERF_GEMV_SWIGLU) != 0;
    j->constant_weights = (s->flags & KERF_GEMV_CONSTANT_WEIGHTS) != 0;
    j->division.cluster = 1;

    uint64_t blocks = kf_div_up(rows, 8);
    unsigned most = 16 * m.multiprocessors;
    p->any = (kf_gemv_grid){.blocks = blocks < most ? (unsigned)blocks : most};
    kerf_status status = KERF_OK;
    p->is_tiled = plan_tiles(p, plan, &m, options, err, &status);
    KF_TRY(status);
    if (!p->is_tiled && !p->launches->any)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "shuffled codes take rows of whole 16 bytes that fit a block, and %llu "
                       "columns do not; unshuffled they work",
                       (unsigned long long)s->cols);
    p->any.overlap = j->constant_weights && m.has_clusters;

    /* Sums of products in fp32: a tensor core adds 16 and the sum so far, cutting what is below
     * 2^-24 of the largest. */
    double steps = (double)s->cols / 16 + 32;
    plan->bound = p->is_tiled ? steps * 0x1p-20 + p->tiling.rounding : steps * 0x1p-24;
    if (p->is_tiled && p->tiling.stage_sums) plan->bound *= 3; /* cuda/few/blocks_scales.cuh */
    if (p->is_tiled && s->x == KERF_F32) plan->bound += 0x1p-11;
    return KERF_OK;
}

int kf_gemv_device_is_tiled(const kerf_gemv *plan)
{
    return ((const device_plan *)plan->state)->is_tiled;
}

int kf_gemv_device_alike(const kerf_gemv *a, const kerf_gemv *b)
{
    const device_plan *p = a->state, *q = b->state;
    return p->is_tiled == q->is_tiled &&
           memcmp(&p->job.share, &q->job.share, sizeof p->job.share) == 0 &&
           memcmp(&p->job.division, &q->job.division, sizeof p->job.division) == 0 &&
           memcmp(&p->tiled, &q->tiled, sizeof p->tiled) == 0;
}

/* --- running ---------------------------------------------------------------------------------- */

static int is_aligned(const void *p)
{
    return (uintptr_t)p % 16 == 0;
}

static void fill_part(kf_gemv_matrix *m, const kerf_cspan weights[KERF_PLANES], const void *bias,
                      const void *residual, void *y, uint64_t y_stride)
{
    for (int i = 0; i < KERF_PLANES; i++) m->plane[i] = weights[i].p;
    m->bias = bias;
    m->residual = residual;
    m->y = y;
    m->y_stride = y_stride ? y_stride : m->rows;
}

/* The grid of this launch. Blocks of a launch come to where others end: where two that shared a
 * multiprocessor end together, two of a launch come that has one for each, others have none, and so
 * it goes on from launch to launch. So of launches with one block for each multiprocessor, every
 * other one takes so much shared memory that no two of its blocks share one; those of the next then
 * find room beside them, once on each. The handle remembers whose turn it is; time depends on that,
 * results do not. */
static kf_gemv_grid next_grid(const device_plan *p)
{
    kf_gemv_grid g = p->tiled;
    int was_solo = __atomic_load_n(&p->gpu->was_solo, __ATOMIC_RELAXED);
    int is_solo =
        g.solo_bytes &&
        (p->spacing == KF_GEMV_SPACE_IN_TURNS ? !was_solo : p->spacing == KF_GEMV_SPACE_ALWAYS);
    if (is_solo) g.shared_bytes = g.solo_bytes;
    __atomic_store_n(&p->gpu->was_solo, is_solo, __ATOMIC_RELAXED);
    return g;
}

/* On to the next columns of x and y. */
static void skip_columns(kf_gemv_job *j, uint32_t columns)
{
    const unsigned x_size = kerf_dtype_bits(j->x_type) / 8, y_size = kerf_dtype_bits(j->y_type) / 8;
    j->x += columns * j->x_stride * x_size;
    for (unsigned i = 0; i < j->parts; i++) {
        kf_gemv_matrix *m = &j->part[i];
        const uint64_t bytes = columns * m->y_stride * y_size;
        if (m->y) m->y += bytes;
        if (m->residual) m->residual += bytes;
    }
}

static kerf_status run_tiles(const device_plan *p, kf_gemv_job *j, void *stream, kerf_error *err)
{
    const uint32_t columns = j->columns;
    for (uint32_t c = 0; c < columns; c += p->at_once) {
        const kf_gemv_grid grid = next_grid(p);
        if (c) skip_columns(j, p->at_once);
        j->columns = kf_gemv_next_columns(columns, c, p->at_once);
        KF_CUDA(p->tile_launches->tiles(j, &grid, stream), "starting a matrix-vector product");
    }
    return KERF_OK;
}

kerf_status kf_gemv_device_run(const kerf_gemv *plan, const kerf_gemv_args *a, void *stream,
                               kerf_error *err)
{
    const device_plan *p = plan->state;
    kf_gemv_job j = p->job;
    unsigned size = kerf_dtype_bits(j.x_type) / 8;
    j.x = a->x.p;
    j.x_stride = a->x_stride ? a->x_stride : j.cols;
    j.alpha = a->alpha == 0 ? 1 : a->alpha;
    fill_part(&j.part[0], a->weights, a->bias.p, a->residual.p, a->y.p, a->y_stride);
    for (unsigned i = 1; i < j.parts; i++) {
        const kerf_gemv_part *m = &a->more[i - 1];
        fill_part(&j.part[i], m->weights, m->bias.p, m->residual.p, m->y.p, m->y_stride);
    }
    j.aligned = 1;
    for (unsigned i = 0; i < j.parts; i++) {
        j.aligned = j.aligned && is_aligned(j.part[i].plane[KERF_PLANE_CODES]);
        j.pieces = j.pieces && is_aligned(j.part[i].plane[KERF_PLANE_SCALES]);
        j.words = j.words && (uintptr_t)j.part[i].plane[KERF_PLANE_SCALES] % 4 == 0;
        j.zero_words = j.zero_words && (uintptr_t)j.part[i].plane[KERF_PLANE_ZEROS] % 4 == 0;
    }
    j.whole = j.whole && j.aligned && j.pieces;
    j.x_wide = is_aligned(j.x) && j.x_stride * size % 16 == 0;
    if (p->any.blocks == 0) return KERF_OK;

    KF_CUDA(cudaSetDevice(p->ordinal), "choosing a GPU");
    if (p->is_tiled) return run_tiles(p, &j, stream, err);
    KF_CUDA(p->launches->any(&j, &p->any, stream), "starting a matrix-vector product");
    return KERF_OK;
}

/* --- shuffled codes --------------------------------------------------------------------------- */

kerf_status kf_gemv_device_shuffle(kerf_device *device, void *words, size_t n, int back,
                                   void *stream, kerf_error *err)
{
    KF_CUDA(cudaSetDevice(kf_gpu_of(device)->ordinal), "choosing a GPU");
    KF_CUDA(kf_shuffle_words(words, n, back, stream), "shuffling codes");
    return KERF_OK;
}
