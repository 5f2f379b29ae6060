/* device.c - GPUs: discovery, handles, memory, and CUDA's errors as ours. */
#include "cuda/handle.h"

#include <stdio.h>
#include <stdlib.h>

/* --- errors ----------------------------------------------------------------------------------- */

kerf_status kf_cuda_fail(kerf_error *err, cudaError_t e, const char *what)
{
    (void)cudaGetLastError(); /* what is not sticky must not show up in a later call */
    kerf_status s = e == cudaErrorMemoryAllocation ? KERF_E_NOMEM : KERF_E_CUDA;
    const char *hint = s == KERF_E_NOMEM
                           ? "; the GPU has too little free memory: use smaller panels or the CPU"
                           : "";
    kf_fail(err, s, KF_NOWHERE, "%s: %s%s", what, cudaGetErrorString(e), hint);
    if (err) err->native = (int32_t)e;
    return s;
}

/* --- discovery -------------------------------------------------------------------------------- */

int kerf_cuda_built(void)
{
    return 1;
}

kerf_status kerf_device_count(int *out, kerf_error *err)
{
    *out = 0;
    cudaError_t e = cudaGetDeviceCount(out);
    if (e == cudaErrorNoDevice || e == cudaErrorInsufficientDriver) {
        (void)cudaGetLastError();
        *out = 0;
        return KERF_OK;
    }
    KF_CUDA(e, "looking for GPUs");
    return KERF_OK;
}

kerf_status kerf_device_describe(int ordinal, kerf_device_info *out, kerf_error *err)
{
    int n;
    struct cudaDeviceProp p;
    kerf_device_info info = {.ordinal = ordinal};
    KF_TRY(kerf_device_count(&n, err));
    if (n == 0)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "CUDA finds no GPU on this machine: nvidia-smi says whether there is one "
                       "with a driver, and CUDA_VISIBLE_DEVICES may hide it");
    if (ordinal < 0 || ordinal >= n)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "no GPU number %d: this machine has %d, counted from 0", ordinal, n);
    KF_CUDA(cudaGetDeviceProperties(&p, ordinal), "asking a GPU for its properties");
    size_t available = 0, total = 0;
    KF_CUDA(cudaSetDevice(ordinal), "choosing a GPU");
    KF_CUDA(cudaMemGetInfo(&available, &total), "asking a GPU for its free memory");
    snprintf(info.name, sizeof info.name, "%.*s", (int)sizeof info.name - 1, p.name);
    info.compute_major = p.major;
    info.compute_minor = p.minor;
    info.multiprocessors = p.multiProcessorCount;
    info.memory_bytes = total;
    info.free_bytes = available;
    info.l2_bytes = (uint64_t)p.l2CacheSize;
    *out = info;
    return KERF_OK;
}

/* --- handles ---------------------------------------------------------------------------------- */

static kerf_status open_lane(kf_lane *l, kerf_error *err)
{
    KF_CUDA(cudaStreamCreateWithFlags(&l->stream, cudaStreamNonBlocking), "creating a stream");
    KF_CUDA(cudaMalloc((void **)&l->words, 2 * sizeof *l->words), "allocating on the GPU");
    l->word = l->words;
    KF_CUDA(cudaMallocHost((void **)&l->answer, sizeof *l->answer), "allocating pinned memory");
    KF_CUDA(cudaMemsetAsync(l->words, 0xff, 2 * sizeof *l->words, l->stream), "clearing words");
    return KERF_OK;
}

static void close_lane(kf_lane *l)
{
    if (l->stream) (void)cudaStreamSynchronize(l->stream);
    (void)cudaFree(l->tensors.p);
    (void)cudaFree(l->chosen.p);
    (void)cudaFree(l->floats.p);
    (void)cudaFree(l->sum.p);
    (void)cudaFree(l->fault.p);
    (void)cudaFree(l->code.p);
    (void)cudaFree(l->rounders.p);
    (void)cudaFree(l->dense.p);
    (void)cudaFree(l->stats.p);
    (void)cudaFree(l->words);
    (void)cudaFreeHost(l->pinned.p);
    (void)cudaFreeHost(l->pinned_stats.p);
    (void)cudaFreeHost(l->answer);
    for (int p = 0; p < KERF_PLANES; p++) {
        (void)cudaFree(l->plane[p].p);
        (void)cudaFreeHost(l->pinned_plane[p].p);
    }
    if (l->stream) (void)cudaStreamDestroy(l->stream);
}

