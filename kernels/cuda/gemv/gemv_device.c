/* gemv_device.c - plans of the matrix-vector product on a GPU: which kernel, how many blocks, how
 * shared memory is divided. All of it is decided when a plan is made; a run fills in pointers and
 * launches one kernel. What is decided by arithmetic alone stands in gemv_outline.c. */
#include "base/base.h"
#include "cuda/gemv/gemv_job.h"
#include "cuda/handle.h"
#include "format/format.h"
#include "plan/gemv_device.h"

#include <stdlib.h>

static const kf_gemv_launches *const launches_of[] = {
#define KERF_FORMAT(ID, ...) &kf_gemv_launches_##ID,
#include <kerf/formats.def>
#undef KERF_FORMAT
};

typedef struct device_plan {
    const kf_gemv_launches *launches;
    kf_gemv_job job; /* without pointers */
    kf_gemv_grid tiled, any;
    kf_gpu *gpu;
    int ordinal;
    int is_tiled;
} device_plan;

/* --- planning ------------------------------------------------------------------------------------
 */

static kerf_status ask_machine(int ordinal, kf_gemv_machine *out, kerf_error *err)
{
    int sms = 0, shared = 0, major = 0;
    KF_CUDA(cudaSetDevice(ordinal), "choosing a GPU");
    KF_CUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, ordinal), "asking a GPU");
    KF_CUDA(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal),
            "asking a GPU");
    KF_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal),
            "asking a GPU");
    /* less what the kernel has of its own */
    *out = (kf_gemv_machine){(unsigned)sms, (unsigned)shared - 1024, major == 9 || major == 10,
                             major == 9};
    return KERF_OK;
}

/* Puts a layout into the job and the grid. */
static void take_layout(device_plan *p, const kf_gemv_machine *m, const kf_gemv_layout *l)
{
    kf_gemv_job *j = &p->job;
    j->team_tiles = l->team_tiles;
    j->team_rest = l->team_rest;
    j->most = l->most;
    j->slots_at = l->slots_at;
    j->rows_at = l->rows_at;
    j->table_at = l->table_at;
    j->is_column = l->is_column;
    j->stages = l->stages;
    j->block_stages = (l->stages + l->cluster - 1) / l->cluster; /* of few columns */
    j->x_at = l->x_at;
    j->early = l->early;
    j->eager_blocks = l->eager_blocks;
    j->slices = l->slices;
    j->cluster = l->cluster;
    j->passes = l->passes;
    j->warps = l->warps;
    j->sums_at = l->sums_at;
    j->own_at = l->own_at;
    j->side = l->side;
    p->tiled =
        (kf_gemv_grid){l->blocks, l->shared_bytes, m->most_shared, l->apart_bytes, l->overlap};
}

typedef struct preparation {
    device_plan *plan;
    const kf_gemv_machine *machine;
    kerf_error *err;
    kerf_status status;
} preparation;

/* Asks the device how many clusters of a layout run at once. */
static int count_clusters(void *ctx, const kf_gemv_layout *l)
{
    preparation *a = ctx;
    device_plan *p = a->plan;
    int clusters = 0;
    take_layout(p, a->machine, l);
    cudaError_t e = p->launches->prepare(&p->job, &p->tiled, &clusters);
    if (e == cudaSuccess) return clusters < 1 ? 0 : clusters;
    a->status = kf_cuda_fail(a->err, e, "preparing a kernel");
    return -1;
}

/* Divides the shape and prepares the device for the launch; 0: nothing fits, or *status says why.
 */
static int choose_layout(device_plan *p, const kf_gemv_machine *m, uint64_t weight_bytes,
                         kerf_error *err, kerf_status *status)
{
    const kf_gemv_job *j = &p->job;
    preparation a = {p, m, err, KERF_OK};
    kf_gemv_layout l = {.tiles = j->tiles,
                        .columns = j->columns,
                        .pair = j->swiglu ? 2 : 1,
                        .overlap = j->constant_weights && m->has_clusters,
                        .cols = j->cols};
    int fits = kf_gemv_lay_out(&l, &p->launches->tiling, m, weight_bytes, count_clusters, &a);
    if (fits > 0) fits = count_clusters(&a, &l); /* the last that was tried may be another */
    *status = a.status;
    return fits > 0;
}

static unsigned bytes_of(const kerf_gemv *plan, kerf_plane_id p)
{
    return kerf_dtype_bits(plan->part[0].plane[p].dtype) / 8;
}

/* Rows that a format does not pad: their bytes, groups and zero points. */
static void fill_strides(kf_gemv_job *j, const kerf_gemv *plan)
{
    const kerf_geometry *g = &plan->part[0];
    kerf_cspan none[KERF_PLANES] = {{NULL, 0}};
    kf_matrix w = kf_matrix_of(g, none);
    j->row_bytes = w.row_bytes;
    j->row_groups = w.row_groups;
    j->zero_bytes = w.zero_bytes;
}

/* FLAT formats are one row to their geometry. With whole groups in a row they are like others. */
static int flatten(kf_gemv_job *j, const kerf_format *f)
{
    if (f->geometry != KERF_GROUP_FLAT) return 1;
    if (j->cols % f->group || j->cols * f->bits % 8) return 0;
    j->row_bytes = (uint64_t)j->cols * f->bits / 8;
    j->row_groups = j->cols / f->group;
    return 1;
}

