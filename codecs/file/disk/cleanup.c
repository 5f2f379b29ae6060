/* cleanup.c - the table of temporaries that a signal handler removes.
 *
 * A handler may run between any two instructions of any thread: the table is static, an entry is
 * published by one atomic store after its path is complete, and never freed. While a
 * thread makes a file and enters it, it blocks signals, and a handler in another thread waits for
 * it. A folder is removed with the files in it. They are listed by the bare system call, since
 * readdir allocates memory, which a handler must not and a run that has none cannot. */
#include "file/disk/cleanup.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <kerf/file.h>

#include "base/system.h"

#define MAX_ENTRIES 64
#define MAX_ROUNDS 100 /* a file may come while others go */
#define MAX_WAIT_MS 1000

enum { FREE, TAKEN, IS_FILE, IS_FOLDER };

static struct {
    atomic_int state;
    int fd;
    char path[PATH_MAX];
} entry[MAX_ENTRIES];

int kf_cleanup_add(const char *path, int is_folder, int fd)
{
    size_t n = strlen(path);
    if (n >= PATH_MAX) return -1;
    for (int i = 0; i < MAX_ENTRIES; i++) {
        int free_state = FREE;
        if (!atomic_compare_exchange_strong(&entry[i].state, &free_state, TAKEN)) continue;
        memcpy(entry[i].path, path, n + 1);
        entry[i].fd = fd;
        atomic_store(&entry[i].state, is_folder ? IS_FOLDER : IS_FILE);
        return i;
    }
    return -1;
}

void kf_cleanup_drop(int slot)
{
    if (slot >= 0) atomic_store(&entry[slot].state, FREE);
}

static atomic_int held; /* threads between hold and let */

void kf_cleanup_hold(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, before);
    atomic_fetch_add(&held, 1);
}

void kf_cleanup_let(const sigset_t *before)
{
    atomic_fetch_sub(&held, 1);
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* One reading of a folder. Returns whether anything went. */
static int remove_listed(int folder, int (*keeps)(void *ctx, const char *name), void *ctx)
{
    _Alignas(uint64_t) char list[4096];
    int removed = 0;
    long n;
    if (lseek(folder, 0, SEEK_SET) != 0) return 0;
    while ((n = kf_folder_entries(folder, list, sizeof list)) > 0)
        for (long at = 0; at < n;) {
            const char *name = kf_entry_name(list, &at);
            if (keeps && keeps(ctx, name)) continue;
            removed |= unlinkat(folder, name, 0) == 0; /* "." and ".." are folders: nothing */
        }
    return removed;
}

void kf_empty_folder(int fd, int (*keeps)(void *ctx, const char *name), void *ctx)
{
    for (int i = 0; i < MAX_ROUNDS && remove_listed(fd, keeps, ctx);) i++;
}

static int is_at(int fd, const char *path)
{
    struct stat a, b;
    return fstat(fd, &a) == 0 && lstat(path, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

void kf_remove_folder(int own, const char *path)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    const int fd = is_at(own, path) ? own : open(path, flags);
    if (fd < 0) return;
    for (int i = 0; i < MAX_ROUNDS && rmdir(path) != 0; i++) remove_listed(fd, NULL, NULL);
    if (fd != own) close(fd);
}

void kerf_writer_cleanup_signal(void)
{
    for (int ms = 0; ms < MAX_WAIT_MS && atomic_load(&held); ms++) poll(NULL, 0, 1);
    for (int i = MAX_ENTRIES; i-- > 0;) { /* what came last stands in what came before */
        int state = atomic_load(&entry[i].state);
        if (state == IS_FILE) unlink(entry[i].path);
        if (state == IS_FOLDER) kf_remove_folder(entry[i].fd, entry[i].path);
    }
}
