/* enqueue.c - a range of bands in device memory becomes jobs and launches. */
#include "block/encoder.h"
#include "block/scale.h"
#include "cuda/handle.h"
#include "format/format.h"

/* A search holds its elements as fp32: this many at a time. */
#define SLAB_ELEMENTS (UINT64_C(1) << 26)

const kf_launches *kf_launches_of(const kerf_format *f)
{
    static const kf_launches *const table[] = {
#define KERF_FORMAT(ID, ...) &kf_launches_##ID,
#include <kerf/formats.def>
#undef KERF_FORMAT
    };
    return table[kf_format_index(f)];
}

/* --- jobs ------------------------------------------------------------------------------------- */

/* Rows end with a whole group, and zero points with a whole byte: rows can be run together. */
static int is_seamless(const kerf_geometry *g)
{
    const kerf_format *f = g->format;
    switch (f->geometry) {
    case KERF_GROUP_BLOCK:
        return g->cols % f->group == 0 &&
               (f->zero != KERF_ZERO_CODE || g->band_groups * f->bits % 8 == 0);
    case KERF_GROUP_ROW:
    case KERF_GROUP_TILE: return 0;
    default: return 1;
    }
}

/* Bands [s0, s1) of a range as `lines` runs, or, when lines is 0, as its rows. */
static kf_job job_of(kf_lane *l, const kf_range *r, uint64_t s0, uint64_t s1, uint64_t lines)
{
    const kerf_geometry *g = r->g;
    const kerf_format *f = g->format;
    uint64_t count = kerf_band_elements(g, s0, s1).count, matrix0 = r->b0 / g->bands_per_matrix;
    kf_job j = {.dtype = r->dtype, .nan = r->nan, .word = l->word};
    j.bands = s1 - s0;
    j.first_band = s0;
    j.bands_per_matrix = g->bands_per_matrix;
    j.offset = kerf_band_elements(g, r->b0, s0).count;
    j.dense = r->dense + j.offset * (kerf_dtype_bits(r->dtype) / 8);
    j.tensors = (kf_tensor *)l->tensors.p + (s0 / g->bands_per_matrix - matrix0);
    for (int p = 0; p < KERF_PLANES; p++) {
        if (!r->plane[p]) continue;
        uint64_t skip = kerf_band_bytes(g, (kerf_plane_id)p, r->b0, s0).count;
        if (g->plane[p].per_matrix)
            skip = (s0 / g->bands_per_matrix - matrix0) * (g->plane[p].bytes / g->matrices);
        j.plane[p] = r->plane[p] + skip;
    }
    if (lines) {
        j.lines = lines;
        j.width = count / lines;
        j.lines_per_matrix = 1;
        j.groups = f->group ? kf_div_up(j.width, f->group) : 1;
        j.code_bytes = kerf_band_bytes(g, KERF_PLANE_CODES, s0, s1).count / lines;
        j.zero_bytes = kf_div_up(j.groups * f->bits, 8);
    } else {
        j.lines = count / g->cols;
        j.width = g->cols;
        j.lines_per_matrix = g->rows;
        j.first_line = s0 % g->bands_per_matrix * g->band_rows;
        j.groups = g->band_groups;
        j.code_bytes = g->plane[KERF_PLANE_CODES].band_bytes / g->band_rows;
        j.zero_bytes = kf_div_up(j.groups * f->bits, 8);
    }
    return j;
}

kf_job kf_rows_job(kf_lane *l, const kf_range *r)
{
    return job_of(l, r, r->b0, r->b1, 0);
}

/* Bands from s on that make one job when lines must not cross matrices: the rest of a matrix, or
 * as many whole matrices as follow. */
static uint64_t matrices_from(const kerf_geometry *g, uint64_t s, uint64_t end, uint64_t *lines)
{
    uint64_t whole = g->bands_per_matrix, rest = whole - s % whole;
    *lines = 1;
    if (rest < whole || end - s < whole) return kf_min_u64(end, s + rest);
    *lines = (end - s) / whole;
    return s + *lines * whole;
}

static int is_by_matrix(const kerf_format *f)
{
    return f->geometry == KERF_GROUP_TENSOR || f->second == KERF_SECOND_TENSOR;
}

typedef cudaError_t (*launch)(const kf_launches *of, const kf_job *j, cudaStream_t s);

/* Launches over bands [s0, s1) of a range. `as`: what all jobs have in common. */
static kerf_status launch_all(kf_lane *l, const kf_range *r, uint64_t s0, uint64_t s1,
                              const kf_job *as, launch go, kerf_error *err)
{
    const kerf_geometry *g = r->g;
    uint64_t end;
    for (uint64_t s = s0; s < s1; s = end) {
        uint64_t lines = is_seamless(g) ? 1 : 0;
        end = lines && is_by_matrix(g->format) ? matrices_from(g, s, s1, &lines) : s1;
        kf_job j = job_of(l, r, s, end, lines);
        j.encoder = as->encoder;
        j.floats = as->floats;
        j.chosen = as->chosen;
        KF_CUDA(go(kf_launches_of(g->format), &j, l->stream), "starting a kernel");
    }
    return KERF_OK;
}