/* A GPU without code in this build fails here and not in the middle of a tensor. */
static kerf_status check_code(const kerf_device_info *info, kerf_error *err)
{
    kf_job none = {.dtype = KERF_BF16, .width = 1, .lines_per_matrix = 1};
    cudaError_t e = kf_launches_BF16.decode(&none, NULL);
    if (e == cudaErrorNoKernelImageForDevice || e == cudaErrorInvalidDeviceFunction) {
        (void)cudaGetLastError();
        if (info->compute_major < 8) /* which the sources do not compile for */
            return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                           "%.100s is sm_%d%d, and kerf has code for sm_80 and later; use the CPU",
                           info->name, info->compute_major, info->compute_minor);
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "this build has no code for %.100s (sm_%d%d); build with "
                       "-DCMAKE_CUDA_ARCHITECTURES=%d%d",
                       info->name, info->compute_major, info->compute_minor, info->compute_major,
                       info->compute_minor);
    }
    KF_CUDA(e, "starting a kernel");
    KF_CUDA(cudaStreamSynchronize(NULL), "running a kernel");
    return KERF_OK;
}

kerf_status kerf_device_open(int ordinal, kerf_device **out, kerf_error *err)
{
    kerf_device_info info;
    *out = NULL;
    KF_TRY(kerf_device_describe(ordinal, &info, err));
    KF_TRY(check_code(&info, err));
    kf_gpu *d = kf_alloc_zero(1, sizeof *d);
    if (!d) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "out of memory");
    d->base = kf_host_calls;
    d->ordinal = ordinal;
    kerf_status s = KERF_OK;
    for (int i = 0; i < KF_LANES && s == KERF_OK; i++) s = open_lane(&d->lane[i], err);
    if (s != KERF_OK) {
        kerf_device_close(&d->base);
        return s;
    }
    *out = &d->base;
    return KERF_OK;
}

void kerf_device_close(kerf_device *device)
{
    if (!device) return;
    kf_gpu *d = kf_gpu_of(device);
    (void)cudaSetDevice(d->ordinal);
    for (int i = 0; i < KF_LANES; i++) close_lane(&d->lane[i]);
    for (int i = 0; i < KF_IDLE_CHUNKS; i++) (void)cudaFreeHost(d->idle[i]);
    (void)cudaGetLastError();
    free(d);
}

int kerf_device_ordinal(const kerf_device *d)
{
    return ((const kf_gpu *)d)->ordinal;
}

void *kerf_device_stream(const kerf_device *d)
{
    return ((const kf_gpu *)d)->lane[0].stream;
}

kerf_status kerf_device_wait(kerf_device *device, uint64_t *bad, kerf_error *err)
{
    kf_gpu *d = kf_gpu_of(device);
    kf_lane *l = &d->lane[0];
    KF_CUDA(cudaSetDevice(d->ordinal), "choosing a GPU");
    KF_CUDA(cudaMemcpyAsync(l->answer, l->word, sizeof *l->word, cudaMemcpyDeviceToHost, l->stream),
            "reading a word");
    KF_CUDA(cudaMemsetAsync(l->word, 0xff, sizeof *l->word, l->stream), "clearing a word");
    KF_CUDA(cudaStreamSynchronize(l->stream), "waiting for the GPU");
    if (bad) *bad = *l->answer;
    return KERF_OK;
}

/* --- memory ----------------------------------------------------------------------------------- */

kerf_status kf_grow_device(kf_lane *l, kf_buffer *b, uint64_t n, kerf_error *err)
{
    if (n <= b->n) return KERF_OK;
    KF_CUDA(cudaStreamSynchronize(l->stream), "waiting for the GPU");
    (void)cudaFree(b->p);
    *b = (kf_buffer){NULL, 0};
    KF_CUDA(cudaMalloc(&b->p, n), "allocating on the GPU");
    b->n = n;
    return KERF_OK;
}

