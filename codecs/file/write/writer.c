/* writer.c - writes bytes of tensors into the temporary files of an output, and removes these when
 * the output is given up. The output gets its name in writer_commit.c, whole or not at all. */
#include "file/write/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/system.h"
#include "file/disk/cleanup.h"
#include "file/disk/io.h"

#define START_BYTES ((size_t)4 << 20)

kerf_status kf_writer_no_memory(kerf_error *err)
{
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for the writer");
}

kerf_status kf_writer_open_temp(kerf_writer *w, const kf_out_file *f, const char *name, kf_temp *t,
                                kerf_error *err)
{
    if (!f->name) return kf_temp_create(w->target.path, 0, t, err);
    return kf_temp_create_in(&w->root, name, t, err);
}

/* Asks the disk to start writing what it has been given. With a journal files are synced now and
 * then, and a sync then has less to wait for. */
static void start_writing(kf_out_file *f, size_t n)
{
    atomic_store(&f->is_dirty, 1);
    if (atomic_fetch_add(&f->idle, n) + n < START_BYTES) return;
    atomic_store(&f->idle, 0);
    kf_sync_begin(f->temp.fd);
}

kerf_status kf_writer_put(kerf_writer *w, size_t file, uint64_t offset, const void *src, size_t n,
                          kerf_error *err)
{
    const uint8_t *p = src;
    kf_out_file *f = &w->file[file];
    const kf_temp *t = &f->temp;
    if (f->is_absent) return KERF_OK;
    while (n > 0) {
        size_t part = n < KF_LEDGER_MAX_BYTES ? n : KF_LEDGER_MAX_BYTES;
        kf_record r = {offset, kerf_hash(p, part), (uint32_t)part, (uint32_t)file};
        if (!f->was_packed) KF_TRY(kf_write_at(t->fd, t->path, offset, p, part, err));
        if (w->has_journal && !f->was_packed) start_writing(f, part);
        KF_TRY(kf_ledger_add(&w->ledger, r, err));
        p += part;
        offset += part;
        n -= part;
    }
    return KERF_OK;
}

kerf_status kerf_writer_write(kerf_writer *w, size_t i, uint64_t offset, const void *src, size_t n,
                              kerf_error *err)
{
    uint64_t end;
    if (i >= w->placement.count)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "output tensor %zu does not exist", i);
    const kf_place *place = &w->placement.place[i];
    if (!kf_add_ok(offset, n, &end) || end > place->bytes)
        return kf_fail(err, KERF_E_ARG, offset,
                       "output tensor %zu: %zu bytes at %" PRIu64 " do not fit its %" PRIu64, i, n,
                       offset, place->bytes);
    return kf_writer_put(w, place->file, place->offset + offset, src, n, err);
}

kerf_status kf_writer_note(kerf_writer *w, kerf_error *err)
{
    const double began_s = kf_now_s();
    const size_t writes = kf_ledger_count(&w->ledger);
    for (size_t i = 0; i < w->placement.files; i++) {
        kf_out_file *f = &w->file[i];
        if (f->temp.fd < 0 || !atomic_exchange(&f->is_dirty, 0)) continue;
        if (kf_sync_data(f->temp.fd) != 0) /* reported once only: it must end the run */
            return kf_fail_errno(err, errno, "%s: cannot sync", f->temp.path);
    }
    kf_journal_note(&w->journal, &w->root, &w->ledger, writes, began_s);
    return KERF_OK;
}

kerf_status kerf_writer_mark(kerf_writer *w, size_t first, size_t count, uint64_t note,
                             kerf_error *err)
{
    if (first > w->placement.count || count > w->placement.count - first)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "output tensor %zu does not exist",
                       first + count);
    if (!w->has_journal || count == 0) return KERF_OK;
    KF_TRY(kf_marks_add(&w->journal.marks, (kf_mark){first, count, note}, err));
    return kf_journal_is_due(&w->journal) ? kf_writer_note(w, err) : KERF_OK;
}

int kerf_writer_marked(const kerf_writer *w, size_t first, size_t count, uint64_t *note)
{
    if (w->found.bytes == 0 || !w->found.of_entry) return 0;
    for (size_t i = first; i < first + count; i++)
        if (i >= w->placement.count || !w->found.of_entry[i]) return 0;
    if (count > 0) *note = w->journal.marks.mark[w->found.of_entry[first] - 1].note;
    return count > 0;
}

uint64_t kerf_writer_found(const kerf_writer *w, const char **why)
{
    *why = w->found.why;
    return w->found.bytes;
}

uint64_t kerf_writer_bytes(const kerf_writer *w)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < w->placement.files; i++) bytes += w->placement.file[i].bytes;
    return bytes;
}

/* Leaves the temporaries to the next run, under a journal that has all that is finished: publishing
 * may have taken the old one away. */
static void keep(kerf_writer *w)
{
    kf_temp_release(&w->journal.file);
    w->journal.noted_marks = w->journal.noted_writes = 0;
    if (kf_writer_note(w, NULL) != KERF_OK || w->journal.failed) return;
    for (size_t i = 0; i < w->placement.files; i++) kf_temp_release(&w->file[i].temp);
    kf_temp_release(&w->root);
}

void kerf_writer_abort(kerf_writer *w)
{
    if (!w) return;
    if (w->keeps && w->root.path && w->journal.marks.count > 0) keep(w);
    for (size_t i = 0; w->file && i < w->placement.files; i++) {
        kf_temp_discard(&w->file[i].temp);
        free(w->file[i].name);
        free(w->file[i].plain);
    }
    kf_temp_discard(&w->root);
    kf_cleanup_drop(w->parts_slot);
    kf_parts_leave(&w->parts);
    free(w->file);
    kf_journal_close(&w->journal);
    kf_found_free(&w->found);
    kf_placement_free(&w->placement);
    kf_ledger_free(&w->ledger);
    free(w->target.path);
    free(w);
}
