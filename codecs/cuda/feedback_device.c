/* feedback_device.c - factors of second moments on one GPU or several.
 *
 * Blocks of rows are dealt out to the GPUs in turn. The owner of a block makes its rows, the others
 * copy them, and each reduces its own rows before them: every GPU does its share of the work and
 * has all of the result. While a block is made and copied the others wait.
 *
 * Memory on a GPU: 8 columns^2 bytes divided by the number of GPUs on the way, 4 columns^2 for the
 * result. */
#include "base/work.h"
#include "cuda/feedback_job.h"
#include "cuda/handle.h"

#include <stdlib.h>
#include <string.h>

#define SLAB_BYTES (UINT64_C(16) << 20)
enum {
    IN_FLIGHT = 4, /* blocks that are enqueued before it is asked whether to go on */
    SENDERS = 4    /* threads that pack what is sent; more copy no faster */
};

/* One GPU's part. */
typedef struct part {
    kf_gpu *gpu;
    cudaStream_t stream;
    kf_factoring f;
    cudaEvent_t made, copied, done[IN_FLIGHT];
} part;

typedef struct making {
    part *part;
    size_t count;
    uint64_t n, blocks;
    const kerf_job *job;
} making;

static kerf_status use(const part *p, kerf_error *err)
{
    KF_CUDA(cudaSetDevice(p->gpu->ordinal), "choosing a GPU");
    return KERF_OK;
}

static kerf_status open_events(part *p, kerf_error *err)
{
    KF_CUDA(cudaEventCreateWithFlags(&p->made, cudaEventDisableTiming), "creating an event");
    KF_CUDA(cudaEventCreateWithFlags(&p->copied, cudaEventDisableTiming), "creating an event");
    for (int i = 0; i < IN_FLIGHT; i++)
        KF_CUDA(cudaEventCreateWithFlags(&p->done[i], cudaEventDisableTiming), "creating an event");
    return KERF_OK;
}

static kerf_status open_part(making *m, size_t i, kf_factors *to, kerf_error *err)
{
    part *p = &m->part[i];
    const uint64_t n = m->n, own = kf_div_up(m->blocks, m->count) * KF_FACTOR_BLOCK;
    p->gpu = to->gpu;
    p->stream = to->gpu->lane[0].stream;
    KF_TRY(use(p, err));
    KF_CUDA(cudaMalloc((void **)&to->above, n * n * sizeof(float)), "allocating on the GPU");
    KF_CUDA(cudaMalloc((void **)&to->d, n * sizeof(float)), "allocating on the GPU");
    KF_CUDA(cudaMalloc((void **)&p->f.a, own * n * sizeof(double)), "allocating on the GPU");
    KF_CUDA(cudaMalloc((void **)&p->f.panel, KF_FACTOR_BLOCK * (n + 1) * sizeof(double)),
            "allocating on the GPU");
    KF_CUDA(cudaMalloc((void **)&p->f.bad, sizeof *p->f.bad), "allocating on the GPU");
    KF_CUDA(cudaMemsetAsync(p->f.bad, 0, sizeof *p->f.bad, p->stream), "clearing a word");
    p->f.pivot = p->f.panel + KF_FACTOR_BLOCK * n; /* copied with it */
    p->f.above = to->above;
    p->f.d = to->d;
    p->f.n = n;
    p->f.rank = (unsigned)i;
    p->f.ranks = (unsigned)m->count;
    return open_events(p, err);
}

/* What the GPUs do not share: waits for all of it. */
static void close_parts(making *m)
{
    for (size_t i = 0; m->part && i < m->count; i++) {
        part *p = &m->part[i];
        if (!p->gpu) continue;
        (void)cudaSetDevice(p->gpu->ordinal);
        (void)cudaStreamSynchronize(p->stream);
    }
    for (size_t i = 0; m->part && i < m->count; i++) {
        part *p = &m->part[i];
        if (!p->gpu) continue;
        (void)cudaSetDevice(p->gpu->ordinal);
        (void)cudaFree(p->f.a);
        (void)cudaFree(p->f.panel);
        (void)cudaFree(p->f.bad);
        if (p->made) (void)cudaEventDestroy(p->made);
        if (p->copied) (void)cudaEventDestroy(p->copied);
        for (int k = 0; k < IN_FLIGHT; k++)
            if (p->done[k]) (void)cudaEventDestroy(p->done[k]);
    }
    free(m->part);
    (void)cudaGetLastError();
}

