/* dispatch.c - the public encode, decode, measure: checks arguments, picks a backend, cuts bands
 * into slices for threads, and owns what belongs to a matrix rather than to a band. */
#include "base/base.h"
#include "block/all.h"
#include "block/stats.h"
#include "cpu/backends.h"
#include "cpu/ops.h"
#include "cpu/widen.h"
#include "format/device.h"
#include "format/format.h"
#include "scalar/pack.h"

#include <stdlib.h>

/* --- one call over a range of bands ------------------------------------------------------------
 */

typedef struct call {
    const kerf_geometry *g;
    uint64_t b0, b1, slices;
    const uint8_t *source;
    uint8_t *target;
    kerf_dtype dtype;
    kerf_nan nan;
    uint8_t *plane[KERF_PLANES];
    const kf_codec_ops *ops;
    const kf_tensor *tensors; /* one per matrix touched, from first_matrix */
    uint64_t first_matrix;
    int encoder;
    kerf_stats *stats; /* measure: per slice and matrix touched */
    uint64_t matrices; /* touched */
    uint64_t *found;   /* per slice: first bad element of the tensor, or clipped elements */
} call;

static const kerf_exec default_exec = {0, KERF_NAN_ERROR, NULL, NULL};

/* Fills what all calls share and checks the range, the type and every length. */
static kerf_status call_init(call *c, const kerf_geometry *g, uint64_t b0, uint64_t b1,
                             kerf_dtype dtype, const kerf_exec *exec, kerf_error *err)
{
    call fresh = {.g = g, .b0 = b0, .b1 = b1, .dtype = dtype, .nan = exec->nan};
    *c = fresh;
    if (b0 > b1 || b1 > g->bands)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "bands [%llu, %llu) of %llu",
                       (unsigned long long)b0, (unsigned long long)b1,
                       (unsigned long long)g->bands);
    if (dtype != KERF_F32 && dtype != KERF_F16 && dtype != KERF_BF16)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "numbers of type %s cannot be converted; F32, F16 and BF16 can",
                       kerf_dtype_name(dtype));
    if (!exec->device) KF_TRY(kf_backend_ops(g->format, exec->backend, &c->ops, err));
    uint64_t slices = exec->device ? 1 : 4 * (uint64_t)kf_thread_count(exec->threads);
    c->slices = kf_min_u64(slices, b1 - b0);
    if (b1 > b0) {
        c->first_matrix = b0 / g->bands_per_matrix;
        c->matrices = (b1 - 1) / g->bands_per_matrix - c->first_matrix + 1;
    }
    return KERF_OK;
}

static kerf_status check_span(size_t have, uint64_t need, const char *what, kerf_error *err)
{
    if (have >= need) return KERF_OK;
    return kf_fail(err, KERF_E_BUFFER, KF_NOWHERE, "%s has %zu bytes, needs %llu", what, have,
                   (unsigned long long)need);
}

static kerf_status check_floats(const call *c, size_t have, const char *what, kerf_error *err)
{
    kerf_extent e = kerf_band_elements(c->g, c->b0, c->b1);
    return check_span(have, e.count * (kerf_dtype_bits(c->dtype) / 8), what, err);
}

static kerf_status check_planes(call *c, const kerf_cspan planes[KERF_PLANES], kerf_error *err)
{
    static const char *const names[KERF_PLANES] = {"plane of codes", "plane of scales",
                                                   "plane of second-level scales",
                                                   "plane of zero points"};
    for (int p = 0; p < KERF_PLANES; p++) {
        if (c->g->plane[p].dtype == KERF_DTYPE_NONE) continue;
        kerf_extent e = kerf_band_bytes(c->g, (kerf_plane_id)p, c->b0, c->b1);
        KF_TRY(check_span(planes[p].n, e.count, names[p], err));
        c->plane[p] = (uint8_t *)(uintptr_t)planes[p].p;
    }
    return KERF_OK;
}

/* Where band b's part of a plane begins. */
static uint8_t *plane_at(const call *c, int p, uint64_t b)
{
    if (!c->plane[p]) return NULL;
    if (c->g->plane[p].per_matrix) {
        uint64_t size = c->g->matrices ? c->g->plane[p].bytes / c->g->matrices : 0;
        return c->plane[p] + b / c->g->bands_per_matrix * size;
    }
    return c->plane[p] + kerf_band_bytes(c->g, (kerf_plane_id)p, c->b0, b).count;
}