static int plan_tiles(device_plan *p, const kerf_gemv *plan, const kf_gemv_machine *m,
                      kerf_error *err, kerf_status *status)
{
    const kerf_format *f = plan->shape.format;
    const kf_gemv_tiling *t = &p->launches->tiling;
    kf_gemv_job job = p->job, *j = &p->job;
    uint64_t bytes = 0, tiles = 0;
    if (!t->stage_codes || !flatten(j, f) || j->row_bytes % 16 || j->cols == 0) {
        *j = job;
        return 0;
    }
    for (unsigned i = 0; i < j->parts; i++) {
        bytes += plan->part[i].bytes;
        tiles += (j->part[i].rows + KF_GEMV_TILE - 1) / KF_GEMV_TILE;
        j->part[i].tiles = (uint32_t)tiles;
    }
    unsigned row_scales = (unsigned)j->row_groups * bytes_of(plan, KERF_PLANE_SCALES);
    int straddles =
        f->second == KERF_SECOND_NESTED && t->slice_scales && row_scales % t->slice_scales;
    j->tiles = (uint32_t)tiles;
    if (tiles == 0 || straddles || !choose_layout(p, m, bytes, err, status)) {
        *j = job;
        return 0;
    }
    unsigned unit = j->is_column ? t->stage_codes : t->slice_codes;
    unsigned copy = j->is_column ? t->stage_scales : t->slice_scales;
    j->whole = j->cols % unit == 0 && (copy == 0 || row_scales % copy == 0);
    j->words = row_scales % 4 == 0;
    j->zero_words = j->zero_bytes % 4 == 0;
    return 1;
}

kerf_status kf_gemv_device_plan(kerf_gemv *plan, kerf_device *device, kerf_error *err)
{
    kf_gemv_machine m;
    device_plan *p = kf_alloc_zero(1, sizeof *p);
    if (!p) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "out of memory");
    plan->state = p;
    const kerf_gemv_shape *s = &plan->shape;
    p->gpu = kf_gpu_of(device);
    p->ordinal = p->gpu->ordinal;
    p->launches = launches_of[kf_format_index(s->format)];
    if (s->flags & KERF_GEMV_SHUFFLED) p->launches = p->launches->shuffled;
    KF_TRY(ask_machine(p->ordinal, &m, err));

    kf_gemv_job *j = &p->job;
    if (s->cols > UINT32_MAX / 2 || s->rows > UINT32_MAX / 2)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "%llu x %llu: a GPU takes up to 2^31 each",
                       (unsigned long long)s->rows, (unsigned long long)s->cols);
    uint64_t rows = 0;
    j->parts = plan->parts;
    for (unsigned i = 0; i < j->parts; i++) {
        j->part[i].rows = (uint32_t)plan->part_rows[i];
        rows += plan->part_rows[i];
    }
    j->cols = (uint32_t)s->cols;
    j->columns = s->columns;
    j->x_type = s->x;
    j->y_type = s->y;
    j->swiglu = (s->flags & KERF_GEMV_SWIGLU) != 0;
    j->constant_weights = (s->flags & KERF_GEMV_CONSTANT_WEIGHTS) != 0;
    j->cluster = 1;
    fill_strides(j, plan);

    uint64_t blocks = kf_div_up(rows, 8);
    p->any = (kf_gemv_grid){
        blocks < 16 * m.multiprocessors ? (unsigned)blocks : 16 * m.multiprocessors, 0, 0, 0, 0};
    kerf_status status = KERF_OK;
    p->is_tiled = plan_tiles(p, plan, &m, err, &status);
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
    plan->bound = p->is_tiled ? steps * 0x1p-20 + p->launches->tiling.rounding : steps * 0x1p-24;
    if (p->is_tiled && s->x == KERF_F32) plan->bound += 0x1p-11;
    return KERF_OK;
}

/* --- running -------------------------------------------------------------------------------------
 */

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

/* The grid of this launch. Blocks come to where others end. Where two that shared a multiprocessor
 * end together, two of a launch come that has one for each, others have none, and so it goes on
 * from launch to launch. So of launches with one block for each, every other one keeps its blocks
 * apart: those of the next then find room beside them, once on each. */
static kf_gemv_grid stand_apart(const device_plan *p)
{
    kf_gemv_grid g = p->tiled;
    int apart = g.apart_bytes && !__atomic_load_n(&p->gpu->apart, __ATOMIC_RELAXED);
    if (apart) g.shared_bytes = g.apart_bytes;
    __atomic_store_n(&p->gpu->apart, apart, __ATOMIC_RELAXED);
    return g;
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
        j.whole = j.whole && is_aligned(j.part[i].plane[KERF_PLANE_SCALES]);
        j.words = j.words && (uintptr_t)j.part[i].plane[KERF_PLANE_SCALES] % 4 == 0;
        j.zero_words = j.zero_words && (uintptr_t)j.part[i].plane[KERF_PLANE_ZEROS] % 4 == 0;
    }
    j.whole = j.whole && j.aligned;
    j.x_wide = is_aligned(j.x) && j.x_stride * size % 16 == 0;
    if (p->any.blocks == 0) return KERF_OK;

    KF_CUDA(cudaSetDevice(p->ordinal), "choosing a GPU");
    kf_gemv_grid tiled = stand_apart(p);
    KF_CUDA(p->is_tiled ? p->launches->tiles(&j, &tiled, stream)
                        : p->launches->any(&j, &p->any, stream),
            "starting a matrix-vector product");
    return KERF_OK;
}

/* --- shuffled codes ------------------------------------------------------------------------------
 */

kerf_status kf_gemv_device_shuffle(kerf_device *device, void *words, size_t n, int back,
                                   void *stream, kerf_error *err)
{
    KF_CUDA(cudaSetDevice(kf_gpu_of(device)->ordinal), "choosing a GPU");
    KF_CUDA(kf_shuffle_words(words, n, back, stream), "shuffling codes");
    return KERF_OK;
}
