/* system.c - the differences between Linux and macOS, glibc and musl. */
#include "base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/cgroup.h"

#ifdef __APPLE__
#include <dirent.h>
#include <sys/sysctl.h>
#else
#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#endif

#ifdef __APPLE__

static int rename_how(const char *from, const char *to, unsigned how)
{
    if (renamex_np(from, to, how) == 0) return 0;
    if (errno == ENOTSUP) errno = ENOSYS;
    return -1;
}

int kf_rename_new(const char *from, const char *to)
{
    return rename_how(from, to, RENAME_EXCL);
}

int kf_rename_exchange(const char *a, const char *b)
{
    return rename_how(a, b, RENAME_SWAP);
}

/* Room first, then the size: a file of holes would find a full disk too late. */
int kf_reserve(int fd, off_t bytes)
{
    fstore_t room = {F_ALLOCATEALL, F_PEOFPOSMODE, 0, bytes, 0};
    if (fcntl(fd, F_PREALLOCATE, &room) != 0 && errno != ENOTSUP) return -1;
    return ftruncate(fd, bytes);
}

/* fsync alone leaves it in the cache of the disk. */
int kf_sync(int fd)
{
    return fcntl(fd, F_FULLFSYNC) == 0 ? 0 : fsync(fd);
}

int kf_sync_data(int fd)
{
    return kf_sync(fd);
}

void kf_sync_begin(int fd)
{
    (void)fd;
}

int kf_wake_init(pthread_cond_t *wake)
{
    return pthread_cond_init(wake, NULL);
}

int kf_wait_until(pthread_cond_t *wake, pthread_mutex_t *lock, double at_s)
{
    const double now = kf_now_s(), left = at_s > now ? at_s - now : 0;
    const struct timespec wait = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
    return pthread_cond_timedwait_relative_np(wake, lock, &wait);
}

typedef struct dirent entry;
#define ENTRY_NAME d_name
#define ENTRY_LENGTH d_reclen
ssize_t __getdirentries64(int fd, void *list, size_t size, off_t *place); /* what readdir calls */

long kf_folder_entries(int fd, void *list, size_t size)
{
    off_t place;
    return (long)__getdirentries64(fd, list, size, &place);
}

struct timespec kf_changed(const struct stat *st)
{
    return st->st_mtimespec;
}

int kf_processor_name(char *out, size_t size)
{
    char name[128];
    size_t n = sizeof name;
    int failed = sysctlbyname("machdep.cpu.brand_string", name, &n, NULL, 0);
    snprintf(out, size, "%.80s", failed ? "CPU" : name);
    return 0;
}

int kf_processors(void)
{
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : (int)n;
}

#else

#ifdef __GLIBC__
#define RENAME renameat2
#else /* older ones of musl have no function for it */
#define RENAME(...) (int)syscall(SYS_renameat2, __VA_ARGS__)
#endif
enum { NO_REPLACE = 1, EXCHANGE = 2 };

int kf_rename_new(const char *from, const char *to)
{
    return RENAME(AT_FDCWD, from, AT_FDCWD, to, NO_REPLACE);
}

int kf_rename_exchange(const char *a, const char *b)
{
    return RENAME(AT_FDCWD, a, AT_FDCWD, b, EXCHANGE);
}

int kf_reserve(int fd, off_t bytes)
{
    int failed;
    do failed = fallocate(fd, 0, 0, bytes);
    while (failed && errno == EINTR);
    if (failed && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL))
        return ftruncate(fd, bytes);
    return failed;
}

int kf_sync(int fd)
{
    return fsync(fd);
}

int kf_sync_data(int fd)
{
    return fdatasync(fd);
}

void kf_sync_begin(int fd)
{
    sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE); /* all that waits */
}

int kf_wake_init(pthread_cond_t *wake)
{
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    const int failed = pthread_cond_init(wake, &clock);
    pthread_condattr_destroy(&clock);
    return failed;
}

int kf_wait_until(pthread_cond_t *wake, pthread_mutex_t *lock, double at_s)
{
    const time_t whole = (time_t)at_s;
    const struct timespec until = {whole, (long)((at_s - (double)whole) * 1e9)};
    return pthread_cond_timedwait(wake, lock, &until);
}

/* As the kernel has it; glibc alone has this type by a name. */
typedef struct entry {
    uint64_t inode;
    int64_t next;
    uint16_t length;
    uint8_t type;
    char name[];
} entry;
#define ENTRY_NAME name
#define ENTRY_LENGTH length

long kf_folder_entries(int fd, void *list, size_t size)
{
    return syscall(SYS_getdents64, fd, list, size);
}

struct timespec kf_changed(const struct stat *st)
{
    return st->st_mtim;
}

/* What a small file of the kernel begins with, closed with a 0; an errno where it cannot be read.
 * Such a file is never empty. */
static int read_beginning(const char *path, char *text, size_t size)
{
    size_t have = 0;
    ssize_t n = 1;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno;
    while (n > 0 && have < size - 1) {
        do n = read(fd, text + have, size - 1 - have);
        while (n < 0 && errno == EINTR);
        if (n > 0) have += (size_t)n;
    }
    const int why = n < 0 ? errno : have == 0 ? EIO : 0;
    close(fd);
    text[have] = 0;
    return why;
}

/* The first processor stands at the beginning of the file. */
int kf_processor_name(char *out, size_t size)
{
    static const char key[] = "model name";
    char text[4096];
    snprintf(out, size, "CPU");
    const int why = read_beginning("/proc/cpuinfo", text, sizeof text);
    if (why) return why == ENOENT || why == EACCES ? 0 : why;
    const char *line = strstr(text, key), *value = line ? strchr(line, ':') : NULL;
    if (!value) return 0;
    value += 1 + strspn(value + 1, " ");
    const size_t length = strcspn(value, "\n");
    snprintf(out, size, "%.*s", (int)(length < 80 ? length : 80), value);
    return 0;
}

/* A quota is looked up once: threads that are there already would not go away when it changes. */
int kf_processors(void)
{
    static int known_quota; /* 0: not looked up yet */
    cpu_set_t set;
    int quota = __atomic_load_n(&known_quota, __ATOMIC_RELAXED);
    if (!quota) {
        quota = kf_cgroup_processors("");
        __atomic_store_n(&known_quota, quota, __ATOMIC_RELAXED);
    }
    const int allowed = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return allowed < quota ? allowed : quota;
}

#endif

/* glibc gives a pointer, which may be to a text of its own; everybody else a number. */
const char *kf_errno_text(int errnum, char *room, size_t size)
{
#ifdef __GLIBC__
    return strerror_r(errnum, room, size);
#else
    return strerror_r(errnum, room, size) == 0 ? room : "unknown error";
#endif
}

const char *kf_entry_name(const void *list, long *at)
{
    const entry *e = (const void *)((const char *)list + *at);
    *at += e->ENTRY_LENGTH;
    return e->ENTRY_NAME;
}
