/* forward_sums.c - sums over the inputs of weights while a layer runs: squares and the largest by a
 * kernel, X^T X by cuBLASLt over the upper half in blocks of columns, of inputs as two bfloat16
 * numbers. They are added to the host's when the layer is done. */
#if __has_include(<cublasLt.h>)
#include "base/work.h"
#include "cuda/forward/forward_pass.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK UINT64_C(1024) /* columns of a product */

uint64_t kf_tally_bytes(const kf_tally *t)
{
    switch (t->kind) {
    case KF_TALLY_SQUARE: return t->columns * sizeof(double);
    case KF_TALLY_GRAM: return t->columns * t->columns * sizeof(float);
    default: return sizeof(float);
    }
}

/* Numbers of another GPU are there before steps that come now. */
static kerf_status await_tally(const kf_gpu_pass *p, kf_tally *t, kerf_error *err)
{
    if (!t->come) return KERF_OK;
    KF_CUDA(cudaStreamWaitEvent(p->stream, t->come, 0), "taking sums from a GPU");
    (void)cudaEventDestroy(t->come);
    t->come = NULL;
    return KERF_OK;
}

/* Where sums for this place in host memory are kept; NULL for NULL. */
static kerf_status tally_for(kf_gpu_pass *p, void *host, int kind, uint64_t columns, void *out,
                             kerf_error *err)
{
    void *there = NULL;
    memcpy(out, &there, sizeof there);
    if (!host) return KERF_OK;
    for (size_t i = 0; i < p->tallies; i++)
        if (p->tally[i].host == host) {
            memcpy(out, &p->tally[i].there, sizeof there);
            return await_tally(p, &p->tally[i], err);
        }
    if (p->tallies == p->tally_room) {
        kf_tally *more = NULL;
        const size_t room = p->tally_room ? 2 * p->tally_room : 16;
        KF_TRY(kf_allocate(&more, room, sizeof *more, err));
        if (p->tallies) memcpy(more, p->tally, p->tallies * sizeof *more);
        free(p->tally);
        p->tally = more;
        p->tally_room = room;
    }
    kf_tally t = {.host = host, .columns = columns, .kind = kind};
    KF_TRY(kf_pass_allocate(p, kf_tally_bytes(&t), &there, err));
    t.there = there;
    p->tally[p->tallies++] = t;
    KF_CUDA(cudaMemsetAsync(there, 0, kf_tally_bytes(&t), p->stream), "clearing sums");
    memcpy(out, &there, sizeof there);
    return KERF_OK;
}

/* Of blocks of columns on and above the diagonal. */
static kerf_status add_gram(kf_gpu_pass *p, kf_rows x, float *gram, kerf_error *err)
{
    const uint64_t n = x.columns;
    KF_TRY(kf_pass_split(p, x, err));
    const uint64_t term = x.rows * p->split_stride;
    const int both = p->terms > 1; /* a third term would change nothing that float32 sums keep */
    for (uint64_t at = 0; at < n; at += BLOCK) {
        const kf_lt_shape shape = {.m = n - at,
                                   .n = kf_min_u64(BLOCK, n - at),
                                   .k = x.rows,
                                   .lda = p->split_stride,
                                   .ldb = p->split_stride,
                                   .ldc = n,
                                   .batch = 1,
                                   .turn_b = 1};
        for (int i = both; i >= 0; i--)
            for (int k = both - i; k >= 0; k--)
                KF_TRY(kf_pass_multiply(p, shape, p->split + (uint64_t)i * term + at,
                                        p->split + (uint64_t)k * term + at, gram + at * n + at, 1,
                                        err));
    }
    return KERF_OK;
}

kerf_status kf_gpu_sum(kf_stepper *s, kf_rows x, const kf_sums *to, kerf_error *err)
{
    kf_gpu_pass *p = s->gpu;
    kf_squares sums = {.x = x};
    float *gram = NULL;
    KF_CUDA(cudaSetDevice(p->ordinal), "choosing a GPU");
    KF_TRY(tally_for(p, to->square, KF_TALLY_SQUARE, x.columns, &sums.square, err));
    KF_TRY(tally_for(p, to->largest, KF_TALLY_LARGEST, 1, &sums.largest, err));
    KF_TRY(tally_for(p, to->gram, KF_TALLY_GRAM, x.columns, &gram, err));
    if (sums.square || sums.largest) {
        if (sums.square)
            KF_TRY(kf_pass_allocate(p, kf_squares_chunks(x.rows) * x.columns * sizeof(double),
                                    &sums.partial, err));
        const cudaError_t e = kf_squares_run(&sums, p->stream);
        if (sums.partial) (void)cudaFreeAsync(sums.partial, p->stream);
        KF_CUDA(e, "adding squares");
    }
    return gram ? add_gram(p, x, gram, err) : KERF_OK;
}

/* --- to the host --------------------------------------------------------------------------- */

/* Rows [first, first + rows) of a Gram matrix, from the column of the first on. */
typedef struct strip {
    float *host;
    const float *pinned;
    uint64_t first, rows, columns;
} strip;