/* Copies between GPUs go through the host where this is refused. */
static void let_gpus_copy(const making *m)
{
    for (size_t i = 0; i < m->count; i++)
        for (size_t k = 0; k < m->count; k++) {
            int able = 0;
            const int a = m->part[i].gpu->ordinal, b = m->part[k].gpu->ordinal;
            if (a == b || cudaDeviceCanAccessPeer(&able, a, b) != cudaSuccess || !able) continue;
            (void)cudaSetDevice(a);
            (void)cudaDeviceEnablePeerAccess(b, 0); /* or it is already */
        }
    (void)cudaGetLastError();
}

/* Some rows of the lower half, on their way through page-locked memory. */
typedef struct slab {
    const float *gram;
    uint64_t n, first, rows, cols;
    float *pinned; /* [rows][cols] */
} slab;

static kerf_status pack_row(void *ctx, uint64_t i)
{
    const slab *s = ctx;
    memcpy(s->pinned + i * s->cols, s->gram + (s->first + i) * s->n, s->cols * sizeof(float));
    return KERF_OK;
}

/* Each block of rows to its GPU, into the place of the result. */
static kerf_status send_slab(making *m, const slab *s, int turn, kerf_error *err)
{
    for (uint64_t at = 0; at < s->rows; at += KF_FACTOR_BLOCK) {
        const part *p = &m->part[(s->first + at) / KF_FACTOR_BLOCK % m->count];
        KF_TRY(use(p, err));
        KF_CUDA(cudaMemcpy2DAsync(
                    p->f.above + (s->first + at) * s->n, s->n * sizeof(float),
                    s->pinned + at * s->cols, s->cols * sizeof(float), s->cols * sizeof(float),
                    kf_min_u64(KF_FACTOR_BLOCK, s->rows - at), cudaMemcpyHostToDevice, p->stream),
                "copying to the GPU");
    }
    for (size_t i = 0; i < m->count; i++) {
        KF_TRY(use(&m->part[i], err));
        KF_CUDA(cudaEventRecord(m->part[i].done[turn], m->part[i].stream), "recording an event");
    }
    return KERF_OK;
}

/* The lower half to the GPUs: while one slab is copied, the next is packed. */
static kerf_status send_half(making *m, const float *gram, kerf_error *err)
{
    kf_lane *l = m->part[0].gpu->lane;
    const uint64_t row = m->n * sizeof(float),
                   blocks = 1 + SLAB_BYTES / (row * KF_FACTOR_BLOCK + 1),
                   rows = kf_min_u64(blocks * KF_FACTOR_BLOCK, m->n);
    for (int i = 0; i < 2; i++) KF_TRY(kf_grow_pinned(&l[i], &l[i].pinned, rows * row, err));
    int turn = 0;
    for (uint64_t first = 0; first < m->n; first += rows, turn ^= 1) {
        slab s = {.gram = gram, .n = m->n, .first = first, .pinned = l[turn].pinned.p};
        s.rows = kf_min_u64(rows, m->n - first);
        s.cols = first + s.rows;
        KF_TRY(kf_job_check(m->job, err));
        for (size_t i = 0; i < m->count; i++)
            KF_CUDA(cudaEventSynchronize(m->part[i].done[turn]), "waiting for the GPU");
        KF_TRY(kf_parallel(s.rows, SENDERS, pack_row, &s));
        KF_TRY(send_slab(m, &s, turn, err));
    }
    return KERF_OK;
}

static kerf_status send_moments(making *m, const float *gram, kf_pivots pivots, kerf_error *err)
{
    KF_TRY(send_half(m, gram, err));
    for (size_t i = 0; i < m->count; i++) {
        part *p = &m->part[i];
        p->f.least = pivots.least;
        p->f.lost = pivots.lost;
        KF_TRY(use(p, err));
        KF_CUDA(kf_factor_fill(&p->f, p->stream), "starting a kernel");
    }
    return KERF_OK;
}

/* Nobody still copies a panel that is about to be written. */
static kerf_status wait_for_copies(const making *m, const part *p, kerf_error *err)
{
    for (size_t i = 0; i < m->count; i++)
        if (&m->part[i] != p)
            KF_CUDA(cudaStreamWaitEvent(p->stream, m->part[i].copied, 0), "waiting for an event");
    return KERF_OK;
}

static kerf_status make_panel(const making *m, part *owner, kerf_error *err)
{
    KF_TRY(use(owner, err));
    KF_TRY(wait_for_copies(m, owner, err));
    KF_CUDA(kf_factor_make(&owner->f, owner->stream), "starting a kernel");
    KF_CUDA(cudaEventRecord(owner->made, owner->stream), "recording an event");
    return KERF_OK;
}

