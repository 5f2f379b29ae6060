/* write_model.c - creates the output, writes every weight or finds it written, and commits. The
 * journal that a resumed run reads is always written: nobody knows before that a run will be
 * killed. */
#include "model/write_model.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/growing_text.h"
#include "model/share.h"
#include "stream/team.h"

typedef struct model_run {
    const kf_write *job;
    kerf_writer *writer;
    pthread_mutex_t
        marks;      /* a writer is asked for marks, and given them, by one thread at a time */
    uint64_t *note; /* of each weight                                               */
    char *found;    /* an earlier run has written it, or another part does          */
    kf_share share; /* of a part                                                    */
    kerf_job quiet; /* of a file that ranks write: one count goes on over all of them */
} model_run;

/* A number for all that decides the bytes besides version and files, which the writer sees. */
static kerf_status hash_work(const kf_write *j, uint64_t *out, kerf_error *err)
{
    char *text;
    size_t n;
    kf_text all = {0};
    FILE *to = kf_text_stream(&all);
    if (to) fprintf(to, "%s\n", j->what);
    if (to && j->describe) j->describe(j->ctx, to);
    if (!kf_text_close(&all, to, &text, &n))
        return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory to describe the output");
    *out = kerf_hash(text, n);
    free(text);
    return KERF_OK;
}

static kerf_status create(model_run *r, kerf_error *err)
{
    const kf_write *j = r->job;
    const kf_manifest *m = j->manifest;
    const kerf_key_value **metadata = NULL;
    kerf_resume resume = {.goes_on = j->to->resume};
    kerf_writer_options opt = {
        .overwrite = j->to->overwrite,
        .threads = j->to->threads,
        .zstd_level = j->to->zstd_level,
        .source = j->source,
        .shard = m->shard,
        .shards = m->shard ? m->shards : 0,
        .metadata_count = m->metadata_count,
        .block_type = m->block_type,
        .companion = m->companion,
        .companions = m->companions,
        .resume = &resume,
        .job = j->to->ranks ? &r->quiet : j->work->job,
    };
    if (j->to->ranks && j->work->job)
        r->quiet = (kerf_job){.cancel = j->work->job->cancel, .ctx = j->work->job->ctx};
    const kerf_own_part part = {j->to->part, j->to->parts, r->share.shard, j->what};
    if (j->to->parts) opt.part = &part;
    KF_TRY(kerf_reader_fingerprint(j->source, &resume.source, err));
    KF_TRY(hash_work(j, &resume.work, err));
    KF_TRY(kf_allocate(&metadata, m->shards, sizeof *metadata, err));
    for (size_t i = 0; i < m->shards; i++) metadata[i] = m->metadata[i];
    opt.metadata = metadata;
    kerf_status s = kerf_writer_create(j->to->path, m->entry, m->count, &opt, &r->writer, err);
    free(metadata);
    return s;
}

static void tell_resume(const model_run *r)
{
    const char *why;
    uint64_t bytes = kerf_writer_found(r->writer, &why);
    if (r->job->to->resume) kf_work_resume(r->job->work, r->job->to->path, bytes, why);
}

static char is_elsewhere(const model_run *r, size_t i)
{
    return r->share.weight && !r->share.weight[i];
}

static kerf_status write_weight(void *ctx, size_t i, const kerf_exec *exec, kerf_error *err)
{
    model_run *r = ctx;
    const kf_write *j = r->job;
    const size_t entry = j->manifest->first[i], entries = kf_manifest_entries(j->manifest, i);
    KF_TRY(kf_work_check(j->work, err));
    r->found[i] = is_elsewhere(r, i);
    if (r->found[i]) return KERF_OK;
    pthread_mutex_lock(&r->marks);
    r->found[i] = (char)kerf_writer_marked(r->writer, entry, entries, &r->note[i]);
    pthread_mutex_unlock(&r->marks);
    if (!r->found[i]) return j->write(j->ctx, r->writer, i, entry, exec, &r->note[i], err);
    kf_work_item(j->work, j->manifest->entry[entry].name, "found");
    kf_work_skip(j->work, j->work_bytes(j->ctx, i));
    return KERF_OK;
}

static kerf_status mark_weight(void *ctx, size_t i, kerf_error *err)
{
    model_run *r = ctx;
    const kf_write *j = r->job;
    kerf_status s = KERF_OK;
    pthread_mutex_lock(&r->marks);
    if (!r->found[i]) {
        s = kerf_writer_mark(r->writer, j->manifest->first[i], kf_manifest_entries(j->manifest, i),
                             r->note[i], err);
    }
    pthread_mutex_unlock(&r->marks);
    if (s == KERF_OK && j->noted) j->noted(j->ctx, r->note[i]);
    return s;
}

static kerf_status write_weights(model_run *r, kerf_error *err)
{
    static const kf_team_work work = {write_weight, mark_weight};
    const size_t weights = r->job->manifest->weights;
    KF_TRY(kf_allocate(&r->note, weights, sizeof *r->note, err));
    KF_TRY(kf_allocate(&r->found, weights, 1, err));
    return kf_team_run(r->job->team, weights, &work, r, err);
}

