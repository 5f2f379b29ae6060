/* graph.cu - graphs of many calls and their time, and kernels that only move memory. */
extern "C" {
#include "cuda/handle.h"
}

#include <kerf/gemv_time.h>

#include <stdlib.h>

/* --- graphs ---------------------------------------------------------------------------------- */

struct kerf_graph {
    kf_gpu *device;
    cudaGraphExec_t exec;
    cudaEvent_t begin, end;
    size_t calls;
};

/* Leaves the stream as it was, also when a call failed. */
static kerf_status record(cudaStream_t stream, kerf_enqueue enqueue, void *ctx, size_t calls,
                          cudaGraph_t *out, kerf_error *err)
{
    kerf_status s = KERF_OK;
    KF_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "recording a graph");
    for (size_t i = 0; i < calls && s == KERF_OK; i++) s = enqueue(ctx, i, stream, err);
    cudaError_t e = cudaStreamEndCapture(stream, out);
    if (s != KERF_OK) {
        (void)cudaGetLastError();
        return s;
    }
    KF_CUDA(e, "recording a graph");
    return KERF_OK;
}

kerf_status kerf_graph_record(kerf_device *d, kerf_enqueue enqueue, void *ctx, size_t calls,
                              kerf_graph **out, kerf_error *err)
{
    kf_gpu *gpu = kf_gpu_of(d);
    cudaStream_t stream = gpu->lane[0].stream;
    cudaGraph_t graph = NULL;
    *out = NULL;
    if (calls == 0) return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "a graph of no calls");
    KF_CUDA(cudaSetDevice(gpu->ordinal), "choosing a GPU");
    KF_CUDA(cudaStreamSynchronize(stream), "waiting for the GPU");
    kerf_graph *g = (kerf_graph *)kf_alloc_zero(1, sizeof *g);
    if (!g) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "out of memory");
    g->device = gpu;
    g->calls = calls;
    kerf_status s = record(stream, enqueue, ctx, calls, &graph, err);
    cudaError_t e = cudaSuccess;
    if (s == KERF_OK) e = cudaGraphInstantiate(&g->exec, graph, 0);
    if (graph) (void)cudaGraphDestroy(graph);
    if (s == KERF_OK && e == cudaSuccess) e = cudaEventCreate(&g->begin);
    if (s == KERF_OK && e == cudaSuccess) e = cudaEventCreate(&g->end);
    if (s == KERF_OK && e == cudaSuccess) e = cudaGraphLaunch(g->exec, stream);
    if (s == KERF_OK && e == cudaSuccess) e = cudaStreamSynchronize(stream);
    if (e != cudaSuccess) s = kf_cuda_fail(err, e, "replaying a graph");
    if (s != KERF_OK) {
        kerf_graph_free(g);
        return s;
    }
    *out = g;
    return KERF_OK;
}

kerf_status kerf_graph_time(kerf_graph *g, double *us, kerf_error *err)
{
    cudaStream_t stream = g->device->lane[0].stream;
    float ms = 0;
    KF_CUDA(cudaSetDevice(g->device->ordinal), "choosing a GPU");
    KF_CUDA(cudaEventRecord(g->begin, stream), "timing a graph");
    KF_CUDA(cudaGraphLaunch(g->exec, stream), "replaying a graph");
    KF_CUDA(cudaEventRecord(g->end, stream), "timing a graph");
    KF_CUDA(cudaEventSynchronize(g->end), "replaying a graph");
    KF_CUDA(cudaEventElapsedTime(&ms, g->begin, g->end), "timing a graph");
    *us = (double)ms * 1e3 / (double)g->calls;
    return KERF_OK;
}

void kerf_graph_free(kerf_graph *g)
{
    if (!g) return;
    (void)cudaSetDevice(g->device->ordinal);
    (void)cudaStreamSynchronize(g->device->lane[0].stream);
    if (g->exec) (void)cudaGraphExecDestroy(g->exec);
    if (g->begin) (void)cudaEventDestroy(g->begin);
    if (g->end) (void)cudaEventDestroy(g->end);
    (void)cudaGetLastError();
    free(g);
}

