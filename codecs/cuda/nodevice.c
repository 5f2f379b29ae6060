/* nodevice.c - the functions of kerf/cuda.h in a library that was built without CUDA: the same
 * names, and one sentence. */
#include "base/base.h"

#include <kerf/cuda.h>

static kerf_status no_cuda(kerf_error *err)
{
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                   "this kerf was built without CUDA; build it with -DKERF_CUDA=ON");
}

int kerf_cuda_built(void)
{
    return 0;
}

kerf_status kerf_device_count(int *out, kerf_error *err)
{
    *out = 0;
    return no_cuda(err);
}

kerf_status kerf_device_describe(int ordinal, kerf_device_info *out, kerf_error *err)
{
    (void)ordinal, (void)out;
    return no_cuda(err);
}

kerf_status kerf_device_open(int ordinal, kerf_device **out, kerf_error *err)
{
    (void)ordinal;
    *out = NULL;
    return no_cuda(err);
}

void kerf_device_close(kerf_device *d)
{
    (void)d;
}

int kerf_device_ordinal(const kerf_device *d)
{
    (void)d;
    return -1;
}

void *kerf_device_stream(const kerf_device *d)
{
    (void)d;
    return NULL;
}

kerf_status kerf_device_wait(kerf_device *d, uint64_t *bad, kerf_error *err)
{
    (void)d;
    if (bad) *bad = UINT64_MAX;
    return no_cuda(err);
}

kerf_status kerf_dbuf_alloc(kerf_device *d, size_t n, kerf_dbuf *out, kerf_error *err)
{
    (void)d, (void)n;
    *out = (kerf_dbuf){0};
    return no_cuda(err);
}

void kerf_dbuf_free(kerf_dbuf *b)
{
    *b = (kerf_dbuf){0};
}

kerf_status kerf_dbuf_write(const kerf_dbuf *b, size_t offset, const void *from, size_t n,
                            kerf_error *err)
{
    (void)b, (void)offset, (void)from, (void)n;
    return no_cuda(err);
}

kerf_status kerf_dbuf_read(const kerf_dbuf *b, size_t offset, void *to, size_t n, kerf_error *err)
{
    (void)b, (void)offset, (void)to, (void)n;
    return no_cuda(err);
}

kerf_status kerf_device_measure(kerf_device *d, const kerf_device_bands *b, kerf_stats *stats,
                                kerf_error *err)
{
    (void)d, (void)b, (void)stats;
    return no_cuda(err);
}

kerf_status kerf_device_encode(kerf_device *d, const kerf_device_bands *b,
                               const kerf_encoder *encoder, const kerf_stats *stats,
                               kerf_error *err)
{
    (void)d, (void)b, (void)encoder, (void)stats;
    return no_cuda(err);
}

kerf_status kerf_device_decode(kerf_device *d, const kerf_device_bands *b, kerf_error *err)
{
    (void)d, (void)b;
    return no_cuda(err);
}

kerf_status kerf_device_scales_to_tiles(kerf_device *d, uint64_t matrices, uint64_t rows,
                                        uint64_t cols, kerf_cspan plain, kerf_span tiled,
                                        kerf_error *err)
{
    (void)d, (void)matrices, (void)rows, (void)cols, (void)plain, (void)tiled;
    return no_cuda(err);
}

kerf_status kerf_device_scales_from_tiles(kerf_device *d, uint64_t matrices, uint64_t rows,
                                          uint64_t cols, kerf_cspan tiled, kerf_span plain,
                                          kerf_error *err)
{
    (void)d, (void)matrices, (void)rows, (void)cols, (void)plain, (void)tiled;
    return no_cuda(err);
}
