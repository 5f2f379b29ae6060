/* test_file_journal.c - the journal of a run: rows that were written come back, and no other ones
 * are believed. */
#include "test_output.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "journal_rows.h"

/* --- the journal --- */

/* Reads it; returns the reason and leaves the numbers of what was taken. */
static const char *read_journal(const char *path, const kf_journal_head *own, size_t *records,
                                size_t *marks)
{
    kf_ledger l;
    kf_marks m = {0};
    kerf_error err;
    const char *why;
    kf_ledger_init(&l);
    must(kf_journal_read(path, own, &l, &m, &why, &err), &err);
    *records = l.count;
    *marks = m.count;
    for (size_t i = 0; i < l.count; i++) {
        assert_int_equal(l.record[i].offset, 100 * i);
        assert_int_equal(l.record[i].hash, ~i);
        assert_int_equal(l.record[i].bytes, i + 1);
        assert_int_equal(l.record[i].file, i % 3);
    }
    for (size_t i = 0; i < m.count; i++) {
        assert_int_equal(m.mark[i].first, i);
        assert_int_equal(m.mark[i].count, i + 2);
        assert_int_equal(m.mark[i].note, UINT64_MAX - i);
    }
    kf_ledger_free(&l);
    free(m.mark);
    return why;
}

enum { RECORDS = 200, MARKS = 40 };

static void write_usual(const char *folder)
{
    kf_record r[RECORDS];
    kf_mark m[MARKS];
    for (size_t i = 0; i < RECORDS; i++)
        r[i] = (kf_record){100 * i, ~i, (uint32_t)i + 1, (uint32_t)i % 3};
    for (size_t i = 0; i < MARKS; i++) m[i] = (kf_mark){i, i + 2, UINT64_MAX - i};
    write_journal(folder, r, RECORDS, m, MARKS);
}

static void test_journal(void **state)
{
    size_t records, marks;
    void *own = sub_folder(state, "journal");
    assert_string_equal(read_journal(own, &head, &records, &marks), "it had finished nothing yet");
    write_usual(own);
    assert_int_equal(count_files(own), 1);
    assert_null(read_journal(own, &head, &records, &marks));
    assert_int_equal(records, RECORDS);
    assert_int_equal(marks, MARKS);
    const struct {
        kf_journal_head head;
        const char *why;
    } other[] = {
        {{9, 2, 3, 4}, "another version of kerf wrote it"},
        {{1, 9, 3, 4}, "the source has changed"},
        {{1, 2, 9, 4}, "formats or options are others"},
        {{1, 2, 3, 9}, "formats or options are others"},
    };
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(read_journal(own, &other[i].head, &records, &marks), other[i].why);
        assert_int_equal(records + marks, 0);
    }
    free(own);
}

/* Cut anywhere, or with any byte changed, only what stands before the damage is taken. */
static void test_damaged_journal(void **state)
{
    size_t n, records, marks, most = 0;
    void *own = sub_folder(state, "damaged");
    const char *path = in_folder(&own, KF_JOURNAL_NAME);
    write_usual(own);
    char *whole = read_text(path, &n);
    for (size_t cut = 0; cut < n; cut += cut < 200 || cut > n - 80 ? 1 : 7) {
        assert_int_equal(truncate(path, (off_t)cut), 0);
        const char *why = read_journal(own, &head, &records, &marks);
        if (cut < 48) assert_string_equal(why, "its journal is damaged");
        assert_true(records + marks >= most && records + marks < RECORDS + MARKS);
        most = records + marks;
        int fd = open(path, O_WRONLY);
        assert_int_equal(write(fd, whole, n), n);
        close(fd);
    }
    assert_int_equal(most, RECORDS + MARKS - 1);
    for (size_t at = 0; at < n; at += 1 + at / 50) {
        int fd = open(path, O_RDWR);
        const char wrong = (char)(whole[at] ^ 1);
        assert_int_equal(pwrite(fd, &wrong, 1, (off_t)at), 1);
        const char *why = read_journal(own, &head, &records, &marks);
        if (at < 48) assert_non_null(why);
        assert_int_equal(records + marks, at < 48 ? 0 : (at - 48) / 40);
        assert_int_equal(pwrite(fd, whole + at, 1, (off_t)at), 1);
        close(fd);
    }
    put_text(path, "kerfjrn1 and then something else, long enough to be the head of one");
    assert_string_equal(read_journal(own, &head, &records, &marks), "its journal is damaged");
    free(whole);
    free(own);
}

/* Rows that nobody could have written end the list, though their hashes are right. */
static void test_senseless_rows(void **state)
{
    size_t records, marks;
    void *own = sub_folder(state, "senseless");
    const kf_record bad[] = {
        {100, ~1ull, 0, 1}, {100, ~1ull, KF_LEDGER_MAX_BYTES + 1, 1}, {100, ~1ull, 2, UINT32_MAX}};
    for (size_t i = 0; i < 3; i++) {
        const kf_record r[] = {{0, ~0ull, 1, 0}, bad[i]};
        const kf_mark m[] = {{0, 2, UINT64_MAX}};
        write_journal(own, r, 2, m, 1);
        assert_null(read_journal(own, &head, &records, &marks));
        assert_int_equal(records, 1);
        assert_int_equal(marks, 1);
    }
    free(own);
}

/* Notes a hundred writes; returns whether the journal was given up. */
static int note_in_vain(char *path, int folder_fd)
{
    kf_journal j;
    kf_ledger l;
    kf_temp folder = KF_NO_TEMP;
    kerf_error err;
    folder.path = path;
    folder.fd = folder_fd;
    kf_ledger_init(&l);
    kf_journal_init(&j, &head);
    for (uint64_t i = 0; i < 100; i++) must(kf_ledger_add(&l, (kf_record){i, i, 1, 0}, &err), &err);
    must(kf_marks_add(&j.marks, (kf_mark){0, 1, 0}, &err), &err);
    kf_journal_note(&j, &folder, &l, 100, kf_now_s());
    int failed = j.failed;
    usleep(40000);
    failed &= !kf_journal_is_due(&j);
    kf_journal_close(&j);
    kf_ledger_free(&l);
    return failed;
}

/* A journal that cannot be written is given up, and none appears that is not whole. */
static void test_no_room_for_a_journal(void **state)
{
    void *own = sub_folder(state, "gone");
    int status, fd = open(own, O_RDONLY | O_DIRECTORY);
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {1000, 1000};
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        _exit(note_in_vain(own, fd) && !is_there(in_folder(&own, KF_JOURNAL_NAME)) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(unlink(in_folder(&own, ".journal.new")), 0);
    assert_int_equal(rmdir(own), 0);
    assert_true(note_in_vain(own, fd));
    close(fd);
    free(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_journal),
        cmocka_unit_test(test_damaged_journal),
        cmocka_unit_test(test_senseless_rows),
        cmocka_unit_test(test_no_room_for_a_journal),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
