/* test_cleanup.c - what a signal leaves behind that comes at the worst moment: right after the file
 * or folder of a temporary was made, before anybody has entered it anywhere.
 *
 * The program's own mkdir and open stand in front of the C library's, and send the signal. */
#include "test_folder.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include <kerf/file.h>

#include "file/disk/temp.h"

static int armed; /* the next thing that is made brings the signal */

static int made(int result)
{
    if (result >= 0 && armed) {
        armed = 0;
        kill(getpid(), SIGTERM);
    }
    return result;
}

int mkdir(const char *path, mode_t mode)
{
    return made((int)syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}

int open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    if (flags & O_CREAT) {
        va_list args;
        va_start(args, flags);
        mode = va_arg(args, mode_t);
        va_end(args);
    }
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    return flags & O_CREAT ? made(fd) : fd;
}

static void die(int number)
{
    kerf_writer_cleanup_signal();
    _exit(128 + number);
}

static int entries_of(const char *folder)
{
    char command[4200];
    snprintf(command, sizeof command, "test -z \"$(ls -A '%s')\"", folder);
    return system(command);
}

static void check_signal(void **state, int is_folder)
{
    char target[4200];
    snprintf(target, sizeof target, "%s/out.safetensors", (const char *)*state);
    pid_t child = fork();
    if (child == 0) {
        kf_temp t;
        kerf_error err;
        signal(SIGTERM, die);
        armed = 1;
        if (kf_temp_create(target, is_folder, &t, &err) != KERF_OK) _exit(1);
        _exit(2); /* no signal came */
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 128 + SIGTERM);
    assert_int_equal(entries_of(*state), 0);
}

static void test_file(void **state)
{
    check_signal(state, 0);
}

static void test_folder(void **state)
{
    check_signal(state, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_file), cmocka_unit_test(test_folder)};
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
