/* calls.c - the calls that the shim stands in front of: each asks what shall become of it, then
 * calls the system, and has record.c write down what it did. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shim.h"

#define NEXT(name)                 \
    static __typeof__(&name) next; \
    if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* A call that gives `good` or -1. */
#define CALL(k, fd, path, good, ...)             \
    do {                                         \
        const what w_ = shim_judge(k, fd, path); \
        if (w_ == FAIL) return -1;               \
        if (w_ == SKIP) return good;             \
        __auto_type result_ = next(__VA_ARGS__); \
        if (w_ == KILL_AFTER) raise(SIGKILL);    \
        return result_;                          \
    } while (0)

/* The same, written down by `note` if it went well. */
#define NOTED(k, fd, path, good, note, ...)        \
    do {                                           \
        const what w_ = shim_judge(k, fd, path);   \
        if (w_ == FAIL) return -1;                 \
        if (w_ == SKIP) return good;               \
        const int recorded_ = shim_record_enter(); \
        __auto_type result_ = next(__VA_ARGS__);   \
        const int e_ = errno;                      \
        if (recorded_) {                           \
            if (result_ >= 0) note;                \
            shim_record_leave();                   \
        }                                          \
        if (w_ == KILL_AFTER) raise(SIGKILL);      \
        errno = e_;                                \
        return result_;                            \
    } while (0)

/* --- memory and threads -------------------------------------------------------------------- */

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

void *malloc(size_t n)
{
    return shim_judge(MEMORY, -1, NULL) == FAIL ? NULL : __libc_malloc(n);
}

void *calloc(size_t count, size_t n)
{
    return shim_judge(MEMORY, -1, NULL) == FAIL ? NULL : __libc_calloc(count, n);
}

void *realloc(void *p, size_t n)
{
    return shim_judge(MEMORY, -1, NULL) == FAIL ? NULL : __libc_realloc(p, n);
}

void *memalign(size_t step, size_t n)
{
    return shim_judge(MEMORY, -1, NULL) == FAIL ? NULL : __libc_memalign(step, n);
}

void *aligned_alloc(size_t step, size_t n)
{
    return memalign(step, n);
}

int posix_memalign(void **out, size_t step, size_t n)
{
    void *p = memalign(step, n);
    if (!p) return ENOMEM;
    *out = p;
    return 0;
}

int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *ctx)
{
    NEXT(pthread_create);
    return shim_judge(THREAD, -1, NULL) == FAIL ? EAGAIN : next(t, a, run, ctx);
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
    NEXT(clock_gettime);
    const int failed = next(clock, t);
    const long ms = failed ? 0 : shim_clock_ms();
    if (ms == 0) return failed;
    const long ns = t->tv_nsec + ms % 1000 * 1000000;
    t->tv_sec += ms / 1000 + ns / 1000000000;
    t->tv_nsec = ns % 1000000000;
    return 0;
}

/* --- open ---------------------------------------------------------------------------------- */

static int open_at(int folder, const char *path, int flags, mode_t mode)
{
    struct stat st;
    const what w = shim_judge(OPEN, folder, path);
    if (w == FAIL) return -1;
    const int recorded = shim_record_enter();
    const int is_new = recorded && flags & O_CREAT &&
                       syscall(SYS_newfstatat, folder, path, &st, AT_SYMLINK_NOFOLLOW) != 0;
    const int fd = (int)syscall(SYS_openat, folder, path, flags, mode);
    const int e = errno;
    if (recorded) {
        if (fd >= 0) shim_record_create(fd, is_new, flags & O_TRUNC);
        shim_record_leave();
    }
    if (w == KILL_AFTER) raise(SIGKILL);
    errno = e;
    return fd;
}

#define MODE(flags, mode)                  \
    mode_t mode = 0;                       \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list list;                      \
        va_start(list, flags);             \
        mode = va_arg(list, mode_t);       \
        va_end(list);                      \
    }

