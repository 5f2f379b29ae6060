/* nodevice_kernels.c - the products of a GPU, and the functions of kerf/gemv_time.h, in a library
 * that was built without CUDA. No kerf_device can be opened there, so only a caller's mistake leads
 * here. */
#include "base/base.h"
#include "plan/experts_plan.h"
#include "plan/forward_steps.h"
#include "plan/gemm_plan.h"
#include "plan/gemv_device.h"
#include "plan/gemv_nvfp4_plan.h"

#include <kerf/gemv_time.h>

static kerf_status no_cuda(kerf_error *err)
{
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                   "this kerf was built without CUDA; build it with -DKERF_CUDA=ON");
}

/* --- W x -------------------------------------------------------------------------------------- */

kerf_status kf_gemv_device_plan(kerf_gemv *plan, kerf_device *device,
                                const kf_gemv_options *options, kerf_error *err)
{
    (void)plan, (void)device, (void)options;
    return no_cuda(err);
}

int kf_gemv_device_is_tiled(const kerf_gemv *plan)
{
    (void)plan;
    return 0;
}

int kf_gemv_device_alike(const kerf_gemv *a, const kerf_gemv *b)
{
    return a == b;
}

kerf_status kf_gemv_device_run(const kerf_gemv *plan, const kerf_gemv_args *args, void *stream,
                               kerf_error *err)
{
    (void)plan, (void)args, (void)stream;
    return no_cuda(err);
}

kerf_status kf_gemv_device_shuffle(kerf_device *device, void *words, size_t n, int back,
                                   void *stream, kerf_error *err)
{
    (void)device, (void)words, (void)n, (void)back, (void)stream;
    return no_cuda(err);
}

/* --- experts ---------------------------------------------------------------------------------- */

kerf_status kf_experts_device_plan(kerf_gemv_experts *plan, kerf_device *device,
                                   const struct kf_gemv_machine *as, kerf_error *err)
{
    (void)plan, (void)device, (void)as;
    return no_cuda(err);
}

kerf_status kf_experts_device_run(const kerf_gemv_experts *plan, const kerf_gemv_experts_args *args,
                                  void *stream, kerf_error *err)
{
    (void)plan, (void)args, (void)stream;
    return no_cuda(err);
}

/* --- NVFP4 x NVFP4 ---------------------------------------------------------------------------- */

kerf_status kf_nvfp4_cuda_plan(kerf_gemv_nvfp4 *plan, kerf_device *device,
                               const kf_nvfp4_tuning *tuning, kerf_error *err)
{
    (void)plan, (void)device, (void)tuning;
    return no_cuda(err);
}

kerf_status kf_nvfp4_cuda_run(const kerf_gemv_nvfp4 *plan, const kerf_gemv_nvfp4_args *args,
                              void *stream, kerf_error *err)
{
    (void)plan, (void)args, (void)stream;
    return no_cuda(err);
}

/* --- W X by cuBLASLt -------------------------------------------------------------------------- */

kerf_status kf_cublaslt_plan(kerf_gemm *plan, kerf_device *device, kerf_error *err)
{
    (void)plan, (void)device;
    return no_cuda(err);
}

void kf_cublaslt_free(kf_gemm_library *l)
{
    (void)l;
}

kerf_status kf_cublaslt_run(const kerf_gemm *plan, const kerf_gemm_args *args, void *stream,
                            kerf_error *err)
{
    (void)plan, (void)args, (void)stream;
    return no_cuda(err);
}

/* --- the forward pass --------------------------------------------------------------------------
 */

kerf_status kf_steps_on_gpu(kf_stepper *s, kerf_device *device, kerf_error *err)
{
    (void)s, (void)device;
    return no_cuda(err);
}

void kf_steps_set_terms(kf_stepper *s, int terms)
{
    (void)s, (void)terms;
}

/* --- times ------------------------------------------------------------------------------------ */

kerf_status kerf_graph_record(kerf_device *d, kerf_enqueue enqueue, void *ctx, size_t calls,
                              kerf_graph **out, kerf_error *err)
{
    (void)d, (void)enqueue, (void)ctx, (void)calls;
    *out = NULL;
    return no_cuda(err);
}

kerf_status kerf_graph_time(kerf_graph *g, double *us, kerf_error *err)
{
    (void)g, (void)us;
    return no_cuda(err);
}

void kerf_graph_free(kerf_graph *g)
{
    (void)g;
}

kerf_status kerf_device_read(kerf_device *d, const void *p, size_t n, int width, int chained,
                             void *stream, kerf_error *err)
{
    (void)d, (void)p, (void)n, (void)width, (void)chained, (void)stream;
    return no_cuda(err);
}

kerf_status kerf_device_copy(kerf_device *d, void *to, const void *from, size_t n, void *stream,
                             kerf_error *err)
{
    (void)d, (void)to, (void)from, (void)n, (void)stream;
    return no_cuda(err);
}

kerf_status kerf_dbuf_repeat(const kerf_dbuf *b, size_t offset, size_t step, size_t n,
                             kerf_error *err)
{
    (void)b, (void)offset, (void)step, (void)n;
    return no_cuda(err);
}
