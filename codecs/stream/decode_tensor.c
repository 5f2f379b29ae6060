/* decode_tensor.c - reads planes, decodes, writes elements. */
#include "stream/decode_tensor.h"

#include "stream/panels.h"

typedef struct decode_run {
    const kf_decode_job *job;
} decode_run;

static kerf_status decode_read(void *ctx, kf_panel *p, kerf_error *err)
{
    const kf_decode_job *job = ((const decode_run *)ctx)->job;
    return kf_read_planes(job->reader, job->weight, p, err);
}

static kerf_status decode_work(void *ctx, kf_panel *p, kerf_error *err)
{
    const kf_decode_job *job = ((const decode_run *)ctx)->job;
    kerf_cspan planes[KERF_PLANES];
    kf_planes_of(p, planes);
    KF_TRY(kf_work_add(job->work, p->dense.n, err));
    return kerf_decode(&job->weight->geometry, p->u0, p->u1, planes, p->dense, job->dtype,
                       job->exec, err);
}

static kerf_status decode_write(void *ctx, kf_panel *p, kerf_error *err)
{
    const kf_decode_job *job = ((const decode_run *)ctx)->job;
    uint64_t first = kerf_band_elements(&job->weight->geometry, p->u0, p->u1).offset;
    return kerf_writer_write(job->writer, job->entry, first * (kerf_dtype_bits(job->dtype) / 8),
                             p->dense.p, p->dense.n, err);
}

kerf_status kf_decode_tensor(const kf_decode_job *job, kerf_error *err)
{
    static const kf_steps steps = {decode_read, decode_work, decode_write, NULL};
    decode_run run = {job};
    kf_stream *s = NULL;
    kerf_status status = kf_stream_open(&s, &job->weight->geometry, job->dtype, err);
    if (status == KERF_OK) status = kf_read_whole_planes(job->reader, job->weight, s, err);
    if (status == KERF_OK) status = kf_stream_run(s, &steps, &run, err);
    kf_stream_close(s);
    return status == KERF_OK ? status : kf_fail_at(err, status, job->weight->name);
}