kerf_status kf_grow_pinned(kf_lane *l, kf_buffer *b, uint64_t n, kerf_error *err)
{
    if (n <= b->n) return KERF_OK;
    KF_CUDA(cudaStreamSynchronize(l->stream), "waiting for the GPU");
    (void)cudaFreeHost(b->p);
    *b = (kf_buffer){NULL, 0};
    KF_CUDA(cudaMallocHost(&b->p, n), "allocating pinned memory");
    b->n = n;
    return KERF_OK;
}

kerf_status kf_chunk_take(kf_gpu *d, void **out, kerf_error *err)
{
    for (int i = 0; i < KF_IDLE_CHUNKS; i++) {
        *out = __atomic_exchange_n(&d->idle[i], NULL, __ATOMIC_ACQ_REL);
        if (*out) return KERF_OK;
    }
    KF_CUDA(cudaMallocHost(out, KF_CHUNK_BYTES), "allocating pinned memory");
    return KERF_OK;
}

void kf_chunk_leave(kf_gpu *d, void *chunk)
{
    for (int i = 0; chunk && i < KF_IDLE_CHUNKS; i++) {
        void *none = NULL;
        if (__atomic_compare_exchange_n(&d->idle[i], &none, chunk, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED))
            return;
    }
    if (chunk) (void)cudaFreeHost(chunk);
}

kerf_status kerf_dbuf_alloc(kerf_device *d, size_t n, kerf_dbuf *out, kerf_error *err)
{
    kerf_dbuf b = {NULL, n, d};
    *out = (kerf_dbuf){0};
    KF_CUDA(cudaSetDevice(kf_gpu_of(d)->ordinal), "choosing a GPU");
    if (n) KF_CUDA(cudaMalloc(&b.p, n), "allocating on the GPU");
    *out = b;
    return KERF_OK;
}

void kerf_dbuf_free(kerf_dbuf *b)
{
    if (b->p) {
        (void)cudaSetDevice(kf_gpu_of(b->device)->ordinal); /* else a new thread opens GPU 0 */
        (void)cudaFree(b->p);
    }
    *b = (kerf_dbuf){0};
}

static kerf_status check_copy(const kerf_dbuf *b, size_t offset, size_t n, kerf_error *err)
{
    if (offset > b->n || n > b->n - offset)
        return kf_fail(err, KERF_E_BUFFER, KF_NOWHERE, "%zu bytes at %zu of a buffer of %zu", n,
                       offset, b->n);
    KF_CUDA(cudaSetDevice(kf_gpu_of(b->device)->ordinal), "choosing a GPU");
    return KERF_OK;
}

kerf_status kerf_dbuf_write(const kerf_dbuf *b, size_t offset, const void *from, size_t n,
                            kerf_error *err)
{
    if (n == 0) return KERF_OK;
    KF_TRY(check_copy(b, offset, n, err));
    cudaStream_t s = kf_gpu_of(b->device)->lane[0].stream;
    KF_CUDA(cudaMemcpyAsync((uint8_t *)b->p + offset, from, n, cudaMemcpyHostToDevice, s),
            "copying to the GPU");
    KF_CUDA(cudaStreamSynchronize(s), "copying to the GPU");
    return KERF_OK;
}

kerf_status kerf_dbuf_read(const kerf_dbuf *b, size_t offset, void *to, size_t n, kerf_error *err)
{
    if (n == 0) return KERF_OK;
    KF_TRY(check_copy(b, offset, n, err));
    cudaStream_t s = kf_gpu_of(b->device)->lane[0].stream;
    KF_CUDA(cudaMemcpyAsync(to, (const uint8_t *)b->p + offset, n, cudaMemcpyDeviceToHost, s),
            "copying from the GPU");
    KF_CUDA(cudaStreamSynchronize(s), "copying from the GPU");
    return KERF_OK;
}