/* The whole call for a device. */
static kf_range range_of(const call *c, const void *dense)
{
    kf_range r = {.g = c->g,
                  .b0 = c->b0,
                  .b1 = c->b1,
                  .dense = (uint8_t *)(uintptr_t)dense,
                  .dtype = c->dtype,
                  .nan = c->nan,
                  .matrices = c->matrices};
    for (int p = 0; p < KERF_PLANES; p++) r.plane[p] = plane_at(c, p, c->b0);
    return r;
}

/* What a device found becomes what a slice would have found. */
static kerf_status device_found(call *c, kerf_status status, uint64_t bad)
{
    if (status != KERF_OK || bad == UINT64_MAX) return status;
    c->found[0] = kerf_band_elements(c->g, c->b0, c->b0).offset + bad;
    return KERF_E_DATA;
}

/* Field by field, where it is wanted: to zero and copy a struct takes longer than all the rest. */
static void band_at(const call *c, uint64_t b, float *scratch, kf_band *band)
{
    const kerf_geometry *g = c->g;
    const kerf_extent e = kerf_band_elements(g, b, b + 1);
    const uint64_t start =
        (e.offset - kerf_band_elements(g, c->b0, b).offset) * (kerf_dtype_bits(c->dtype) / 8);
    const int flat = g->format->geometry == KERF_GROUP_FLAT;
    band->g = g;
    band->cols = (size_t)(flat ? e.count : g->cols);
    band->rows = (size_t)(e.count / band->cols);
    band->source = c->source ? c->source + start : NULL;
    band->target = c->target ? c->target + start : NULL;
    band->dtype = c->dtype;
    band->nan = c->nan;
    for (int p = 0; p < KERF_PLANES; p++) band->plane[p] = plane_at(c, p, b);
    band->tensor = c->tensors ? c->tensors + (b / g->bands_per_matrix - c->first_matrix) : NULL;
    band->encoder = c->encoder;
    band->scratch = scratch;
    band->importance = NULL;
    band->column = 0;
}

static void slice_range(const call *c, uint64_t slice, uint64_t *from, uint64_t *to)
{
    uint64_t n = c->b1 - c->b0, whole = n / c->slices, rest = n % c->slices;
    *from = c->b0 + slice * whole + kf_min_u64(slice, rest);
    *to = *from + whole + (slice < rest);
}

/* --- encode ------------------------------------------------------------------------------------
 */

static kerf_status encode_slice(void *ctx, uint64_t slice)
{
    const call *c = ctx;
    uint64_t b, end;
    slice_range(c, slice, &b, &end);
    float *scratch = kf_alloc(kf_scratch_floats(c->g), sizeof *scratch);
    if (!scratch) return KERF_E_NOMEM;
    kerf_status status = KERF_OK;
    for (; b < end && status == KERF_OK; b++) {
        kf_band band;
        band_at(c, b, scratch, &band);
        size_t bad = c->ops->encode(&band);
        if (bad != KF_NO_ELEMENT) {
            c->found[slice] = kerf_band_elements(c->g, b, b).offset + bad;
            status = KERF_E_DATA;
        }
    }
    free(scratch);
    return status;
}

int kerf_needs_stats(const kerf_geometry *g)
{
    return g->format->geometry == KERF_GROUP_TENSOR || g->format->second != KERF_SECOND_NONE;
}

static kf_tensor tensor_of(const kerf_geometry *g, const kerf_encoder *e, const kerf_stats *stats,
                           kerf_dtype source)
{
    kerf_stats none = {0};
    if (!stats) stats = &none;
    kf_tensor t = kf_tensor_init(kf_spec_of(g->format), (int)e->id, stats, (int)source);
    if (g->format->second == KERF_SECOND_NESTED) t.offset = kf_stats_mean_block(stats);
    return t;
}

/* The values that a matrix has once: written by the call that holds its first band. */
static void write_matrix_values(const call *c, uint64_t matrix, const kf_tensor *t)
{
    const kerf_geometry *g = c->g;
    uint32_t value[KERF_PLANES] = {0, t->bits, kf_bits(t->second), t->zero};
    if (g->format->zero == KERF_ZERO_F32) value[KERF_PLANE_ZEROS] = kf_bits(t->offset);
    for (int p = 1; p < KERF_PLANES; p++)
        if (c->plane[p] && g->plane[p].per_matrix)
            kf_put_code(c->plane[p], kerf_dtype_bits(g->plane[p].dtype), (size_t)matrix, value[p]);
}

static kerf_status bad_element(const call *c, kerf_error *err)
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

static kerf_status run_encode(call *c, const kerf_stats *stats, const kerf_exec *exec,
                              kerf_error *err)
{
    if (!exec->device) return kf_parallel(c->slices, exec->threads, encode_slice, c);
    if (c->b0 == c->b1) return KERF_OK;
    uint64_t bad = UINT64_MAX;
    kf_range r = range_of(c, c->source);
    kerf_status s = exec->device->encode(exec->device, &r, c->encoder,
                                         stats ? stats + c->first_matrix : NULL, &bad, err);
    return device_found(c, s, bad);
}

