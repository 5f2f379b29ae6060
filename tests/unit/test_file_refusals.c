/* test_file_refusals.c - what a writer refuses, and that whatever happens the target is whole or
 * absent and nothing is left beside it. */
#include "test_output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>

static const kerf_entry pair[] = {{"a", KERF_F32, {1, {10}}, 0}, {"b", KERF_U8, {1, {7}}, 0}};
static const kerf_writer_options overwrite = {.overwrite = 1};

/* Opens a writer, which must fail and leave `folder` with `files` names in it. */
static void refuse(const char *path, const kerf_entry *e, size_t count,
                   const kerf_writer_options *opt, kerf_status status, const char *message)
{
    kerf_writer *w = NULL;
    kerf_error err = {0};
    kerf_status s = kerf_writer_create(path, e, count, opt, &w, &err);
    if (s != status || !strstr(err.text, message) || strchr(err.text, '\n'))
        fail_msg("%s: %s \"%s\", expected %s \"%s\"", path, kerf_status_name(s), err.text,
                 kerf_status_name(status), message);
    assert_null(w);
}

static kerf_writer *start(const char *path, const kerf_writer_options *opt)
{
    kerf_writer *w;
    kerf_error err;
    must(kerf_writer_create(path, pair, 2, opt, &w, &err), &err);
    return w;
}

static void refuse_commit(kerf_writer *w, kerf_status status, const char *message)
{
    kerf_error err = {0};
    kerf_status s = kerf_writer_commit(w, &err);
    if (s != status || !strstr(err.text, message) || strchr(err.text, '\n'))
        fail_msg("%s \"%s\", expected %s \"%s\"", kerf_status_name(s), err.text,
                 kerf_status_name(status), message);
}

/* --- what is declared --- */

