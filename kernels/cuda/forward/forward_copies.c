/* forward_copies.c - weights of the host on the GPU: vectors as they are, factors of products split
 * into bfloat16 numbers on the way. What was BF16 in the file needs one of them. */
#if __has_include(<cublasLt.h>)
#include "base/work.h"
#include "cuda/forward/forward_pass.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT UINT64_C(256)

static uint64_t rounded(uint64_t n)
{
    return kf_div_up(n, ALIGNMENT) * ALIGNMENT;
}

/* --- looking up ---------------------------------------------------------------------------- */

kerf_status kf_pass_find(const kf_gpu_pass *p, const float *host, const kf_copy **copy,
                         uint64_t *offset, kerf_error *err)
{
    for (size_t i = 0; i < p->copies; i++) {
        const kf_copy *c = &p->copy[i];
        if (host < c->host || host >= c->host + c->n) continue;
        *copy = c;
        *offset = (uint64_t)(host - c->host);
        return KERF_OK;
    }
    return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "a step uses a weight that the GPU lacks");
}

kerf_status kf_pass_vector(const kf_gpu_pass *p, const float *host, const float **there,
                           kerf_error *err)
{
    const kf_copy *c = NULL;
    uint64_t offset = 0;
    *there = NULL;
    if (!host) return KERF_OK;
    KF_TRY(kf_pass_find(p, host, &c, &offset, err));
    if (!c->vector)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "a step takes a matrix for a vector");
    *there = c->vector + offset;
    return KERF_OK;
}

/* --- bringing ------------------------------------------------------------------------------ */

#define LINE UINT64_C(4096) /* numbers that one block of threads splits */

/* One array, a buffer of page-locked memory at a time, through `staged` on the GPU. */
static kerf_status bring(const kf_gpu_pass *p, const kf_way *w, const kf_copy *c, float *staged[2],
                         unsigned *used, kerf_error *err)
{
    const uint64_t most = KF_CHUNK_BYTES / sizeof(float);
    for (uint64_t at = 0, i = 0; at < c->n; at += most, i ^= 1) {
        const uint64_t n = kf_min_u64(most, c->n - at);
        float *to = c->vector ? c->vector + at : staged[i];
        KF_TRY(kf_job_check(p->of->job, err));
        KF_CUDA(cudaEventSynchronize(w->passed[i]), "copying weights to the GPU");
        kf_copy_bytes(p->threads, w->pinned[i], c->host + at, n * sizeof *to);
        KF_CUDA(
            cudaMemcpyAsync(to, w->pinned[i], n * sizeof *to, cudaMemcpyHostToDevice, w->stream),
            "copying weights to the GPU");
        KF_CUDA(cudaEventRecord(w->passed[i], w->stream), "copying weights to the GPU");
        if (c->vector) continue;
        kf_split split = {.x = to,
                          .out = c->factor + at,
                          .rows = n / LINE,
                          .columns = LINE,
                          .x_stride = LINE,
                          .out_stride = LINE,
                          .term_stride = rounded(c->n),
                          .terms = p->terms,
                          .used = used};
        if (split.rows) KF_CUDA(kf_split_run(&split, w->stream), "splitting weights");
        if (n % LINE == 0) continue;
        split.x += n - n % LINE;
        split.out += n - n % LINE;
        split.rows = 1;
        split.columns = n % LINE;
        KF_CUDA(kf_split_run(&split, w->stream), "splitting weights");
    }
    return KERF_OK;
}

static uint64_t room_of(const kf_gpu_pass *p, const kf_held *h)
{
    if (!h->factor) return rounded(h->n * sizeof(float));
    return rounded(rounded(h->n) * (uint64_t)p->terms * sizeof(kf_bf16));
}

static kerf_status make_room(kf_gpu_pass *p, size_t n, kerf_error *err)
{
    if (p->copies + n <= p->copy_room) return KERF_OK;
    kf_copy *more = NULL;
    KF_TRY(kf_allocate(&more, p->copies + n, sizeof *more, err));
    if (p->copies) memcpy(more, p->copy, p->copies * sizeof *more);
    free(p->copy);
    p->copy = more;
    p->copy_room = p->copies + n;
    return KERF_OK;
}

