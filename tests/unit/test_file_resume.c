/* test_file_resume.c - what a killed writer leaves is used when it is whole and ours, and whatever
 * else lies there instead is not believed. */
#include "test_output.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "file/safetensors/safetensors_write.h"
#include "journal_rows.h"

/* --- the writer --- */

static const kerf_entry six[] = {
    {"a", KERF_F32, {1, {1000}}, 0}, {"b", KERF_U8, {1, {70}}, 0},  {"c", KERF_U8, {1, {5000}}, 1},
    {"d", KERF_F32, {1, {0}}, 1},    {"e", KERF_U8, {1, {300}}, 0}, {"f", KERF_U8, {1, {9}}, 1},
};

/* An output of six entries, in which {a, b}, {c, d}, {e} and {f} are weights. */
static const struct {
    size_t first, count;
} weights[] = {{0, 2}, {2, 2}, {4, 1}, {5, 1}};

typedef struct output {
    const char *path;
    kerf_resume resume;
    kerf_writer_options options;
    kerf_entry entry[6];
} output;

static void prepare(output *o, const char *path, int packed)
{
    static const char *const plain[] = {"x.safetensors", "y.safetensors"};
    static const char *const zst[] = {"x.safetensors.zst", "y.safetensors.zst"};
    int one = strstr(path, ".safetensors") != NULL;
    *o = (output){.path = path, .resume = {.source = 5, .work = 6, .goes_on = 1}};
    o->options.threads = 1; /* OpenMP does not survive a fork */
    if (!one) {
        o->options.shard = packed ? zst : plain;
        o->options.shards = 2;
    }
    memcpy(o->entry, six, sizeof six);
    for (size_t i = 0; one && i < 6; i++) o->entry[i].shard = 0;
}

static kerf_writer *create(output *o)
{
    kerf_writer *w;
    kerf_error err;
    o->options.resume = &o->resume;
    must(kerf_writer_create(o->path, o->entry, 6, &o->options, &w, &err), &err);
    return w;
}

/* Writes weights [first, end) that are not there; returns how many were. */
static int write_weights(kerf_writer *w, const output *o, size_t first, size_t end)
{
    int found = 0;
    kerf_error err;
    for (size_t k = first; k < end; k++) {
        uint64_t note = 0;
        if (kerf_writer_marked(w, weights[k].first, weights[k].count, &note)) {
            assert_int_equal(note, 70 + k);
            found++;
            continue;
        }
        for (size_t i = weights[k].first; i < weights[k].first + weights[k].count; i++) {
            size_t n = entry_bytes(&o->entry[i]);
            unsigned char *p = malloc(n + 1);
            fill(&o->entry[i], p, n);
            must(kerf_writer_write(w, i, 0, p, n, &err), &err);
            free(p);
        }
        must(kerf_writer_mark(w, weights[k].first, weights[k].count, 70 + k, &err), &err);
    }
    return found;
}

/* In a child: writes `count` weights and half of the next, and is killed when the journal has been
 * noted (in_commit: at the first word from there). */
static void die(void *ctx, const kerf_event *e)
{
    (void)ctx;
    if (e->done < e->total || e->done > 0) kill(getpid(), SIGKILL);
}

static void kill_run(output *o, size_t count, int in_commit)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        kerf_error err;
        o->resume.goes_on = 0; /* the journal is always written */
        const kerf_job deadly = {.tell = die};
        if (in_commit) o->options.job = &deadly;
        kerf_writer *w = create(o);
        if (count > 0) {
            write_weights(w, o, 0, count - 1);
            usleep(40000); /* noting is due */
            write_weights(w, o, count - 1, count);
        }
        if (in_commit && kerf_writer_commit(w, &err)) _exit(2);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_false(is_there(o->path));
}

