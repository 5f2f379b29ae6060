/* forward_gpu.c - the steps of a forward pass on a GPU: opening, memory, and the table of them. All
 * work goes to the stream of the device, so that steps follow each other without waiting. */
#include "plan/forward_steps.h"

#include <stdlib.h>
#include <string.h>

#if __has_include(<cublasLt.h>)
#include "cuda/forward/forward_pass.h"

/* --- memory -------------------------------------------------------------------------------- */

kerf_status kf_pass_allocate_on(const kf_gpu_pass *p, cudaStream_t stream, uint64_t bytes,
                                void *out, kerf_error *err)
{
    void *memory = NULL;
    KF_CUDA(cudaSetDevice(p->ordinal), "choosing a GPU");
    KF_CUDA(cudaMallocFromPoolAsync(&memory, bytes ? bytes : 1, p->pool, stream),
            "allocating for a layer on the GPU");
    memcpy(out, &memory, sizeof memory);
    return KERF_OK;
}

kerf_status kf_pass_allocate(kf_gpu_pass *p, uint64_t bytes, void *out, kerf_error *err)
{
    return kf_pass_allocate_on(p, p->stream, bytes, out, err);
}

void kf_pass_release(kf_gpu_pass *p, void *memory)
{
    p->split_of.p = NULL;
    if (memory) (void)cudaFreeAsync(memory, p->stream);
}

static kerf_status allocate(kf_stepper *s, uint64_t bytes, void *out, kerf_error *err)
{
    return kf_pass_allocate(s->gpu, bytes, out, err);
}

static void release(kf_stepper *s, void *memory)
{
    kf_pass_release(s->gpu, memory);
}

static int is_there(kf_stepper *s, const void *memory)
{
    struct cudaPointerAttributes a;
    (void)cudaSetDevice(s->gpu->ordinal);
    if (cudaPointerGetAttributes(&a, memory) == cudaSuccess) return a.type == cudaMemoryTypeDevice;
    (void)cudaGetLastError();
    return 0;
}

void kf_pass_wrote(kf_gpu_pass *p, kf_rows y)
{
    const kf_rows *x = &p->split_of;
    const float *x_end = x->p + x->rows * x->stride, *y_end = y.p + y.rows * y.stride;
    if (x->p && y.p < x_end && x->p < y_end) p->split_of.p = NULL;
}

/* --- copies from and to the host ----------------------------------------------------------- */

/* Through page-locked memory, two buffers in turn, which all threads fill. */
static kerf_status upload(kf_stepper *s, void *to, const void *from, uint64_t bytes,
                          kerf_error *err)
{
    kf_gpu_pass *p = s->gpu;
    KF_CUDA(cudaSetDevice(p->ordinal), "choosing a GPU");
    kf_pass_wrote(p, (kf_rows){to, 1, 0, (size_t)kf_div_up(bytes, sizeof(float))});
    for (uint64_t at = 0, i = 0; at < bytes; at += KF_CHUNK_BYTES, i ^= 1) {
        const uint64_t n = kf_min_u64(KF_CHUNK_BYTES, bytes - at);
        KF_CUDA(cudaEventSynchronize(p->way.passed[i]), "copying to the GPU");
        kf_copy_bytes(p->threads, p->way.pinned[i], (const char *)from + at, n);
        KF_CUDA(cudaMemcpyAsync((char *)to + at, p->way.pinned[i], n, cudaMemcpyHostToDevice,
                                p->stream),
                "copying to the GPU");
        KF_CUDA(cudaEventRecord(p->way.passed[i], p->stream), "copying to the GPU");
    }
    return KERF_OK;
}

static kerf_status start_download(kf_gpu_pass *p, const char *from, uint64_t at, uint64_t bytes,
                                  kerf_error *err)
{
    const uint64_t i = at / KF_CHUNK_BYTES % 2;
    if (at >= bytes) return KERF_OK;
    KF_CUDA(cudaEventSynchronize(p->way.passed[i]), "copying from the GPU");
    KF_CUDA(cudaMemcpyAsync(p->way.pinned[i], from + at, kf_min_u64(KF_CHUNK_BYTES, bytes - at),
                            cudaMemcpyDeviceToHost, p->stream),
            "copying from the GPU");
    KF_CUDA(cudaEventRecord(p->way.passed[i], p->stream), "copying from the GPU");
    return KERF_OK;
}

