/* journal_rows.h - a journal as a killed run leaves it. */
#ifndef KERF_TESTS_JOURNAL_ROWS_H
#define KERF_TESTS_JOURNAL_ROWS_H

#include "test_output.h"

#include "file/write/resume.h"

static const kf_journal_head head = {1, 2, 3, 4};

/* Writes a journal into a folder that is removed by the group: records i, marks of one each. */
static void write_journal(const char *path, const kf_record *r, size_t records, const kf_mark *m,
                          size_t marks)
{
    kf_journal j;
    kf_ledger l;
    kf_temp folder = KF_NO_TEMP;
    kerf_error err;
    char own[4300];
    snprintf(own, sizeof own, "%s", path);
    folder.path = own;
    folder.fd = open(path, O_RDONLY | O_DIRECTORY);
    assert_true(folder.fd >= 0);
    kf_ledger_init(&l);
    kf_journal_init(&j, &head);
    for (size_t i = 0; i < records; i++) must(kf_ledger_add(&l, r[i], &err), &err);
    for (size_t i = 0; i < marks; i++) {
        must(kf_marks_add(&j.marks, m[i], &err), &err);
        if (i == marks / 2) kf_journal_note(&j, &folder, &l, records / 2, kf_now_s());
    }
    kf_journal_note(&j, &folder, &l, records, kf_now_s());
    assert_false(j.failed);
    kf_journal_close(&j);
    kf_ledger_free(&l);
    close(folder.fd);
}

#endif
