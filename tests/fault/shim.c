/* shim.c - a library for LD_PRELOAD under which a program's system calls and allocations fail, come
 * back short, take long or are cut by a signal, at a call that is chosen; or are counted, or
 * written down (record.c).
 *
 *   KERF_SHIM="call=write at=3 what=fail error=28 under=/tmp/x count=/tmp/x.count" LD_PRELOAD=...
 *
 *   call=KIND,...    which calls are meant; the kinds are in the table below, "all" is all of them
 *   under=PREFIX     of these only those on files or folders whose path begins so
 *   at=N for=M       the N-th of them and the M - 1 that follow; for=0: all from there. at=0: none
 *   what=fail        return the error (error=ERRNO); a failed close closes all the same
 *   what=short       read or write half of the bytes, at least one
 *   what=end         read no bytes: the file ends here
 *   what=skip        say that all went well, and do nothing
 *   what=slow        sleep first (delay_us=T)
 *   what=kill        SIGKILL before the call; what=kill-after: after it
 *   what=stop        SIGSTOP before the call, so that somebody can change the world meanwhile
 *   clock_ms=T       every look at the clock finds it T milliseconds further on
 *   count=FILE       at the end, how many calls of each kind there were
 *   record=FILE      what was done to files under PREFIX, see record.c
 *
 * All of this is for one process: what it starts is left alone.
 * Standard output is written by calls that cannot be taken from outside; it is replaced by a stream
 * that uses the write here. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shim.h"

static const char *const kind_name[KINDS] = {
    "memory", "open",  "list",   "read",  "write", "sync",   "rename", "reserve",
    "stat",   "mkdir", "unlink", "close", "lock",  "thread", "socket",
};

static const char *const what_name[] = {
    [PASS] = "pass", [FAIL] = "fail", [SHORT] = "short",           [END] = "end",   [SKIP] = "skip",
    [SLOW] = "slow", [KILL] = "kill", [KILL_AFTER] = "kill-after", [STOP] = "stop",
};

static struct {
    int is_ready;
    unsigned chosen; /* bit per kind */
    long at, calls;  /* calls: that it lasts; 0: for ever */
    what what;
    int error;
    long delay_us, clock_ms;
    char under[SHIM_PATH_BYTES], count_file[SHIM_PATH_BYTES];
} plan;

static atomic_long seen[KINDS], met;

/* --- the plan ------------------------------------------------------------------------------ */

static unsigned kinds_of(const char *list)
{
    unsigned bits = 0;
    for (int k = 0; k < KINDS; k++) {
        const size_t n = strlen(kind_name[k]);
        for (const char *p = strstr(list, kind_name[k]); p && !(bits >> k & 1u);
             p = strstr(p + 1, kind_name[k]))
            if ((p == list || p[-1] == ',') && (p[n] == 0 || p[n] == ',')) bits |= 1u << k;
    }
    return strcmp(list, "all") == 0 ? (1u << KINDS) - 1 : bits;
}

static void take_word(const char *key, const char *value)
{
    if (strcmp(key, "call") == 0) plan.chosen = kinds_of(value);
    if (strcmp(key, "at") == 0) plan.at = atol(value);
    if (strcmp(key, "for") == 0) plan.calls = atol(value);
    if (strcmp(key, "error") == 0) plan.error = atoi(value);
    if (strcmp(key, "delay_us") == 0) plan.delay_us = atol(value);
    if (strcmp(key, "clock_ms") == 0) plan.clock_ms = atol(value);
    if (strcmp(key, "under") == 0) snprintf(plan.under, sizeof plan.under, "%s", value);
    if (strcmp(key, "count") == 0) snprintf(plan.count_file, sizeof plan.count_file, "%s", value);
    for (unsigned i = 0; strcmp(key, "what") == 0 && i < sizeof what_name / sizeof *what_name; i++)
        if (strcmp(value, what_name[i]) == 0) plan.what = (what)i;
    if (strcmp(key, "record") == 0) shim_record_open(value, plan.under); /* after `under` */
}

/* As the C library does it; but no signal cuts such a write, for no handler of the command returns.
 */
