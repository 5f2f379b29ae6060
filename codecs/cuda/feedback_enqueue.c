/* feedback_enqueue.c - rows with error feedback: block after block of columns is rounded, and the
 * sums of the columns behind it grow.
 *
 * Memory on the GPU, beside source and planes: 9 bytes for each element of the range (fp32, sum,
 * code) and 544 for each row. */
#include "block/encoder.h"
#include "cuda/feedback_job.h"
#include "cuda/handle.h"
#include "format/format.h"

/* Rows of the tensor, also where a format sees it flat. */
static kf_job rows_of(kf_lane *l, const kf_range *r)
{
    const kerf_geometry *g = r->g;
    kf_job j = kf_rows_job(l, r);
    if (g->format->geometry != KERF_GROUP_FLAT) return j;
    j.width = g->shape.dim[g->shape.rank - 1];
    j.lines = kerf_band_elements(g, r->b0, r->b1).count / j.width;
    j.lines_per_matrix = j.lines + 1;
    j.first_line = 0;
    j.groups = j.width / g->format->group;
    j.code_bytes = j.width * g->format->bits / 8;
    return j;
}

static kerf_status grow_all(kf_lane *l, const kf_job *j, kerf_error *err)
{
    const uint64_t n = j->lines * j->width;
    KF_TRY(kf_grow_device(l, &l->floats, n * sizeof(float), err));
    KF_TRY(kf_grow_device(l, &l->sum, n * sizeof(float), err));
    KF_TRY(kf_grow_device(l, &l->code, n, err));
    KF_TRY(kf_grow_device(l, &l->fault, j->lines * KF_FEEDBACK_BLOCK * sizeof(float), err));
    return kf_grow_device(l, &l->rounders, j->lines * KF_ROUNDER_BYTES, err);
}

static kf_feedback_job job_of(kf_lane *l, const kf_range *r, int encoder, const kf_factors *f)
{
    const kerf_format *format = r->g->format;
    kf_feedback_job job = {.job = rows_of(l, r), .above = f->above, .d = f->d};
    job.job.encoder = encoder;
    job.job.floats = l->floats.p;
    job.sum = l->sum.p;
    job.fault = l->fault.p;
    job.code = l->code.p;
    job.rounders = l->rounders.p;
    job.plain = (int)kerf_encoder_at(format, 0)->id;
    job.tries = format->second != KERF_SECOND_NESTED && !kf_is_peer(format->family, encoder);
    return job;
}

/* Codes are written as bytes of their own first, zero points are added to zeros. */
static kerf_status begin_planes(kf_lane *l, const kf_feedback_job *f, const kf_range *r,
                                kerf_error *err)
{
    const kf_job *j = &f->job;
    KF_CUDA(cudaMemsetAsync(f->sum, 0, j->lines * j->width * sizeof(float), l->stream),
            "clearing sums");
    if (r->g->format->zero == KERF_ZERO_CODE && r->plane[KERF_PLANE_ZEROS])
        KF_CUDA(cudaMemsetAsync(j->plane[KERF_PLANE_ZEROS], 0, j->lines * j->zero_bytes, l->stream),
                "clearing zero points");
    return KERF_OK;
}

kerf_status kf_enqueue_feedback(kf_lane *l, const kf_range *r, int encoder, const kerf_stats *stats,
                                const kf_factors *factors, kerf_error *err)
{
    const kerf_format *format = r->g->format;
    if (r->b0 == r->b1) return KERF_OK;
    if (format->second == KERF_SECOND_NESTED) /* whose scales are chosen from the elements */
        KF_TRY(kf_enqueue_encode(l, r, encoder, stats, err));
    else if (kerf_needs_stats(r->g))
        KF_TRY(kf_enqueue_prepare(l, r, encoder, stats, err));
    const kf_job rows = rows_of(l, r);
    KF_TRY(grow_all(l, &rows, err));
    kf_feedback_job f = job_of(l, r, encoder, factors);
    KF_TRY(begin_planes(l, &f, r, err));
    KF_CUDA(kf_feedback_widen(&f, l->stream), "starting a kernel");
    for (; f.from < f.job.width; f.from += KF_FEEDBACK_BLOCK) {
        KF_CUDA(kf_launches_of(format)->round_block(&f, l->stream), "starting a kernel");
        KF_CUDA(kf_feedback_add(&f, l->stream), "starting a kernel");
    }
    KF_CUDA(kf_feedback_pack(&f, kf_spec_of(format), l->stream), "starting a kernel");
    return KERF_OK;
}