/* The next run: finds this many weights and ends with the right output and nothing else. */
static void go_on(output *o, void *own, int found, const char *why)
{
    const char *reason;
    kerf_error err;
    kerf_writer *w = create(o);
    uint64_t bytes = kerf_writer_found(w, &reason);
    if (why)
        assert_string_equal(reason, why);
    else
        assert_null(reason);
    assert_int_equal(bytes > 0, found > 0);
    assert_int_equal(count_files(own), 1);
    assert_int_equal(write_weights(w, o, 0, 4), found);
    must(kerf_writer_commit(w, &err), &err);
    check_checkpoint(o->path, o->entry, 6);
    assert_int_equal(count_files(own), 1);
    if (o->options.shards) assert_int_equal(count_files(o->path), 3);
    char command[4400];
    snprintf(command, sizeof command, "rm -r '%s'", o->path);
    assert_int_equal(system(command), 0);
}

static void test_killed_runs(void **state)
{
    static const char *const names[] = {"x", "x", "x.safetensors", "x.safetensors.zst"};
    void *own = sub_folder(state, "killed");
    for (int i = 0; i < 4; i++) {
        output o;
        prepare(&o, in_folder(&own, names[i]), i == 1);
        go_on(&o, own, 0, "there is nothing to continue");
        kill_run(&o, 0, 0);
        go_on(&o, own, 0, "it had finished nothing yet");
        for (size_t count = 1; count <= 4; count++) {
            prepare(&o, in_folder(&own, names[i]), i == 1);
            kill_run(&o, count, 0);
            go_on(&o, own, (int)count, NULL);
        }
        prepare(&o, in_folder(&own, names[i]), i == 1);
        kill_run(&o, 4, 1);
        go_on(&o, own, 4, NULL);
        o.resume.goes_on = 0;
        kill_run(&o, 3, 0);
        go_on(&o, own, 0, NULL); /* not asked to go on: the dead run's are removed */
    }
    free(own);
}

static void test_changed_runs(void **state)
{
    void *own = sub_folder(state, "changed");
    output o;
    prepare(&o, in_folder(&own, "x"), 0);
    for (int i = 0; i < 4; i++) {
        static const char *const why[] = {"the source has changed", "formats or options are others",
                                          "formats or options are others",
                                          "formats or options are others"};
        prepare(&o, in_folder(&own, "x"), 0);
        kill_run(&o, 3, 0);
        prepare(&o, in_folder(&own, "x"), i == 3);
        if (i == 0) o.resume.source++;
        if (i == 1) o.resume.work++;
        if (i == 2) o.entry[5].dtype = KERF_I8;
        go_on(&o, own, 0, why[i]);
    }
    free(own);
}

/* What is not as the journal says is not used; what is, is. */
static void test_damaged_files(void **state)
{
    void *own = sub_folder(state, "files");
    char path[5100];
    output o;
    for (int i = 0; i < 6; i++) {
        prepare(&o, in_folder(&own, "x"), 0);
        kill_run(&o, 4, 0);
        snprintf(path, sizeof path, "%s/x.safetensors", find_temporary(own));
        int fd = open(path, O_RDWR);
        assert_true(fd >= 0);
        if (i == 0) assert_int_equal(pwrite(fd, "!", 1, lseek(fd, 0, SEEK_END) - 1), 1);
        if (i == 1) assert_int_equal(ftruncate(fd, 600), 0);
        if (i == 2) assert_int_equal(unlink(path), 0);
        if (i == 3) assert_int_equal(ftruncate(fd, 1000000), 0);
        if (i == 4) assert_true(unlink(path) == 0 && symlink("y.safetensors", path) == 0);
        if (i == 5) assert_int_equal(pwrite(fd, "~~~~~~~~", 8, 0), 8); /* the header: made again */
        close(fd);
        go_on(&o, own, i == 5 ? 4 : 2, NULL);
    }
    /* a packed file and one that is half packed */
    prepare(&o, in_folder(&own, "x"), 1);
    kill_run(&o, 4, 1);
    snprintf(path, sizeof path, "%s/x.safetensors.zst", find_temporary(own));
    assert_true(is_there(path));
    assert_int_equal(truncate(path, 100), 0);
    go_on(&o, own, 2, NULL);
    /* beside files of no use */
    prepare(&o, in_folder(&own, "x"), 0);
    kill_run(&o, 4, 0);
    snprintf(path, sizeof path, "%s/z.safetensors", find_temporary(own));
    put_text(path, "of no use");
    go_on(&o, own, 4, NULL);
    free(own);
}

