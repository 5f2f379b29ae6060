/* score.c - the error of an encoded tensor, counted on the bytes that are stored: the figures of a
 * score, and a scorer, which adds up what the codecs' loss.h sums over bands, and compresses the
 * codes to see how small they become. */
#include <kerf/loss.h>
#include <kerf/score.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "base/base.h"
#include "base/zstd_level.h"
#include "score/score_rest.h"

#define ZSTD_OUT_BYTES ((size_t)1 << 17)

struct kerf_scorer {
    kerf_geometry geometry;
    const float *importance;
    kerf_score sums;
    uint64_t next; /* band of kerf_scorer_add */
    uint64_t zstd_bytes;
    ZSTD_CCtx *zstd; /* NULL: codes are not compressed     */
    void *zstd_out;  /* what it writes is only counted   */
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
    into->rest_signal += from->rest_signal;
    into->rest_noise += from->rest_noise;
    into->zeroed += from->zeroed;
    into->lost_blocks += from->lost_blocks;
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

double kerf_score_rest_t2(const kerf_score *s)
{
    return share(s->rest_noise, s->rest_signal);
}

double kerf_score_zero_share(const kerf_score *s)
{
    return share((double)s->zeroed, (double)s->elements);
}

double kerf_score_lost_share(const kerf_score *s)
{
    return fmin(share(128 * (double)s->lost_blocks, (double)s->elements), 1);
}

double kerf_score_bias(const kerf_score *s)
{
    return share(s->cross, s->signal);
}

double kerf_score_clip_share(const kerf_score *s)
{
    return share((double)s->clipped, (double)s->elements);
}

double kerf_score_sqnr_db(const kerf_score *s)
{
    return 0 - 10 * log10(kerf_score_t2(s)); /* 0 of t2 1, not -0 */
}

/* --- some bands ---------------------------------------------------------------------------- */

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
        s->zstd_bytes += out.pos;
        if (end == ZSTD_e_end ? left == 0 : in.pos == in.size) return KERF_OK;
    }
}

kerf_status kerf_score_bands(const kerf_geometry *g, uint64_t b0, uint64_t b1,
                             const kerf_cspan planes[KERF_PLANES], kerf_cspan src, kerf_dtype dtype,
                             const float *importance, const kerf_exec *exec, kerf_score *out,
                             kerf_error *err)
{
    if (b0 > b1 || b1 > g->bands) {
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "bands are outside of the tensor");
    }
    if (dtype != KERF_F32 && dtype != KERF_F16 && dtype != KERF_BF16) {
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "cannot score against %s, only F32, F16, BF16", kerf_dtype_name(dtype));
    }
    const uint64_t elements = kerf_band_elements(g, b0, b1).count;
    if (src.n < elements * (kerf_dtype_bits(dtype) / 8)) {
        return kf_fail(err, KERF_E_BUFFER, KF_NOWHERE, "the source is shorter than its bands");
    }
    kerf_loss loss;
    KF_TRY(kerf_find_loss(g, b0, b1, planes, src, dtype, importance, exec, &loss, err));
    *out = (kerf_score){
        .elements = elements,
        .clipped = loss.clipped,
        .nonfinite = loss.nonfinite,
        .signal = loss.signal,
        .noise = loss.noise,
        .cross = loss.cross,
        .weighted_signal = loss.weighted_signal,
        .weighted_noise = loss.weighted_noise,
        .max_error = loss.worst,
        .rest_signal = loss.signal,
        .rest_noise = loss.noise,
    };
    const kf_rest_job rest = {g, b0, b1, planes, src, dtype};
    return kf_score_rest(&rest, out, err);
}

uint64_t kerf_score_run(const kerf_geometry *g)
{
    if (g->bands == 0 || g->rows % g->band_rows != 0) return 0;
    return kerf_loss_run(g, 0, g->bands);
}

kerf_status kerf_scorer_merge(kerf_scorer *s, const kerf_score *bands, kerf_cspan codes,
                              kerf_error *err)
{
    kerf_score_merge(&s->sums, bands);
    return s->zstd ? compress(s, codes, ZSTD_e_continue, err) : KERF_OK;
}

kerf_status kerf_scorer_add(kerf_scorer *s, uint64_t b0, uint64_t b1,
                            const kerf_cspan planes[KERF_PLANES], kerf_cspan src, kerf_dtype dtype,
                            const kerf_exec *exec, kerf_error *err)
{
    kerf_score bands;
    if (b0 != s->next)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "band %llu is added, and %llu is the next one",
                       (unsigned long long)b0, (unsigned long long)s->next);
    KF_TRY(kerf_score_bands(&s->geometry, b0, b1, planes, src, dtype, s->importance, exec, &bands,
                            err));
    s->next = b1;
    return kerf_scorer_merge(s, &bands, planes[KERF_PLANE_CODES], err);
}

/* --- open, finish, close ------------------------------------------------------------------- */

static kerf_status open_zstd(kerf_scorer *s, int level, kerf_error *err)
{
    KF_TRY(kf_check_zstd_level(level, err));
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
    kerf_status status = opt && opt->zstd_level ? open_zstd(s, opt->zstd_level, err) : KERF_OK;
    if (status != KERF_OK) {
        kerf_scorer_close(s);
        return status;
    }
    *out = s;
    return KERF_OK;
}

kerf_status kerf_scorer_reopen(kerf_scorer *s, const kerf_geometry *g,
                               const kerf_scorer_options *opt, kerf_error *err)
{
    s->geometry = *g;
    s->importance = opt ? opt->importance : NULL;
    s->sums = (kerf_score){0};
    s->next = 0;
    s->zstd_bytes = 0;
    if (!s->zstd) return KERF_OK;
    const size_t reset = ZSTD_CCtx_reset(s->zstd, ZSTD_reset_session_only);
    if (!ZSTD_isError(reset)) return KERF_OK;
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "zstd: %s", ZSTD_getErrorName(reset));
}

kerf_status kerf_scorer_finish(kerf_scorer *s, kerf_score *out, kerf_error *err)
{
    if (s->zstd) KF_TRY(compress(s, (kerf_cspan){NULL, 0}, ZSTD_e_end, err));
    *out = s->sums;
    out->bytes = s->geometry.bytes;
    out->code_bytes = s->geometry.plane[KERF_PLANE_CODES].bytes;
    out->zstd_bytes = s->zstd_bytes;
    return KERF_OK;
}

void kerf_scorer_close(kerf_scorer *s)
{
    if (!s) return;
    ZSTD_freeCCtx(s->zstd);
    free(s->zstd_out);
    free(s);
}