/* --- memory ---------------------------------------------------------------------------------- */

/* Weights are constant, so a chained kernel reads them all before it waits for the one ahead, and
 * lets the one behind it begin at once. Every thread has LOADS reads under way. The fold is kept
 * alive by a store that never happens: data would have to fold to this very number. */
enum { LOADS = 8 };

/* Volatile, so that LOADS of them stay together. */
static __device__ uint4 read16(const uint4 *p)
{
    uint4 v;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

static __global__ void __launch_bounds__(512, 2)
    read_kernel(const uint4 *__restrict__ p, size_t n, unsigned *never)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
    const size_t step = (size_t)gridDim.x * blockDim.x;
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    unsigned fold = 0;
    for (; i + (LOADS - 1) * step < n; i += LOADS * step) {
        uint4 v[LOADS];
#pragma unroll
        for (int k = 0; k < LOADS; k++) v[k] = read16(p + i + (size_t)k * step);
#pragma unroll
        for (int k = 0; k < LOADS; k++) fold ^= v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
    }
    for (; i < n; i += step) {
        uint4 v = read16(p + i);
        fold ^= v.x ^ v.y ^ v.z ^ v.w;
    }
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    if (fold == 0x9e3779b9u && never) *never = fold;
}

kerf_status kerf_device_read(kerf_device *d, const void *p, size_t n, int width, int chained,
                             void *stream, kerf_error *err)
{
    /* Blocks of a multiprocessor, and their threads: a quarter of what it holds of this kernel,
     * half of it, so that the next kernel's fit beside them, and all. */
    static const struct {
        unsigned blocks, threads;
    } widths[KERF_READ_WIDTHS] = {{1, 256}, {1, 512}, {2, 512}};
    int sms = 0;
    if (width < 0 || width >= KERF_READ_WIDTHS)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "width %d; 0 to %d work", width,
                       KERF_READ_WIDTHS - 1);
    KF_CUDA(cudaSetDevice(kf_gpu_of(d)->ordinal), "choosing a GPU");
    KF_CUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, kf_gpu_of(d)->ordinal),
            "asking a GPU for its properties");
    cudaLaunchAttribute overlap = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t c = {};
    c.gridDim = dim3((unsigned)sms * widths[width].blocks);
    c.blockDim = dim3(widths[width].threads);
    c.stream = (cudaStream_t)stream;
    c.attrs = &overlap;
    c.numAttrs = chained ? 1 : 0;
    KF_CUDA(
        cudaLaunchKernelEx(&c, read_kernel, (const uint4 *)p, n / sizeof(uint4), (unsigned *)NULL),
        "starting a kernel");
    return KERF_OK;
}

kerf_status kerf_device_copy(kerf_device *d, void *to, const void *from, size_t n, void *stream,
                             kerf_error *err)
{
    KF_CUDA(cudaSetDevice(kf_gpu_of(d)->ordinal), "choosing a GPU");
    KF_CUDA(cudaMemcpyAsync(to, from, n, cudaMemcpyDeviceToDevice, (cudaStream_t)stream),
            "copying on the GPU");
    return KERF_OK;
}

kerf_status kerf_dbuf_repeat(const kerf_dbuf *b, size_t offset, size_t step, size_t n,
                             kerf_error *err)
{
    kf_gpu *gpu = kf_gpu_of(b->device);
    uint8_t *at = (uint8_t *)b->p + offset;
    if (step == 0 || offset > b->n || n > b->n - offset)
        return kf_fail(err, KERF_E_BUFFER, KF_NOWHERE, "%zu bytes at %zu of a buffer of %zu", n,
                       offset, b->n);
    KF_CUDA(cudaSetDevice(gpu->ordinal), "choosing a GPU");
    for (size_t have = step; have < n; have *= 2) { /* copies do not overlap */
        size_t more = n - have < have ? n - have : have;
        KF_TRY(kerf_device_copy(b->device, at + have, at, more, gpu->lane[0].stream, err));
    }
    return KERF_OK;
}
