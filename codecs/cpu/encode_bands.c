/* encode_bands.c - the calls that look at a source: kerf_encode and kerf_measure; and the values
 * that belong to a matrix rather than to a band. */
#include <kerf/encode_matrix.h>

#include "base/base.h"
#include "base/subnormals.h"
#include "block/all.h"
#include "block/stats.h"
#include "cpu/call.h"
#include "cpu/feedback_rows.h"
#include "cpu/widen.h"
#include "format/format.h"
#include "scalar/pack.h"

#include <stdlib.h>

/* What a device found becomes what a slice would have found. */
static kerf_status device_found(kf_call *c, kerf_status status, uint64_t bad)
{
    if (status != KERF_OK || bad == UINT64_MAX) return status;
    c->found[0] = kerf_band_elements(c->g, c->b0, c->b0).offset + bad;
    return KERF_E_DATA;
}

/* Band b of a slice; the first element in it that is refused, or KF_NO_ELEMENT. */
typedef size_t band_task(const kf_call *c, uint64_t slice, uint64_t b, kf_band *band);

static kerf_status walk_slice(const kf_call *c, uint64_t slice, band_task *task)
{
    uint64_t b, end;
    kf_slice_range(c, slice, &b, &end);
    float *scratch = kf_alloc(kf_scratch_floats(c->g), sizeof *scratch);
    if (!scratch) return KERF_E_NOMEM;
    kerf_status status = KERF_OK;
    for (; b < end && status == KERF_OK; b++) {
        kf_band band;
        kf_band_at(c, b, scratch, &band);
        const size_t bad = task(c, slice, b, &band);
        if (bad == KF_NO_ELEMENT) continue;
        c->found[slice] = kerf_band_elements(c->g, b, b).offset + bad;
        status = KERF_E_DATA;
    }
    free(scratch);
    return status;
}

/* --- encode ------------------------------------------------------------------------------------
 */

static size_t encode_band(const kf_call *c, uint64_t slice, uint64_t b, kf_band *band)
{
    (void)slice;
    if (c->importance)
        band->importance = c->importance + b / c->g->bands_per_matrix * c->importance_step;
    return c->ops->encode(band);
}

static kerf_status encode_slice(void *ctx, uint64_t slice)
{
    return walk_slice(ctx, slice, encode_band);
}

/* The same with error feedback, some bands of one matrix at a time. */
static kerf_status encode_with_feedback(void *ctx, uint64_t slice)
{
    const kf_call *c = ctx;
    const uint64_t most = kerf_feedback_bands(c->g), per = c->g->bands_per_matrix;
    kf_band band[KF_FEEDBACK_ROWS];
    uint64_t b, end;
    kf_slice_range(c, slice, &b, &end);
    kf_feedback_room *room = kf_feedback_room_open(c->g, c->feedback);
    if (!room) return KERF_E_NOMEM;
    kerf_status status = KERF_OK;
    for (uint64_t n; b < end && status == KERF_OK; b += n) {
        n = kf_min_u64(kf_min_u64(most, end - b), per - b % per);
        for (uint64_t i = 0; i < n; i++) {
            kf_band_at(c, b + i, NULL, &band[i]);
            if (c->importance) band[i].importance = c->importance + b / per * c->importance_step;
        }
        const size_t bad = kf_feedback_encode(room, band, (size_t)n);
        if (bad == KF_NO_ELEMENT) continue;
        c->found[slice] = kerf_band_elements(c->g, b, b).offset + bad;
        status = KERF_E_DATA;
    }
    kf_feedback_room_close(room);
    return status;
}

int kerf_needs_stats(const kerf_geometry *g)
{
    return g->format->geometry == KERF_GROUP_TENSOR || g->format->second != KERF_SECOND_NONE;
}

int kerf_takes_importance(const kerf_encoder *encoder)
{
    return kf_takes_importance(KERF_FAMILY_NONE, (int)encoder->id);
}

static kerf_status take_importance(kf_call *c, const kerf_encoder *encoder, const kerf_exec *exec,
                                   kerf_error *err)
{
    const kerf_geometry *g = c->g;
    if (!kerf_takes_importance(encoder) || !exec->importance || g->elements == 0) return KERF_OK;
    if (exec->importances != g->cols && exec->importances != g->cols * g->matrices)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "importance of %llu columns for a tensor that has %llu",
                       (unsigned long long)exec->importances, (unsigned long long)g->cols);
    c->importance = exec->importance;
    c->importance_step = exec->importances == g->cols ? 0 : g->cols;
    const uint64_t step = c->importance_step;
    const uint64_t count = step && c->matrices ? c->matrices * step : g->cols;
    return kf_check_importance(exec->importance, c->first_matrix * step, count, err);
}

