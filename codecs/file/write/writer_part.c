/* writer_part.c - an output of which this writer writes some files: what an earlier run of the same
 * part has finished is found, and what this one finishes is recorded for the merge. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file/disk/cleanup.h"
#include "file/disk/publish.h"
#include "file/write/writer.h"

/* --- what is there ------------------------------------------------------------------------- */

/* Whether the marks of its journal name entries of this output, each once. */
static kerf_status take_marks(kerf_writer *w, kf_marks *marks, kerf_error *err)
{
    free(w->found.of_entry);
    KF_TRY(kf_allocate(&w->found.of_entry, w->placement.count, sizeof *w->found.of_entry, err));
    for (size_t i = 0; i < marks->count; i++) {
        const kf_mark *m = &marks->mark[i];
        if (m->first > w->placement.count || m->count > w->placement.count - m->first)
            return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%s: its journal is damaged",
                           w->target.path);
        for (uint64_t e = m->first; e < m->first + m->count; e++) w->found.of_entry[e] = i + 1;
    }
    w->journal.marks = *marks;
    *marks = (kf_marks){0};
    return KERF_OK;
}

/* KERF_OK: the part at the target is of this plan and whole. KERF_E_ARG: it is of another. */
static kerf_status look(kerf_writer *w, kerf_error *err)
{
    kf_part_record r;
    kf_marks marks = {0};
    KF_TRY(kf_part_read(w->target.path, &r, err));
    const char *why = kf_part_differs(&w->journal.head, &r.head);
    kerf_status s = KERF_OK;
    if (why)
        s = kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                    "%s: this part was written by another plan (%s); -y replaces it",
                    w->target.path, why);
    w->watch.done = 0;
    w->watch.total = w->found.bytes = r.bytes;
    char *moved = kf_path_join(w->parts.path, KF_PARTS_WHOLE); /* by a merge that was killed */
    if (s == KERF_OK && !moved) s = kf_writer_no_memory(err);
    if (s == KERF_OK)
        s = kf_part_verify(w->target.path, moved, &r, w->threads, &w->watch, &marks, err);
    free(moved);
    if (s == KERF_OK) s = take_marks(w, &marks, err);
    free(marks.mark);
    kf_part_free(&r);
    return s;
}

kerf_status kf_writer_find_part(kerf_writer *w, kerf_error *err)
{
    struct stat st;
    kerf_error why = {0};
    if (lstat(w->target.path, &st) != 0) return KERF_OK;
    kerf_status s = look(w, &why);
    w->part_is_whole = s == KERF_OK;
    if (s == KERF_OK) return s;
    free(w->found.of_entry);
    w->found.of_entry = NULL;
    w->found.bytes = 0;
    const int is_of_no_use = s == KERF_E_ARG && w->overwrite;
    w->replaces_part =
        is_of_no_use || !kf_part_may_be_whole(s, &why); /* when the new one is whole */
    if (w->replaces_part) return KERF_OK;
    if (err) *err = why;
    return s;
}

/* --- what is finished ---------------------------------------------------------------------- */

typedef struct recording {
    kerf_writer *w;
    kf_part_record record;
    size_t room;
    char **name; /* owned: of files besides shards */
    size_t names;
} recording;

static kerf_status add_file(recording *r, size_t index, const char *name, uint64_t bytes,
                            kerf_error *err)
{
    kf_part_record *record = &r->record;
    if (record->files == r->room) {
        const size_t room = r->room ? 2 * r->room : 64;
        kf_part_file *more = realloc(record->file, room * sizeof *more);
        if (!more) return kf_writer_no_memory(err);
        record->file = more;
        r->room = room;
    }
    record->file[record->files++] = (kf_part_file){(uint32_t)index, name, bytes};
    return KERF_OK;
}

