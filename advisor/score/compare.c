/* compare.c - measures or compares two weights, panel by panel. */
#include "score/compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "stream/scale_tally.h"
#include "score/run_sums.h"
#include "stream/crew.h"
#include "stream/values_seen.h"

static void note(kerf_verify_row *c, const char *fmt, unsigned long long at)
{
    if (!c->problem[0]) snprintf(c->problem, sizeof c->problem, fmt, at);
}

/* First byte at which a and b differ, or n. */
static size_t first_difference(const unsigned char *a, const unsigned char *b, size_t n)
{
    size_t i = 0;
    if (memcmp(a, b, n) == 0) return n;
    while (a[i] == b[i]) i++;
    return i;
}

/* --- measured ------------------------------------------------------------------------------ */

typedef struct measure_compare {
    const kf_compare_job *job;
    const kerf_verify_row *pair;
    const kerf_weight *other; /* as quantized; a dense one as codes of a plain format */
    kerf_geometry geometry;   /* of it */
    kf_stream *stream;
    kf_run_sums sums;
    kf_turns turns;
    kerf_exec exec; /* of one call */
} measure_compare;

static kerf_status measure_read(void *ctx, kf_panel *p, kerf_error *err)
{
    const measure_compare *r = ctx;
    KF_TRY(kf_read_dense(r->job->source, kerf_weight_dense(r->pair->weight), &r->geometry, p, err));
    return kf_read_planes(r->job->other, r->other, p, err);
}

static kerf_status measure_runs(const measure_compare *r, const kf_panel *p,
                                kerf_score run[KF_MOST_RUNS], kerf_error *err)
{
    kf_panel at;
    for (size_t i = 0; kf_run_at(&r->sums, p, i, &at); i++)
        KF_TRY(kf_run_score(&r->sums, &at, kerf_weight_dense(r->pair->weight)->dtype, NULL,
                            &r->exec, &run[i], err));
    return KERF_OK;
}

static kerf_status measure_work(void *ctx, kf_panel *p, kerf_error *err)
{
    measure_compare *r = ctx;
    kerf_score run[KF_MOST_RUNS];
    kerf_status s = measure_runs(r, p, run, err);
    KF_TRY(kf_work_add(r->job->progress, p->dense.n, err));
    if (s != KERF_OK || !kf_turns_wait(&r->turns, 0, p->index)) return s;
    s = kf_run_sums_add(&r->sums, r->stream, p, run, (kerf_cspan){NULL, 0}, err);
    kf_turns_pass(&r->turns, 0);
    return s;
}

static void measure_lost(void *ctx, uint64_t index)
{
    measure_compare *r = ctx;
    kf_turns_fail(&r->turns, index);
}

/* Some workers share the parts of a tensor; a GPU, which one caller at a time may use, takes panel
 * after panel. */
static kerf_status open_measured(measure_compare *r, kerf_error *err)
{
    const kerf_geometry *g = &r->geometry;
    const kerf_exec *exec = r->job->exec;
    const kerf_dtype dtype = kerf_weight_dense(r->pair->weight)->dtype;
    const unsigned workers = exec->device ? 0 : kf_stream_crew_size(exec->threads);
    r->exec = *exec;
    r->sums.geometry = g;
    KF_TRY(kf_turns_open(&r->turns, 1, err));
    KF_TRY(kerf_scorer_open(g, NULL, &r->sums.scorer, err));
    if (!workers) return kf_stream_open(&r->stream, g, dtype, err);
    r->sums.run = kerf_score_run(g);
    KF_TRY(kf_stream_open_parts(&r->stream, g, dtype, workers, r->sums.run, 0, err));
    if (kf_stream_slots(r->stream) > 1)
        r->exec.threads = 1;
    else if (workers > 1) /* the tensor is one part: its threads are those of each call */
        r->sums.run = 0;
    return KERF_OK;
}