static kerf_status take_feedback(kf_call *c, const kerf_exec *exec, kerf_error *err)
{
    const kerf_geometry *g = c->g;
    const uint64_t columns = kf_last_dim(&g->shape);
    if (!exec->feedback || !kerf_feedback_fits(g)) return KERF_OK;
    if (exec->feedback->columns != columns)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "error feedback of %llu columns for a tensor that has %llu",
                       (unsigned long long)exec->feedback->columns, (unsigned long long)columns);
    if (!exec->device && !exec->feedback->above)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "error feedback that was made on a GPU, for the processor, which takes %s; "
                       "kerf_feedback_make makes it there",
                       g->format->name);
    c->feedback = exec->feedback;
    if (exec->device) return KERF_OK;
    const uint64_t runs = kf_div_up(c->b1 - c->b0, kerf_feedback_bands(g));
    c->slices = kf_min_u64(c->slices, runs);
    return KERF_OK;
}

static kf_tensor tensor_of(const kerf_geometry *g, const kerf_encoder *e, const kerf_stats *stats,
                           kerf_dtype source)
{
    kerf_stats none = {0};
    if (!stats) stats = &none;
    const kf_subnormals mode = kf_subnormals_begin();
    kf_tensor t = kf_tensor_init(kf_spec_of(g->format), (int)e->id, stats, (int)source);
    if (g->format->second == KERF_SECOND_NESTED) t.offset = kf_stats_mean_block(stats);
    kf_subnormals_end(mode);
    return t;
}

/* The values that a matrix has once: written by the call that holds its first band. */
static void write_matrix_values(const kf_call *c, uint64_t matrix, const kf_tensor *t)
{
    const kerf_geometry *g = c->g;
    uint32_t value[KERF_PLANES] = {0, t->bits, kf_bits(t->second), t->zero};
    if (g->format->zero == KERF_ZERO_F32) value[KERF_PLANE_ZEROS] = kf_bits(t->offset);
    for (int p = 1; p < KERF_PLANES; p++)
        if (c->out[p] && g->plane[p].per_matrix)
            kf_put_code(c->out[p], kerf_dtype_bits(g->plane[p].dtype), (size_t)matrix, value[p]);
}

static kerf_status check_encoder(const kerf_geometry *g, const kerf_encoder *encoder,
                                 kerf_dtype source, const kerf_stats *stats, kerf_error *err)
{
    KF_TRY(kf_encoder_check(g->format, encoder, source, err));
    if (kerf_needs_stats(g) && !stats)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "%s needs kerf_measure first", g->format->name);
    return KERF_OK;
}

kerf_status kerf_encode_matrix_values(const kerf_geometry *g, const kerf_encoder *encoder,
                                      const kerf_stats *stats, kerf_dtype source,
                                      const kerf_span dst[KERF_PLANES], kerf_error *err)
{
    kf_call c;
    KF_TRY(kf_call_init(&c, g, 0, 0, source, &kf_default_exec, err));
    KF_TRY(kf_call_out(&c, dst, err));
    KF_TRY(check_encoder(g, encoder, source, stats, err));
    for (uint64_t m = 0; m < g->matrices; m++) {
        const kf_tensor t = tensor_of(g, encoder, stats ? &stats[m] : NULL, source);
        write_matrix_values(&c, m, &t);
    }
    return KERF_OK;
}

static kerf_status bad_element(const kf_call *c, kerf_error *err)
{
    uint64_t first = UINT64_MAX;
    for (uint64_t i = 0; i < c->slices; i++) first = kf_min_u64(first, c->found[i]);
    uint64_t at = first - kerf_band_elements(c->g, c->b0, c->b0).offset;
    float x = kf_load(c->dtype, c->source, (size_t)at);
    return kf_fail(err, KERF_E_DATA, first, "element %llu is %s", (unsigned long long)first,
                   x != x  ? "NaN"
                   : x > 0 ? "Inf"
                           : "-Inf");
}

static kerf_status run_encode(kf_call *c, const kerf_stats *stats, const kerf_exec *exec,
                              kerf_error *err)
{
    if (!exec->device)
        return kf_parallel(c->slices, exec->threads,
                           c->feedback ? encode_with_feedback : encode_slice, c);
    if (c->b0 == c->b1) return KERF_OK;
    uint64_t bad = UINT64_MAX;
    kf_host_range r = kf_call_range(c);
    kerf_status s = exec->device->encode(exec->device, &r, c->encoder,
                                         stats ? stats + c->first_matrix : NULL, &bad, err);
    return device_found(c, s, bad);
}

