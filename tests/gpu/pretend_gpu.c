/* pretend_gpu.c - kerf/cuda.h on the processor: what tests/gpu and --device cuda do around a GPU is
 * run where there is none. It proves nothing about CUDA; it proves that the programs hold together,
 * and that they notice when a GPU is wrong. Linked in front of the archive, it stands in for
 * nodevice.c.
 *
 *   KERF_PRETEND_GPUS=N      how many there are (2)
 *   KERF_PRETEND_MEMORY=N    bytes of memory on each; no more can be allocated (2^32)
 *   KERF_PRETEND_FAULT=N     every N-th encode call writes one wrong bit
 *   KERF_PRETEND_LOG=FILE    a line "GPU ELEMENTS" for every encode call */
#include "base/base.h"
#include "format/device.h"

#include <kerf/cuda.h>

#include <stdio.h>
#include <stdlib.h>

typedef struct gpu {
    kerf_device base;
    int ordinal;
    uint64_t bad; /* since the last wait */
} gpu;

/* Factors, in host memory. */
struct kf_there {
    kerf_feedback *feedback;
};

static const kerf_exec one_thread = {.threads = 1}; /* tensors are small */

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static uint64_t memory_of_gpu(void)
{
    return setting("KERF_PRETEND_MEMORY", UINT64_C(1) << 32);
}

static uint64_t used; /* of all GPUs together */

static int has_room(uint64_t n)
{
    return __atomic_load_n(&used, __ATOMIC_RELAXED) + n <= memory_of_gpu();
}

static kerf_status no_room(kerf_error *err)
{
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE,
                   "allocating on the GPU: out of memory; the GPU has too little free memory: use "
                   "smaller panels or the CPU");
}

/* --- calls over host memory --------------------------------------------------------------------
 */

static void log_call(const gpu *d, uint64_t elements)
{
    const char *path = getenv("KERF_PRETEND_LOG");
    FILE *f = path ? fopen(path, "a") : NULL;
    if (!f) return;
    fprintf(f, "%d %llu\n", d->ordinal, (unsigned long long)elements);
    fclose(f);
}

static void break_a_bit(const kf_host_range *r)
{
    static uint64_t calls;
    uint64_t every = setting("KERF_PRETEND_FAULT", 0);
    if (every && __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) % every == 0)
        r->out[KERF_PLANE_CODES][0] ^= 1;
}

static size_t dense_bytes(const kf_host_range *r)
{
    return kerf_band_elements(r->g, r->b0, r->b1).count * (kerf_dtype_bits(r->dtype) / 8);
}

static kerf_cspan source_of(const kf_host_range *r)
{
    return (kerf_cspan){r->source, dense_bytes(r)};
}

/* Planes as the public calls take them: those with one value per matrix begin at matrix 0. */
static uint64_t before_range(const kf_host_range *r, int p)
{
    const kerf_plane *plane = &r->g->plane[p];
    if (!plane->per_matrix || !r->g->matrices) return 0;
    return r->b0 / r->g->bands_per_matrix * (plane->bytes / r->g->matrices);
}

static void planes_of(const kf_host_range *r, kerf_cspan planes[KERF_PLANES])
{
    for (int p = 0; p < KERF_PLANES; p++)
        planes[p] = (kerf_cspan){r->plane[p] ? r->plane[p] - before_range(r, p) : NULL,
                                 kerf_band_bytes(r->g, (kerf_plane_id)p, r->b0, r->b1).count};
}

static void out_of(const kf_host_range *r, kerf_span planes[KERF_PLANES])
{
    for (int p = 0; p < KERF_PLANES; p++)
        planes[p] = (kerf_span){r->out[p] ? r->out[p] - before_range(r, p) : NULL,
                                kerf_band_bytes(r->g, (kerf_plane_id)p, r->b0, r->b1).count};
}

/* A bad element is no failure of the device. */
static kerf_status found(const kf_host_range *r, kerf_status s, const kerf_error *e, uint64_t *bad)
{
    *bad = UINT64_MAX;
    if (s != KERF_E_DATA) return s;
    *bad = e->offset - kerf_band_elements(r->g, r->b0, r->b0).offset;
    return KERF_OK;
}

static kerf_status measure(kerf_device *d, const kf_host_range *r, kerf_stats *stats, uint64_t *bad,
                           kerf_error *err)
{
    kerf_exec exec = {.threads = 1, .nan = r->nan};
    (void)d;
    kerf_status s = kerf_measure(r->g, r->b0, r->b1, source_of(r), r->dtype,
                                 stats - r->b0 / r->g->bands_per_matrix, &exec, err);
    return found(r, s, err, bad);
}