/* A run that fails leaves what it has finished, when it was asked to go on. */
static void test_failed_runs(void **state)
{
    void *own = sub_folder(state, "failed");
    kerf_error err;
    output o;
    prepare(&o, in_folder(&own, "x"), 0);
    kerf_writer *w = create(&o);
    write_weights(w, &o, 0, 3);
    kerf_writer_abort(w);
    assert_int_equal(count_files(own), 1);
    go_on(&o, own, 3, NULL);

    w = create(&o); /* fails when it has a journal already */
    write_weights(w, &o, 0, 1);
    usleep(40000); /* noting is due */
    write_weights(w, &o, 1, 3);
    kerf_writer_abort(w);
    go_on(&o, own, 3, NULL);

    w = create(&o);
    write_weights(w, &o, 0, 4);
    kerf_writer_cleanup_signal(); /* nothing of this run is removed by a signal */
    assert_int_equal(mkdir(o.path, 0777), 0);
    put_text(in_folder(&own, "x/mine.safetensors"), "mine");
    assert_int_equal(kerf_writer_commit(w, &err), KERF_E_EXISTS);
    assert_int_equal(count_files(own), 2);
    o.options.overwrite = 1;
    w = create(&o);
    assert_int_equal(write_weights(w, &o, 0, 4), 4);
    must(kerf_writer_commit(w, &err), &err);
    check_checkpoint(o.path, o.entry, 6);
    assert_int_equal(count_files(own), 1);

    w = create(&o); /* nothing finished: nothing kept */
    kerf_writer_abort(w);
    o.resume.goes_on = 0;
    w = create(&o);
    write_weights(w, &o, 0, 3);
    kerf_writer_abort(w);
    assert_int_equal(count_files(own), 1);
    free(own);
}

/* Nobody continues what is alive. */
static void test_living_run(void **state)
{
    void *own = sub_folder(state, "living");
    const char *why;
    kerf_error err;
    output o;
    prepare(&o, in_folder(&own, "x"), 0);
    kerf_writer *w = create(&o);
    write_weights(w, &o, 0, 1);
    usleep(40000);
    write_weights(w, &o, 1, 2);
    kerf_writer *second = create(&o);
    assert_int_equal(kerf_writer_found(second, &why), 0);
    assert_string_equal(why, "there is nothing to continue");
    write_weights(w, &o, 2, 4);
    must(kerf_writer_commit(w, &err), &err);
    kerf_writer_abort(second);
    check_checkpoint(o.path, o.entry, 6);
    assert_int_equal(count_files(own), 1);
    free(own);
}

/* --- marks that no run has made --- */