int open(const char *path, int flags, ...)
{
    MODE(flags, mode)
    return open_at(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    MODE(flags, mode)
    return open_at(AT_FDCWD, path, flags | O_LARGEFILE, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
    MODE(flags, mode)
    return open_at(folder, path, flags, mode);
}

int __open_2(const char *path, int flags)
{
    return open_at(AT_FDCWD, path, flags, 0);
}

int __open64_2(const char *path, int flags)
{
    return open_at(AT_FDCWD, path, flags, 0);
}

FILE *fopen(const char *path, const char *mode)
{
    NEXT(fopen);
    return shim_judge(OPEN, AT_FDCWD, path) == FAIL ? NULL : next(path, mode);
}

DIR *opendir(const char *path)
{
    NEXT(opendir);
    return shim_judge(OPEN, AT_FDCWD, path) == FAIL ? NULL : next(path);
}

struct dirent *readdir(DIR *d)
{
    NEXT(readdir);
    return shim_judge(LIST, dirfd(d), NULL) == FAIL ? NULL : next(d);
}

/* --- read and write ------------------------------------------------------------------------ */

static size_t half(size_t n)
{
    return n > 1 ? n / 2 : n;
}

#define READ_CALL(fd, n, ...)                       \
    do {                                            \
        const what w_ = shim_judge(READ, fd, NULL); \
        if (w_ == FAIL) return -1;                  \
        if (w_ == END || w_ == SKIP) return 0;      \
        if (w_ == SHORT) n = half(n);               \
        const ssize_t got_ = next(__VA_ARGS__);     \
        if (w_ == KILL_AFTER) raise(SIGKILL);       \
        return got_;                                \
    } while (0)

ssize_t read(int fd, void *p, size_t n)
{
    NEXT(read);
    READ_CALL(fd, n, fd, p, n);
}

ssize_t pread(int fd, void *p, size_t n, off_t at)
{
    NEXT(pread);
    READ_CALL(fd, n, fd, p, n, at);
}

ssize_t __pread_chk(int fd, void *p, size_t n, off_t at, size_t room)
{
    return n <= room ? pread(fd, p, n, at) : -1;
}

ssize_t __read_chk(int fd, void *p, size_t n, size_t room)
{
    return n <= room ? read(fd, p, n) : -1;
}

/* at: -1 where the file stands. */
static ssize_t write_at(int fd, const void *p, size_t n, off_t at)
{
    const what w = shim_judge(WRITE, fd, NULL);
    if (w == FAIL) return -1;
    if (w == SKIP) return (ssize_t)n;
    if (w == SHORT) n = half(n);
    const int recorded = shim_record_enter();
    const ssize_t put = at < 0 ? syscall(SYS_write, fd, p, n) : syscall(SYS_pwrite64, fd, p, n, at);
    const int e = errno;
    if (recorded) {
        if (put > 0) shim_record_write(fd, p, (size_t)put, at);
        shim_record_leave();
    }
    if (w == KILL_AFTER) raise(SIGKILL);
    errno = e;
    return put;
}

ssize_t write(int fd, const void *p, size_t n)
{
    return write_at(fd, p, n, -1);
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
    return write_at(fd, p, n, at);
}

int fallocate(int fd, int mode, off_t at, off_t n)
{
    NEXT(fallocate);
    NOTED(RESERVE, fd, NULL, 0, shim_record_size(fd), fd, mode, at, n);
}

int ftruncate(int fd, off_t n)
{
    NEXT(ftruncate);
    NOTED(RESERVE, fd, NULL, 0, shim_record_size(fd), fd, n);
}

int fsync(int fd)
{
    NEXT(fsync);
    NOTED(SYNC, fd, NULL, 0, shim_record_sync(fd), fd);
}

int fdatasync(int fd)
{
    NEXT(fdatasync);
    NOTED(SYNC, fd, NULL, 0, shim_record_sync(fd), fd);
}

int close(int fd)
{
    NEXT(close);
    const what w = shim_judge(CLOSE, fd, NULL);
    const int result = next(fd);
    if (w == KILL_AFTER) raise(SIGKILL);
    if (w != FAIL) return result;
    errno = shim_error();
    return -1;
}

int flock(int fd, int how)
{
    NEXT(flock);
    CALL(LOCK, fd, NULL, 0, fd, how);
}

/* --- sockets, and what a server needs besides ------------------------------------------------- */

int socket(int domain, int type, int protocol)
{
    NEXT(socket);
    CALL(SOCKET, -1, NULL, -1, domain, type, protocol);
}

int bind(int fd, const struct sockaddr *address, socklen_t n)
{
    NEXT(bind);
    CALL(SOCKET, fd, NULL, 0, fd, address, n);
}

int listen(int fd, int backlog)
{
    NEXT(listen);
    CALL(SOCKET, fd, NULL, 0, fd, backlog);
}

int accept4(int fd, struct sockaddr *address, socklen_t *n, int flags)
{
    NEXT(accept4);
    CALL(SOCKET, fd, NULL, -1, fd, address, n, flags);
}

ssize_t recv(int fd, void *p, size_t n, int flags)
{
    NEXT(recv);
    CALL(SOCKET, fd, NULL, 0, fd, p, n, flags);
}

ssize_t send(int fd, const void *p, size_t n, int flags)
{
    NEXT(send);
    CALL(SOCKET, fd, NULL, (ssize_t)n, fd, p, n, flags);
}

int pipe2(int fd[2], int flags)
{
    NEXT(pipe2);
    CALL(SOCKET, -1, NULL, -1, fd, flags);
}

pid_t fork(void)
{
    NEXT(fork);
    if (shim_judge(SOCKET, -1, NULL) == FAIL) return -1;
    return next();
}

/* --- names --------------------------------------------------------------------------------- */

int rename(const char *a, const char *b)
{
    NEXT(rename);
    NOTED(RENAME, AT_FDCWD, a, 0, shim_record_names("rename", AT_FDCWD, a, AT_FDCWD, b), a, b);
}

int renameat(int from, const char *a, int to, const char *b)
{
    NEXT(renameat);
    NOTED(RENAME, from, a, 0, shim_record_names("rename", from, a, to, b), from, a, to, b);
}

int renameat2(int from, const char *a, int to, const char *b, unsigned flags)
{
    NEXT(renameat2);
    NOTED(RENAME, from, a, 0,
          shim_record_names(flags & RENAME_EXCHANGE ? "exchange" : "rename", from, a, to, b), from,
          a, to, b, flags);
}

int mkdir(const char *path, mode_t mode)
{
    NEXT(mkdir);
    NOTED(MKDIR, AT_FDCWD, path, 0, shim_record_mkdir(path), path, mode);
}

int unlink(const char *path)
{
    NEXT(unlink);
    NOTED(UNLINK, AT_FDCWD, path, 0, shim_record_names("unlink", AT_FDCWD, path, 0, NULL), path);
}

int unlinkat(int folder, const char *path, int flags)
{
    NEXT(unlinkat);
    NOTED(UNLINK, folder, path, 0, shim_record_names("unlink", folder, path, 0, NULL), folder, path,
          flags);
}

int rmdir(const char *path)
{
    NEXT(rmdir);
    NOTED(UNLINK, AT_FDCWD, path, 0, shim_record_names("unlink", AT_FDCWD, path, 0, NULL), path);
}

/* --- what a path is ------------------------------------------------------------------------ */

int stat(const char *path, struct stat *st)
{
    NEXT(stat);
    CALL(STAT, AT_FDCWD, path, 0, path, st);
}

int lstat(const char *path, struct stat *st)
{
    NEXT(lstat);
    CALL(STAT, AT_FDCWD, path, 0, path, st);
}

int fstat(int fd, struct stat *st)
{
    NEXT(fstat);
    CALL(STAT, fd, NULL, 0, fd, st);
}

int fstatat(int folder, const char *path, struct stat *st, int flags)
{
    NEXT(fstatat);
    CALL(STAT, folder, path, 0, folder, path, st, flags);
}

char *realpath(const char *path, char *out)
{
    NEXT(realpath);
    return shim_judge(STAT, AT_FDCWD, path) == FAIL ? NULL : next(path, out);
}

ssize_t readlink(const char *path, char *out, size_t room)
{
    NEXT(readlink);
    CALL(STAT, AT_FDCWD, path, 0, path, out, room);
}
