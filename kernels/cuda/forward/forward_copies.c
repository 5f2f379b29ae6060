/* forward_copies.c - weights of the host on the GPU: vectors as they are, factors of products split
 * into bfloat16 numbers on the way. What was BF16 in the file needs one of them. */
#if __has_include(<cublasLt.h>)
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
static kerf_status bring(kf_gpu_pass *p, const kf_copy *c, float *staged[2], unsigned *used,
                         kerf_error *err)
{
    const uint64_t most = KF_PASS_CHUNK / sizeof(float);
    for (uint64_t at = 0, i = 0; at < c->n; at += most, i ^= 1) {
        const uint64_t n = kf_min_u64(most, c->n - at);
        float *to = c->vector ? c->vector + at : staged[i];
        KF_CUDA(cudaEventSynchronize(p->passed[i]), "copying weights to the GPU");
        kf_copy_bytes(p, p->pinned[i], c->host + at, n * sizeof *to);
        KF_CUDA(
            cudaMemcpyAsync(to, p->pinned[i], n * sizeof *to, cudaMemcpyHostToDevice, p->stream),
            "copying weights to the GPU");
        KF_CUDA(cudaEventRecord(p->passed[i], p->stream), "copying weights to the GPU");
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
        if (split.rows) KF_CUDA(kf_split_run(&split, p->stream), "splitting weights");
        if (n % LINE == 0) continue;
        split.x += n - n % LINE;
        split.out += n - n % LINE;
        split.rows = 1;
        split.columns = n % LINE;
        KF_CUDA(kf_split_run(&split, p->stream), "splitting weights");
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

/* Copies [first, copies) into the block that is theirs; used[n]: terms of each. */
static kerf_status bring_all(kf_gpu_pass *p, size_t first, unsigned *used, kerf_error *err)
{
    const size_t n = p->copies - first;
    unsigned char *staging = NULL;
    unsigned *there = NULL;
    KF_TRY(kf_pass_allocate(p, 2 * KF_PASS_CHUNK + n * sizeof *there, &staging, err));
    float *staged[2] = {(float *)staging, (float *)(staging + KF_PASS_CHUNK)};
    there = (unsigned *)(staging + 2 * KF_PASS_CHUNK);
    kerf_status s = KERF_OK;
    cudaError_t e = cudaMemsetAsync(there, 0, n * sizeof *there, p->stream);
    for (size_t i = 0; i < n && s == KERF_OK && e == cudaSuccess; i++)
        s = bring(p, &p->copy[first + i], staged, there + i, err);
    if (e == cudaSuccess && s == KERF_OK)
        e = cudaMemcpyAsync(used, there, n * sizeof *used, cudaMemcpyDeviceToHost, p->stream);
    (void)cudaFreeAsync(staging, p->stream);
    if (e == cudaSuccess && s == KERF_OK) e = cudaStreamSynchronize(p->stream);
    if (s != KERF_OK) return s;
    KF_CUDA(e, "copying weights to the GPU");
    return KERF_OK;
}

kerf_status kf_gpu_hold(kf_stepper *s, const kf_held *array, size_t n, int keep, kerf_error *err)
{
    kf_gpu_pass *p = s->gpu;
    const size_t first = p->copies;
    unsigned char *block = NULL;
    unsigned *used = NULL;
    uint64_t bytes = 0;
    if (p->block[keep != 0])
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "weights of two layers at once");
    for (size_t i = 0; i < n; i++) bytes += room_of(p, &array[i]);
    KF_TRY(make_room(p, n, err));
    KF_TRY(kf_pass_allocate(p, bytes, &block, err));
    p->block[keep != 0] = block;
    for (size_t i = 0; i < n; i++) {
        kf_copy *c = &p->copy[p->copies++];
        *c = (kf_copy){.host = array[i].p, .n = array[i].n, .terms = 1, .keep = keep};
        if (array[i].factor)
            c->factor = (kf_bf16 *)block;
        else
            c->vector = (float *)block;
        block += room_of(p, &array[i]);
    }
    kerf_status status = kf_allocate(&used, n, sizeof *used, err);
    if (status == KERF_OK) status = bring_all(p, first, used, err);
    for (size_t i = 0; i < n && status == KERF_OK; i++)
        if (used[i] > 1) p->copy[first + i].terms = used[i];
    free(used);
    if (status == KERF_OK) return KERF_OK;
    p->copies = first;
    kf_pass_release(p, p->block[keep != 0]);
    p->block[keep != 0] = NULL;
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
}
#endif