static cudaError_t encode_job(const kf_launches *of, const kf_job *j, cudaStream_t s)
{
    return of->encode(j, s);
}
static cudaError_t search_job(const kf_launches *of, const kf_job *j, cudaStream_t s)
{
    cudaError_t e = of->search(j, s);
    return e == cudaSuccess ? of->encode(j, s) : e;
}
static cudaError_t decode_job(const kf_launches *of, const kf_job *j, cudaStream_t s)
{
    return of->decode(j, s);
}
static cudaError_t clip_job(const kf_launches *of, const kf_job *j, cudaStream_t s)
{
    return of->clip(j, s);
}

/* --- measure ---------------------------------------------------------------------------------- */

/* Statistics know no groups, save for flat formats: any matrix is one line. */
kerf_status kf_enqueue_measure(kf_lane *l, const kf_range *r, kerf_stats *stats, kerf_error *err)
{
    uint64_t end, lines;
    for (uint64_t s = r->b0; s < r->b1; s = end) {
        end = matrices_from(r->g, s, r->b1, &lines);
        kf_job j = job_of(l, r, s, end, lines);
        j.stats = stats + (s / r->g->bands_per_matrix - r->b0 / r->g->bands_per_matrix);
        KF_CUDA(kf_launches_of(r->g->format)->measure(&j, l->stream), "starting a kernel");
    }
    return KERF_OK;
}

/* --- encode ----------------------------------------------------------------------------------- */

kerf_status kf_enqueue_prepare(kf_lane *l, const kf_range *r, int encoder, const kerf_stats *stats,
                               kerf_error *err)
{
    KF_TRY(kf_grow_device(l, &l->tensors, r->matrices * sizeof(kf_tensor), err));
    kf_job j = job_of(l, r, r->b0, r->b1, 0);
    j.encoder = encoder;
    j.stats = (kerf_stats *)(uintptr_t)stats;
    KF_CUDA(kf_launches_of(r->g->format)->prepare(&j, r->matrices, l->stream), "starting a kernel");
    return KERF_OK;
}

/* As many bands from s on as a slab holds; at least one. */
static uint64_t slab_end(const kf_range *r, uint64_t s)
{
    uint64_t band = r->g->band_rows * r->g->band_cols;
    uint64_t n = band && band < SLAB_ELEMENTS ? SLAB_ELEMENTS / band : 1;
    return kf_min_u64(r->b1, s + n);
}

/* Bands whose scales are searched first, in slabs: floats and chosen scales serve job after job. */
static kerf_status encode_searched(kf_lane *l, const kf_range *r, kf_job *as, kerf_error *err)
{
    uint64_t end;
    for (uint64_t s = r->b0; s < r->b1; s = end) {
        end = slab_end(r, s);
        uint64_t count = kerf_band_elements(r->g, s, end).count;
        uint64_t groups = r->g->band_groups * (end - s);
        KF_TRY(kf_grow_device(l, &l->floats, count * sizeof(float), err));
        KF_TRY(kf_grow_device(l, &l->chosen, groups * sizeof(kf_scale), err));
        as->floats = l->floats.p;
        as->chosen = l->chosen.p;
        KF_TRY(launch_all(l, r, s, end, as, search_job, err));
    }
    return KERF_OK;
}

kerf_status kf_enqueue_encode(kf_lane *l, const kf_range *r, int encoder, const kerf_stats *stats,
                              kerf_error *err)
{
    kf_job as = {.encoder = encoder};
    if (r->b0 == r->b1) return KERF_OK;
    if (kerf_needs_stats(r->g)) KF_TRY(kf_enqueue_prepare(l, r, encoder, stats, err));
    if (kf_is_search(KERF_FAMILY_NONE, encoder)) return encode_searched(l, r, &as, err);
    if (r->g->format->second == KERF_SECOND_NESTED) {
        uint64_t groups = r->g->band_groups * (r->b1 - r->b0);
        KF_TRY(kf_grow_device(l, &l->floats, groups * sizeof(float), err));
        as.floats = l->floats.p;
    }
    return launch_all(l, r, r->b0, r->b1, &as, encode_job, err);
}

/* --- decode, clip ----------------------------------------------------------------------------- */

kerf_status kf_enqueue_decode(kf_lane *l, const kf_range *r, kerf_error *err)
{
    kf_job none = {0};
    return launch_all(l, r, r->b0, r->b1, &none, decode_job, err);
}

kerf_status kf_enqueue_clip(kf_lane *l, const kf_range *r, kerf_error *err)
{
    kf_job none = {0};
    return launch_all(l, r, r->b0, r->b1, &none, clip_job, err);
}