static kerf_status out_of_memory(kerf_error *err)
{
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "out of memory");
}

kerf_status kerf_encode(const kerf_geometry *g, const kerf_encoder *encoder,
                        const kerf_stats *stats, uint64_t b0, uint64_t b1, kerf_cspan src,
                        kerf_dtype dtype, const kerf_span dst[KERF_PLANES], const kerf_exec *exec,
                        kerf_error *err)
{
    call c;
    kerf_cspan planes[KERF_PLANES];
    if (!exec) exec = &default_exec;
    for (int p = 0; p < KERF_PLANES; p++) planes[p] = (kerf_cspan){dst[p].p, dst[p].n};
    KF_TRY(call_init(&c, g, b0, b1, dtype, exec, err));
    KF_TRY(check_floats(&c, src.n, "source", err));
    KF_TRY(check_planes(&c, planes, err));
    KF_TRY(kf_encoder_check(g->format, encoder, dtype, err));
    if (kerf_needs_stats(g) && !stats)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "%s needs kerf_measure first", g->format->name);
    if (g->bands == 0) c.matrices = g->matrices;

    kf_tensor *tensors = kf_alloc(c.matrices, sizeof *tensors);
    uint64_t *found = kf_alloc(c.slices, sizeof *found);
    kerf_status status = tensors && found ? KERF_OK : out_of_memory(err);
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
        if (status == KERF_E_NOMEM && !exec->device) status = out_of_memory(err);
    }
    free(tensors);
    free(found);
    return status;
}

/* --- decode ------------------------------------------------------------------------------------
 */

static kerf_status decode_slice(void *ctx, uint64_t slice)
{
    const call *c = ctx;
    uint64_t b, end;
    slice_range(c, slice, &b, &end);
    for (; b < end; b++) {
        kf_band band;
        band_at(c, b, NULL, &band);
        c->ops->decode(&band);
    }
    return KERF_OK;
}

kerf_status kerf_decode(const kerf_geometry *g, uint64_t b0, uint64_t b1,
                        const kerf_cspan src[KERF_PLANES], kerf_span dst, kerf_dtype dtype,
                        const kerf_exec *exec, kerf_error *err)
{
    call c;
    if (!exec) exec = &default_exec;
    KF_TRY(call_init(&c, g, b0, b1, dtype, exec, err));
    KF_TRY(check_planes(&c, src, err));
    KF_TRY(check_floats(&c, dst.n, "target", err));
    c.target = dst.p;
    if (exec->device && b0 < b1) {
        kf_range r = range_of(&c, dst.p);
        return exec->device->decode(exec->device, &r, err);
    }
    return kf_parallel(c.slices, exec->threads, decode_slice, &c);
}

