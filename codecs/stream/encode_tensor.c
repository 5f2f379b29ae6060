/* encode_tensor.c - measures the tensor if its format needs that, then reads, encodes and writes.
 */
#include "stream/encode_tensor.h"

#include <kerf/encode_matrix.h>
#include <kerf/feedback.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "stream/made_infinite.h"

enum { FEW_MATRICES = 64 }; /* the most whose statistics each worker of a crew can hold */

typedef struct encode_run {
    const kf_encode_job *job;
    kerf_stats *stats;
    kerf_exec exec;       /* of one call                                  */
    unsigned workers;     /* 0: no crew                                   */
    pthread_mutex_t lock; /* of statistics, while a crew works */
} encode_run;

/* There is no crew for a device, which is for one caller at a time, nor where panels must be looked
 * at in their order. Error feedback that was made for the processor is its work altogether. */
static encode_run begin(const kf_encode_job *job, kerf_stats *stats)
{
    encode_run run = {.job = job, .stats = stats, .exec = *job->exec};
    if (run.exec.feedback && !kerf_feedback_made_on_gpu(run.exec.feedback)) run.exec.device = NULL;
    if (!job->look && !run.exec.device && job->geometry->matrices <= FEW_MATRICES) {
        run.workers = kf_stream_crew_size(job->exec->threads);
        run.exec.threads = 1;
    }
    pthread_mutex_init(&run.lock, NULL);
    return run;
}

static void end(encode_run *run)
{
    pthread_mutex_destroy(&run->lock);
}

/* Writes the row-major place of an element as "5, 7". */
static void place_text(const kerf_shape *shape, uint64_t element, char *out, size_t size)
{
    uint64_t index[KERF_MAX_RANK] = {0};
    size_t n = 0;
    for (unsigned i = shape->rank; i-- > 0;) {
        index[i] = element % shape->dim[i];
        element /= shape->dim[i];
    }
    out[0] = 0;
    for (unsigned i = 0; i < shape->rank && n < size; i++) {
        n += (size_t)snprintf(out + n, size - n, "%s%llu", i ? ", " : "",
                              (unsigned long long)index[i]);
    }
}

kerf_status kf_explain_encode(const kerf_tensor *tensor, kerf_status s, kerf_error *err)
{
    if (!err || s == KERF_OK) return s;
    if (s != KERF_E_DATA || err->offset == UINT64_MAX) return kf_fail_at(err, s, tensor->name);
    char place[21 * KERF_MAX_RANK + 1], text[128];
    const uint64_t element = err->offset;
    place_text(&tensor->shape, element, place, sizeof place);
    snprintf(text, sizeof text, "%.120s", err->text);
    kf_fail(err, s, KF_NOWHERE, "%.200s: %s, at [%s]; --nan zero or --nan saturate accepts it",
            tensor->name, text, place);
    err->offset = element;
    return s;
}

static kerf_status read_step(void *ctx, kf_panel *p, kerf_error *err)
{
    const kf_encode_job *job = ((encode_run *)ctx)->job;
    return kf_read_dense(job->reader, job->tensor, job->geometry, p, err);
}

static kerf_status measure_step(void *ctx, kf_panel *p, kerf_error *err)
{
    encode_run *run = ctx;
    const kf_encode_job *job = run->job;
    kerf_stats own[FEW_MATRICES] = {{0}}, *seen = run->workers ? own : run->stats;
    kerf_status s = kerf_measure(job->geometry, p->u0, p->u1, kf_dense_of(p), job->tensor->dtype,
                                 seen, &run->exec, err);
    if (run->workers && s == KERF_OK) {
        pthread_mutex_lock(&run->lock);
        for (uint64_t i = 0; i < job->geometry->matrices; i++)
            kerf_stats_merge(&run->stats[i], &own[i]);
        pthread_mutex_unlock(&run->lock);
    }
    if (s != KERF_OK) return kf_explain_encode(job->tensor, s, err);
    return kf_work_add(job->work, p->dense.n, err);
}

/* Bytes of the source that a thread encodes between two questions whether to go on: a few
 * hundredths of a second for the slowest encoders. */
#define ASK_BYTES (UINT64_C(256) << 10)

/* Bands of a panel that are encoded in one call. */
static uint64_t bands_in_call(const encode_run *run, const kf_panel *p)
{
    const uint64_t bands = p->u1 - p->u0, bytes = p->dense.n / bands;
    if (run->exec.device || bytes == 0) return bands;
    const uint64_t most = ASK_BYTES * (uint64_t)kf_thread_count(run->exec.threads) / bytes;
    return most < 1 ? 1 : kf_min_u64(most, bands);
}

/* Encodes bands [u0, u1) of a panel. */
static kerf_status encode_bands(const encode_run *run, const kf_panel *p, uint64_t u0, uint64_t u1,
                                kerf_error *err)
{
    const kf_encode_job *job = run->job;
    const kerf_geometry *g = job->geometry;
    const size_t size = kerf_dtype_bits(job->tensor->dtype) / 8;
    const kerf_cspan src = {(const char *)p->dense.p +
                                kerf_band_elements(g, p->u0, u0).count * size,
                            kerf_band_elements(g, u0, u1).count * size};
    kerf_span dst[KERF_PLANES];
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        dst[k] = p->plane[k];
        if (g->plane[k].band_bytes == 0) continue;
        dst[k].p = (char *)dst[k].p + kerf_band_bytes(g, k, p->u0, u0).count;
        dst[k].n = (size_t)kerf_band_bytes(g, k, u0, u1).count;
    }
    return kerf_encode(g, job->encoder, run->stats, u0, u1, src, job->tensor->dtype, dst,
                       &run->exec, err);
}