static kerf_status measure(const kf_compare_job *job, kerf_verify_row *c, const kerf_weight *other,
                           kerf_error *err)
{
    static const kf_steps steps = {measure_read, measure_work, NULL, measure_lost};
    measure_compare r = {
        .job = job, .pair = c, .other = other, .geometry = kerf_weight_geometry(other)};
    kerf_status status = open_measured(&r, err);
    if (status == KERF_OK) status = kf_read_whole_planes(job->other, other, r.stream, err);
    if (status == KERF_OK) status = kf_stream_run(r.stream, &steps, &r, err);
    if (status == KERF_OK) status = kerf_scorer_finish(r.sums.scorer, &c->score, err);
    kerf_scorer_close(r.sums.scorer);
    kf_turns_close(&r.turns);
    kf_stream_close(r.stream);
    c->measured = status == KERF_OK;
    if (c->score.nonfinite)
        note(c, "%llu decoded elements are NaN or infinite", c->score.nonfinite);
    return status;
}

/* A dense weight is measured as if its bytes were the codes of the plain format of its type. */
static kerf_status measure_dense(const kf_compare_job *job, kerf_verify_row *c, kerf_error *err)
{
    static const struct {
        kerf_dtype dtype;
        const char *format;
    } plain[] = {{KERF_F32, "fp32"}, {KERF_F16, "fp16"}, {KERF_BF16, "bf16"}};
    kerf_weight other = *c->other;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        if (plain[i].dtype != other.dtype) continue;
        other.codec.format = kerf_format_find(plain[i].format);
    }
    kerf_geometry g;
    KF_TRY(kerf_geometry_init(&g, other.codec.format, &other.shape, err));
    return measure(job, c, &other, err);
}

static void take_seen(const kf_compare_job *job, const kf_values_seen *seen,
                      const kerf_verify_row *pair)
{
    if (job->nonfinite) *job->nonfinite |= kf_values_are_odd(seen, pair->weight);
}

/* --- equal to the decoding ----------------------------------------------------------------- */

typedef struct decode_compare {
    const kf_compare_job *job;
    kerf_verify_row *pair;
    kerf_geometry geometry; /* of the quantized one */
    kf_values_seen seen;
    kerf_span decoded; /* of one panel, made when the first one shows how large they are */
} decode_compare;

static kerf_status decode_read(void *ctx, kf_panel *p, kerf_error *err)
{
    const decode_compare *r = ctx;
    const kerf_verify_row *c = r->pair;
    KF_TRY(kf_read_planes(r->job->source, c->weight, p, err));
    return kf_read_dense(r->job->other, c->other->plane[0], &r->geometry, p, err);
}

static kerf_status decode_work(void *ctx, kf_panel *p, kerf_error *err)
{
    decode_compare *r = ctx;
    const kerf_geometry *g = &r->geometry;
    kerf_dtype dtype = r->pair->other->dtype;
    kerf_cspan planes[KERF_PLANES];
    kf_planes_of(p, planes);
    if (!r->decoded.p) {
        r->decoded.n = p->dense.n;
        KF_TRY(kf_allocate(&r->decoded.p, p->dense.n, 1, err));
    }
    kerf_span out = {r->decoded.p, p->dense.n};
    KF_TRY(kerf_decode(g, p->u0, p->u1, planes, out, dtype, r->job->exec, err));
    KF_TRY(kf_work_add(r->job->progress, p->dense.n, err));
    kf_values_see(&r->seen, out.p, out.n);
    size_t at = first_difference(out.p, p->dense.p, out.n);
    uint64_t first = kerf_band_elements(g, p->u0, p->u1).offset;
    if (at < out.n) {
        note(r->pair, "is not the decoding of the source: first differs at element %llu",
             first + at / (kerf_dtype_bits(dtype) / 8));
    }
    return KERF_OK;
}