static const kerf_encoder *encoder_of(const kerf_format *f, int id)
{
    for (size_t i = 0; i < kerf_encoder_count(f); i++)
        if ((int)kerf_encoder_at(f, i)->id == id) return kerf_encoder_at(f, i);
    return NULL;
}

static kerf_status encode_there(kerf_device *d, const kf_host_range *r, int encoder,
                                const kerf_stats *stats, uint64_t *bad, kerf_error *err)
{
    kerf_exec exec = {.threads = 1, .nan = r->nan};
    kerf_span planes[KERF_PLANES];
    out_of(r, planes);
    if (r->there) exec.feedback = r->there->feedback;
    kerf_status s = kerf_encode(r->g, encoder_of(r->g->format, encoder),
                                stats ? stats - r->b0 / r->g->bands_per_matrix : NULL, r->b0, r->b1,
                                source_of(r), r->dtype, planes, &exec, err);
    log_call((const gpu *)d, kerf_band_elements(r->g, r->b0, r->b1).count);
    if (s == KERF_OK) break_a_bit(r);
    return found(r, s, err, bad);
}

/* What comes from host memory is copied first. */
static kerf_status encode(kerf_device *d, const kf_host_range *r, int encoder,
                          const kerf_stats *stats, uint64_t *bad, kerf_error *err)
{
    uint64_t codes = kerf_band_bytes(r->g, KERF_PLANE_CODES, r->b0, r->b1).count;
    if (!has_room(dense_bytes(r) + codes)) return no_room(err);
    return encode_there(d, r, encoder, stats, bad, err);
}

static kerf_status decode(kerf_device *d, const kf_host_range *r, kerf_error *err)
{
    kerf_cspan planes[KERF_PLANES];
    (void)d;
    planes_of(r, planes);
    return kerf_decode(r->g, r->b0, r->b1, planes, (kerf_span){r->target, dense_bytes(r)}, r->dtype,
                       &one_thread, err);
}

static kerf_status count_clipped(kerf_device *d, const kf_host_range *r, uint64_t *clipped,
                                 kerf_error *err)
{
    kerf_cspan planes[KERF_PLANES];
    (void)d;
    planes_of(r, planes);
    return kerf_count_clipped(r->g, r->b0, r->b1, planes, source_of(r), r->dtype, &one_thread,
                              clipped, err);
}

/* --- error feedback ----------------------------------------------------------------------------
 */

static kerf_status factor(kerf_device *const *devices, size_t count, const float *gram,
                          uint64_t columns, kf_pivots pivots, const kerf_job *job,
                          struct kf_there **out, kerf_error *err)
{
    (void)devices, (void)count;
    *out = kf_alloc_zero(1, sizeof **out);
    if (!*out) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "out of memory");
    const kerf_status s =
        kerf_feedback_make(gram, columns, pivots.damping, 1, job, &(*out)->feedback, err);
    if (s == KERF_OK) return s;
    free(*out);
    *out = NULL;
    return s;
}

static void release(struct kf_there *there)
{
    kerf_feedback_free(there->feedback);
    free(there);
}

/* --- devices -----------------------------------------------------------------------------------
 */

int kerf_cuda_built(void)
{
    return 1;
}

kerf_status kerf_device_count(int *out, kerf_error *err)
{
    (void)err;
    *out = (int)setting("KERF_PRETEND_GPUS", 2);
    return KERF_OK;
}

kerf_status kerf_device_describe(int ordinal, kerf_device_info *out, kerf_error *err)
{
    int n;
    KF_TRY(kerf_device_count(&n, err));
    if (ordinal < 0 || ordinal >= n)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "no GPU number %d: this machine has %d",
                       ordinal, n);
    *out = (kerf_device_info){.name = "a processor that pretends",
                              .ordinal = ordinal,
                              .multiprocessors = 1,
                              .memory_bytes = memory_of_gpu(),
                              .free_bytes = memory_of_gpu()};
    return KERF_OK;
}

kerf_status kerf_device_open(int ordinal, kerf_device **out, kerf_error *err)
{
    kerf_device_info info;
    *out = NULL;
    KF_TRY(kerf_device_describe(ordinal, &info, err));
    gpu *d = kf_alloc_zero(1, sizeof *d);
    if (!d) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "out of memory");
    d->base = (kerf_device){measure, encode, decode, count_clipped, factor, release};
    d->ordinal = ordinal;
    d->bad = UINT64_MAX;
    *out = &d->base;
    return KERF_OK;
}

void kerf_device_close(kerf_device *d)
{
    free(d);
}

