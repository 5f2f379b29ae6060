/* encode_matrix.c - the calls over all bands of a tensor in memory. Where somebody listens or may
 * cancel, bands are taken some at a time. */
#include <kerf/encode_matrix.h>

#include "base/base.h"
#include "base/work.h"
#include "cpu/call.h"
#include "format/format.h"

#include <stdlib.h>

/* Bytes of the dense side that a thread works on between two questions whether to go on: a few
 * hundredths of a second for the slowest encoders. Everything else takes less than a hundredth of
 * their time. A device is slow to start. */
#define ENCODE_BYTES (UINT64_C(256) << 10)
#define OTHER_BYTES (UINT64_C(4) << 20)
#define DEVICE_BYTES (UINT64_C(64) << 20)

typedef struct matrix_run {
    const kerf_geometry *g;
    const kerf_encoder *encoder;
    kerf_dtype dtype;
    const kerf_exec *exec;
    kerf_cspan source;              /* encode */
    kerf_span target;               /* decode */
    kerf_cspan planes[KERF_PLANES]; /* decode */
    kerf_span out[KERF_PLANES];     /* encode */
    kerf_stats *stats;
    kf_work work;
} matrix_run;

typedef kerf_status (*step)(const matrix_run *r, uint64_t b0, uint64_t b1, kerf_error *err);

/* Bytes of bands [b0, b1) on the dense side, and of those before them. */
static kerf_extent dense_extent(const matrix_run *r, uint64_t b0, uint64_t b1)
{
    const uint64_t size = kerf_dtype_bits(r->dtype) / 8;
    const kerf_extent e = kerf_band_elements(r->g, b0, b1);
    return (kerf_extent){e.offset * size, e.count * size};
}

static kerf_cspan source_of(const matrix_run *r, uint64_t b0, uint64_t b1)
{
    const kerf_extent e = dense_extent(r, b0, b1);
    return (kerf_cspan){(const uint8_t *)r->source.p + e.offset, (size_t)e.count};
}

/* Where the part of a plane for bands [b0, b1) lies; planes with one value per matrix are given
 * whole. */
static kerf_extent plane_extent(const matrix_run *r, int p, uint64_t b0, uint64_t b1)
{
    const kerf_extent whole = {0, r->g->plane[p].bytes};
    return r->g->plane[p].band_bytes ? kerf_band_bytes(r->g, (kerf_plane_id)p, b0, b1) : whole;
}

/* --- the steps -------------------------------------------------------------------------------- */

static kerf_status measure_step(const matrix_run *r, uint64_t b0, uint64_t b1, kerf_error *err)
{
    return kerf_measure(r->g, b0, b1, source_of(r, b0, b1), r->dtype, r->stats, r->exec, err);
}

static kerf_status encode_step(const matrix_run *r, uint64_t b0, uint64_t b1, kerf_error *err)
{
    kerf_span part[KERF_PLANES] = {{0}};
    for (int p = 0; p < KERF_PLANES; p++) {
        const kerf_extent e = plane_extent(r, p, b0, b1);
        if (e.count) part[p] = (kerf_span){(uint8_t *)r->out[p].p + e.offset, (size_t)e.count};
    }
    return kerf_encode(r->g, r->encoder, r->stats, b0, b1, source_of(r, b0, b1), r->dtype, part,
                       r->exec, err);
}

static kerf_status decode_step(const matrix_run *r, uint64_t b0, uint64_t b1, kerf_error *err)
{
    const kerf_extent dense = dense_extent(r, b0, b1);
    const kerf_span target = {(uint8_t *)r->target.p + dense.offset, (size_t)dense.count};
    kerf_cspan part[KERF_PLANES] = {{0}};
    for (int p = 0; p < KERF_PLANES; p++) {
        const kerf_extent e = plane_extent(r, p, b0, b1);
        if (e.count)
            part[p] = (kerf_cspan){(const uint8_t *)r->planes[p].p + e.offset, (size_t)e.count};
    }
    return kerf_decode(r->g, b0, b1, part, target, r->dtype, r->exec, err);
}