static ssize_t put_out(void *cookie, const char *p, size_t n)
{
    size_t done = 0;
    (void)cookie;
    while (done < n) {
        const ssize_t put = write(STDOUT_FILENO, p + done, n - done);
        if (put < 0 && errno != EINTR) return 0;
        if (put > 0) done += (size_t)put;
    }
    return (ssize_t)n;
}

__attribute__((constructor)) static void begin(void)
{
    static char text[3 * SHIM_PATH_BYTES];
    char *rest = text;
    const char *given = getenv("KERF_SHIM");
    if (!given) return;
    plan.calls = 1;
    plan.what = FAIL;
    plan.error = EIO;
    snprintf(text, sizeof text, "%s", given);
    for (char *word; (word = strsep(&rest, " ")) != NULL;) {
        char *value = strchr(word, '=');
        if (!value) continue;
        *value = 0;
        take_word(word, value + 1);
    }
    unsetenv("KERF_SHIM");
    stdout = fopencookie(NULL, "w", (cookie_io_functions_t){.write = put_out});
    plan.is_ready = 1;
}

__attribute__((destructor)) static void end(void)
{
    char line[64];
    if (!plan.is_ready || !plan.count_file[0]) return;
    plan.is_ready = 0;
    const int fd =
        (int)syscall(SYS_openat, AT_FDCWD, plan.count_file, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    for (int k = 0; k < KINDS; k++) {
        const int n = snprintf(line, sizeof line, "%s %ld\n", kind_name[k], (long)seen[k]);
        (void)!syscall(SYS_write, fd, line, (size_t)n);
    }
    syscall(SYS_close, fd);
}

/* --- one call ------------------------------------------------------------------------------ */

void shim_fd_path(int fd, char out[SHIM_PATH_BYTES])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const long n = syscall(SYS_readlinkat, AT_FDCWD, link, out, SHIM_PATH_BYTES - 1);
    out[n > 0 ? n : 0] = 0;
}

void shim_full_path(int folder, const char *path, char out[SHIM_PATH_BYTES])
{
    out[0] = 0;
    if (path[0] != '/') {
        if (folder == AT_FDCWD)
            syscall(SYS_getcwd, out, SHIM_PATH_BYTES - 1);
        else
            shim_fd_path(folder, out);
        strncat(out, "/", SHIM_PATH_BYTES - 1 - strlen(out));
    }
    strncat(out, path, SHIM_PATH_BYTES - 1 - strlen(out));
}

static void sleep_us(long us)
{
    const struct timespec t = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&t, NULL);
}

static int is_meant(kind k, int fd, const char *path)
{
    char full[SHIM_PATH_BYTES];
    if (!(plan.chosen >> k & 1u)) return 0;
    if (!plan.under[0]) return 1;
    if (k == MEMORY || k == THREAD) return 0;
    if (path)
        shim_full_path(fd, path, full);
    else
        shim_fd_path(fd, full);
    return strncmp(full, plan.under, strlen(plan.under)) == 0;
}

what shim_judge(kind k, int fd, const char *path)
{
    if (!plan.is_ready) return PASS;
    const int before = errno;
    atomic_fetch_add(&seen[k], 1);
    if (plan.at == 0 || !is_meant(k, fd, path)) {
        errno = before;
        return PASS;
    }
    const long n = atomic_fetch_add(&met, 1) + 1;
    errno = before;
    if (n < plan.at || (plan.calls && n >= plan.at + plan.calls)) return PASS;
    if (plan.what == SLOW) sleep_us(plan.delay_us);
    if (plan.what == KILL) raise(SIGKILL);
    if (plan.what == STOP) raise(SIGSTOP);
    if (plan.what == FAIL) errno = k == MEMORY ? ENOMEM : k == THREAD ? EAGAIN : plan.error;
    return plan.what;
}

int shim_error(void)
{
    return plan.error;
}

long shim_clock_ms(void)
{
    static atomic_long looks;
    return plan.clock_ms ? plan.clock_ms * (atomic_fetch_add(&looks, 1) + 1) : 0;
}