static kerf_status download(kf_stepper *s, void *to, const void *from, uint64_t bytes,
                            kerf_error *err)
{
    kf_gpu_pass *p = s->gpu;
    KF_CUDA(cudaSetDevice(p->ordinal), "choosing a GPU");
    KF_TRY(start_download(p, from, 0, bytes, err));
    for (uint64_t at = 0; at < bytes; at += KF_CHUNK_BYTES) {
        const uint64_t i = at / KF_CHUNK_BYTES % 2;
        KF_TRY(start_download(p, from, at + KF_CHUNK_BYTES, bytes, err));
        KF_CUDA(cudaEventSynchronize(p->way.passed[i]), "copying from the GPU");
        kf_copy_bytes(p->threads, (char *)to + at, p->way.pinned[i],
                      kf_min_u64(KF_CHUNK_BYTES, bytes - at));
    }
    return KERF_OK;
}

/* --- small steps --------------------------------------------------------------------------- */

#define LAUNCHED(what) KF_CUDA(what, "starting a step of a layer")

static kerf_status norm(kf_stepper *s, kf_rows y, const float *x, const float *w, size_t width,
                        double eps, kerf_error *err)
{
    const float *there;
    KF_TRY(kf_pass_vector(s->gpu, w, &there, err));
    kf_pass_wrote(s->gpu, y);
    if (y.rows) LAUNCHED(kf_norm_run(y, x, there, width, eps, s->gpu->stream));
    return KERF_OK;
}

static kerf_status add(kf_stepper *s, kf_rows y, kf_rows x, kerf_error *err)
{
    kf_pass_wrote(s->gpu, y);
    LAUNCHED(kf_add_run(y, x, s->gpu->stream));
    return KERF_OK;
}

static kerf_status zero(kf_stepper *s, kf_rows y, kerf_error *err)
{
    kf_pass_wrote(s->gpu, y);
    KF_CUDA(cudaMemsetAsync(y.p, 0, y.rows * y.stride * sizeof *y.p, s->gpu->stream),
            "clearing memory");
    return KERF_OK;
}

static kerf_status rotate(kf_stepper *s, const kf_rotation *r, kerf_error *err)
{
    kf_pass_wrote(s->gpu, r->x);
    LAUNCHED(kf_rotate_run(r, s->gpu->stream));
    return KERF_OK;
}

static kerf_status gate(kf_stepper *s, const kf_gating *g, kerf_error *err)
{
    kf_pass_wrote(s->gpu, g->gate);
    LAUNCHED(kf_gate_run(g, s->gpu->stream));
    return KERF_OK;
}

static kerf_status take(kf_stepper *s, kf_rows to, kf_rows from, kerf_error *err)
{
    kf_pass_wrote(s->gpu, to);
    KF_CUDA(cudaMemcpy2DAsync(to.p, to.stride * sizeof *to.p, from.p, from.stride * sizeof *to.p,
                              to.columns * sizeof *to.p, to.rows, cudaMemcpyDeviceToDevice,
                              s->gpu->stream),
            "copying columns");
    return KERF_OK;
}

static kerf_status unpack(kf_stepper *s, const kf_unpacking *u, kerf_error *err)
{
    kf_pass_wrote(s->gpu, u->k);
    kf_pass_wrote(s->gpu, u->v);
    LAUNCHED(kf_unpack_run(u, s->gpu->stream));
    return KERF_OK;
}

/* The lists are the host's: they go along. */
static kerf_status gather(kf_stepper *s, const kf_gathering *g, kerf_error *err)
{
    kf_gpu_pass *p = s->gpu;
    const uint64_t n = g->back ? g->from.rows : g->to.rows;
    uint32_t *list = NULL;
    kf_gathering there = *g;
    kf_pass_wrote(p, g->to);
    KF_TRY(kf_pass_allocate(p, n * (sizeof *list + sizeof(float)), &list, err));
    there.token = list;
    there.share = (float *)(list + n);
    kerf_status status = upload(s, list, g->token, n * sizeof *list, err);
    if (status == KERF_OK) status = upload(s, list + n, g->share, n * sizeof(float), err);
    const cudaError_t e = status == KERF_OK ? kf_gather_run(&there, p->stream) : cudaSuccess;
    (void)cudaFreeAsync(list, p->stream);
    KF_CUDA(e, "starting a step of a layer");
    return status;
}

