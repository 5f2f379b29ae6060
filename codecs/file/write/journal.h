/* journal.h - notes which entries of an output are finished, so that a later run can continue this
 * one if it is killed. */
#ifndef KERF_FILE_JOURNAL_H
#define KERF_FILE_JOURNAL_H

#include "file/write/ledger.h"
#include "file/disk/temp.h"

#define KF_JOURNAL_NAME ".journal" /* in a temporary folder; never the name of a shard */

/* All names that a journal may have in its folder, then NULL. */
extern const char *const kf_journal_names[];

/* What the bytes of an output depend on. */
typedef struct kf_journal_head {
    uint64_t version, source, work, placement;
} kf_journal_head;

/* Entries [first, first + count) are written; note: whatever their writer wants to know later. */
typedef struct kf_mark {
    uint64_t first, count, note;
} kf_mark;

typedef struct kf_marks {
    kf_mark *mark;
    size_t count, capacity;
} kf_marks;

kerf_status kf_marks_add(kf_marks *m, kf_mark mark, kerf_error *err);

/* Reads what a dead run noted, as far as it is whole. *why: NULL, or in a few words why nothing of
 * it serves a run with this head; the lists are empty then. Fails for want of memory alone. What
 * the rows say is not yet held against anything. */
kerf_status kf_journal_read(const char *folder, const kf_journal_head *head, kf_ledger *writes,
                            kf_marks *marks, const char **why, kerf_error *err);

typedef struct kf_journal {
    kf_journal_head head;
    kf_marks marks; /* all of them; the first `noted_marks` are on disk */
    size_t noted_marks, noted_writes;
    kf_temp file;
    uint64_t bytes, chain;
    double due_s; /* not before this is noting worth a sync */
    int failed;
} kf_journal;

void kf_journal_init(kf_journal *j, const kf_journal_head *head);
void kf_journal_close(kf_journal *j); /* leaves the file */

/* 1 when there are marks to note and the last noting was long enough ago. */
int kf_journal_is_due(const kf_journal *j);

/* Appends the first `writes` of a ledger and all marks, as far as they are not there yet, and
 * syncs. The bytes that they speak of must have been synced since `began_s`. A journal that cannot
 * be written is given up: the run itself lacks nothing. */
void kf_journal_note(kf_journal *j, const kf_temp *folder, kf_ledger *ledger, size_t writes,
                     double began_s);

#endif