/* --- the public calls ------------------------------------------------------------------------- */

static kerf_status check_one(kerf_span have, uint64_t need, unsigned align, const char *what,
                             kerf_error *err)
{
    if (have.n < need)
        return kf_fail(err, KERF_E_BUFFER, KF_NOWHERE, "%s has %zu bytes, needs %llu", what, have.n,
                       (unsigned long long)need);
    if ((uintptr_t)have.p % align != 0)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "%s is not aligned to %u bytes", what, align);
    return KERF_OK;
}

/* Numbers to codes: not of blocks of two levels. */
static kerf_status check_encodes(const kerf_format *f, kerf_error *err)
{
    if (kf_launches_of(f)->encode) return KERF_OK;
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                   "a GPU decodes %s and does not encode it; kerf_encode does, on the processor",
                   f->name);
}

/* Checks device operands and makes a range of them. */
static kerf_status range_of(const kerf_device_bands *b, kf_range *out, kerf_error *err)
{
    const kerf_geometry *g = b->geometry;
    unsigned size = kerf_dtype_bits(b->dtype) / 8;
    if (b->b0 > b->b1 || b->b1 > g->bands)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "bands [%llu, %llu) of %llu",
                       (unsigned long long)b->b0, (unsigned long long)b->b1,
                       (unsigned long long)g->bands);
    if (b->dtype != KERF_F32 && b->dtype != KERF_F16 && b->dtype != KERF_BF16)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "numbers of type %s cannot be converted; F32, F16 and BF16 can",
                       kerf_dtype_name(b->dtype));
    uint64_t elements = kerf_band_elements(g, b->b0, b->b1).count;
    KF_TRY(check_one(b->dense, elements * size, size, "the dense side", err));
    kf_range r = {
        .g = g, .b0 = b->b0, .b1 = b->b1, .dense = b->dense.p, .dtype = b->dtype, .nan = b->nan};
    uint64_t first = b->b1 > b->b0 ? b->b0 / g->bands_per_matrix : 0;
    if (b->b1 > b->b0) r.matrices = (b->b1 - 1) / g->bands_per_matrix - first + 1;
    for (int p = 0; p < KERF_PLANES; p++) {
        const kerf_plane *plane = &g->plane[p];
        if (plane->dtype == KERF_DTYPE_NONE) continue;
        unsigned align = p == KERF_PLANE_CODES ? 1 : kerf_dtype_bits(plane->dtype) / 8;
        uint64_t need = kerf_band_bytes(g, (kerf_plane_id)p, b->b0, b->b1).count;
        KF_TRY(check_one(b->plane[p], need, align ? align : 1, "a plane", err));
        r.plane[p] = b->plane[p].p;
        if (plane->per_matrix && r.plane[p]) r.plane[p] += first * (plane->bytes / g->matrices);
    }
    *out = r;
    return KERF_OK;
}

kerf_status kerf_device_measure(kerf_device *d, const kerf_device_bands *b, kerf_stats *stats,
                                kerf_error *err)
{
    kf_range r;
    KF_TRY(check_encodes(b->geometry->format, err));
    KF_TRY(range_of(b, &r, err));
    KF_CUDA(cudaSetDevice(kf_gpu_of(d)->ordinal), "choosing a GPU");
    return r.matrices ? kf_enqueue_measure(&kf_gpu_of(d)->lane[0], &r,
                                           stats + b->b0 / b->geometry->bands_per_matrix, err)
                      : KERF_OK;
}

kerf_status kerf_device_encode(kerf_device *d, const kerf_device_bands *b,
                               const kerf_encoder *encoder, const kerf_stats *stats,
                               kerf_error *err)
{
    kf_range r;
    KF_TRY(check_encodes(b->geometry->format, err));
    KF_TRY(range_of(b, &r, err));
    KF_TRY(kf_encoder_check(b->geometry->format, encoder, b->dtype, err));
    if (kerf_needs_stats(b->geometry) && !stats)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "%s needs kerf_device_measure first",
                       b->geometry->format->name);
    KF_CUDA(cudaSetDevice(kf_gpu_of(d)->ordinal), "choosing a GPU");
    if (!r.matrices) return KERF_OK;
    if (stats) stats += b->b0 / b->geometry->bands_per_matrix;
    return kf_enqueue_encode(&kf_gpu_of(d)->lane[0], &r, (int)encoder->id, stats, err);
}

kerf_status kerf_device_decode(kerf_device *d, const kerf_device_bands *b, kerf_error *err)
{
    kf_range r;
    KF_TRY(range_of(b, &r, err));
    KF_CUDA(cudaSetDevice(kf_gpu_of(d)->ordinal), "choosing a GPU");
    return r.matrices ? kf_enqueue_decode(&kf_gpu_of(d)->lane[0], &r, err) : KERF_OK;
}