static kerf_status copy_panel(const making *m, const part *owner, part *p, kerf_error *err)
{
    KF_TRY(wait_for_copies(m, p, err));
    KF_CUDA(cudaStreamWaitEvent(p->stream, owner->made, 0), "waiting for an event");
    KF_CUDA(cudaMemcpyPeerAsync(p->f.panel, p->gpu->ordinal, owner->f.panel, owner->gpu->ordinal,
                                KF_FACTOR_BLOCK * (m->n + 1) * sizeof(double), p->stream),
            "copying between GPUs");
    return KERF_OK;
}

/* One block of rows, on all GPUs. */
static kerf_status make_block(making *m, uint64_t b, kerf_error *err)
{
    part *owner = &m->part[b % m->count];
    for (size_t i = 0; i < m->count; i++) {
        m->part[i].f.from = b * KF_FACTOR_BLOCK;
        m->part[i].f.to = kf_min_u64((b + 1) * KF_FACTOR_BLOCK, m->n);
    }
    KF_TRY(make_panel(m, owner, err));
    for (size_t i = 0; i < m->count; i++) {
        part *p = &m->part[i];
        KF_TRY(use(p, err));
        if (p != owner) KF_TRY(copy_panel(m, owner, p, err));
        KF_CUDA(cudaEventRecord(p->copied, p->stream), "recording an event");
        KF_CUDA(kf_factor_keep(&p->f, p->stream), "starting a kernel");
        KF_CUDA(kf_factor_reduce(&p->f, p->stream), "starting a kernel");
        KF_CUDA(cudaEventRecord(p->done[b % IN_FLIGHT], p->stream), "recording an event");
    }
    return KERF_OK;
}

static kerf_status make_blocks(making *m, kerf_error *err)
{
    for (uint64_t b = m->blocks; b-- > 0;) {
        KF_TRY(use(&m->part[0], err));
        if (m->blocks - b > IN_FLIGHT)
            KF_CUDA(cudaEventSynchronize(m->part[0].done[b % IN_FLIGHT]), "waiting for the GPU");
        KF_TRY(kf_job_check(m->job, err));
        KF_TRY(make_block(m, b, err));
    }
    return KERF_OK;
}

/* A number that is not finite makes pivots of other GPUs' rows anything: it counts first. */
static kerf_status finish(const making *m, kerf_error *err)
{
    int lost = 0, infinite = 0;
    for (size_t i = 0; i < m->count; i++) {
        const part *p = &m->part[i];
        unsigned bad = 0;
        KF_TRY(use(p, err));
        KF_CUDA(cudaMemcpyAsync(&bad, p->f.bad, sizeof bad, cudaMemcpyDeviceToHost, p->stream),
                "reading a word");
        KF_CUDA(cudaStreamSynchronize(p->stream), "waiting for the GPU");
        lost |= bad == KF_FACTOR_LOST;
        infinite |= bad != 0 && bad != KF_FACTOR_LOST;
    }
    if (infinite)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "a matrix of second moments has a number that is not finite");
    return lost ? kf_feedback_lost(err) : KERF_OK;
}

static kerf_status make_all(making *m, struct kf_there *there, const float *gram, kf_pivots pivots,
                            kerf_error *err)
{
    for (size_t i = 0; i < m->count; i++) KF_TRY(open_part(m, i, &there->at[i], err));
    let_gpus_copy(m);
    KF_TRY(send_moments(m, gram, pivots, err));
    KF_TRY(make_blocks(m, err));
    return finish(m, err);
}

kerf_status kf_make_factors(kerf_device *const *devices, size_t count, const float *gram,
                            uint64_t columns, kf_pivots pivots, const kerf_job *job,
                            struct kf_there **out, kerf_error *err)
{
    making m = {.count = count, .n = columns, .job = job};
    struct kf_there *there;
    m.blocks = kf_div_up(columns, KF_FACTOR_BLOCK);
    *out = NULL;
    KF_TRY(kf_allocate(&there, 1, sizeof *there + count * sizeof there->at[0], err));
    there->count = count;
    for (size_t i = 0; i < count; i++) there->at[i].gpu = kf_gpu_of(devices[i]);
    kerf_status s = kf_allocate(&m.part, count, sizeof *m.part, err);
    if (s == KERF_OK) s = make_all(&m, there, gram, pivots, err);
    close_parts(&m);
    if (s == KERF_OK)
        *out = there;
    else
        kf_free_factors(there);
    return s;
}

void kf_free_factors(struct kf_there *there)
{
    for (size_t i = 0; there && i < there->count; i++) {
        (void)cudaSetDevice(there->at[i].gpu->ordinal);
        (void)cudaFree(there->at[i].above);
        (void)cudaFree(there->at[i].d);
    }
    free(there);
    (void)cudaGetLastError();
}