static kerf_status compare_decoded(const kf_compare_job *job, kerf_verify_row *c, kerf_error *err)
{
    static const kf_steps steps = {decode_read, decode_work, NULL, NULL};
    decode_compare r = {.job = job,
                        .pair = c,
                        .geometry = kerf_weight_geometry(c->weight),
                        .seen = {.dtype = c->other->dtype}};
    kf_stream *s = NULL;
    kerf_status status = kf_stream_open(&s, &r.geometry, c->other->dtype, err);
    if (status == KERF_OK) status = kf_read_whole_planes(job->source, c->weight, s, err);
    if (status == KERF_OK) status = kf_stream_run(s, &steps, &r, err);
    free(r.decoded.p);
    kf_stream_close(s);
    take_seen(job, &r.seen, c);
    return status;
}

/* --- equal byte for byte ------------------------------------------------------------------- */

typedef struct bytes_compare {
    const kf_compare_job *job;
    kerf_verify_row *pair;
    kerf_plane_id plane;
    kf_values_seen seen;
    unsigned char *other;
} bytes_compare;

static kerf_status bytes_read(void *ctx, kf_panel *p, kerf_error *err)
{
    const bytes_compare *r = ctx;
    return kerf_weight_read(r->job->source, r->pair->weight, r->plane, p->u0, p->dense.p,
                            p->dense.n, err);
}

static kerf_status bytes_work(void *ctx, kf_panel *p, kerf_error *err)
{
    bytes_compare *r = ctx;
    KF_TRY(kerf_weight_read(r->job->other, r->pair->other, r->plane, p->u0, r->other, p->dense.n,
                            err));
    KF_TRY(kf_work_add(r->job->progress, p->dense.n, err));
    kf_values_see(&r->seen, p->dense.p, p->dense.n);
    size_t at = first_difference(p->dense.p, r->other, p->dense.n);
    if (at < p->dense.n) note(r->pair, "differs from the source at byte %llu", p->u0 + at);
    return KERF_OK;
}

/* One plane. Its room is no larger than the plane: a model may have thousands of small tensors. */
static kerf_status compare_plane(bytes_compare *r, uint64_t bytes, kerf_error *err)
{
    static const kf_steps steps = {bytes_read, bytes_work, NULL, NULL};
    kf_stream *s = NULL;
    KF_TRY(kf_allocate(&r->other, kf_min_u64(bytes, KF_STREAM_PANEL_BYTES), 1, err));
    kerf_status status = kf_stream_open_bytes(&s, bytes, err);
    if (status == KERF_OK) status = kf_stream_run(s, &steps, r, err);
    kf_stream_close(s);
    free(r->other);
    take_seen(r->job, &r->seen, r->pair);
    return status;
}

static kerf_status compare_bytes(const kf_compare_job *job, kerf_verify_row *c, kerf_error *err)
{
    const kerf_weight *w = c->weight;
    const kerf_geometry g = kerf_weight_geometry(w);
    for (kerf_plane_id p = 0; p < KERF_PLANES; p++) {
        if (w->codec.format ? !g.plane[p].dtype : !w->plane[p]) continue;
        bytes_compare r = {.job = job, .pair = c, .plane = p};
        r.seen.dtype = w->codec.format ? g.plane[p].dtype : w->plane[p]->dtype;
        const uint64_t bytes = w->codec.format ? g.plane[p].bytes : w->plane[p]->bytes;
        KF_TRY(compare_plane(&r, bytes, err));
    }
    return KERF_OK;
}

/* --- which of them ------------------------------------------------------------------------- */

/* Blocks of GGUF and planes may hold the same codes and scales. *same is 0 when they do not. */
static kerf_status compare_twins(const kf_compare_job *job, kerf_verify_row *out, int *same,
                                 kerf_error *err)
{
    kerf_weight a = *out->weight, b = *out->other;
    unsigned foreign;
    KF_TRY(kerf_weight_fit(job->source, out->other->layout, &a, &foreign, err));
    KF_TRY(kerf_weight_fit(job->other, out->weight->layout, &b, &foreign, err));
    *same = a.codec.format == b.codec.format;
    if (!*same) return KERF_OK;
    kerf_verify_row pair = *out;
    pair.weight = &a;
    pair.other = &b;
    kerf_status s = compare_bytes(job, &pair, err);
    memcpy(out->problem, pair.problem, sizeof out->problem);
    return s;
}