/* n copies into the blocks that are theirs; all is there when it returns. */
static kerf_status bring_all(const kf_gpu_pass *p, const kf_way *w, kf_copy *copy, size_t n,
                             kerf_error *err)
{
    unsigned char *staging = NULL;
    unsigned *there = NULL, *used = NULL;
    KF_TRY(kf_allocate(&used, n, sizeof *used, err));
    kerf_status s =
        kf_pass_allocate_on(p, w->stream, 2 * KF_CHUNK_BYTES + n * sizeof *there, &staging, err);
    if (s != KERF_OK) {
        free(used);
        return s;
    }
    float *staged[2] = {(float *)staging, (float *)(staging + KF_CHUNK_BYTES)};
    there = (unsigned *)(staging + 2 * KF_CHUNK_BYTES);
    cudaError_t e = cudaMemsetAsync(there, 0, n * sizeof *there, w->stream);
    for (size_t i = 0; i < n && s == KERF_OK && e == cudaSuccess; i++)
        s = bring(p, w, &copy[i], staged, there + i, err);
    if (e == cudaSuccess && s == KERF_OK)
        e = cudaMemcpyAsync(used, there, n * sizeof *used, cudaMemcpyDeviceToHost, w->stream);
    (void)cudaFreeAsync(staging, w->stream);
    const cudaError_t last = cudaStreamSynchronize(w->stream);
    if (e == cudaSuccess) e = last;
    for (size_t i = 0; i < n && s == KERF_OK && e == cudaSuccess; i++)
        if (used[i] > 1) copy[i].terms = used[i];
    free(used);
    if (s != KERF_OK) return s;
    KF_CUDA(e, "copying weights to the GPU");
    return KERF_OK;
}

/* Memory for n arrays in one block, and copies that say where each is. */
static kerf_status place_all(const kf_gpu_pass *p, const kf_way *w, const kf_held *array, size_t n,
                             int keep, kf_copy *copy, void **block, kerf_error *err)
{
    uint64_t bytes = 0;
    unsigned char *at = NULL;
    for (size_t i = 0; i < n; i++) bytes += room_of(p, &array[i]);
    KF_TRY(kf_pass_allocate_on(p, w->stream, bytes, &at, err));
    *block = at;
    for (size_t i = 0; i < n; i++) {
        copy[i] = (kf_copy){.host = array[i].p, .n = array[i].n, .terms = 1, .keep = keep};
        if (array[i].factor)
            copy[i].factor = (kf_bf16 *)at;
        else
            copy[i].vector = (float *)at;
        at += room_of(p, &array[i]);
    }
    return KERF_OK;
}

kerf_status kf_gpu_hold(kf_stepper *s, const kf_held *array, size_t n, int keep, kerf_error *err)
{
    kf_gpu_pass *p = s->gpu;
    void **block = &p->block[keep != 0];
    if (*block) return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "weights of two layers at once");
    KF_TRY(make_room(p, n, err));
    kf_copy *copy = p->copy + p->copies;
    KF_TRY(place_all(p, &p->way, array, n, keep, copy, block, err));
    const kerf_status status = bring_all(p, &p->way, copy, n, err);
    if (status == KERF_OK) {
        p->copies += n;
        return KERF_OK;
    }
    kf_pass_release(p, *block);
    *block = NULL;
    return status;
}

void kf_gpu_drop(kf_stepper *s)
{
    kf_gpu_pass *p = s->gpu;
    size_t kept = 0;
    for (size_t i = 0; i < p->copies; i++)
        if (p->copy[i].keep) p->copy[kept++] = p->copy[i];
    p->copies = kept;
    kf_pass_release(p, p->block[0]);
    p->block[0] = NULL;
    kf_pass_forget(p);
}

/* --- ahead --------------------------------------------------------------------------------- */

/* Weights of a layer that does not run yet, in a block of its own. */
struct kf_sent {
    kf_copy *copy;
    size_t n;
    void *block;
};

kerf_status kf_gpu_send(kf_stepper *s, const kf_held *array, size_t n, kf_sent **out,
                        kerf_error *err)
{
    kf_gpu_pass *p = s->gpu;
    kf_sent *sent = NULL;
    KF_TRY(kf_way_open(p, &p->ahead, err));
    KF_TRY(kf_allocate(&sent, 1, sizeof *sent, err));
    sent->n = n;
    kerf_status status = kf_allocate(&sent->copy, n, sizeof *sent->copy, err);
    if (status == KERF_OK)
        status = place_all(p, &p->ahead, array, n, 0, sent->copy, &sent->block, err);
    if (status == KERF_OK) status = bring_all(p, &p->ahead, sent->copy, n, err);
    if (status != KERF_OK) {
        if (sent->block) (void)cudaFreeAsync(sent->block, p->ahead.stream);
        free(sent->copy);
        free(sent);
        return status;
    }
    *out = sent;
    return KERF_OK;
}

kerf_status kf_gpu_hold_sent(kf_stepper *s, const kf_sent *sent, kerf_error *err)
{
    kf_gpu_pass *p = s->gpu;
    KF_TRY(make_room(p, sent->n, err));
    memcpy(p->copy + p->copies, sent->copy, sent->n * sizeof *sent->copy);
    p->copies += sent->n;
    return KERF_OK;
}

void kf_gpu_unsend(kf_stepper *s, kf_sent *sent)
{
    (void)cudaSetDevice(s->gpu->ordinal);
    (void)cudaFreeAsync(sent->block, s->gpu->stream); /* behind the steps that use it */
    free(sent->copy);
    free(sent);
}
#endif
