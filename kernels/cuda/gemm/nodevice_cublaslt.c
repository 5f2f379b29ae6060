/* nodevice_cublaslt.c - products with many columns in a library that was built without CUDA. */
#include "plan/gemm_plan.h"

static kerf_status no_cuda(kerf_error *err)
{
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                   "this kerf was built without CUDA; build it with -DKERF_CUDA=ON");
}

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
