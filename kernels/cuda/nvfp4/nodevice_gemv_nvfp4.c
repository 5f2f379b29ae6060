/* nodevice_gemv_nvfp4.c - the NVFP4 x NVFP4 product of a library that was built without CUDA. No
 * device can be opened there, so only a caller's mistake leads here. */
#include "plan/gemv_nvfp4_plan.h"

static kerf_status no_cuda(kerf_error *err)
{
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                   "this kerf was built without CUDA; build it with -DKERF_CUDA=ON");
}

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
