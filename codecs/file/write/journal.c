/* journal.c - notes which entries of an output are finished, so that a later run can continue this
 * one if it is killed.
 *
 * The journal lies in the temporary folder, beside the files that it speaks of: a head with what
 * their bytes depend on, then rows that are only ever appended. A row is a write (offset, hash,
 * bytes, file) or a mark: all entries of one weight are written. Each ends with a hash of itself
 * and of the row before, so that a torn end, or anything that is not ours, ends the list.
 *
 * Order: the bytes are written, their files synced, only then rows that name them appended and
 * synced. So after a power failure, too, what the journal says is there. The later run does not
 * rely on this: it reads every named byte back and compares its hash (resume.c). What is
 * not named - headers, half a weight - it writes again, the same bytes to the same place. A
 * journal begins under another name and is renamed when its first rows are on disk: the one of the
 * dead run serves until then.
 *
 * Syncing has its price, so it takes at most a twentieth of the time, and a run of a few
 * hundredths of a second has no journal at all. */
#include "file/write/journal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/system.h"
#include "file/disk/io.h"

#define NEW_NAME ".journal.new"
#define MAGIC UINT64_C(0x316e726a6672656b) /* "kerfjrn1" */
#define MARK UINT64_MAX                    /* in place of a file: the row is a mark */
#define ROW_WORDS 5
#define ROW_BYTES (ROW_WORDS * sizeof(uint64_t))
#define HEAD_BYTES (sizeof(uint64_t) + ROW_BYTES)
#define BATCH_ROWS 64
#define LEAST_WAIT_S 0.02
#define MOST_WAIT_S 30.0
#define WAIT_PER_COST 20.0

const char *const kf_journal_names[] = {KF_JOURNAL_NAME, NEW_NAME, NULL};

kerf_status kf_marks_add(kf_marks *m, kf_mark mark, kerf_error *err)
{
    if (m->count == m->capacity) {
        size_t capacity = m->capacity ? 2 * m->capacity : 256;
        kf_mark *more = realloc(m->mark, capacity * sizeof *more);
        if (!more) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for what is finished");
        m->mark = more;
        m->capacity = capacity;
    }
    m->mark[m->count++] = mark;
    return KERF_OK;
}

/* --- rows --- */

static void put64(uint8_t *p, uint64_t v)
{
    for (int i = 0; i < 8; i++) p[i] = (uint8_t)(v >> 8 * i);
}

static uint64_t get64(const uint8_t *p)
{
    uint64_t v = 0;
    for (int i = 0; i < 8; i++) v |= (uint64_t)p[i] << 8 * i;
    return v;
}

/* The hash of a row that follows one with hash `chain`. */
static uint64_t hash_row(uint64_t chain, const uint8_t *row)
{
    uint8_t text[ROW_BYTES];
    put64(text, chain);
    memcpy(text + 8, row, ROW_BYTES - 8);
    return kerf_hash(text, sizeof text);
}

static void put_row(uint8_t *p, uint64_t *chain, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    put64(p, a);
    put64(p + 8, b);
    put64(p + 16, c);
    put64(p + 24, d);
    *chain = hash_row(*chain, p);
    put64(p + 32, *chain);
}

/* 0: this row does not follow the one before. */
static int take_row(const uint8_t *p, uint64_t *chain, uint64_t out[ROW_WORDS - 1])
{
    uint64_t hash = hash_row(*chain, p);
    if (hash != get64(p + 32)) return 0;
    *chain = hash;
    for (int i = 0; i < ROW_WORDS - 1; i++) out[i] = get64(p + 8 * i);
    return 1;
}

/* --- read --- */

static const char *compare_heads(const uint8_t *p, const kf_journal_head *own, uint64_t *chain)
{
    uint64_t row[ROW_WORDS - 1];
    *chain = get64(p);
    if (*chain != MAGIC || !take_row(p + 8, chain, row)) return "its journal is damaged";
    if (row[0] != own->version) return "another version of kerf wrote it";
    if (row[1] != own->source) return "the source has changed";
    if (row[2] != own->work || row[3] != own->placement) return "formats or options are others";
    return NULL;
}

/* *more: 0 when the row is no row of ours: the list ends before it. */
static kerf_status take(const uint8_t *p, uint64_t *chain, kf_ledger *writes, kf_marks *marks,
                        int *more, kerf_error *err)
{
    uint64_t r[ROW_WORDS - 1];
    *more = take_row(p, chain, r);
    if (!*more) return KERF_OK;
    if (r[3] == MARK) return kf_marks_add(marks, (kf_mark){r[0], r[2], r[1]}, err);
    *more = r[3] < UINT32_MAX && r[2] > 0 && r[2] <= KF_LEDGER_MAX_BYTES;
    if (!*more) return KERF_OK;
    return kf_ledger_add(writes, (kf_record){r[0], r[1], (uint32_t)r[2], (uint32_t)r[3]}, err);
}

