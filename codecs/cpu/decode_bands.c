/* decode_bands.c - the calls that look at stored planes: kerf_decode, kerf_count_clipped,
 * kerf_find_loss. */
#include "base/base.h"
#include "cpu/backends.h"
#include "cpu/call.h"

#include <stdlib.h>

/* --- decode ------------------------------------------------------------------------------------
 */

static kerf_status decode_slice(void *ctx, uint64_t slice)
{
    const kf_call *c = ctx;
    uint64_t b, end;
    kf_slice_range(c, slice, &b, &end);
    for (; b < end; b++) {
        kf_band band;
        kf_band_at(c, b, NULL, &band);
        c->ops->decode(&band);
    }
    return KERF_OK;
}

kerf_status kerf_decode(const kerf_geometry *g, uint64_t b0, uint64_t b1,
                        const kerf_cspan src[KERF_PLANES], kerf_span dst, kerf_dtype dtype,
                        const kerf_exec *exec, kerf_error *err)
{
    kf_call c;
    if (!exec) exec = &kf_default_exec;
    KF_TRY(kf_call_init(&c, g, b0, b1, dtype, exec, err));
    KF_TRY(kf_call_planes(&c, src, err));
    KF_TRY(kf_check_elements(&c, (kerf_cspan){dst.p, dst.n}, "target", err));
    c.target = dst.p;
    if (exec->device && b0 < b1) {
        kf_host_range r = kf_call_range(&c);
        return exec->device->decode(exec->device, &r, err);
    }
    return kf_parallel(c.slices, exec->threads, decode_slice, &c);
}

static kerf_status clip_slice(void *ctx, uint64_t slice)
{
    const kf_call *c = ctx;
    uint64_t b, end, n = 0;
    kf_slice_range(c, slice, &b, &end);
    for (; b < end; b++) {
        kf_band band;
        kf_band_at(c, b, NULL, &band);
        n += c->ops->count_clipped(&band);
    }
    c->found[slice] = n;
    return KERF_OK;
}

kerf_status kerf_count_clipped(const kerf_geometry *g, uint64_t b0, uint64_t b1,
                               const kerf_cspan planes[KERF_PLANES], kerf_cspan src,
                               kerf_dtype dtype, const kerf_exec *exec, uint64_t *clipped,
                               kerf_error *err)
{
    kf_call c;
    kerf_exec own;
    exec = kf_exec_for(g, exec, &own);
    KF_TRY(kf_call_init(&c, g, b0, b1, dtype, exec, err));
    KF_TRY(kf_call_planes(&c, planes, err));
    KF_TRY(kf_check_elements(&c, src, "source", err));
    *clipped = 0;
    c.source = src.p;
    if (exec->device && b0 < b1) {
        kf_host_range r = kf_call_range(&c);
        return exec->device->count_clipped(exec->device, &r, clipped, err);
    }
    c.found = kf_alloc_zero(c.slices, sizeof *c.found);
    if (!c.found) return kf_out_of_memory(err);
    kerf_status status = kf_parallel(c.slices, exec->threads, clip_slice, &c);
    for (uint64_t i = 0; i < c.slices; i++) *clipped += c.found[i];
    free(c.found);
    return status;
}

/* --- loss --------------------------------------------------------------------------------------
 */

/* Some runs of bands, what each loses, and what a device has decoded of them. */
typedef struct loss_job {
    const kf_call *c;
    uint64_t bands, runs; /* bands of a run */
    const float *importance;
    float *decoded;  /* NULL: not yet */
    kerf_loss *loss; /* of each run   */
} loss_job;

void kf_loss_add(kerf_loss *into, const kerf_loss *from)
{
    into->signal += from->signal;
    into->noise += from->noise;
    into->cross += from->cross;
    into->weighted_signal += from->weighted_signal;
    into->weighted_noise += from->weighted_noise;
    into->worst = from->worst > into->worst ? from->worst : into->worst;
    into->nonfinite += from->nonfinite;
    into->clipped += from->clipped;
}

uint64_t kerf_loss_run(const kerf_geometry *g, uint64_t b0, uint64_t b1)
{
    return kf_min_u64(b1 - b0, 1 + KF_RUN_ELEMENTS / kerf_band_elements(g, b0, b0 + 1).count);
}