static void test_bad_entries(void **state)
{
    const char *path = in_folder(state, "entries.safetensors");
    char long_name[1030];
    memset(long_name, 'n', 1029);
    long_name[1029] = 0;
    const struct {
        kerf_entry e;
        kerf_status status;
        const char *message;
    } bad[] = {
        {{"__metadata__", KERF_F32, {0}, 0}, KERF_E_ARG, "reserved"},
        {{"a\xff", KERF_F32, {0}, 0}, KERF_E_ARG, "not UTF-8"},
        {{NULL, KERF_F32, {0}, 0}, KERF_E_ARG, "not UTF-8"},
        {{long_name, KERF_F32, {0}, 0}, KERF_E_LIMIT, "longer than 1024"},
        {{"a", KERF_DTYPE_NONE, {0}, 0}, KERF_E_ARG, "no dtype"},
        {{"a", (kerf_dtype)99, {0}, 0}, KERF_E_ARG, "no dtype"},
        {{"a", KERF_F32, {9, {1}}, 0}, KERF_E_ARG, "8 dimensions"},
        {{"a", KERF_F32, {1, {UINT64_MAX}}, 0}, KERF_E_ARG, "above 2^53"},
        {{"a", KERF_F32, {2, {1ull << 40, 1ull << 40}}, 0}, KERF_E_RANGE, "64 bits"},
        {{"a", KERF_U8, {2, {1ull << 32, 1ull << 31}}, 0}, KERF_E_RANGE, "64 bits"},
        {{"a", KERF_F4, {1, {3}}, 0}, KERF_E_ARG, "whole bytes"},
        {{"a", KERF_F32, {0}, 1}, KERF_E_ARG, "shard does not exist"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuse(path, &bad[i].e, 1, NULL, bad[i].status, bad[i].message);
    const kerf_entry twice[] = {pair[0], pair[1], pair[0]};
    refuse(path, twice, 3, NULL, KERF_E_ARG, "two output tensors are named \"a\"");
    refuse(path, pair, KERF_MAX_TENSORS + 1, NULL, KERF_E_LIMIT, "at most 1000000");
    assert_false(is_there(path));
}

static void test_bad_options(void **state)
{
    static const char *const two[] = {"x.safetensors", "y.safetensors"};
    static const char *const same[] = {"x.safetensors", "x.safetensors.zst"};
    static const char *const bad[] = {"../x.safetensors", ".x.safetensors", "x.bin", ""};
    static const kerf_key_value pairs[] = {{"k", "1"}, {"k", "2"}}, broken[] = {{"k", "\xff"}};
    const kerf_key_value *metadata[] = {pairs};
    const size_t counts[] = {2}, one[] = {1};
    kerf_writer_options opt = {.shard = two, .shards = 2};
    const char *folder = in_folder(state, "options");
    refuse(folder, pair, 2, &opt, KERF_E_ARG, "shard 1 has no tensors");
    refuse(in_folder(state, "options.safetensors"), pair, 2, &opt, KERF_E_ARG, "name a folder");
    opt.shard = same;
    refuse(folder, pair, 2, &opt, KERF_E_ARG, "two output shards are named \"x.safetensors\"");
    opt.shards = 0;
    refuse(folder, pair, 2, &opt, KERF_E_ARG, "no shards");
    opt.shards = 1;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        opt.shard = &bad[i];
        refuse(folder, pair, 2, &opt, KERF_E_ARG, "not the plain name");
    }
    static const int levels[] = {1000, 23, -1};
    for (size_t i = 0; i < 3; i++) {
        opt = (kerf_writer_options){.zstd_level = levels[i]};
        refuse(folder, pair, 2, &opt, KERF_E_ARG, "1 to 22 exist");
    }
    opt = (kerf_writer_options){.metadata = metadata, .metadata_count = counts};
    refuse(folder, pair, 2, &opt, KERF_E_ARG, "\"k\" is given twice");
    metadata[0] = broken;
    opt.metadata_count = one;
    refuse(folder, pair, 2, &opt, KERF_E_ARG, "\"k\" is not UTF-8");
    refuse("", pair, 2, NULL, KERF_E_ARG, "no name");
    refuse(NULL, pair, 2, NULL, KERF_E_ARG, "missing");
    assert_false(is_there(folder));
}

/* --- what is written --- */

static void test_bad_writes(void **state)
{
    void *own = sub_folder(state, "writes");
    const char *path = in_folder(&own, "x.safetensors");
    unsigned char p[64] = {0};
    kerf_error err;
    kerf_writer *w = start(path, NULL);
    assert_int_equal(kerf_writer_write(w, 2, 0, p, 1, &err), KERF_E_ARG);
    assert_int_equal(kerf_writer_write(w, 0, 0, p, 41, &err), KERF_E_ARG);
    assert_int_equal(kerf_writer_write(w, 0, 40, p, 1, &err), KERF_E_ARG);
    assert_int_equal(kerf_writer_write(w, 0, UINT64_MAX, p, 2, &err), KERF_E_ARG);
    must(kerf_writer_write(w, 0, 40, p, 0, &err), &err);
    must(kerf_writer_write(w, 0, 0, p, 40, &err), &err);
    must(kerf_writer_write(w, 1, 0, p, 6, &err), &err);
    refuse_commit(w, KERF_E_ARG, "tensor \"b\": byte 6 was never written");

    w = start(path, NULL);
    must(kerf_writer_write(w, 0, 0, p, 40, &err), &err);
    refuse_commit(w, KERF_E_ARG, "tensor \"b\": byte 0 was never written");

    w = start(path, NULL);
    must(kerf_writer_write(w, 0, 0, p, 20, &err), &err);
    must(kerf_writer_write(w, 0, 19, p, 21, &err), &err);
    must(kerf_writer_write(w, 1, 0, p, 7, &err), &err);
    refuse_commit(w, KERF_E_ARG, "tensor \"a\": byte 19 was written twice");

    w = start(path, NULL);
    must(kerf_writer_write(w, 0, 0, p, 10, &err), &err);
    must(kerf_writer_write(w, 0, 11, p, 29, &err), &err);
    must(kerf_writer_write(w, 1, 0, p, 7, &err), &err);
    refuse_commit(w, KERF_E_ARG, "tensor \"a\": byte 10 was never written");
    assert_int_equal(count_files(own), 0);

    w = start(path, NULL);
    assert_int_equal(count_files(own), 1); /* the temporary */
    kerf_writer_abort(w);
    kerf_writer_abort(NULL);
    assert_int_equal(count_files(own), 0);
    free(own);
}

/* A disk that stores something else than what it was given. */
static void test_lying_disk(void **state)
{
    static const char *const names[] = {"x.safetensors", "x.safetensors.zst"};
    void *own = sub_folder(state, "lying");
    for (int i = 0; i < 2; i++) {
        kerf_writer *w = start(in_folder(&own, names[i]), NULL);
        write_entries(w, pair, 2);
        int fd = open(find_temporary(own), O_WRONLY);
        assert_int_equal(pwrite(fd, "!", 1, lseek(fd, 0, SEEK_END) - 1), 1);
        close(fd);
        refuse_commit(w, KERF_E_IO, "read back other than they were written");

        w = start(in_folder(&own, names[i]), NULL);
        write_entries(w, pair, 2);
        assert_int_equal(truncate(find_temporary(own), 100), 0);
        refuse_commit(w, KERF_E_IO, i == 0 ? "on disk" : "ends at byte");
    }
    kerf_writer *w = start(in_folder(&own, "x.safetensors"), NULL);
    write_entries(w, pair, 2);
    assert_int_equal(unlink(find_temporary(own)), 0);
    refuse_commit(w, KERF_E_IO, "cannot open");
    assert_int_equal(count_files(own), 0);
    free(own);
}

/* --- what is there already --- */

static void test_existing_file(void **state)
{
    void *own = sub_folder(state, "existing-file");
    const char *path = in_folder(&own, "x.safetensors");
    size_t n;
    put_text(path, "old");
    refuse(path, pair, 2, NULL, KERF_E_EXISTS, "exists already; -y replaces it");
    kerf_writer_abort(start(path, &overwrite));
    char *text = read_text(path, &n);
    assert_string_equal(text, "old");
    free(text);
    write_checkpoint(path, pair, 2, &overwrite);
    check_checkpoint(path, pair, 2);

    /* it appears while the writer works */
    path = in_folder(&own, "late.safetensors");
    kerf_writer *w = start(path, NULL);
    write_entries(w, pair, 2);
    put_text(path, "mine");
    refuse_commit(w, KERF_E_EXISTS, "exists already; -y replaces it");
    text = read_text(path, &n);
    assert_string_equal(text, "mine");
    free(text);

    refuse(in_folder(&own, "x.safetensors"), pair, 2, NULL, KERF_E_EXISTS,
           "exists already; -y replaces it");
    assert_int_equal(mkdir(in_folder(&own, "folder.safetensors"), 0777), 0);
    refuse(in_folder(&own, "folder.safetensors"), pair, 2, &overwrite, KERF_E_EXISTS, "a folder");
    assert_int_equal(symlink("nowhere", in_folder(&own, "link.safetensors")), 0);
    refuse(in_folder(&own, "link.safetensors"), pair, 2, NULL, KERF_E_EXISTS,
           "exists already; -y replaces it");
    assert_int_equal(count_files(own), 4);
    free(own);
}

static void test_existing_folder(void **state)
{
    void *own = sub_folder(state, "existing-folder");
    const char *path = in_folder(&own, "out");
    char slash[4300];
    snprintf(slash, sizeof slash, "%s//", path);
    assert_int_equal(mkdir(path, 0777), 0);
    write_checkpoint(slash, pair, 2, NULL); /* an empty folder is nothing to lose */
    check_checkpoint(path, pair, 2);
    refuse(path, pair, 2, NULL, KERF_E_EXISTS, "exists already; -y replaces it");
    put_text(in_folder(&own, "out/old.txt"), "old");
    write_checkpoint(path, pair, 2, &overwrite);
    check_checkpoint(path, pair, 2);
    assert_false(is_there(in_folder(&own, "out/old.txt")));
    assert_int_equal(count_files(path), 1);
    assert_int_equal(count_files(own), 1);

    assert_int_equal(mkdir(in_folder(&own, "out/sub"), 0777), 0);
    refuse(path, pair, 2, &overwrite, KERF_E_EXISTS, "holds \"sub\"");
    assert_int_equal(rmdir(in_folder(&own, "out/sub")), 0);
    assert_int_equal(symlink("model.safetensors", in_folder(&own, "out/link")), 0);
    refuse(path, pair, 2, &overwrite, KERF_E_EXISTS, "holds \"link\"");
    check_checkpoint(path, pair, 2);

    /* no output of an earlier run */
    assert_int_equal(mkdir(in_folder(&own, "letters"), 0777), 0);
    put_text(in_folder(&own, "letters/mine"), "mine");
    refuse(in_folder(&own, "letters"), pair, 2, &overwrite, KERF_E_EXISTS,
           "\"mine\" and no weights");
    assert_int_equal(count_files(in_folder(&own, "letters")), 1);

    put_text(in_folder(&own, "file"), "x");
    refuse(in_folder(&own, "file"), pair, 2, &overwrite, KERF_E_EXISTS, "not a folder");
    assert_int_equal(symlink("nowhere", in_folder(&own, "dangling")), 0);
    refuse(in_folder(&own, "dangling"), pair, 2, &overwrite, KERF_E_EXISTS,
           "a link that leads nowhere");

    /* it appears while the writer works */
    kerf_writer *w = start(in_folder(&own, "late"), NULL);
    write_entries(w, pair, 2);
    assert_int_equal(mkdir(in_folder(&own, "late"), 0777), 0);
    put_text(in_folder(&own, "late/mine.safetensors"), "mine");
    refuse_commit(w, KERF_E_EXISTS, "exists already; -y replaces it");
    assert_int_equal(count_files(in_folder(&own, "late")), 1);

    /* through a link: the folder itself is replaced, the link stays */
    assert_int_equal(symlink("late", in_folder(&own, "to-late")), 0);
    write_checkpoint(in_folder(&own, "to-late"), pair, 2, &overwrite);
    check_checkpoint(in_folder(&own, "late"), pair, 2);
    assert_int_equal(count_files(own), 6);
    free(own);
}

static void test_no_parent_folder(void **state)
{
    kerf_writer *w = NULL;
    kerf_error err;
    const char *path = in_folder(state, "absent/x.safetensors");
    assert_int_equal(kerf_writer_create(path, pair, 2, NULL, &w, &err), KERF_E_IO);
    assert_int_equal(err.native, ENOENT);
    assert_non_null(strstr(err.text, "absent"));
    assert_int_equal(kerf_writer_create(in_folder(state, "absent/out"), pair, 2, NULL, &w, &err),
                     KERF_E_IO);
    assert_false(is_there(in_folder(state, "absent")));
}

/* --- in == out --- */

static void test_over_the_source(void **state)
{
    static const char message[] = "overwrite its own source";
    void *own = sub_folder(state, "source");
    static const char *const names[] = {"x.safetensors", "y.safetensors"};
    static const kerf_entry two[] = {{"a", KERF_U8, {0}, 0}, {"b", KERF_U8, {0}, 1}};
    const kerf_writer_options shards = {.shard = names, .shards = 2};
    kerf_reader *r, *one;
    kerf_error err;
    write_checkpoint(in_folder(&own, "in"), two, 2, &shards);
    must(kerf_reader_open(in_folder(&own, "in"), &r, &err), &err);
    kerf_writer_options opt = {.overwrite = 1, .source = r};

    refuse(in_folder(&own, "in"), pair, 2, &opt, KERF_E_ARG, message);
    refuse(in_folder(&own, "in/../in/."), pair, 2, &opt, KERF_E_ARG, message);
    refuse(in_folder(&own, "in/y.safetensors"), pair, 2, &opt, KERF_E_ARG, message);
    assert_int_equal(symlink("in", in_folder(&own, "soft")), 0);
    refuse(in_folder(&own, "soft"), pair, 2, &opt, KERF_E_ARG, message);
    assert_int_equal(symlink("in/x.safetensors", in_folder(&own, "soft.safetensors")), 0);
    refuse(in_folder(&own, "soft.safetensors"), pair, 2, &opt, KERF_E_ARG, message);
    assert_int_equal(link(in_folder(&own, "in/x.safetensors"), in_folder(&own, "hard.safetensors")),
                     0);
    refuse(in_folder(&own, "hard.safetensors"), pair, 2, &opt, KERF_E_ARG, message);
    opt.overwrite = 0;
    refuse(in_folder(&own, "in"), pair, 2, &opt, KERF_E_ARG, message);
    opt.overwrite = 1;

    /* a folder that would be emptied holds the data behind a linked source */
    assert_int_equal(mkdir(in_folder(&own, "store"), 0777), 0);
    assert_int_equal(rename(in_folder(&own, "hard.safetensors"), in_folder(&own, "store/blob")), 0);
    refuse(in_folder(&own, "store"), pair, 2, &opt, KERF_E_ARG, message);

    /* a lone file, and the folder around it */
    must(kerf_reader_open(in_folder(&own, "in/x.safetensors"), &one, &err), &err);
    opt.source = one;
    refuse(in_folder(&own, "in"), pair, 2, &opt, KERF_E_ARG, message);
    write_checkpoint(in_folder(&own, "in/z.safetensors"), pair, 2, &opt);
    kerf_reader_close(one);
    kerf_reader_close(r);
    check_checkpoint(in_folder(&own, "in/z.safetensors"), pair, 2);
    free(own);
}

/* --- what dead runs leave --- */

/* Two outputs are one path, or one is inside of the other, however they are spelled and though
 * nothing of them is there. */
static void test_two_outputs(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        kerf_status want;
    } rows[] = {
        {"none/out", "none/out", KERF_E_ARG},
        {"none/out", "none/out/", KERF_E_ARG},
        {"out", "out/", KERF_E_ARG},
        {"out", "out/log", KERF_E_ARG},
        {"out", "./out/log/x", KERF_E_ARG},
        {"none/out", "none//out/log", KERF_E_ARG},
        {"out", "out2", KERF_OK},
        {"out/a", "out/b", KERF_OK},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *both[] = {rows[i].a, rows[i].b}, *turned[] = {rows[i].b, rows[i].a};
        const kerf_files f = {.output = both, .outputs = 2}, g = {.output = turned, .outputs = 2};
        assert_int_equal(kerf_files_check(&f, NULL), rows[i].want);
        assert_int_equal(kerf_files_check(&g, NULL), rows[i].want);
    }
}

