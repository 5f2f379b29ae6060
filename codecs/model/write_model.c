/* write_model.c - creates the output, takes every weight through its verb or finds it written, and
 * commits. The journal that --resume reads is always written: nobody knows before that a run will
 * be killed. */
#include "model/write_model.h"
#include "base/base.h"
#include <stdio.h>

#include "progress.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct run {
    write_job *job;
    kf_work *bar;
    kerf_writer *writer;
    pthread_mutex_t marks; /* marked and mark exclude each other */
    uint64_t *note;        /* of each weight                     */
    char *found;           /* an earlier run has written it      */
} run;

static void tell(void *ctx, uint64_t done, uint64_t total)
{
    (void)kf_work_at(ctx, done, total, NULL);
}

/* A number for all that decides the bytes: version and files are the library's matter. */
static kerf_status hash_work(const write_job *j, uint64_t *out, kerf_error *err)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (!f) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for what is asked for");
    fprintf(f, "%s\n", j->verb);
    if (j->describe) j->describe(j->ctx, f);
    int failed = fclose(f) != 0;
    if (!failed) *out = kerf_hash(text, n);
    free(text);
    return failed ? kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for what is asked for")
                  : KERF_OK;
}

static kerf_status create(run *r, kerf_error *err)
{
    const write_job *j = r->job;
    const manifest *m = j->manifest;
    const kerf_key_value **metadata = NULL;
    kerf_resume resume = {.goes_on = args_has(j->args, "resume")};
    kerf_writer_options opt = {
        .overwrite = args_has(j->args, "overwrite"),
        .source = j->source->reader,
        .shard = m->shard,
        .shards = m->shard ? m->shards : 0,
        .metadata_count = m->metadata_count,
        .block_type = m->block_type,
        .companion = m->companion,
        .companions = m->companions,
        .resume = &resume,
        .checked = tell,
        .checked_ctx = r->bar,
    };
    KF_TRY(args_integer(j->args, "threads", 1, 4096, &opt.threads, err));
    KF_TRY(args_integer(j->args, "zstd-level", 1, 22, &opt.zstd_level, err));
    KF_TRY(kerf_reader_fingerprint(j->source->reader, &resume.source, err));
    KF_TRY(hash_work(j, &resume.work, err));
    KF_TRY(kf_allocate(&metadata, m->shards, sizeof *metadata, err));
    for (size_t i = 0; i < m->shards; i++) metadata[i] = m->metadata[i];
    opt.metadata = metadata;
    kerf_status s = kerf_writer_create(j->path, m->entry, m->count, &opt, &r->writer, err);
    free(metadata);
    if (s == KERF_E_EXISTS)
        kf_fail(err, s, KF_NOWHERE, "%.300s: exists already; -y replaces it", j->path);
    return s;
}

static void say_resume(const run *r)
{
    const char *why;
    uint64_t bytes = kerf_writer_found(r->writer, &why);
    if (args_has(r->job->args, "resume")) kf_work_resume(r->bar, r->job->path, bytes, why);
}

static kerf_status write_weight(void *ctx, size_t i, const kerf_exec *exec, kerf_error *err)
{
    run *r = ctx;
    write_job *j = r->job;
    const size_t entry = j->manifest->first[i], entries = manifest_entries(j->manifest, i);
    pthread_mutex_lock(&r->marks);
    r->found[i] = (char)kerf_writer_marked(r->writer, entry, entries, &r->note[i]);
    pthread_mutex_unlock(&r->marks);
    if (!r->found[i]) return j->write(j->ctx, r->writer, i, entry, exec, &r->note[i], err);
    kf_work_item(r->bar, j->manifest->entry[entry].name, "found");
    kf_work_skip(r->bar, j->work_bytes(j->ctx, i));
    return KERF_OK;
}

static kerf_status mark_weight(void *ctx, size_t i, kerf_error *err)
{
    run *r = ctx;
    write_job *j = r->job;
    kerf_status s = KERF_OK;
    pthread_mutex_lock(&r->marks);
    if (!r->found[i]) {
        s = kerf_writer_mark(r->writer, j->manifest->first[i], manifest_entries(j->manifest, i),
                             r->note[i], err);
    }
    pthread_mutex_unlock(&r->marks);
    if (s == KERF_OK && j->noted) j->noted(j->ctx, r->note[i]);
    return s;
}

static kerf_status write_weights(run *r, kerf_error *err)
{
    static const kf_team_work work = {write_weight, mark_weight};
    const size_t weights = r->job->manifest->weights;
    KF_TRY(kf_allocate(&r->note, weights, sizeof *r->note, err));
    KF_TRY(kf_allocate(&r->found, weights, 1, err));
    return kf_team_run(r->job->team, weights, &work, r, err);
}

static kerf_status write_all(run *r, kerf_error *err)
{
    const size_t weights = r->job->manifest->weights;
    uint64_t bytes = 0;
    if (args_has(r->job->args, "resume")) kf_work_phase(r->bar, "comparing what is there", 0);
    KF_TRY(create(r, err));
    say_resume(r);
    for (size_t i = 0; i < weights; i++) bytes += r->job->work_bytes(r->job->ctx, i);
    kf_work_phase(r->bar, "writing", bytes);
    KF_TRY(write_weights(r, err));
    kf_work_phase(r->bar, "comparing what was written", manifest_bytes(r->job->manifest));
    return KERF_OK;
}

kerf_status write_model(write_job *j, struct progress *bar, kerf_error *err)
{
    run r = {.job = j, .bar = &bar->work};
    KF_TRY(progress_open(bar, j->args, 0, err));
    pthread_mutex_init(&r.marks, NULL);
    kerf_status s = write_all(&r, err);
    if (s == KERF_OK) {
        s = kerf_writer_commit(r.writer, err);
    } else {
        kerf_writer_abort(r.writer);
    }
    pthread_mutex_destroy(&r.marks);
    free(r.note);
    free(r.found);
    j->seconds = progress_close(bar);
    return s;
}
