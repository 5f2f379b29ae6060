/* compare_exactly.c - encodes a weight again as its file says that it was encoded, and compares
 * every byte of its planes with those in the file: the proof that nothing but this encoder made
 * them. */
#include <kerf/feedback.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "score/compare.h"
#include "stream/encode_tensor.h"

typedef struct exact_compare {
    const kf_compare_job *job;
    kerf_verify_row *pair;
    const kerf_geometry *geometry; /* of the other */
    unsigned char *stored;
    size_t room;
} exact_compare;

/* A layout that divides stores the inverse of a scale, which need not give back its last place. */
static int are_inverses(const unsigned char *stored, const void *made, uint64_t n)
{
    for (uint64_t i = 0; i + sizeof(float) <= n; i += sizeof(float)) {
        float a, b;
        memcpy(&a, stored + i, sizeof a);
        memcpy(&b, (const unsigned char *)made + i, sizeof b);
        if (memcmp(&a, &b, sizeof a) == 0) continue;
        const float back = 1 / kerf_inverse_of(b);
        if (memcmp(&a, &back, sizeof a) != 0) return 0;
    }
    return 1;
}

static kerf_status compare_plane(exact_compare *x, const kf_panel *p, kerf_plane_id k,
                                 kerf_error *err)
{
    const kerf_weight *w = x->pair->other;
    const kerf_extent at = kerf_band_bytes(x->geometry, k, p->u0, p->u1);
    if (at.count > x->room) {
        free(x->stored);
        x->room = 0;
        x->stored = NULL;
        KF_TRY(kf_allocate(&x->stored, (size_t)at.count, 1, err));
        x->room = (size_t)at.count;
    }
    KF_TRY(kerf_weight_read(x->job->other, w, k, at.offset, x->stored, (size_t)at.count, err));
    if (x->pair->problem[0] || memcmp(x->stored, p->plane[k].p, (size_t)at.count) == 0)
        return KERF_OK;
    if (x->geometry->plane[k].per_matrix && are_inverses(x->stored, p->plane[k].p, at.count))
        return KERF_OK;
    size_t i = 0;
    while (x->stored[i] == ((const unsigned char *)p->plane[k].p)[i]) i++;
    static const char *const names[KERF_PLANES] = {"codes", "scales", "second-level scales",
                                                   "zero points"};
    snprintf(x->pair->problem, sizeof x->pair->problem,
             "is not what its encoder makes of the source: byte %llu of its %s differs first",
             (unsigned long long)(at.offset + i), names[k]);
    return KERF_OK;
}

static kerf_status look(void *ctx, kf_panel *p, kerf_error *err)
{
    exact_compare *x = ctx;
    const kerf_geometry *g = x->geometry;
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        if (g->plane[k].dtype == KERF_DTYPE_NONE) continue;
        if (g->plane[k].per_matrix && p->u1 != g->bands) continue; /* complete at the end */
        KF_TRY(compare_plane(x, p, k, err));
    }
    return KERF_OK;
}

/* What the one scale of merged layers was chosen from. */
static kerf_status measure_fused(const kf_compare_job *job, const kerf_verify_row *pair,
                                 kf_encode_job encode, kerf_stats *all, kerf_error *err)
{
    const kerf_weight *member[KERF_FUSED_MOST];
    size_t n = kerf_fused_group(job->all, pair->weight, member);
    if (n == 0) member[n++] = pair->weight;
    for (size_t i = 0; i < n; i++) {
        kerf_geometry g;
        kerf_stats one = {0};
        KF_TRY(kerf_geometry_init(&g, pair->other->codec.format, &member[i]->shape, err));
        encode.tensor = kerf_weight_dense(member[i]);
        encode.geometry = &g;
        if (!encode.tensor) continue;
        KF_TRY(kf_measure_tensor(&encode, &one, err));
        kerf_stats_merge(all, &one);
    }
    return KERF_OK;
}

/* What made the weight; *out NULL and no problem: nothing. */
static kerf_status find_feedback(const kf_compare_job *job, kerf_verify_row *row,
                                 kerf_feedback **out, kerf_error *err)
{
    const kerf_moments *m = job->moments;
    kerf_moments again = m ? *m : (kerf_moments){0};
    const kerf_shape *shape = &row->weight->shape;
    float *gram = NULL;
    *out = NULL;
    if (!row->other->feedback) return KERF_OK;
    kerf_moments_again(&again);
    const int twice = again.contents == row->other->feedback;
    if (m && (twice || m->contents == row->other->feedback))
        KF_TRY(m->read(m->ctx, row->weight, &gram, err));
    if (!gram) {
        snprintf(row->problem, sizeof row->problem,
                 "was rounded with the error feedback of calibration %016llx: --calibration CAL "
                 "of that number is needed to encode it again",
                 (unsigned long long)row->other->feedback);
        return KERF_OK;
    }
    const uint64_t columns = kf_last_dim(shape);
    const kerf_exec *exec = job->exec;
    kerf_status s = exec->device && !twice && kerf_feedback_on_gpu(row->other->codec.format)
                        ? kerf_feedback_make_on(&exec->device, 1, gram, columns,
                                                KERF_FEEDBACK_DAMPING, job->progress->job, out, err)
                        : kerf_feedback_make(gram, columns, KERF_FEEDBACK_DAMPING, exec->threads,
                                             job->progress->job, out, err);
    if (s == KERF_OK && twice) s = kerf_feedback_again(*out, gram, KERF_FEEDBACK_DAMPING, err);
    free(gram);
    if (s == KERF_OK) return KERF_OK;
    kerf_feedback_free(*out);
    *out = NULL;
    return s;
}

kerf_status kf_compare_exactly(const kf_compare_job *job, kerf_verify_row *out, kerf_error *err)
{
    const kerf_weight *w = out->other;
    if (!w->codec.encoder) {
        snprintf(out->problem, sizeof out->problem,
                 "does not say which encoder made it, so that it cannot be encoded again");
        return KERF_OK;
    }
    kerf_feedback *feedback;
    KF_TRY(find_feedback(job, out, &feedback, err));
    if (out->problem[0]) return KERF_OK;
    const kerf_geometry g = kerf_weight_geometry(w);
    exact_compare x = {.job = job, .pair = out, .geometry = &g};
    kerf_exec exec = *job->exec;
    exec.feedback = feedback;
    kerf_stats shared = {0};
    kf_encode_job encode = {.reader = job->source,
                            .tensor = kerf_weight_dense(out->weight),
                            .geometry = &g,
                            .encoder = w->codec.encoder,
                            .exec = &exec,
                            .work = job->progress,
                            .look = look,
                            .look_ctx = &x};
    kerf_status s = KERF_OK;
    if (kerf_layout_shares_scale(w->layout, w->codec.format) && g.matrices == 1) {
        s = measure_fused(job, out, encode, &shared, err);
        encode.stats = &shared;
    }
    if (s == KERF_OK) s = kf_encode_tensor(&encode, err);
    kerf_feedback_free(feedback);
    free(x.stored);
    return s;
}
