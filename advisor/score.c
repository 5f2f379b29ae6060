/* score.c - the error of an encoded tensor, counted on the bytes that are stored.
 *
 * Bands are decoded a slice at a time; a slice is cut into chunks of CHUNK elements, each chunk is
 * summed on its own in LANES partial sums, and chunks are added up in order. Slices and chunks are
 * cut by the shape of the tensor alone, so the sums do not depend on the number of threads. */
#include <kerf/advisor.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "base/base.h"
#include "scalar/minifloat.h"

enum { CHUNK = 16384, LANES = 8, STEP = 256 };
#define SLICE_ELEMENTS (UINT64_C(1) << 20)
#define ZSTD_OUT_BYTES ((size_t)1 << 17)

struct kerf_scorer {
    kerf_geometry geometry;
    const float *importance;
    uint64_t columns;
    kerf_score sum;
    uint64_t slice_bands;
    float *decoded;    /* one slice                        */
    kerf_score *chunk; /* one per chunk of a slice         */
    ZSTD_CCtx *zstd;   /* NULL: no compression asked for   */
    void *zstd_out;    /* what it writes is only counted   */
};

/* --- figures ------------------------------------------------------------------------------- */

void kerf_score_merge(kerf_score *into, const kerf_score *from)
{
    into->elements += from->elements;
    into->bytes += from->bytes;
    into->clipped += from->clipped;
    into->nonfinite += from->nonfinite;
    into->signal += from->signal;
    into->noise += from->noise;
    into->cross += from->cross;
    into->weighted_signal += from->weighted_signal;
    into->weighted_noise += from->weighted_noise;
    if (from->max_error > into->max_error) into->max_error = from->max_error;
    into->code_bytes += from->code_bytes;
    into->zstd_bytes += from->zstd_bytes;
}

/* a / b, where nothing lost of nothing is no loss. */
static double share(double a, double b)
{
    return a == 0 ? 0 : a / b;
}

double kerf_score_bpw(const kerf_score *s)
{
    return share(8 * (double)s->bytes, (double)s->elements);
}

double kerf_score_t2(const kerf_score *s)
{
    return share(s->noise, s->signal);
}

double kerf_score_weighted_t2(const kerf_score *s)
{
    if (s->weighted_signal == 0 && s->weighted_noise == 0) return NAN;
    return share(s->weighted_noise, s->weighted_signal);
}

double kerf_score_bias(const kerf_score *s)
{
    return share(s->cross, s->signal);
}

double kerf_score_clip_share(const kerf_score *s)
{
    return share((double)s->clipped, (double)s->elements);
}

/* --- one chunk ----------------------------------------------------------------------------- */

static void widen(const unsigned char *src, kerf_dtype dtype, size_t n, float *out)
{
    if (dtype == KERF_F32) {
        memcpy(out, src, n * 4);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint16_t bits;
        memcpy(&bits, src + 2 * i, 2);
        out[i] = dtype == KERF_F16 ? kf_f16_decode(bits) : kf_bf16_decode(bits);
    }
}

/* Two lanes in one register, which every processor has. */
typedef double pair __attribute__((vector_size(16)));
typedef float float_pair __attribute__((vector_size(8)));
typedef int64_t pair_mask __attribute__((vector_size(16)));
enum { PAIRS = LANES / 2 };

typedef struct sums {
    pair signal[PAIRS], noise[PAIRS], cross[PAIRS], worst[PAIRS];
    uint64_t nonfinite;
} sums;

static pair pair_at(const float *p)
{
    float_pair f;
    memcpy(&f, p, sizeof f);
    return __builtin_convertvector(f, pair);
}

static pair larger(pair a, pair b)
{
    pair_mask first = a > b;
    return (pair)(((pair_mask)a & first) | ((pair_mask)b & ~first));
}

/* Adds a step of elements, of which those that are not finite count as zeros. */
static void add_step(const float *restrict w, const float *restrict v, size_t n, sums *sum)
{
    float a[STEP], b[STEP];
    uint32_t nonfinite = 0;
    for (size_t i = 0; i < n; i++) {
        int known = kf_is_finite(w[i]), finite = known & kf_is_finite(v[i]);
        a[i] = finite ? w[i] : 0;
        b[i] = finite ? v[i] : 0;
        nonfinite += (uint32_t)(known & !finite);
    }
    sum->nonfinite += nonfinite;
    for (size_t i = n; i < STEP; i++) a[i] = b[i] = 0;
    for (size_t i = 0; i < STEP; i += LANES) {
        for (size_t k = 0; k < PAIRS; k++) {
            pair x = pair_at(a + i + 2 * k), d = pair_at(b + i + 2 * k) - x;
            sum->signal[k] += x * x;
            sum->noise[k] += d * d;
            sum->cross[k] += d * x;
            sum->worst[k] = larger(larger(d, -d), sum->worst[k]);
        }
    }
}