/* One block whose sign is wrong, or a NaN where nothing was, is too little for any limit on sums,
 * and ruins a model all the same. */
static kerf_status check_scales(const kf_compare_job *job, kerf_verify_row *out, kerf_error *err)
{
    for (kerf_plane_id p = KERF_PLANE_SCALES; p <= KERF_PLANE_SECOND; p++) {
        kf_scale_tally t;
        if (!out->other->plane[p]) continue;
        KF_TRY(kf_tally_scales(job->other, out->other, p, NULL, &t, err));
        if (t.bad) note(out, "has a scale that is NaN or infinite, number %llu", t.first_bad);
        if (t.negative) note(out, "has a negative scale, number %llu", t.first_negative);
    }
    return KERF_OK;
}

/* As the layer computes with it: its inputs are multiplied first, which is the same as columns that
 * are. */
static kerf_status measure_smoothed(const kf_compare_job *job, kerf_verify_row *out,
                                    kerf_error *err)
{
    const kerf_weight *other = out->other, dense = {.name = other->name,
                                                    .shape = other->shape,
                                                    .dtype = KERF_F32,
                                                    .plane = {other->decoded}};
    out->other = &dense;
    const kerf_status s = measure_dense(job, out, err);
    out->other = other;
    out->score.bytes = kerf_weight_bytes(other);
    return s;
}

static kerf_status measure_codes(const kf_compare_job *job, kerf_verify_row *out, kerf_error *err)
{
    if (out->other->decoded && kerf_weight_smoothing(job->other, out->other))
        return measure_smoothed(job, out, err);
    return measure(job, out, out->other, err);
}

static kerf_status measure_encoded(const kf_compare_job *job, kerf_verify_row *out, kerf_error *err)
{
    KF_TRY(measure_codes(job, out, err));
    KF_TRY(check_scales(job, out, err));
    return job->exact ? kf_compare_exactly(job, out, err) : KERF_OK;
}

/* Of which type a weight was before; blocks do not tell. */
static int same_source(const kerf_weight *a, const kerf_weight *b)
{
    return a->dtype == b->dtype ||
           (a->codec.format && (a->plane[0]->block_type || b->plane[0]->block_type));
}

/* Into the format that it had: another encoder chose other bytes, whose error is what counts. */
static int is_encoded_again(const kerf_weight *a, const kerf_weight *b)
{
    return a->decoded && b->codec.format && b->codec.encoder;
}

/* Of a form that kerf has no format for: its numbers are computed from other bytes in the files. */
static int is_computed(const kerf_weight *w)
{
    return !w->codec.format && w->plane[0] && kerf_weight_bytes(w) != w->plane[0]->bytes;
}

static kerf_status measure_computed(const kf_compare_job *job, kerf_verify_row *out,
                                    kerf_error *err)
{
    KF_TRY(measure_dense(job, out, err));
    out->score.bytes = kerf_weight_bytes(out->other);
    return job->exact ? kf_compare_exactly(job, out, err) : KERF_OK;
}

/* A GGUF file that kerf writes has a scalar as a row of one. */
static int is_same_shape(const kerf_shape *a, const kerf_shape *b)
{
    const int is_one = (a->rank == 0 || (a->rank == 1 && a->dim[0] == 1)) &&
                       (b->rank == 0 || (b->rank == 1 && b->dim[0] == 1));
    return is_one || kerf_shape_equal(a, b);
}