static void test_dead_temporaries(void **state)
{
    void *own = sub_folder(state, "dead");
    put_text(in_folder(&own, ".x.safetensors.kerf-tmp-1-0"), "dead");
    assert_int_equal(mkdir(in_folder(&own, ".x.safetensors.kerf-tmp-1-1"), 0777), 0);
    put_text(in_folder(&own, ".x.safetensors.kerf-tmp-1-1/model.safetensors"), "dead");
    put_text(in_folder(&own, ".y.safetensors.kerf-tmp-1-0"), "of another target");
    const char *alive = in_folder(&own, ".x.safetensors.kerf-tmp-2-0");
    put_text(alive, "alive");
    int fd = open(alive, O_RDONLY);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);

    kerf_writer *w = start(in_folder(&own, "x.safetensors"), NULL);
    assert_int_equal(count_files(own), 3); /* another target's, the living one, and ours */
    kerf_writer *second = start(in_folder(&own, "x.safetensors"), NULL);
    assert_int_equal(count_files(own), 4); /* two at once do not disturb each other */
    write_entries(w, pair, 2);
    write_entries(second, pair, 2);
    kerf_error err;
    must(kerf_writer_commit(w, &err), &err);
    refuse_commit(second, KERF_E_EXISTS, "exists already; -y replaces it");
    check_checkpoint(in_folder(&own, "x.safetensors"), pair, 2);
    close(fd);
    assert_int_equal(count_files(own), 3);
    free(own);
}