static void test_hostile_marks(void **state)
{
    void *own = sub_folder(state, "hostile");
    const char *target = in_folder(&own, "x");
    const kerf_entry e[] = {{"a", KERF_U8, {1, {64}}, 0}, {"b", KERF_U8, {1, {32}}, 0}};
    const kerf_writer_options none = {0};
    kf_placement placement;
    kerf_error err;
    must(kf_safetensors_place(&placement, e, 2, 1, &none, &err), &err);
    const uint64_t a = placement.place[0].offset, b = placement.place[1].offset;
    uint8_t zeros[64] = {0};
    const uint64_t z64 = kerf_hash(zeros, 64), z32 = kerf_hash(zeros, 32);
    const struct {
        kf_record r[3];
        size_t records;
        kf_mark m[2];
        size_t marks, found;
    } cases[] = {
        {{{a, z64, 64, 0}, {b, z32, 32, 0}}, 2, {{0, 2, 0}}, 1, 96},
        {{{a, z32, 32, 0}, {a + 32, z32, 32, 0}}, 2, {{0, 1, 0}}, 1, 64},
        {{{a, z64, 64, 0}, {b, z32, 32, 0}}, 2, {{0, 2, 0}, {1, 1, 0}}, 2, 96}, /* b twice */
        {{{a, z64, 64, 0}, {a, z64, 64, 0}}, 2, {{0, 1, 0}}, 1, 64},
        {{{a, z32, 32, 0}, {a + 16, z32, 32, 0}}, 2, {{0, 1, 0}}, 1, 0}, /* overlap */
        {{{a, z64, 64, 0}}, 1, {{0, 2, 0}}, 1, 0},                       /* b was not written */
        {{{a, z64, 64, 1}}, 1, {{0, 1, 0}}, 1, 0},                       /* no such file */
        {{{UINT64_MAX - 5, z64, 64, 0}}, 1, {{0, 1, 0}}, 1, 0},
        {{{a, z64, 64, 0}}, 1, {{0, 0, 0}}, 1, 0},
        {{{a, z64, 64, 0}}, 1, {{0, UINT64_MAX, 0}}, 1, 0},
        {{{a, z64, 64, 0}}, 1, {{UINT64_MAX, 2, 0}}, 1, 0},
        {{{a, z64, 64, 0}, {b, z32, 32, 0}}, 2, {{1, 2, 0}}, 1, 0}, /* beyond the last one */
        {{{a, z64 + 1, 64, 0}, {b, z32, 32, 0}}, 2, {{0, 1, 0}, {1, 1, 0}}, 2, 0}, /* other bytes */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kf_temp root, file;
        kf_found found;
        kf_watch watch = {0};
        kf_resume_file name = {.plain = "f.safetensors"};
        const kf_resume_job job = {target, head, &placement, &name, 1, &watch};
        must(kf_temp_create(target, 1, &root, &err), &err);
        must(kf_temp_create_in(&root, name.plain, &file, &err), &err);
        assert_int_equal(ftruncate(file.fd, (off_t)placement.file[0].bytes), 0);
        kf_temp_release(&file);
        write_journal(root.path, cases[i].r, cases[i].records, cases[i].m, cases[i].marks);
        kf_temp_release(&root);
        kf_found_init(&found);
        must(kf_resume_open(&job, &root, &found, &err), &err);
        assert_int_equal(found.bytes, cases[i].found);
        assert_int_equal(found.why == NULL, cases[i].found > 0);
        kf_found_free(&found);
        kf_temp_discard(&root);
        assert_int_equal(count_files(own), 0);
    }
    kf_placement_free(&placement);
    free(own);
}

/* --- the fingerprint --- */

static uint64_t fingerprint(const char *path)
{
    kerf_reader *r;
    kerf_error err;
    uint64_t f;
    must(kerf_reader_open(path, &r, &err), &err);
    must(kerf_reader_fingerprint(r, &f, &err), &err);
    kerf_reader_close(r);
    return f;
}

static void test_fingerprint(void **state)
{
    void *own = sub_folder(state, "fingerprint");
    const char *path = in_folder(&own, "x.safetensors");
    struct stat st;
    kerf_entry e[6];
    memcpy(e, six, sizeof six);
    for (size_t i = 0; i < 6; i++) e[i].shard = 0;
    write_checkpoint(path, e, 6, NULL);
    assert_int_equal(stat(path, &st), 0);
    const struct timespec times[] = {st.st_atim, st.st_mtim}, later[] = {st.st_atim, {1, 1}};
    uint64_t f = fingerprint(path);
    assert_int_equal(f, fingerprint(path));
    assert_int_equal(utimensat(AT_FDCWD, path, later, 0), 0);
    assert_true(fingerprint(path) != f);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_int_equal(fingerprint(path), f);
    int fd = open(path, O_RDWR); /* other bytes, and the time set back */
    assert_int_equal(pwrite(fd, "!", 1, lseek(fd, 0, SEEK_END) - 1), 1);
    close(fd);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_true(fingerprint(path) != f);
    free(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_runs),   cmocka_unit_test(test_changed_runs),
        cmocka_unit_test(test_damaged_files), cmocka_unit_test(test_failed_runs),
        cmocka_unit_test(test_living_run),    cmocka_unit_test(test_hostile_marks),
        cmocka_unit_test(test_fingerprint),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