kerf_status kerf_encode(const kerf_geometry *g, const kerf_encoder *encoder,
                        const kerf_stats *stats, uint64_t b0, uint64_t b1, kerf_cspan src,
                        kerf_dtype dtype, const kerf_span dst[KERF_PLANES], const kerf_exec *exec,
                        kerf_error *err)
{
    kf_call c;
    kerf_exec own;
    exec = kf_exec_for(g, exec, &own);
    KF_TRY(kf_call_init(&c, g, b0, b1, dtype, exec, err));
    KF_TRY(kf_check_elements(&c, src, "source", err));
    KF_TRY(kf_call_out(&c, dst, err));
    KF_TRY(check_encoder(g, encoder, dtype, stats, err));
    KF_TRY(take_importance(&c, encoder, exec, err));
    KF_TRY(take_feedback(&c, exec, err));
    if (g->bands == 0) c.matrices = g->matrices;

    kf_tensor *tensors = kf_alloc(c.matrices, sizeof *tensors);
    uint64_t *found = kf_alloc(c.slices, sizeof *found);
    kerf_status status = tensors && found ? KERF_OK : kf_out_of_memory(err);
    for (uint64_t i = 0; status == KERF_OK && i < c.matrices; i++) {
        uint64_t m = c.first_matrix + i;
        tensors[i] = tensor_of(g, encoder, stats ? &stats[m] : NULL, dtype);
        if (g->bands == 0 || m * g->bands_per_matrix >= b0) write_matrix_values(&c, m, &tensors[i]);
    }
    if (status == KERF_OK) {
        for (uint64_t i = 0; i < c.slices; i++) found[i] = UINT64_MAX;
        c.source = src.p;
        c.tensors = tensors;
        c.encoder = (int)encoder->id;
        c.found = found;
        status = run_encode(&c, stats, exec, err);
        if (status == KERF_E_DATA) status = bad_element(&c, err);
        if (status == KERF_E_NOMEM && !exec->device) status = kf_out_of_memory(err);
    }
    free(tensors);
    free(found);
    return status;
}

/* --- measure -----------------------------------------------------------------------------------
 */

static size_t measure_band(const kf_call *c, uint64_t slice, uint64_t b, kf_band *band)
{
    const uint64_t matrix = b / c->g->bands_per_matrix - c->first_matrix;
    return c->ops->measure(band, &c->stats[slice * c->matrices + matrix]);
}

static kerf_status measure_slice(void *ctx, uint64_t slice)
{
    return walk_slice(ctx, slice, measure_band);
}

static kerf_status run_measure(kf_call *c, const kerf_exec *exec, kerf_error *err)
{
    if (!exec->device) return kf_parallel(c->slices, exec->threads, measure_slice, c);
    if (c->b0 == c->b1) return KERF_OK;
    uint64_t bad = UINT64_MAX;
    kf_host_range r = kf_call_range(c);
    kerf_status s = exec->device->measure(exec->device, &r, c->stats, &bad, err);
    return device_found(c, s, bad);
}

kerf_status kerf_measure(const kerf_geometry *g, uint64_t b0, uint64_t b1, kerf_cspan src,
                         kerf_dtype dtype, kerf_stats *stats, const kerf_exec *exec,
                         kerf_error *err)
{
    kf_call c;
    kerf_exec own;
    exec = kf_exec_for(g, exec, &own);
    KF_TRY(kf_call_init(&c, g, b0, b1, dtype, exec, err));
    KF_TRY(kf_check_elements(&c, src, "source", err));
    c.source = src.p;
    c.stats = kf_alloc_zero(c.slices * c.matrices, sizeof *c.stats);
    c.found = kf_alloc(c.slices, sizeof *c.found);
    kerf_status status = c.stats && c.found ? KERF_OK : kf_out_of_memory(err);
    if (status == KERF_OK) {
        for (uint64_t i = 0; i < c.slices; i++) c.found[i] = UINT64_MAX;
        status = run_measure(&c, exec, err);
        if (status == KERF_E_DATA) status = bad_element(&c, err);
        if (status == KERF_E_NOMEM && !exec->device) status = kf_out_of_memory(err);
    }
    for (uint64_t i = 0; status == KERF_OK && i < c.slices * c.matrices; i++)
        kerf_stats_merge(&stats[c.first_matrix + i % c.matrices], &c.stats[i]);
    free(c.stats);
    free(c.found);
    return status;
}