static int is_shard_or_journal(const kerf_writer *w, const char *name)
{
    if (name[0] == '.') return 1;
    for (size_t i = 0; i < w->placement.files; i++)
        if (strcmp(name, w->file[i].name) == 0) return 1;
    return 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static kerf_status list_small_files(recording *r, kerf_error *err)
{
    const char *name, *path = r->w->root.path;
    size_t room = 0;
    int failed = 0;
    kerf_status s = KERF_OK;
    DIR *d = opendir(path);
    if (!d) return kf_fail_errno(err, errno, "%s: cannot open the folder", path);
    while (s == KERF_OK && (name = kf_next_name(d, &failed)) != NULL) {
        if (is_shard_or_journal(r->w, name)) continue;
        if (r->names == room) {
            room = room ? 2 * room : 16;
            char **more = realloc(r->name, room * sizeof *more);
            if (more) r->name = more;
            if (!more) s = kf_writer_no_memory(err);
        }
        if (s == KERF_OK && !(r->name[r->names] = strdup(name))) s = kf_writer_no_memory(err);
        r->names += s == KERF_OK;
    }
    closedir(d);
    if (s == KERF_OK && failed) s = kf_fail_errno(err, failed, "%s: cannot read it", path);
    if (r->names) qsort(r->name, r->names, sizeof *r->name, by_text);
    return s;
}

/* Adds the hashes of a file that went past the ledger. */
static kerf_status hash_file(kerf_writer *w, size_t index, const kf_blob *blob, void *buffer,
                             kerf_error *err)
{
    for (uint64_t at = 0; at < blob->bytes; at += KF_LEDGER_MAX_BYTES) {
        const size_t n = (size_t)kf_min_u64(KF_LEDGER_MAX_BYTES, blob->bytes - at);
        KF_TRY(kf_blob_read(blob, at, buffer, n, err));
        const kf_record piece = {at, kerf_hash(buffer, n), (uint32_t)n, (uint32_t)index};
        KF_TRY(kf_ledger_add(&w->ledger, piece, err));
    }
    return KERF_OK;
}

static kerf_status add_small_file(recording *r, size_t i, void *buffer, kerf_error *err)
{
    kf_blob blob;
    const size_t index = r->w->placement.files + i;
    char *path = kf_path_join(r->w->root.path, r->name[i]);
    if (!path) return kf_writer_no_memory(err);
    kerf_status s = kf_blob_open(path, &blob, err);
    free(path);
    KF_TRY(s);
    s = hash_file(r->w, index, &blob, buffer, err);
    if (s == KERF_OK) s = add_file(r, index, r->name[i], blob.bytes, err);
    kf_blob_close(&blob);
    return s;
}

static kerf_status list_files(recording *r, kerf_error *err)
{
    kerf_writer *w = r->w;
    for (size_t i = 0; i < w->placement.files; i++)
        if (!w->file[i].is_absent)
            KF_TRY(add_file(r, i, w->file[i].name, w->placement.file[i].bytes, err));
    KF_TRY(list_small_files(r, err));
    void *buffer = r->names ? kf_alloc(KF_LEDGER_MAX_BYTES, 1) : NULL;
    if (r->names && !buffer) return kf_writer_no_memory(err);
    kerf_status s = KERF_OK;
    for (size_t i = 0; i < r->names && s == KERF_OK; i++) s = add_small_file(r, i, buffer, err);
    free(buffer);
    return s;
}

/* Every write again, now that no more will come: the merge compares all of them. */
static kerf_status write_journal(kerf_writer *w, kerf_error *err)
{
    static const char *const none[] = {NULL};
    kf_temp_release(&w->journal.file);
    w->journal.noted_marks = w->journal.noted_writes = 0;
    w->journal.failed = 0;
    kf_journal_note(&w->journal, &w->root, &w->ledger, kf_ledger_count(&w->ledger), kf_now_s());
    if (w->journal.failed)
        return kf_fail(err, KERF_E_IO, KF_NOWHERE,
                       "%s: the hashes of what was written cannot be written: is there room?",
                       w->root.path);
    w->root.unpublished = none;
    return KERF_OK;
}

static kerf_status record(kerf_writer *w, kerf_error *err)
{
    recording r = {.w = w,
                   .record = {.part = w->part.part,
                              .parts = w->part.parts,
                              .shards = w->placement.files,
                              .verb = w->part.verb,
                              .head = w->journal.head}};
    kerf_status s = list_files(&r, err);
    if (s == KERF_OK) s = write_journal(w, err);
    if (s == KERF_OK) s = kf_part_write(&w->root, &r.record, err);
    for (size_t i = 0; i < r.names; i++) free(r.name[i]);
    free(r.name);
    free(r.record.file);
    return s;
}

kerf_status kf_writer_publish_part(kerf_writer *w, kerf_error *err)
{
    struct stat st;
    KF_TRY(record(w, err));
    if (w->replaces_part) {
        kf_remove_folder(-1, w->target.path);
        if (lstat(w->target.path, &st) == 0)
            return kf_fail_errno(err, EEXIST, "%s: cannot remove what is there", w->target.path);
    }
    kerf_error why = {0};
    kerf_status s = kf_temp_publish(&w->root, w->target.path, 0, &why);
    if (s != KERF_OK && s != KERF_E_EXISTS && err) *err = why;
    if (s != KERF_E_EXISTS) return s;
    /* The same part was started twice and the other was faster: if it is whole it is the same. */
    kf_journal_close(&w->journal);
    return look(w, err);
}