/* --- all bands -------------------------------------------------------------------------------- */

static uint64_t bands_in_step(const matrix_run *r, uint64_t bytes)
{
    const kerf_job *job = r->work.job;
    const uint64_t band = dense_extent(r, 0, 1).count;
    if (!job || (!job->tell && !job->cancel)) return r->g->bands;
    bytes = r->exec->device ? DEVICE_BYTES : bytes * (uint64_t)kf_thread_count(r->exec->threads);
    return band < bytes ? bytes / band : 1;
}

static kerf_status run_steps(matrix_run *r, const char *phase, step go, uint64_t bytes,
                             kerf_error *err)
{
    const uint64_t bands = r->g->bands, n = bands ? bands_in_step(r, bytes) : 0;
    kf_work_phase(&r->work, phase, dense_extent(r, 0, bands).count);
    KF_TRY(kf_work_check(&r->work, err));
    for (uint64_t b = 0; b < bands; b += n) {
        const uint64_t end = bands - b < n ? bands : b + n;
        KF_TRY(go(r, b, end, err));
        KF_TRY(kf_work_add(&r->work, dense_extent(r, b, end).count, err));
    }
    return KERF_OK;
}

static kerf_status encode_all(matrix_run *r, kerf_error *err)
{
    if (kerf_needs_stats(r->g)) {
        KF_TRY(kf_allocate(&r->stats, r->g->matrices, sizeof *r->stats, err));
        KF_TRY(run_steps(r, "measure", measure_step, OTHER_BYTES, err));
    }
    KF_TRY(kerf_encode_matrix_values(r->g, r->encoder, r->stats, r->dtype, r->out, err));
    return run_steps(r, "encode", encode_step, ENCODE_BYTES, err);
}

kerf_status kerf_encode_matrix(const kerf_geometry *g, const kerf_encoder *encoder, kerf_cspan src,
                               kerf_dtype dtype, const kerf_span dst[KERF_PLANES],
                               const kerf_exec *exec, const kerf_job *job, kerf_error *err)
{
    kf_call all;
    matrix_run r = {.g = g,
                    .encoder = encoder ? encoder : kerf_encoder_at(g->format, 0),
                    .dtype = dtype,
                    .exec = exec ? exec : &kf_default_exec,
                    .source = src};
    KF_TRY(kf_call_init(&all, g, 0, g->bands, dtype, r.exec, err));
    KF_TRY(kf_check_elements(&all, src, "source", err));
    KF_TRY(kf_call_out(&all, dst, err));
    KF_TRY(kf_encoder_check(g->format, r.encoder, dtype, err));
    for (int p = 0; p < KERF_PLANES; p++) r.out[p] = dst[p];
    kf_work_open(&r.work, job);
    kerf_status s = encode_all(&r, err);
    kf_work_close(&r.work);
    free(r.stats);
    return s;
}

kerf_status kerf_decode_matrix(const kerf_geometry *g, const kerf_cspan src[KERF_PLANES],
                               kerf_span dst, kerf_dtype dtype, const kerf_exec *exec,
                               const kerf_job *job, kerf_error *err)
{
    kf_call all;
    matrix_run r = {.g = g, .dtype = dtype, .exec = exec ? exec : &kf_default_exec, .target = dst};
    KF_TRY(kf_call_init(&all, g, 0, g->bands, dtype, r.exec, err));
    KF_TRY(kf_call_planes(&all, src, err));
    KF_TRY(kf_check_elements(&all, (kerf_cspan){dst.p, dst.n}, "target", err));
    for (int p = 0; p < KERF_PLANES; p++) r.planes[p] = src[p];
    kf_work_open(&r.work, job);
    kerf_status s = run_steps(&r, "decode", decode_step, OTHER_BYTES, err);
    kf_work_close(&r.work);
    return s;
}
