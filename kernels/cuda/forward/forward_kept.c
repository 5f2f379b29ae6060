/* forward_kept.c - sums of a layer that stay on a GPU when the layer has run: the next GPU takes
 * them over and goes on with them, or the host gets them while the next layer runs. */
#if __has_include(<cublasLt.h>)
#include "cuda/forward/forward_pass.h"

#include <stdlib.h>

/* They may outlive the pass that they are of, whose pool CUDA keeps until they are freed; only to
 * be settled they need it. */
typedef struct kept {
    kerf_gpu_sums base;
    int ordinal;
    cudaStream_t stream; /* frees them */
    kf_gpu_pass *pass;
    cudaMemPool_t pool;
    kf_tally *tally;
    size_t tallies;
} kept;

static void free_kept(kerf_gpu_sums *s)
{
    kept *k = (kept *)s;
    (void)cudaSetDevice(k->ordinal);
    for (size_t i = 0; i < k->tallies; i++) (void)cudaFreeAsync(k->tally[i].there, k->stream);
    if (k->stream) (void)cudaStreamSynchronize(k->stream);
    if (k->stream) (void)cudaStreamDestroy(k->stream);
    free(k->tally);
    free(k);
}

static kerf_status settle_all(const kept *k, int threads, kerf_error *err)
{
    kf_way *home = &k->pass->home;
    KF_TRY(kf_way_open(k->pass, home, err));
    for (size_t i = 0; i < k->tallies; i++)
        KF_TRY(kf_tally_settle(&k->tally[i], home, threads, k->pass->of->job, err));
    KF_CUDA(cudaStreamSynchronize(home->stream), "copying sums from the GPU");
    return KERF_OK;
}

static kerf_status settle_kept(kerf_gpu_sums *s, int threads, kerf_error *err)
{
    const kerf_status status = settle_all((kept *)s, threads, err);
    if (status != KERF_OK && ((kept *)s)->pass->home.stream)
        (void)cudaStreamSynchronize(((kept *)s)->pass->home.stream);
    free_kept(s);
    return status;
}

/* All steps have run when they leave, so whoever takes them need not wait. */
kerf_status kf_gpu_keep(kf_stepper *s, kerf_gpu_sums **out, kerf_error *err)
{
    kf_gpu_pass *p = s->gpu;
    kept *k = NULL;
    KF_CUDA(cudaSetDevice(p->ordinal), "choosing a GPU");
    if (p->coming) KF_CUDA(cudaStreamSynchronize(p->coming), "taking sums from a GPU");
    KF_CUDA(cudaStreamSynchronize(p->stream), "running a layer");
    KF_TRY(kf_allocate(&k, 1, sizeof *k, err));
    *k = (kept){{settle_kept, free_kept}, p->ordinal, NULL, p, p->pool, NULL, 0};
    const cudaError_t e = cudaStreamCreateWithFlags(&k->stream, cudaStreamNonBlocking);
    if (e != cudaSuccess) {
        free(k);
        KF_CUDA(e, "making a stream");
    }
    for (size_t i = 0; i < p->tallies; i++)
        if (p->tally[i].come) { /* no row of this GPU has added to it */
            (void)cudaEventDestroy(p->tally[i].come);
            p->tally[i].come = NULL;
        }
    k->tally = p->tally;
    k->tallies = p->tallies;
    p->tally = NULL;
    p->tallies = p->tally_room = 0;
    if (p->before) p->before->free(p->before);
    p->before = NULL;
    (void)cudaSetDevice(p->ordinal);
    *out = &k->base;
    return KERF_OK;
}

/* Memory of a pool is seen by another GPU when the pool says so; else copies go by the host. */
static kerf_status let_in(const kf_gpu_pass *p, const kept *from, kerf_error *err)
{
    int can = 0;
    if (from->ordinal == p->ordinal) return KERF_OK;
    KF_CUDA(cudaDeviceCanAccessPeer(&can, p->ordinal, from->ordinal), "asking how GPUs are linked");
    const struct cudaMemAccessDesc access = {.location = {cudaMemLocationTypeDevice, p->ordinal},
                                             .flags = cudaMemAccessFlagsProtReadWrite};
    if (can) KF_CUDA(cudaMemPoolSetAccess(from->pool, &access, 1), "linking two GPUs");
    return KERF_OK;
}

/* The copy of one begins; steps that add to it wait for it, others do not. */
static kerf_status take(const kf_gpu_pass *p, const kept *from, const kf_tally *theirs,
                        kf_tally *own, kerf_error *err)
{
    const uint64_t n = kf_tally_bytes(theirs);
    *own = (kf_tally){theirs->host, NULL, theirs->columns, theirs->kind, NULL};
    KF_CUDA(cudaMallocFromPoolAsync(&own->there, n, p->pool, p->coming),
            "allocating for sums on the GPU");
    KF_CUDA(cudaMemcpyPeerAsync(own->there, p->ordinal, theirs->there, from->ordinal, n, p->coming),
            "taking sums from a GPU");
    KF_CUDA(cudaEventCreateWithFlags(&own->come, cudaEventDisableTiming), "making an event");
    KF_CUDA(cudaEventRecord(own->come, p->coming), "taking sums from a GPU");
    return KERF_OK;
}

kerf_status kf_gpu_go_on(kf_stepper *s, kerf_gpu_sums *before, kerf_error *err)
{
    kf_gpu_pass *p = s->gpu;
    kept *from = (kept *)before;
    if (p->tallies || p->before)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "sums of two layers at once");
    KF_CUDA(cudaSetDevice(p->ordinal), "choosing a GPU");
    if (!p->coming)
        KF_CUDA(cudaStreamCreateWithFlags(&p->coming, cudaStreamNonBlocking), "making a stream");
    KF_TRY(let_in(p, from, err));
    free(p->tally);
    p->tally = NULL;
    p->tally_room = 0;
    KF_TRY(kf_allocate(&p->tally, from->tallies + 16, sizeof *p->tally, err));
    p->tally_room = from->tallies + 16;
    kerf_status status = KERF_OK;
    for (size_t i = 0; i < from->tallies && status == KERF_OK; i++) {
        status = take(p, from, &from->tally[i], &p->tally[i], err);
        if (p->tally[i].there) p->tallies++;
    }
    if (status == KERF_OK) {
        p->before = before;
        return KERF_OK;
    }
    (void)cudaStreamSynchronize(p->coming); /* then they can be freed */
    return status;
}
#endif