static void see(encode_run *run, const kf_panel *p)
{
    if (!run->job->seen) return;
    pthread_mutex_lock(&run->lock);
    kf_values_see_one(run->job->seen, p->dense.p, p->dense.n);
    pthread_mutex_unlock(&run->lock);
}

static kerf_status see_made(encode_run *run, const kf_panel *p, kerf_error *err)
{
    int made;
    if (!run->job->infinite) return KERF_OK;
    KF_TRY(kf_made_infinite(run->job->geometry, p, &run->exec, &made, err));
    pthread_mutex_lock(&run->lock);
    *run->job->infinite |= made;
    pthread_mutex_unlock(&run->lock);
    return KERF_OK;
}

static kerf_status encode_step(void *ctx, kf_panel *p, kerf_error *err)
{
    encode_run *run = ctx;
    const kf_encode_job *job = run->job;
    const uint64_t step = bands_in_call(run, p);
    see(run, p);
    for (uint64_t u = p->u0; u < p->u1; u += step) {
        if (u > p->u0) KF_TRY(kf_work_check(job->work, err));
        kerf_status s = encode_bands(run, p, u, kf_min_u64(u + step, p->u1), err);
        if (s != KERF_OK) return kf_explain_encode(job->tensor, s, err);
    }
    KF_TRY(see_made(run, p, err));
    if (job->look) KF_TRY(job->look(job->look_ctx, p, err));
    return kf_work_add(job->work, p->dense.n, err);
}

static kerf_status write_step(void *ctx, kf_panel *p, kerf_error *err)
{
    const kf_encode_job *job = ((encode_run *)ctx)->job;
    if (!job->writer) return KERF_OK;
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        if (job->geometry->plane[k].band_bytes == 0) continue;
        uint64_t offset = kerf_band_bytes(job->geometry, k, p->u0, p->u1).offset;
        KF_TRY(kerf_weight_writer_write(job->writer, k, offset, p->plane[k].p, p->plane[k].n, err));
    }
    return KERF_OK;
}

/* Planes with one value per matrix are complete after the last panel. */
static kerf_status write_whole_planes(const kf_encode_job *job, const kf_stream *s, kerf_error *err)
{
    for (kerf_plane_id k = 0; job->writer && k < KERF_PLANES; k++) {
        kerf_span whole = kf_stream_whole(s, k);
        if (whole.n) {
            KF_TRY(kerf_weight_writer_write(job->writer, k, 0, whole.p, whole.n, err));
        }
    }
    return KERF_OK;
}

static const kf_steps measure_steps = {read_step, measure_step, NULL, NULL};

static kerf_status open_stream(const encode_run *run, kf_room *room, kf_stream **out,
                               kerf_error *err)
{
    const kf_encode_job *job = run->job;
    if (run->exec.device && run->exec.feedback)
        return kf_stream_open_large(out, job->geometry, job->tensor->dtype, room, err);
    return run->workers ? kf_stream_open_crew(out, job->geometry, job->tensor->dtype, run->workers,
                                              run->exec.feedback != NULL, room, err)
                        : kf_stream_open(out, job->geometry, job->tensor->dtype, err);
}

static int is_measured_here(const kf_encode_job *job)
{
    return !job->stats && kerf_needs_stats(job->geometry);
}

static kerf_status encode_panels(encode_run *run, kf_stream *s, kerf_error *err)
{
    const kf_encode_job *job = run->job;
    kf_steps encode = {read_step, encode_step, write_step, NULL};
    if (is_measured_here(job)) {
        KF_TRY(kf_stream_run(s, &measure_steps, run, err));
        if (kf_stream_keeps(s)) encode.read = NULL;
    }
    kerf_span whole[KERF_PLANES];
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) whole[k] = kf_stream_whole(s, k);
    KF_TRY(kerf_encode_matrix_values(job->geometry, job->encoder, run->stats, job->tensor->dtype,
                                     whole, err));
    KF_TRY(kf_stream_run(s, &encode, run, err));
    return write_whole_planes(job, s, err);
}

static kerf_status make_stats(const kf_encode_job *job, kerf_stats **out, kerf_error *err)
{
    const uint64_t matrices = job->geometry->matrices;
    if (matrices > KF_STREAM_WHOLE_BYTES / sizeof **out) {
        return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE,
                       "%.200s: %llu matrices in one tensor are too many", job->tensor->name,
                       (unsigned long long)matrices);
    }
    KF_TRY(kf_allocate(out, (size_t)matrices, sizeof **out, err));
    if (job->stats) memcpy(*out, job->stats, (size_t)matrices * sizeof **out);
    return KERF_OK;
}

kerf_status kf_encode_tensor(const kf_encode_job *job, kerf_error *err)
{
    encode_run run = begin(job, NULL);
    kf_stream *s = NULL;
    kerf_status status = open_stream(&run, is_measured_here(job) ? job->room : NULL, &s, err);
    if (status != KERF_OK) {
        status = kf_fail_at(err, status, job->tensor->name);
    } else {
        status = make_stats(job, &run.stats, err);
        if (status == KERF_OK) status = encode_panels(&run, s, err);
    }
    free(run.stats);
    kf_stream_close(s);
    end(&run);
    return status;
}

kerf_status kf_measure_tensor(const kf_encode_job *job, kerf_stats *stats, kerf_error *err)
{
    encode_run run = begin(job, stats);
    kf_stream *s = NULL;
    kerf_status status = open_stream(&run, NULL, &s, err);
    if (status == KERF_OK)
        status = kf_stream_run(s, &measure_steps, &run, err);
    else
        status = kf_fail_at(err, status, job->tensor->name);
    kf_stream_close(s);
    end(&run);
    return status;
}