static kerf_status cap(kf_stepper *s, kf_rows y, float most, kerf_error *err)
{
    kf_pass_wrote(s->gpu, y);
    LAUNCHED(kf_cap_run(y, most, s->gpu->stream));
    return KERF_OK;
}

static kerf_status judge(kf_stepper *s, kf_rows a, kf_rows b, const uint32_t *next, kf_likely *out,
                         kerf_error *err)
{
    kf_gpu_pass *p = s->gpu;
    kf_likely *likely = NULL;
    if (a.rows == 0) return KERF_OK;
    KF_TRY(kf_pass_allocate(p, a.rows * (sizeof *likely + sizeof *next), &likely, err));
    uint32_t *list = (uint32_t *)(likely + a.rows);
    kerf_status status = upload(s, list, next, a.rows * sizeof *next, err);
    const cudaError_t e =
        status == KERF_OK ? kf_judge_run(a, b, list, likely, p->stream) : cudaSuccess;
    if (status == KERF_OK && e == cudaSuccess)
        status = download(s, out, likely, a.rows * sizeof *out, err);
    (void)cudaFreeAsync(likely, p->stream);
    KF_CUDA(e, "comparing next tokens");
    return status;
}

/* Two pieces of work at a time are on their way: enough that the GPU never waits for the next. */
kerf_status kf_pass_pace(kf_gpu_pass *p, kerf_error *err)
{
    const cudaEvent_t e = p->paced[p->paces++ % 2];
    KF_CUDA(cudaEventSynchronize(e), "running a layer");
    KF_CUDA(cudaEventRecord(e, p->stream), "running a layer");
    p->unpaced = 0;
    return KERF_OK;
}

static kerf_status pace(kf_stepper *s, kerf_error *err)
{
    return kf_pass_pace(s->gpu, err);
}

/* --- opening ------------------------------------------------------------------------------- */

static void close_pass(kf_stepper *s)
{
    kf_gpu_pass *p = s->gpu;
    if (!p) return;
    (void)cudaSetDevice(p->ordinal);
    if (p->stream) (void)cudaStreamSynchronize(p->stream);
    if (p->coming) (void)cudaStreamSynchronize(p->coming);
    kf_way_close(p, &p->ahead);
    kf_way_close(p, &p->home);
    kf_pass_forget(p);
    for (size_t i = 0; i < 2; i++) {
        if (p->block[i]) (void)cudaFreeAsync(p->block[i], p->stream);
        if (p->paced[i]) (void)cudaEventDestroy(p->paced[i]);
    }
    if (p->coming) (void)cudaStreamDestroy(p->coming);
    p->way.stream = NULL; /* the device's */
    kf_way_close(p, &p->way);
    if (p->split) (void)cudaFreeAsync(p->split, p->stream);
    if (p->workspace) (void)cudaFreeAsync(p->workspace, p->stream);
    if (p->stream) (void)cudaStreamSynchronize(p->stream);
    if (p->pool) (void)cudaMemPoolDestroy(p->pool);
    if (p->lt) (void)kf_lt.Destroy(p->lt);
    (void)cudaGetLastError();
    free(p->copy);
    free(p->tally);
    free(p);
    s->gpu = NULL;
}

static const kf_steps steps = {.name = "cuda",
                               .apart = 1,
                               .close = close_pass,
                               .allocate = allocate,
                               .release = release,
                               .is_there = is_there,
                               .upload = upload,
                               .download = download,
                               .hold = kf_gpu_hold,
                               .drop = kf_gpu_drop,
                               .sum = kf_gpu_sum,
                               .settle = kf_gpu_settle,
                               .norm = norm,
                               .product = kf_gpu_product,
                               .add = add,
                               .zero = zero,
                               .rotate = rotate,
                               .attend = kf_gpu_attend,
                               .gate = gate,
                               .take = take,
                               .unpack = unpack,
                               .gather = gather,
                               .cap = cap,
                               .judge = judge,
                               .send = kf_gpu_send,
                               .hold_sent = kf_gpu_hold_sent,
                               .unsend = kf_gpu_unsend,
                               .keep = kf_gpu_keep,
                               .go_on = kf_gpu_go_on,
                               .pace = pace};

