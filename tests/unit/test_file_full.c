/* test_file_full.c - disks that are full, files that may not grow, and the replacing of one small
 * file. */
#include "test_output.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* --- a full disk --- */

#define FULL_DISK_SKIPPED 77
#define NO_ROOM "no room for"

static int put_setting(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY);
    int done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0) close(fd);
    return done;
}

/* Mounts that nobody else sees: as root, or as root of a user namespace. */
static int own_mounts(void)
{
    char uid_map[64], gid_map[64];
    snprintf(uid_map, sizeof uid_map, "0 %u 1", (unsigned)getuid());
    snprintf(gid_map, sizeof gid_map, "0 %u 1", (unsigned)getgid());
    if (unshare(CLONE_NEWNS) == 0) return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
           put_setting("/proc/self/uid_map", uid_map) &&
           put_setting("/proc/self/setgroups", "deny") &&
           put_setting("/proc/self/gid_map", gid_map);
}

/* In a child with a file system of 1 MiB of its own. */
static int fill_disk(const char *folder)
{
    static const kerf_entry large[] = {{"large", KERF_U8, {1, {4000000}}, 0}};
    static const char *const names[] = {"x.safetensors", "x.safetensors.zst", "x"};
    char path[4300];
    kerf_error err = {0};
    kerf_writer *w = NULL;
    if (!own_mounts() || mount("none", folder, "tmpfs", 0, "size=1m") != 0)
        return FULL_DISK_SKIPPED;
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (kerf_writer_create(path, large, 1, NULL, &w, &err) != KERF_E_IO) return 1;
        if (err.native != ENOSPC || !strstr(err.text, names[i]) || !strstr(err.text, NO_ROOM))
            return 2;
        if (count_files(folder) != 0) return 3;
    }
    /* what fits twice unpacked does not fit packed beside it */
    static const kerf_entry half[] = {{"half", KERF_U8, {1, {700000}}, 0}};
    unsigned char *p = malloc(700000);
    uint32_t x = 1;
    for (size_t i = 0; p && i < 700000; i++)
        p[i] = (unsigned char)((x = x * 1664525 + 1013904223) >> 24);
    snprintf(path, sizeof path, "%s/x.safetensors.zst", folder);
    if (!p || kerf_writer_create(path, half, 1, NULL, &w, &err) != KERF_OK) return 4;
    if (kerf_writer_write(w, 0, 0, p, 700000, &err) != KERF_OK) return 5;
    if (kerf_writer_commit(w, &err) != KERF_E_IO || err.native != ENOSPC) return 6;
    if (!strstr(err.text, NO_ROOM)) return 7;
    free(p);
    if (count_files(folder) != 0) return 8;
    /* a small file on a disk that another has filled: it is found by the writing, and said alike */
    snprintf(path, sizeof path, "%s/filler", folder);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    if (fd < 0 || posix_fallocate(fd, 0, 1 << 20) != 0 || close(fd) != 0) return 9;
    snprintf(path, sizeof path, "%s/x.json", folder);
    if (kerf_file_replace(path, "three", 5, 0, &err) != KERF_E_IO || err.native != ENOSPC)
        return 10;
    if (!strstr(err.text, "no room for 5 bytes")) return 11;
    return count_files(folder) == 1 ? 0 : 12;
}

static void test_full_disk(void **state)
{
    char *folder = sub_folder(state, "full");
    int status;
    pid_t child = fork();
    if (child == 0) _exit(fill_disk(folder));
    assert_int_equal(waitpid(child, &status, 0), child);
    free(folder);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == FULL_DISK_SKIPPED) skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_file_size_limit(void **state)
{
    static const kerf_entry large[] = {{"large", KERF_U8, {1, {4000000}}, 0}};
    char *folder = sub_folder(state, "limit");
    int status;
    pid_t child = fork();
    if (child == 0) {
        char path[4300];
        kerf_error err = {0};
        kerf_writer *w = NULL;
        const struct rlimit limit = {1 << 20, 1 << 20};
        snprintf(path, sizeof path, "%s/x.safetensors", folder);
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        if (kerf_writer_create(path, large, 1, NULL, &w, &err) != KERF_E_IO) _exit(1);
        _exit(err.native == EFBIG && count_files(folder) == 0 ? 0 : 2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    free(folder);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* --- single small files --- */

static void test_file_replace(void **state)
{
    void *own = sub_folder(state, "replace");
    const char *path = in_folder(&own, "x.json");
    kerf_error err;
    size_t n;
    must(kerf_file_replace(path, "one", 3, 0, &err), &err);
    assert_int_equal(kerf_file_replace(path, "two", 3, 0, &err), KERF_E_EXISTS);
    char *text = read_text(path, &n);
    assert_string_equal(text, "one");
    free(text);
    must(kerf_file_replace(path, "three", 5, 1, &err), &err);
    text = read_text(path, &n);
    assert_string_equal(text, "three");
    free(text);
    must(kerf_file_replace(in_folder(&own, "empty"), NULL, 0, 0, &err), &err);
    assert_int_equal(kerf_file_replace("", "x", 1, 1, &err), KERF_E_ARG);
    assert_int_equal(kerf_file_replace(in_folder(&own, "no/x"), "x", 1, 1, &err), KERF_E_IO);
    assert_int_equal(kerf_file_replace(own, "x", 1, 1, &err), KERF_E_EXISTS);
    assert_int_equal(kerf_file_replace("/dev/null", "x", 1, 1, &err), KERF_E_EXISTS);
    assert_int_equal(count_files(own), 2);
    free(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_file_size_limit),
        cmocka_unit_test(test_file_replace),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
