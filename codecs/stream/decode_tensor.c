/* decode_tensor.c - reads planes, decodes, writes elements. */
#include "stream/decode_tensor.h"

#include "layout/turned.h"
#include "stream/panels.h"

typedef struct decode_run {
    const kf_decode_job *job;
    kerf_geometry geometry; /* of its weight */
    kf_window window;       /* of a weight that its model has as [..., in, out] */
} decode_run;

static kerf_status decode_read(void *ctx, kf_panel *p, kerf_error *err)
{
    const kf_decode_job *job = ((const decode_run *)ctx)->job;
    return kf_read_planes(job->reader, job->weight, p, err);
}

static kerf_status decode_work(void *ctx, kf_panel *p, kerf_error *err)
{
    const decode_run *r = ctx;
    const kf_decode_job *job = r->job;
    kerf_cspan planes[KERF_PLANES];
    kf_planes_of(p, planes);
    KF_TRY(kf_work_add(job->work, p->dense.n, err));
    KF_TRY(kerf_decode(&r->geometry, p->u0, p->u1, planes, p->dense, job->dtype, job->exec, err));
    if (job->seen) kf_values_see(job->seen, p->dense.p, p->dense.n);
    return KERF_OK;
}

/* Rows of a weight that was turned are columns of its tensor. */
static kerf_status write_turned(decode_run *r, const kf_panel *p, kerf_error *err)
{
    const kf_decode_job *job = r->job;
    const kf_turned *t = &r->window.turned;
    const uint64_t matrix = t->rows * t->row_bytes;
    uint64_t at = kerf_band_elements(&r->geometry, p->u0, p->u1).offset * t->size;
    const unsigned char *src = p->dense.p;
    for (uint64_t left = p->dense.n; left > 0;) {
        const uint64_t inside = at % matrix, n = kf_min_u64(left, matrix - inside);
        KF_TRY(kf_window_write(&r->window, job->writer, job->entry, inside, src, (size_t)n, err));
        if (inside + n == matrix) kf_window_next_matrix(&r->window);
        src += n;
        at += n;
        left -= n;
    }
    return KERF_OK;
}

static kerf_status decode_write(void *ctx, kf_panel *p, kerf_error *err)
{
    decode_run *r = ctx;
    const kf_decode_job *job = r->job;
    if (r->window.bytes) return write_turned(r, p, err);
    uint64_t first = kerf_band_elements(&r->geometry, p->u0, p->u1).offset;
    return kerf_writer_write(job->writer, job->entry, first * (kerf_dtype_bits(job->dtype) / 8),
                             p->dense.p, p->dense.n, err);
}

kerf_status kf_decode_tensor(const kf_decode_job *job, kerf_error *err)
{
    static const kf_steps steps = {decode_read, decode_work, decode_write, NULL};
    decode_run run = {.job = job, .geometry = kerf_weight_geometry(job->weight)};
    kf_stream *s = NULL;
    const kerf_shape *shape = &job->weight->shape;
    kerf_status status = kf_stream_open(&s, &run.geometry, job->dtype, err);
    if (status == KERF_OK && job->weight->stored.rank && kerf_weight_elements(job->weight) > 0)
        status =
            kf_window_open(&run.window,
                           kf_turned_dense(shape->dim[shape->rank - 2], shape->dim[shape->rank - 1],
                                           kerf_dtype_bits(job->dtype) / 8),
                           err);
    if (status == KERF_OK) status = kf_read_whole_planes(job->reader, job->weight, s, err);
    if (status == KERF_OK) status = kf_stream_run(s, &steps, &run, err);
    kf_stream_close(s);
    kf_window_close(&run.window);
    return status == KERF_OK ? status : kf_fail_at(err, status, job->weight->name);
}
