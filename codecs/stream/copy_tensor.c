/* copy_tensor.c - copies a tensor as it is, panel by panel; before each panel the job is asked
 * whether it was canceled. */
#include "stream/copy_tensor.h"

#include "layout/place_weights.h"
#include "stream/panels.h"

typedef struct copy_job {
    const kerf_reader *reader;
    const kerf_tensor *tensor;
    kerf_writer *writer;
    size_t entry;
    kf_values_seen *seen; /* or NULL */
    kf_work *work;
} copy_job;

static kerf_status copy_read(void *ctx, kf_panel *p, kerf_error *err)
{
    const copy_job *job = ctx;
    return kerf_reader_read(job->reader, job->tensor, p->u0, p->dense.p, p->dense.n, err);
}

static kerf_status copy_work(void *ctx, kf_panel *p, kerf_error *err)
{
    const copy_job *job = ctx;
    if (job->seen) kf_values_see(job->seen, p->dense.p, p->dense.n);
    return kf_work_add(job->work, p->dense.n, err);
}

static kerf_status copy_write(void *ctx, kf_panel *p, kerf_error *err)
{
    const copy_job *job = ctx;
    return kerf_writer_write(job->writer, job->entry, p->u0, p->dense.p, p->dense.n, err);
}

static kerf_status copy(const copy_job *job, kerf_error *err)
{
    static const kf_steps steps = {copy_read, copy_work, copy_write, NULL};
    copy_job own = *job;
    kf_stream *s = NULL;
    KF_TRY(kf_stream_open_bytes(&s, job->tensor->bytes, err));
    kerf_status status = kf_stream_run(s, &steps, &own, err);
    kf_stream_close(s);
    return status;
}

kerf_status kf_copy_tensor(const kerf_reader *from, const kerf_tensor *t, kerf_writer *to, size_t i,
                           kf_work *work, kerf_error *err)
{
    return copy(&(copy_job){.reader = from, .tensor = t, .writer = to, .entry = i, .work = work},
                err);
}

kerf_status kf_copy_dense(const kerf_reader *from, const kerf_weight *w, kerf_writer *to, size_t i,
                          kf_values_seen *seen, kf_work *work, kerf_error *err)
{
    const kerf_tensor *t = kf_weight_tensor(w);
    *seen = (kf_values_seen){.dtype = t->dtype};
    return copy(&(copy_job){.reader = from,
                            .tensor = t,
                            .writer = to,
                            .entry = i,
                            .seen = t->block_type ? NULL : seen,
                            .work = work},
                err);
}

kerf_status kf_copy_weight(const kerf_reader *from, const kerf_weight *w, kerf_writer *to, size_t i,
                           kf_work *work, kerf_error *err)
{
    if (!w->codec.format) return kf_copy_tensor(from, kf_weight_tensor(w), to, i, work, err);
    for (kerf_plane_id p = 0; p < KERF_PLANES; p++) {
        if (w->plane[p]) KF_TRY(kf_copy_tensor(from, w->plane[p], to, i++, work, err));
    }
    for (size_t k = 0; k < KERF_EXTRAS; k++) {
        if (w->extra[k]) KF_TRY(kf_copy_tensor(from, w->extra[k], to, i++, work, err));
    }
    return KERF_OK;
}