static kerf_status write_all(model_run *r, kerf_error *err)
{
    const kf_write *j = r->job;
    const int alone = !j->to->ranks; /* else phases are of all files */
    uint64_t bytes = 0;
    if (j->to->resume && alone) kf_work_phase(j->work, "comparing what is there", 0);
    if (j->to->parts)
        KF_TRY(kf_share_make(&r->share, j->manifest, j->to->part, j->to->parts, j->work_bytes,
                             j->ctx, err));
    KF_TRY(create(r, err));
    if (alone) tell_resume(r);
    for (size_t i = 0; i < j->manifest->weights; i++)
        if (!is_elsewhere(r, i)) bytes += j->work_bytes(j->ctx, i);
    if (alone) kf_work_phase(j->work, "writing", bytes);
    KF_TRY(write_weights(r, err));
    KF_TRY(kerf_reader_check(j->source, err));
    if (j->written) KF_TRY(j->written(j->ctx, err));
    if (alone) kf_work_phase(j->work, "comparing what was written", kf_manifest_bytes(j->manifest));
    return kf_work_check(j->work, err);
}

static kerf_share share_of(const model_run *r)
{
    const kf_manifest *m = r->job->manifest;
    return (kerf_share){.shards = r->share.shard ? r->share.shards : m->shards,
                        .of_shards = m->shards,
                        .bytes = r->share.shard ? r->share.bytes : kf_manifest_bytes(m)};
}

/* What one process writes in one go. note: [weights], gets the notes of those that it has; or NULL.
 */
static kerf_status write_one(const kf_write *j, uint64_t *note, kerf_error *err)
{
    model_run r = {.job = j};
    pthread_mutex_init(&r.marks, NULL);
    kerf_status s = write_all(&r, err);
    /* What a changing source brings is not what is wrong with it. */
    if (s == KERF_E_DATA && kerf_reader_check(j->source, NULL) != KERF_OK)
        s = kerf_reader_check(j->source, err);
    if (s == KERF_OK) {
        s = kerf_writer_commit(r.writer, err);
    } else {
        kerf_writer_abort(r.writer);
    }
    pthread_mutex_destroy(&r.marks);
    if (s == KERF_OK && j->share) *j->share = share_of(&r);
    for (size_t i = 0; s == KERF_OK && note && i < j->manifest->weights; i++) note[i] |= r.note[i];
    kf_share_free(&r.share);
    free(r.note);
    free(r.found);
    return s;
}

/* --- by several processes ------------------------------------------------------------------ */

/* Files that no other rank takes, as parts of an output that has as many parts as files: with equal
 * numbers of both, part i is the file with the i-th most work. */
static kerf_status write_taken(const kf_write *j, uint64_t *note, kerf_error *err)
{
    const kerf_ranks *ranks = j->to->ranks;
    const size_t files = j->manifest->shards;
    kerf_output to = *j->to;
    kf_write part = *j;
    part.to = &to;
    part.noted = NULL;
    part.written = NULL;
    to.parts = (unsigned)files;
    for (;;) {
        size_t i = 0;
        KF_TRY(ranks->take(ranks->ctx, files, &i, err));
        if (i >= files) break;
        to.part = (unsigned)i + 1;
        KF_TRY(write_one(&part, note, err));
    }
    return ranks->combine(ranks->ctx, note, j->manifest->weights * sizeof *note, err);
}

static kerf_status write_together(const kf_write *j, kerf_error *err)
{
    const kerf_ranks *ranks = j->to->ranks;
    const kf_manifest *m = j->manifest;
    const kerf_merge_options merge = {
        .overwrite = j->to->overwrite, .threads = j->to->threads, .compared = 1};
    uint64_t *note = NULL, bytes = 0;
    if (j->to->parts || m->is_file || m->shards > KERF_PARTS_MOST)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "%s: ranks write whole files of a folder, at most %u: -o names a folder, "
                       "and --part is for processes without MPI",
                       j->to->path, KERF_PARTS_MOST);
    KF_TRY(kf_share_work(m, j->work_bytes, j->ctx, &bytes, err));
    KF_TRY(kf_allocate(&note, m->weights, sizeof *note, err));
    kf_work_phase(j->work, "writing", bytes);
    kerf_status s = write_taken(j, note, err);
    for (size_t i = 0; s == KERF_OK && j->noted && i < m->weights; i++) j->noted(j->ctx, note[i]);
    if (s == KERF_OK && j->written) s = j->written(j->ctx, err);
    if (s == KERF_OK && ranks->rank == 0) s = kerf_merge(j->to->path, &merge, NULL, NULL, err);
    if (s == KERF_OK) s = ranks->combine(ranks->ctx, NULL, 0, err);
    if (s == KERF_OK && j->share)
        *j->share = (kerf_share){m->shards, m->shards, kf_manifest_bytes(m)};
    free(note);
    return s;
}

kerf_status kf_write_model(const kf_write *j, kerf_error *err)
{
    if (!j->to->path) return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "the output has no path");
    return j->to->ranks ? write_together(j, err) : write_one(j, NULL, err);
}