static kerf_status clip_slice(void *ctx, uint64_t slice)
{
    const call *c = ctx;
    uint64_t b, end, n = 0;
    slice_range(c, slice, &b, &end);
    for (; b < end; b++) {
        kf_band band;
        band_at(c, b, NULL, &band);
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
    call c;
    if (!exec) exec = &default_exec;
    KF_TRY(call_init(&c, g, b0, b1, dtype, exec, err));
    KF_TRY(check_planes(&c, planes, err));
    KF_TRY(check_floats(&c, src.n, "source", err));
    *clipped = 0;
    if (exec->device && b0 < b1) {
        kf_range r = range_of(&c, src.p);
        return exec->device->count_clipped(exec->device, &r, clipped, err);
    }
    c.source = src.p;
    c.found = kf_alloc_zero(c.slices, sizeof *c.found);
    if (!c.found) return out_of_memory(err);
    kerf_status status = kf_parallel(c.slices, exec->threads, clip_slice, &c);
    for (uint64_t i = 0; i < c.slices; i++) *clipped += c.found[i];
    free(c.found);
    return status;
}

/* --- loss --------------------------------------------------------------------------------------
 */

/* Some runs of bands, what each loses, and what a device has decoded of them. */
typedef struct loss_job {
    const call *c;
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
    const call *c = j->c;
    const kerf_geometry *g = c->g;
    const uint64_t first = c->b0 + run * j->bands;
    const uint64_t columns = g->shape.rank ? g->shape.dim[g->shape.rank - 1] : 1;
    const uint64_t begin = kerf_band_elements(g, c->b0, c->b0).offset;
    for (uint64_t b = first; b < kf_min_u64(first + j->bands, c->b1); b++) {
        kf_band band;
        band_at(c, b, scratch, &band);
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
static kerf_status lose_on_device(loss_job *j, call *c, const kerf_exec *exec, kerf_error *err)
{
    kerf_extent e = kerf_band_elements(c->g, c->b0, c->b1);
    uint64_t clipped = 0;
    KF_TRY(kf_backend_ops(c->g->format, exec->backend, &c->ops, err));
    kf_range range = range_of(c, c->source);
    KF_TRY(exec->device->count_clipped(exec->device, &range, &clipped, err));
    j->decoded = kf_alloc(e.count, sizeof *j->decoded);
    if (!j->decoded) return out_of_memory(err);
    range.dense = (uint8_t *)j->decoded;
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
    call c;
    if (!exec) exec = &default_exec;
    *loss = (kerf_loss){0};
    KF_TRY(call_init(&c, g, b0, b1, dtype, exec, err));
    KF_TRY(check_planes(&c, planes, err));
    KF_TRY(check_floats(&c, src.n, "source", err));
    if (b0 == b1) return KERF_OK;
    c.source = src.p;
    loss_job j = {.c = &c, .bands = kerf_loss_run(g, b0, b1), .importance = importance};
    j.runs = kf_div_up(b1 - b0, j.bands);
    c.slices = kf_min_u64(4 * (uint64_t)kf_thread_count(exec->threads), j.runs);
    j.loss = kf_alloc_zero(j.runs, sizeof *j.loss);
    if (!j.loss) return out_of_memory(err);
    kerf_status s = exec->device ? lose_on_device(&j, &c, exec, err)
                                 : kf_parallel(c.slices, exec->threads, lose_slice, &j);
    if (s == KERF_E_NOMEM && !exec->device) s = out_of_memory(err);
    for (uint64_t i = 0; s == KERF_OK && i < j.runs; i++) kf_loss_add(loss, &j.loss[i]);
    free(j.loss);
    return s;
}

/* --- measure -----------------------------------------------------------------------------------
 */

static kerf_status measure_slice(void *ctx, uint64_t slice)
{
    const call *c = ctx;
    uint64_t b, end;
    slice_range(c, slice, &b, &end);
    float *scratch = kf_alloc(kf_scratch_floats(c->g), sizeof *scratch);
    if (!scratch) return KERF_E_NOMEM;
    kerf_status status = KERF_OK;
    for (; b < end && status == KERF_OK; b++) {
        kf_band band;
        band_at(c, b, scratch, &band);
        uint64_t matrix = b / c->g->bands_per_matrix - c->first_matrix;
        size_t bad = c->ops->measure(&band, &c->stats[slice * c->matrices + matrix]);
        if (bad != KF_NO_ELEMENT) {
            c->found[slice] = kerf_band_elements(c->g, b, b).offset + bad;
            status = KERF_E_DATA;
        }
    }
    free(scratch);
    return status;
}

static kerf_status run_measure(call *c, const kerf_exec *exec, kerf_error *err)
{
    if (!exec->device) return kf_parallel(c->slices, exec->threads, measure_slice, c);
    if (c->b0 == c->b1) return KERF_OK;
    uint64_t bad = UINT64_MAX;
    kf_range r = range_of(c, c->source);
    kerf_status s = exec->device->measure(exec->device, &r, c->stats, &bad, err);
    return device_found(c, s, bad);
}

kerf_status kerf_measure(const kerf_geometry *g, uint64_t b0, uint64_t b1, kerf_cspan src,
                         kerf_dtype dtype, kerf_stats *stats, const kerf_exec *exec,
                         kerf_error *err)
{
    call c;
    if (!exec) exec = &default_exec;
    KF_TRY(call_init(&c, g, b0, b1, dtype, exec, err));
    KF_TRY(check_floats(&c, src.n, "source", err));
    c.source = src.p;
    c.stats = kf_alloc_zero(c.slices * c.matrices, sizeof *c.stats);
    c.found = kf_alloc(c.slices, sizeof *c.found);
    kerf_status status = c.stats && c.found ? KERF_OK : out_of_memory(err);
    if (status == KERF_OK) {
        for (uint64_t i = 0; i < c.slices; i++) c.found[i] = UINT64_MAX;
        status = run_measure(&c, exec, err);
        if (status == KERF_E_DATA) status = bad_element(&c, err);
        if (status == KERF_E_NOMEM && !exec->device) status = out_of_memory(err);
    }
    for (uint64_t i = 0; status == KERF_OK && i < c.slices * c.matrices; i++)
        kerf_stats_merge(&stats[c.first_matrix + i % c.matrices], &c.stats[i]);
    free(c.stats);
    free(c.found);
    return status;
}
