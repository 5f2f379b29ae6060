/* nodevice_gemv_time.c - the functions of kerf/gemv_time.h in a library that was built without
 * CUDA. */
#include "base/base.h"

#include <kerf/gemv_time.h>

static kerf_status no_cuda(kerf_error *err)
{
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                   "this kerf was built without CUDA; build it with -DKERF_CUDA=ON");
}

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