static kerf_status take_rows(int fd, const char *path, uint64_t bytes, uint64_t chain,
                             kf_ledger *writes, kf_marks *marks, kerf_error *err)
{
    uint8_t batch[BATCH_ROWS * ROW_BYTES];
    int more = 1;
    for (uint64_t at = HEAD_BYTES; more && bytes - at >= ROW_BYTES;) {
        size_t n = (size_t)kf_min_u64(sizeof batch, (bytes - at) / ROW_BYTES * ROW_BYTES);
        if (kf_read_at(fd, path, at, batch, n, NULL) != KERF_OK) return KERF_OK;
        for (size_t i = 0; i < n && more; i += ROW_BYTES)
            KF_TRY(take(batch + i, &chain, writes, marks, &more, err));
        at += n;
    }
    return KERF_OK;
}

kerf_status kf_journal_read(const char *folder, const kf_journal_head *head, kf_ledger *writes,
                            kf_marks *marks, const char **why, kerf_error *err)
{
    int fd = -1;
    uint64_t bytes = 0, chain;
    uint8_t first[HEAD_BYTES];
    char *path = kf_path_join(folder, KF_JOURNAL_NAME);
    if (!path) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", folder);
    kerf_status s = KERF_OK;
    *why = NULL;
    if (kf_open_regular(path, &fd, &bytes, NULL) != KERF_OK)
        *why = "it had finished nothing yet";
    else if (bytes < HEAD_BYTES || kf_read_at(fd, path, 0, first, sizeof first, NULL) != KERF_OK)
        *why = "its journal is damaged";
    else
        *why = compare_heads(first, head, &chain);
    if (!*why) s = take_rows(fd, path, bytes, chain, writes, marks, err);
    if (fd >= 0) close(fd);
    free(path);
    return s;
}

/* --- write --- */

void kf_journal_init(kf_journal *j, const kf_journal_head *head)
{
    *j = (kf_journal){.head = *head, .file = KF_NO_TEMP, .due_s = kf_now_s() + LEAST_WAIT_S};
}

void kf_journal_close(kf_journal *j)
{
    kf_temp_release(&j->file);
    free(j->marks.mark);
    j->marks = (kf_marks){0};
}

int kf_journal_is_due(const kf_journal *j)
{
    return !j->failed && j->marks.count > j->noted_marks && kf_now_s() >= j->due_s;
}

static int append(kf_journal *j, const uint8_t *p, size_t n)
{
    if (kf_write_at(j->file.fd, j->file.path, j->bytes, p, n, NULL) != KERF_OK) return 0;
    j->bytes += n;
    return 1;
}

static int append_writes(kf_journal *j, kf_ledger *ledger, size_t end)
{
    uint8_t batch[BATCH_ROWS * ROW_BYTES];
    kf_record r[BATCH_ROWS];
    while (j->noted_writes < end) {
        size_t n = (size_t)kf_min_u64(end - j->noted_writes, BATCH_ROWS);
        kf_ledger_copy(ledger, j->noted_writes, n, r);
        for (size_t i = 0; i < n; i++)
            put_row(batch + i * ROW_BYTES, &j->chain, r[i].offset, r[i].hash, r[i].bytes,
                    r[i].file);
        if (!append(j, batch, n * ROW_BYTES)) return 0;
        j->noted_writes += n;
    }
    return 1;
}

static int append_marks(kf_journal *j)
{
    uint8_t row[ROW_BYTES];
    for (; j->noted_marks < j->marks.count; j->noted_marks++) {
        const kf_mark *m = &j->marks.mark[j->noted_marks];
        put_row(row, &j->chain, m->first, m->note, m->count, MARK);
        if (!append(j, row, sizeof row)) return 0;
    }
    return 1;
}

static int begin(kf_journal *j, const kf_temp *folder)
{
    uint8_t head[HEAD_BYTES];
    const kf_journal_head *h = &j->head;
    unlinkat(folder->fd, NEW_NAME, 0);
    if (kf_temp_create_in(folder, NEW_NAME, &j->file, NULL) != KERF_OK) return 0;
    j->chain = MAGIC;
    j->bytes = 0; /* there may have been a journal before this one */
    put64(head, MAGIC);
    put_row(head + 8, &j->chain, h->version, h->source, h->work, h->placement);
    return append(j, head, sizeof head);
}

void kf_journal_note(kf_journal *j, const kf_temp *folder, kf_ledger *ledger, size_t writes,
                     double began_s)
{
    int is_new = !j->file.path;
    if (j->failed) return;
    int done = (!is_new || begin(j, folder)) && append_writes(j, ledger, writes) &&
               append_marks(j) && kf_sync_data(j->file.fd) == 0;
    if (done && is_new)
        done = renameat(folder->fd, NEW_NAME, folder->fd, KF_JOURNAL_NAME) == 0 &&
               kf_sync_folder(folder->fd, folder->path, NULL) == KERF_OK;
    j->failed = !done;
    double now = kf_now_s(), wait = WAIT_PER_COST * (now - began_s);
    if (wait < LEAST_WAIT_S) wait = LEAST_WAIT_S;
    j->due_s = now + (wait < MOST_WAIT_S ? wait : MOST_WAIT_S);
}
