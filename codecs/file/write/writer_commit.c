/* writer_commit.c - finishes an output: checks that every byte was written, syncs the files, reads
 * them back and compares, then renames them to their target. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "file/disk/blob.h"
#include "file/disk/publish.h"
#include "file/disk/seekable.h"
#include "file/safetensors/index.h"
#include "file/write/writer.h"

/* Replaces the unpacked temporary of a file by a packed one. */
static kerf_status pack_file(kerf_writer *w, kf_out_file *f, uint64_t *bytes, kerf_error *err)
{
    kf_temp packed = KF_NO_TEMP;
    KF_TRY(kf_writer_open_temp(w, f, f->name, &packed, err));
    kf_seek_pack job = {.in = f->temp.fd,
                        .out = packed.fd,
                        .in_path = f->temp.path,
                        .out_path = packed.path,
                        .bytes = *bytes,
                        .level = w->level,
                        .threads = w->threads,
                        .job = w->watch.job};
    kerf_status s = kf_seek_write(&job, bytes, err);
    if (s != KERF_OK) {
        kf_temp_discard(&packed);
        return s;
    }
    kf_temp_discard(&f->temp);
    f->temp = packed;
    return KERF_OK;
}

/* The disk works while what it gets is read back. */
typedef struct sync_job {
    const kf_temp *temp;
    kerf_status status;
    kerf_error err;
} sync_job;

static void *run_sync(void *ctx)
{
    sync_job *j = ctx;
    j->status = kf_temp_sync(j->temp, &j->err);
    return NULL;
}

static kerf_status finish_file(kerf_writer *w, size_t i, kerf_error *err)
{
    kf_out_file *f = &w->file[i];
    uint64_t bytes = w->placement.file[i].bytes;
    kf_blob blob;
    if (f->is_packed && !f->was_packed) KF_TRY(pack_file(w, f, &bytes, err));
    if (f->was_packed) KF_TRY(kf_temp_size(&f->temp, &bytes, err));
    KF_TRY(kf_temp_check_size(&f->temp, bytes, err));
    KF_TRY(kf_blob_open(f->temp.path, &blob, err));
    sync_job sync = {.temp = &f->temp};
    pthread_t thread;
    const int has_thread = pthread_create(&thread, NULL, run_sync, &sync) == 0;
    kerf_status s = kf_ledger_verify(&w->ledger, i, &blob, w->threads, &w->watch, err);
    if (has_thread) pthread_join(thread, NULL);
    kf_blob_close(&blob);
    KF_TRY(s);
    if (sync.status != KERF_OK && err) *err = sync.err;
    KF_TRY(sync.status);
    return kf_temp_settle(&f->temp, bytes, err);
}

/* A model in one file of the usual name is found without an index. */
static int needs_index(const kerf_writer *w)
{
    if (w->placement.files > 1) return 1;
    return strncmp(w->file[0].name, KF_MODEL_NAME, sizeof KF_MODEL_NAME - 1) != 0;
}

static kerf_status write_index(kerf_writer *w, kerf_error *err)
{
    kf_text text = {0};
    size_t count = w->placement.count;
    kf_named *entry = kf_alloc(count, sizeof *entry);
    const char **shard = kf_alloc(w->placement.files, sizeof *shard);
    kerf_status s = entry && shard ? KERF_OK : kf_writer_no_memory(err);
    if (s == KERF_OK) {
        for (size_t i = 0; i < count; i++)
            entry[i] = (kf_named){w->placement.by_name[i].name,
                                  w->placement.place[w->placement.by_name[i].index].file};
        for (size_t i = 0; i < w->placement.files; i++) shard[i] = w->file[i].name;
        kf_index_write(&text, entry, count, shard, w->placement.tensor_bytes);
        s = text.failed ? kf_writer_no_memory(err)
                        : kf_temp_put_in(&w->root, KF_INDEX_NAME, text.p, text.n, err);
    }
    free(text.p);
    free(shard);
    free(entry);
    return s;
}

static kerf_status publish_folder(kerf_writer *w, kerf_error *err)
{
    if (needs_index(w) && w->part.part <= 1) KF_TRY(write_index(w, err));
    if (w->part.parts) return kf_writer_publish_part(w, err);
    return kf_temp_publish(&w->root, w->target.path, w->overwrite, err);
}

static kerf_status finish(kerf_writer *w, kerf_error *err)
{
    if (w->part_is_whole) return KERF_OK;
    if (w->has_journal && kf_journal_is_due(&w->journal)) KF_TRY(kf_writer_note(w, err));
    KF_TRY(kf_ledger_check(&w->ledger, &w->placement, err));
    w->watch.done = 0;
    w->watch.total = kerf_writer_bytes(w);
    for (size_t i = 0; i < w->placement.files; i++)
        if (!w->file[i].is_absent) KF_TRY(finish_file(w, i, err));
    if (w->target.is_folder) return publish_folder(w, err);
    return kf_temp_publish(&w->file[0].temp, w->target.path, w->overwrite, err);
}

kerf_status kerf_writer_commit(kerf_writer *w, kerf_error *err)
{
    kerf_status s = finish(w, err);
    if (s == KERF_OK) w->keeps = 0;
    kerf_writer_abort(w); /* what was published is no temporary any more */
    return s;
}