/* Element i goes to lane i % LANES; lanes are added in order at the end. */
static void compare(const float *w, const float *v, size_t n, kerf_score *out)
{
    sums sum;
    memset(&sum, 0, sizeof sum);
    for (size_t i = 0; i < n; i += STEP) add_step(w + i, v + i, n - i < STEP ? n - i : STEP, &sum);
    *out = (kerf_score){.elements = n, .nonfinite = sum.nonfinite};
    for (size_t k = 0; k < LANES; k++) {
        out->signal += sum.signal[k / 2][k % 2];
        out->noise += sum.noise[k / 2][k % 2];
        out->cross += sum.cross[k / 2][k % 2];
        double worst = sum.worst[k / 2][k % 2];
        if (worst > out->max_error) out->max_error = worst;
    }
}

/* The same sums, each column by its importance; `column` is that of the first element. */
static void compare_weighted(const float *w, const float *v, size_t n, const kerf_scorer *s,
                             uint64_t column, kerf_score *out)
{
    for (size_t i = 0; i < n; i++) {
        double h = s->importance[column];
        double x = (double)w[i], d = (double)v[i] - x;
        if (++column == s->columns) column = 0;
        if (!kf_is_finite(v[i]) || !kf_is_finite(w[i])) continue;
        out->weighted_signal += h * (x * x);
        out->weighted_noise += h * (d * d);
    }
}

typedef struct slice_job {
    kerf_scorer *scorer;
    const unsigned char *src; /* of the slice            */
    kerf_dtype dtype;
    uint64_t first, count; /* elements of the slice   */
    const kerf_exec *exec;
} slice_job;

static kerf_status score_chunk(void *ctx, uint64_t i)
{
    const slice_job *job = (const slice_job *)ctx;
    kerf_scorer *s = job->scorer;
    float w[CHUNK];
    uint64_t begin = i * CHUNK;
    size_t n = (size_t)kf_min_u64(CHUNK, job->count - begin);
    const float *v = s->decoded + begin;
    widen(job->src + begin * (kerf_dtype_bits(job->dtype) / 8), job->dtype, n, w);
    compare(w, v, n, &s->chunk[i]);
    if (s->importance) {
        compare_weighted(w, v, n, s, (job->first + begin) % s->columns, &s->chunk[i]);
    }
    return KERF_OK;
}

/* --- slices -------------------------------------------------------------------------------- */

/* The part of `planes` (which begin at band b0) that belongs to bands [s0, s1). */
static void cut_planes(const kerf_geometry *g, uint64_t b0, uint64_t s0, uint64_t s1,
                       const kerf_cspan planes[KERF_PLANES], kerf_cspan out[KERF_PLANES])
{
    for (int p = 0; p < KERF_PLANES; p++) {
        out[p] = planes[p];
        if (g->plane[p].dtype == KERF_DTYPE_NONE || g->plane[p].band_bytes == 0) continue;
        uint64_t base = kerf_band_bytes(g, (kerf_plane_id)p, b0, b0).offset;
        kerf_extent e = kerf_band_bytes(g, (kerf_plane_id)p, s0, s1);
        out[p].p = (const unsigned char *)planes[p].p + (e.offset - base);
        out[p].n = (size_t)e.count;
    }
}

static kerf_status score_slice(slice_job *job, uint64_t s0, uint64_t s1,
                               const kerf_cspan planes[KERF_PLANES], kerf_error *err)
{
    kerf_scorer *s = job->scorer;
    const kerf_exec *exec = job->exec;
    kerf_span out = {s->decoded, (size_t)job->count * sizeof(float)};
    kerf_cspan src = {job->src, (size_t)job->count * (kerf_dtype_bits(job->dtype) / 8)};
    uint64_t clipped = 0;
    KF_TRY(kerf_decode(&s->geometry, s0, s1, planes, out, KERF_F32, exec, err));
    KF_TRY(kerf_count_clipped(&s->geometry, s0, s1, planes, src, job->dtype, exec, &clipped, err));
    uint64_t chunks = kf_div_up(job->count, CHUNK);
    KF_TRY(kf_parallel(chunks, exec ? exec->threads : 0, score_chunk, job));
    for (uint64_t i = 0; i < chunks; i++) kerf_score_merge(&s->sum, &s->chunk[i]);
    s->sum.clipped += clipped;
    return KERF_OK;
}