/* A run killed at any of its steps: no target, at most one temporary, and the next run succeeds. */
static void test_killed_runs(void **state)
{
    static const char *const names[] = {"x.safetensors", "x.safetensors.zst", "x"};
    void *own = sub_folder(state, "killed");
    for (int i = 0; i < 3; i++)
        for (int step = 0; step < 2; step++) {
            const char *path = in_folder(&own, names[i]);
            int status;
            pid_t child = fork();
            if (child == 0) {
                kerf_writer *w;
                if (kerf_writer_create(path, pair, 2, NULL, &w, NULL) == KERF_OK) {
                    if (step == 1) write_entries(w, pair, 2);
                    kill(getpid(), SIGKILL);
                }
                _exit(1);
            }
            assert_int_equal(waitpid(child, &status, 0), child);
            assert_true(WIFSIGNALED(status));
            assert_false(is_there(path));
            assert_int_equal(count_files(own), i + 1);
            if (step == 0) continue; /* its temporary is removed by the next */
            write_checkpoint(path, pair, 2, NULL);
            check_checkpoint(path, pair, 2);
            assert_int_equal(count_files(own), i + 1);
        }
    free(own);
}

static void test_signal_cleanup(void **state)
{
    static const char *const shard[] = {"x.safetensors.zst"};
    char text[] = "{}";
    const kerf_companion config = {"config.json", text};
    const kerf_writer_options packed = {
        .shard = shard, .shards = 1, .companion = &config, .companions = 1};
    void *own = sub_folder(state, "signal");
    kerf_writer *file = start(in_folder(&own, "x.safetensors"), NULL);
    kerf_writer *folder = start(in_folder(&own, "x"), &packed);
    write_entries(folder, pair, 2);
    assert_int_equal(count_files(own), 2);
    kerf_writer_cleanup_signal();
    assert_int_equal(count_files(own), 0);
    kerf_writer_abort(file);
    kerf_writer_abort(folder);
    write_checkpoint(in_folder(&own, "x"), pair, 2, NULL);
    kerf_writer_cleanup_signal(); /* nothing is open: nothing is removed */
    check_checkpoint(in_folder(&own, "x"), pair, 2);
    free(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_entries),      cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_bad_writes),       cmocka_unit_test(test_lying_disk),
        cmocka_unit_test(test_existing_file),    cmocka_unit_test(test_existing_folder),
        cmocka_unit_test(test_no_parent_folder), cmocka_unit_test(test_over_the_source),
        cmocka_unit_test(test_dead_temporaries), cmocka_unit_test(test_killed_runs),
        cmocka_unit_test(test_signal_cleanup),   cmocka_unit_test(test_two_outputs),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
