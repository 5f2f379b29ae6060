/* nodevice_gemv.c - gemv_device.h in a library that was built without CUDA, where no kerf_device
 * can be opened. */
#include "plan/gemv_device.h"

#include "base/base.h"

static kerf_status no_cuda(kerf_error *err)
{
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                   "this kerf was built without CUDA; build it with -DKERF_CUDA=ON");
}

kerf_status kf_gemv_device_plan(kerf_gemv *plan, kerf_device *device, kerf_error *err)
{
    (void)plan, (void)device;
    return no_cuda(err);
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