kerf_status kf_way_open(const kf_gpu_pass *p, kf_way *w, kerf_error *err)
{
    KF_CUDA(cudaSetDevice(p->ordinal), "choosing a GPU");
    if (!w->stream)
        KF_CUDA(cudaStreamCreateWithFlags(&w->stream, cudaStreamNonBlocking), "making a stream");
    for (size_t i = 0; i < 2; i++) {
        if (!w->pinned[i]) KF_TRY(kf_chunk_take(p->gpu, &w->pinned[i], err));
        if (!w->passed[i])
            KF_CUDA(cudaEventCreateWithFlags(&w->passed[i], cudaEventDisableTiming),
                    "making an event");
    }
    return KERF_OK;
}

void kf_way_close(const kf_gpu_pass *p, kf_way *w)
{
    if (w->stream) (void)cudaStreamSynchronize(w->stream);
    for (size_t i = 0; i < 2; i++) {
        kf_chunk_leave(p->gpu, w->pinned[i]);
        if (w->passed[i]) (void)cudaEventDestroy(w->passed[i]);
    }
    if (w->stream) (void)cudaStreamDestroy(w->stream);
    *w = (kf_way){0};
}

/* Memory that was freed stays with the pool: the next layer wants as much. */
static kerf_status open_pool(kf_gpu_pass *p, kerf_error *err)
{
    const struct cudaMemPoolProps props = {
        .allocType = cudaMemAllocationTypePinned,
        .location = {.type = cudaMemLocationTypeDevice, .id = p->ordinal}};
    uint64_t all = UINT64_MAX;
    KF_CUDA(cudaMemPoolCreate(&p->pool, &props), "making a pool of memory on the GPU");
    KF_CUDA(cudaMemPoolSetAttribute(p->pool, cudaMemPoolAttrReleaseThreshold, &all),
            "making a pool of memory on the GPU");
    return KERF_OK;
}

static kerf_status open_pass(kf_gpu_pass *p, kerf_error *err)
{
    KF_CUDA(cudaSetDevice(p->ordinal), "choosing a GPU");
    KF_TRY(open_pool(p, err));
    p->way.stream = p->stream;
    KF_TRY(kf_way_open(p, &p->way, err));
    for (size_t i = 0; i < 2; i++)
        KF_CUDA(cudaEventCreateWithFlags(&p->paced[i], cudaEventDisableTiming), "making an event");
    KF_TRY(kf_pass_allocate(p, KF_PASS_WORKSPACE, &p->workspace, err));
    KF_LT(kf_lt.Create(&p->lt), "opening cuBLASLt");
    return KERF_OK;
}

kerf_status kf_steps_on_gpu(kf_stepper *s, kerf_device *device, kerf_error *err)
{
    KF_TRY(kf_need_lt(err));
    KF_TRY(kf_allocate(&s->gpu, 1, sizeof *s->gpu, err));
    s->steps = &steps;
    s->gpu->of = s;
    s->gpu->gpu = kf_gpu_of(device);
    s->gpu->ordinal = kf_gpu_of(device)->ordinal;
    s->gpu->stream = kf_gpu_of(device)->lane[0].stream;
    s->gpu->threads = s->threads;
    s->gpu->terms = 2;
    return open_pass(s->gpu, err);
}

void kf_steps_set_terms(kf_stepper *s, int terms)
{
    s->gpu->terms = terms;
    s->gpu->split_of.p = NULL;
}

#else

kerf_status kf_steps_on_gpu(kf_stepper *s, kerf_device *device, kerf_error *err)
{
    (void)s, (void)device;
    return kf_fail(
        err, KERF_E_NOSUP, KF_NOWHERE,
        "this kerf was built without cublasLt.h; a forward pass on a GPU needs cuBLASLt");
}

void kf_steps_set_terms(kf_stepper *s, int terms)
{
    (void)s, (void)terms;
}
#endif