kerf_status kf_compare_weights(const kf_compare_job *job, kerf_verify_row *out, kerf_error *err)
{
    const kerf_weight *a = out->weight, *b = out->other;
    const int floats = kerf_dtype_is_float(a->dtype) && kerf_dtype_is_float(b->dtype);
    if (!is_same_shape(&a->shape, &b->shape)) {
        note(out, "has another shape than the source", 0);
        return KERF_OK;
    }
    if (!a->codec.format && b->codec.format) {
        if (kerf_dtype_is_float(a->dtype) || a->decoded) return measure_encoded(job, out, err);
        note(out, "is quantized from another type than the source has", 0);
        return KERF_OK;
    }
    if (a->codec.format && !b->codec.format && kerf_dtype_is_float(b->dtype)) {
        return compare_decoded(job, out, err);
    }
    if (!is_computed(a) && is_computed(b) && floats) return measure_computed(job, out, err);
    if (!a->codec.format && job->by_value && kerf_dtype_is_float(b->dtype) &&
        (floats || a->decoded)) /* F64 is read as F32, as whoever made the other checkpoint did */
        return measure_dense(job, out, err);
    int same = a->codec.format == b->codec.format;
    if (!same && a->codec.format && b->codec.format) {
        KF_TRY(compare_twins(job, out, &same, err));
        if (same && !(out->problem[0] && is_encoded_again(a, b))) return KERF_OK;
        same = 0;
        out->problem[0] = 0;
    }
    if (!same && a->decoded && b->codec.format) return measure_encoded(job, out, err);
    if (!same && a->codec.format && b->codec.format && !out->problem[0])
        snprintf(out->problem, sizeof out->problem,
                 "is %.24s and quantized in the source, too, as %.24s: kerf dequantize makes a "
                 "source of that",
                 b->codec.format->name, a->codec.format->name);
    if (!same || !same_source(a, b)) {
        note(out, "has another type or format than the source", 0);
        return KERF_OK;
    }
    KF_TRY(compare_bytes(job, out, err));
    if (!out->problem[0] || !is_encoded_again(a, b)) return KERF_OK;
    out->problem[0] = 0;
    return measure_encoded(job, out, err);
}

int kf_is_equal_quantized(const kerf_verify_row *row)
{
    return row->other && !row->measured && !row->problem[0] && row->weight->codec.format &&
           row->weight->decoded && row->other->codec.format;
}

kerf_status kf_score_equal(const kf_compare_job *job, kerf_verify_row *row, kerf_error *err)
{
    KF_TRY(measure_codes(job, row, err));
    row->measured = 0;
    return KERF_OK;
}

/* --- experts ------------------------------------------------------------------------------- */

typedef struct like {
    const kerf_weights *weights;
} like;

static int is_absent(void *ctx, const kerf_weight *w)
{
    const like *l = ctx;
    return !kerf_weights_find(l->weights, w->name);
}

static int is_stacked_there(void *ctx, const kerf_weight *w)
{
    const like *l = ctx;
    const kerf_weight *other = kerf_weights_find(l->weights, w->name);
    if (!other || !is_same_shape(&other->shape, &w->shape)) return 1;
    return other->layout && kerf_layout_experts(other->layout) == KERF_EXPERTS_STACKED;
}

kerf_status kf_weights_like(const kerf_reader *source, const kerf_weights *other,
                            kerf_weights **out, kerf_error *err)
{
    like l = {other};
    KF_TRY(kerf_weights_open(source, out, err));
    kerf_status s = KERF_OK;
    if (kerf_weights_find(other, "token_embd.weight")) /* llama.cpp's names */
        s = kerf_weights_name_as_gguf(*out, source, err);
    if (s == KERF_OK) s = kerf_weights_arrange(*out, KERF_EXPERTS_SINGLE, is_absent, &l, err);
    if (s == KERF_OK)
        s = kerf_weights_arrange(*out, KERF_EXPERTS_STACKED, is_stacked_there, &l, err);
    if (s == KERF_OK) return s;
    kerf_weights_close(*out);
    *out = NULL;
    return s;
}