static kerf_status add_row(void *ctx, uint64_t i)
{
    const strip *s = ctx;
    const uint64_t n = s->columns - s->first;
    float *to = s->host + (s->first + i) * s->columns + s->first;
    const float *from = s->pinned + i * n;
    for (uint64_t k = i; k < n; k++) to[k] += from[k];
    return KERF_OK;
}

static strip strip_at(const kf_tally *t, uint64_t first)
{
    strip s = {.host = t->host, .first = first, .columns = t->columns};
    if (first < t->columns)
        s.rows =
            kf_min_u64(KF_CHUNK_BYTES / sizeof(float) / (t->columns - first), t->columns - first);
    return s;
}

static kerf_status start_strip(const kf_way *w, const kf_tally *t, const strip *s, int i,
                               kerf_error *err)
{
    const uint64_t n = t->columns - s->first;
    if (s->rows == 0) return KERF_OK;
    KF_CUDA(cudaEventSynchronize(w->passed[i]), "copying sums from the GPU");
    KF_CUDA(cudaMemcpy2DAsync(w->pinned[i], n * sizeof(float),
                              (const float *)t->there + s->first * t->columns + s->first,
                              t->columns * sizeof(float), n * sizeof(float), s->rows,
                              cudaMemcpyDeviceToHost, w->stream),
            "copying sums from the GPU");
    KF_CUDA(cudaEventRecord(w->passed[i], w->stream), "copying sums from the GPU");
    return KERF_OK;
}

static kerf_status settle_gram(const kf_tally *t, const kf_way *w, int threads, const kerf_job *job,
                               kerf_error *err)
{
    if (t->columns * sizeof(float) > KF_CHUNK_BYTES)
        return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE, "a Gram matrix of %llu columns is too large",
                       (unsigned long long)t->columns);
    strip now = strip_at(t, 0);
    KF_TRY(start_strip(w, t, &now, 0, err));
    for (int i = 0; now.rows; i ^= 1) {
        const strip next = strip_at(t, now.first + now.rows);
        KF_TRY(kf_job_check(job, err));
        KF_TRY(start_strip(w, t, &next, i ^ 1, err));
        KF_CUDA(cudaEventSynchronize(w->passed[i]), "copying sums from the GPU");
        now.pinned = w->pinned[i];
        KF_TRY(kf_parallel(now.rows, threads, add_row, &now));
        now = next;
    }
    return KERF_OK;
}

static kerf_status settle_small(const kf_tally *t, const kf_way *w, kerf_error *err)
{
    const uint64_t bytes = kf_tally_bytes(t);
    if (bytes > KF_CHUNK_BYTES)
        return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE, "sums of %llu columns are too many",
                       (unsigned long long)t->columns);
    KF_CUDA(cudaStreamSynchronize(w->stream), "waiting for sums");
    KF_CUDA(cudaMemcpyAsync(w->pinned[0], t->there, bytes, cudaMemcpyDeviceToHost, w->stream),
            "copying sums from the GPU");
    KF_CUDA(cudaStreamSynchronize(w->stream), "copying sums from the GPU");
    const double *square = w->pinned[0];
    const float *largest = w->pinned[0];
    if (t->kind == KF_TALLY_SQUARE)
        for (uint64_t i = 0; i < t->columns; i++) ((double *)t->host)[i] += square[i];
    else if (*largest > *(float *)t->host)
        *(float *)t->host = *largest;
    return KERF_OK;
}

kerf_status kf_tally_settle(const kf_tally *t, const kf_way *w, int threads, const kerf_job *job,
                            kerf_error *err)
{
    return t->kind == KF_TALLY_GRAM ? settle_gram(t, w, threads, job, err)
                                    : settle_small(t, w, err);
}

/* Nothing is copied any more when what it is copied from is freed. */
void kf_pass_forget(kf_gpu_pass *p)
{
    if (p->tallies == 0 && !p->before) return;
    (void)cudaSetDevice(p->ordinal);
    if (p->coming) (void)cudaStreamSynchronize(p->coming);
    for (size_t i = 0; i < p->tallies; i++) {
        if (p->tally[i].come) (void)cudaEventDestroy(p->tally[i].come);
        (void)cudaFreeAsync(p->tally[i].there, p->stream);
    }
    p->tallies = 0;
    if (p->before) p->before->free(p->before);
    p->before = NULL;
    (void)cudaSetDevice(p->ordinal);
}

kerf_status kf_gpu_settle(kf_stepper *s, kerf_error *err)
{
    kf_gpu_pass *p = s->gpu;
    kerf_status status = KERF_OK;
    for (size_t i = 0; i < p->tallies; i++) {
        if (status == KERF_OK)
            status = kf_tally_settle(&p->tally[i], &p->way, p->threads, s->job, err);
        (void)cudaFreeAsync(p->tally[i].there, p->stream);
    }
    p->tallies = 0;
    if (status != KERF_OK) return status;
    KF_CUDA(cudaStreamSynchronize(p->stream), "running a layer");
    return KERF_OK;
}
#endif