static void lose_run(const loss_job *j, uint64_t run, float *scratch)
{
    const kf_call *c = j->c;
    const kerf_geometry *g = c->g;
    const uint64_t first = c->b0 + run * j->bands;
    const uint64_t columns = kf_last_dim(&g->shape);
    const uint64_t begin = kerf_band_elements(g, c->b0, c->b0).offset;
    for (uint64_t b = first; b < kf_min_u64(first + j->bands, c->b1); b++) {
        kf_band band;
        kf_band_at(c, b, scratch, &band);
        const uint64_t element = kerf_band_elements(g, b, b).offset;
        band.importance = j->importance;
        band.column = (size_t)(element % columns);
        if (j->decoded) band.target = (uint8_t *)(j->decoded + (element - begin));
        c->ops->lose(&band, &j->loss[run]);
    }
}

static kerf_status lose_slice(void *ctx, uint64_t slice)
{
    const loss_job *j = ctx;
    const uint64_t slices = j->c->slices;
    float *scratch = kf_alloc(kf_scratch_floats(j->c->g), sizeof *scratch);
    if (!scratch) return KERF_E_NOMEM;
    for (uint64_t r = j->runs * slice / slices; r < j->runs * (slice + 1) / slices; r++)
        lose_run(j, r, scratch);
    free(scratch);
    return KERF_OK;
}

/* A device decodes and counts; the sums are made here, as they always are. */
static kerf_status lose_on_device(loss_job *j, kf_call *c, const kerf_exec *exec, kerf_error *err)
{
    kerf_extent e = kerf_band_elements(c->g, c->b0, c->b1);
    uint64_t clipped = 0;
    KF_TRY(kf_backend_ops(c->g->format, exec->backend, &c->ops, err));
    kf_host_range range = kf_call_range(c);
    KF_TRY(exec->device->count_clipped(exec->device, &range, &clipped, err));
    j->decoded = kf_alloc(e.count, sizeof *j->decoded);
    if (!j->decoded) return kf_out_of_memory(err);
    range.target = (uint8_t *)j->decoded;
    range.dtype = KERF_F32;
    kerf_status s = exec->device->decode(exec->device, &range, err);
    if (s == KERF_OK) s = kf_parallel(c->slices, exec->threads, lose_slice, j);
    free(j->decoded);
    j->loss[0].clipped += clipped;
    return s;
}

kerf_status kerf_find_loss(const kerf_geometry *g, uint64_t b0, uint64_t b1,
                           const kerf_cspan planes[KERF_PLANES], kerf_cspan src, kerf_dtype dtype,
                           const float *importance, const kerf_exec *exec, kerf_loss *loss,
                           kerf_error *err)
{
    kf_call c;
    kerf_exec own;
    exec = kf_exec_for(g, exec, &own);
    *loss = (kerf_loss){0};
    KF_TRY(kf_call_init(&c, g, b0, b1, dtype, exec, err));
    KF_TRY(kf_call_planes(&c, planes, err));
    KF_TRY(kf_check_elements(&c, src, "source", err));
    if (b0 == b1) return KERF_OK;
    if (importance && g->elements > 0)
        KF_TRY(kf_check_importance(importance, 0, kf_last_dim(&g->shape), err));
    c.source = src.p;
    loss_job j = {.c = &c, .bands = kerf_loss_run(g, b0, b1), .importance = importance};
    j.runs = kf_div_up(b1 - b0, j.bands);
    c.slices = kf_min_u64(4 * (uint64_t)kf_thread_count(exec->threads), j.runs);
    j.loss = kf_alloc_zero(j.runs, sizeof *j.loss);
    if (!j.loss) return kf_out_of_memory(err);
    kerf_status s = exec->device ? lose_on_device(&j, &c, exec, err)
                                 : kf_parallel(c.slices, exec->threads, lose_slice, &j);
    if (s == KERF_E_NOMEM && !exec->device) s = kf_out_of_memory(err);
    for (uint64_t i = 0; s == KERF_OK && i < j.runs; i++) kf_loss_add(loss, &j.loss[i]);
    free(j.loss);
    return s;
}