int kerf_device_ordinal(const kerf_device *d)
{
    return ((const gpu *)d)->ordinal;
}

void *kerf_device_stream(const kerf_device *d)
{
    (void)d;
    return NULL;
}

kerf_status kerf_device_wait(kerf_device *d, uint64_t *bad, kerf_error *err)
{
    gpu *g = (gpu *)d;
    (void)err;
    if (bad) *bad = g->bad;
    g->bad = UINT64_MAX;
    return KERF_OK;
}

/* --- memory ------------------------------------------------------------------------------------
 */

kerf_status kerf_dbuf_alloc(kerf_device *d, size_t n, kerf_dbuf *out, kerf_error *err)
{
    *out = (kerf_dbuf){0};
    void *p = n && has_room(n) ? malloc(n) : NULL;
    if (n && !p) return no_room(err);
    __atomic_add_fetch(&used, n, __ATOMIC_RELAXED);
    *out = (kerf_dbuf){p, n, d};
    return KERF_OK;
}

void kerf_dbuf_free(kerf_dbuf *b)
{
    __atomic_sub_fetch(&used, b->n, __ATOMIC_RELAXED);
    free(b->p);
    *b = (kerf_dbuf){0};
}

kerf_status kerf_dbuf_write(const kerf_dbuf *b, size_t offset, const void *from, size_t n,
                            kerf_error *err)
{
    (void)err;
    if (n) memcpy((uint8_t *)b->p + offset, from, n);
    return KERF_OK;
}

kerf_status kerf_dbuf_read(const kerf_dbuf *b, size_t offset, void *to, size_t n, kerf_error *err)
{
    (void)err;
    if (n) memcpy(to, (const uint8_t *)b->p + offset, n);
    return KERF_OK;
}

/* --- codecs over device memory -----------------------------------------------------------------
 */

static kf_host_range range_of(const kerf_device_bands *b)
{
    const kerf_geometry *g = b->geometry;
    kf_host_range r = {.g = g,
                       .b0 = b->b0,
                       .b1 = b->b1,
                       .source = b->dense.p,
                       .target = b->dense.p,
                       .dtype = b->dtype,
                       .nan = b->nan};
    uint64_t first = b->b1 > b->b0 ? b->b0 / g->bands_per_matrix : 0;
    for (int p = 0; p < KERF_PLANES; p++) {
        r.out[p] = b->plane[p].p;
        if (g->plane[p].per_matrix && r.out[p])
            r.out[p] += first * (g->plane[p].bytes / g->matrices);
        r.plane[p] = r.out[p];
    }
    return r;
}

static void remember(kerf_device *d, uint64_t bad)
{
    gpu *g = (gpu *)d;
    g->bad = kf_min_u64(g->bad, bad);
}

kerf_status kerf_device_measure(kerf_device *d, const kerf_device_bands *b, kerf_stats *stats,
                                kerf_error *err)
{
    kf_host_range r = range_of(b);
    uint64_t bad;
    if (b->b0 == b->b1) return KERF_OK;
    KF_TRY(measure(d, &r, stats + b->b0 / b->geometry->bands_per_matrix, &bad, err));
    remember(d, bad);
    return KERF_OK;
}

kerf_status kerf_device_encode(kerf_device *d, const kerf_device_bands *b,
                               const kerf_encoder *encoder, const kerf_stats *stats,
                               kerf_error *err)
{
    kf_host_range r = range_of(b);
    uint64_t bad;
    if (b->b0 == b->b1) return KERF_OK;
    if (stats) stats += b->b0 / b->geometry->bands_per_matrix;
    KF_TRY(encode_there(d, &r, (int)encoder->id, stats, &bad, err));
    remember(d, bad);
    return KERF_OK;
}

kerf_status kerf_device_decode(kerf_device *d, const kerf_device_bands *b, kerf_error *err)
{
    kf_host_range r = range_of(b);
    return b->b0 == b->b1 ? KERF_OK : decode(d, &r, err);
}

kerf_status kerf_device_scales_to_tiles(kerf_device *d, uint64_t matrices, uint64_t rows,
                                        uint64_t cols, kerf_cspan plain, kerf_span tiled,
                                        kerf_error *err)
{
    (void)d;
    return kerf_scales_to_tiles(matrices, rows, cols, plain, tiled, err);
}

kerf_status kerf_device_scales_from_tiles(kerf_device *d, uint64_t matrices, uint64_t rows,
                                          uint64_t cols, kerf_cspan tiled, kerf_span plain,
                                          kerf_error *err)
{
    (void)d;
    return kerf_scales_from_tiles(matrices, rows, cols, tiled, plain, err);
}