static kerf_status compress(kerf_scorer *s, kerf_cspan codes, ZSTD_EndDirective end,
                            kerf_error *err)
{
    ZSTD_inBuffer in = {codes.p, codes.n, 0};
    for (;;) {
        ZSTD_outBuffer out = {s->zstd_out, ZSTD_OUT_BYTES, 0};
        size_t left = ZSTD_compressStream2(s->zstd, &out, &in, end);
        if (ZSTD_isError(left)) {
            return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "zstd: %s", ZSTD_getErrorName(left));
        }
        s->sum.zstd_bytes += out.pos;
        if (end == ZSTD_e_end ? left == 0 : in.pos == in.size) return KERF_OK;
    }
}

kerf_status kerf_scorer_add(kerf_scorer *s, uint64_t b0, uint64_t b1,
                            const kerf_cspan planes[KERF_PLANES], kerf_cspan src, kerf_dtype dtype,
                            const kerf_exec *exec, kerf_error *err)
{
    const kerf_geometry *g = &s->geometry;
    if (b0 > b1 || b1 > g->bands) {
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "bands are outside of the tensor");
    }
    if (dtype != KERF_F32 && dtype != KERF_F16 && dtype != KERF_BF16) {
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "cannot score against %s, only F32, F16, BF16", kerf_dtype_name(dtype));
    }
    const uint64_t first = kerf_band_elements(g, b0, b1).offset;
    const unsigned size = kerf_dtype_bits(dtype) / 8;
    if (src.n < kerf_band_elements(g, b0, b1).count * size) {
        return kf_fail(err, KERF_E_BUFFER, KF_NOWHERE, "the source is shorter than its bands");
    }
    for (uint64_t s0 = b0; s0 < b1; s0 += s->slice_bands) {
        uint64_t s1 = kf_min_u64(b1, s0 + s->slice_bands);
        kerf_extent e = kerf_band_elements(g, s0, s1);
        kerf_cspan part[KERF_PLANES];
        cut_planes(g, b0, s0, s1, planes, part);
        slice_job job = {s,       (const unsigned char *)src.p + (e.offset - first) * size,
                         dtype,   e.offset,
                         e.count, exec};
        KF_TRY(score_slice(&job, s0, s1, part, err));
    }
    if (s->zstd) return compress(s, planes[KERF_PLANE_CODES], ZSTD_e_continue, err);
    return KERF_OK;
}

/* --- open, finish, close ------------------------------------------------------------------- */

static kerf_status open_zstd(kerf_scorer *s, int level, kerf_error *err)
{
    s->zstd = ZSTD_createCCtx();
    s->zstd_out = kf_alloc(ZSTD_OUT_BYTES, 1);
    if (!s->zstd || !s->zstd_out) {
        return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory to compress");
    }
    size_t set = ZSTD_CCtx_setParameter(s->zstd, ZSTD_c_compressionLevel, level);
    if (!ZSTD_isError(set)) return KERF_OK;
    return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "zstd level %d: %s", level, ZSTD_getErrorName(set));
}

kerf_status kerf_scorer_open(const kerf_geometry *g, const kerf_scorer_options *opt,
                             kerf_scorer **out, kerf_error *err)
{
    *out = NULL;
    kerf_scorer *s = (kerf_scorer *)kf_alloc_zero(1, sizeof *s);
    if (!s) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a scorer");
    s->geometry = *g;
    s->importance = opt ? opt->importance : NULL;
    s->columns = g->shape.rank ? g->shape.dim[g->shape.rank - 1] : 1;
    uint64_t band = g->bands ? kerf_band_elements(g, 0, 1).count : 1;
    s->slice_bands = band && band < SLICE_ELEMENTS ? SLICE_ELEMENTS / band : 1;
    uint64_t slice = kf_min_u64(s->slice_bands * band, g->elements);
    s->decoded = (float *)kf_alloc(slice ? slice : 1, sizeof *s->decoded);
    s->chunk = (kerf_score *)kf_alloc(kf_div_up(slice, CHUNK) + 1, sizeof *s->chunk);
    kerf_status status = KERF_OK;
    if (!s->decoded || !s->chunk) {
        status = kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a scorer");
    } else if (opt && opt->zstd_level) {
        status = open_zstd(s, opt->zstd_level, err);
    }
    if (status != KERF_OK) {
        kerf_scorer_close(s);
        return status;
    }
    *out = s;
    return KERF_OK;
}

kerf_status kerf_scorer_finish(kerf_scorer *s, kerf_score *out, kerf_error *err)
{
    if (s->zstd) KF_TRY(compress(s, (kerf_cspan){NULL, 0}, ZSTD_e_end, err));
    s->sum.bytes = s->geometry.bytes;
    s->sum.code_bytes = s->geometry.plane[KERF_PLANE_CODES].bytes;
    *out = s->sum;
    return KERF_OK;
}

void kerf_scorer_close(kerf_scorer *s)
{
    if (!s) return;
    ZSTD_freeCCtx(s->zstd);
    free(s->zstd_out);
    free(s->decoded);
    free(s->chunk);
    free(s);
}
