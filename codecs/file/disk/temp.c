/* temp.c - temporary files and folders: made, locked, filled, synced and removed. */
#include "file/disk/temp.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/system.h"
#include "file/disk/cleanup.h"
#include "file/disk/io.h"

#define MARK ".kerf-tmp-"
#define MAX_TRIES 1000
#define MAX_TARGET_IN_NAME 200 /* leaves room for the mark under the usual limit of 255 */

static kerf_status no_memory(const char *path, kerf_error *err)
{
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", path);
}

/* ".NAME.kerf-tmp-": what all temporaries of a target begin with. */
static void name_prefix(const char *target, char out[NAME_MAX + 1])
{
    snprintf(out, NAME_MAX + 1, ".%.*s" MARK, MAX_TARGET_IN_NAME, kf_path_base(target));
}

static int is_same_file(int fd, const char *path)
{
    struct stat a, b;
    return fstat(fd, &a) == 0 && lstat(path, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

/* fd: open on it. */
static void remove_temp(int fd, const char *path)
{
    if (unlink(path) != 0 && errno == EISDIR) kf_remove_folder(fd, path);
}

/* When its lock can be taken, no process uses it any more. The path is looked at again under the
 * lock: its owner may just have renamed it. */
static void remove_if_dead(const char *path)
{
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && is_same_file(fd, path)) remove_temp(fd, path);
    close(fd);
}

static void remove_dead(const char *folder, const char *prefix)
{
    DIR *d = opendir(folder);
    if (!d) return;
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        if (strncmp(e->d_name, prefix, strlen(prefix)) != 0) continue;
        char *path = kf_path_join(folder, e->d_name);
        if (path) remove_if_dead(path);
        free(path);
    }
    closedir(d);
}

/* Permissions are 0666 and 0777 less the umask, which only the kernel can apply without a race. */
static int make(const char *path, int is_folder)
{
    if (!is_folder) return open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (mkdir(path, 0777) != 0) return -1;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    int e = errno == ENOENT ? EEXIST : errno; /* another run took it for dead: try the next name */
    if (fd < 0) rmdir(path);
    errno = e;
    return fd;
}

/* 1: locked and still there; 0: a run that looks for dead temporaries was faster; -1: that cannot
 * be said. File systems without locks get none: then what a dead run left is not removed either. */
static int lock(int fd, const char *path)
{
    struct stat own, there;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return 0;
    if (fstat(fd, &own) != 0) return -1;
    if (lstat(path, &there) != 0) return errno == ENOENT ? 0 : -1;
    return own.st_dev == there.st_dev && own.st_ino == there.st_ino;
}

/* A path whose folder was never made is told by that folder, which its user has typed. */
static kerf_status fail_to_make(const char *path, int is_folder, int why, kerf_error *err)
{
    struct stat st;
    char *around = why == ENOENT ? kf_path_folder(path) : NULL;
    kerf_status s =
        around && stat(around, &st) != 0 && errno == ENOENT
            ? kf_fail_errno(err, ENOENT, "%s: cannot write into this folder (mkdir -p makes it)",
                            around)
            : kf_fail_errno(err, why, "%s: cannot create the temporary %s", path,
                            is_folder ? "folder" : "file");
    free(around);
    return s;
}

/* Makes and enters it; no signal may come between. */
static kerf_status make_entered(const char *path, kf_temp *t, int *done, kerf_error *err)
{
    int fd = make(path, t->is_folder);
    *done = 0;
    if (fd < 0 && errno == EEXIST) return KERF_OK;
    if (fd < 0) return fail_to_make(path, t->is_folder, errno, err);
    const int locked = lock(fd, path);
    if (locked <= 0) {
        if (locked < 0) remove_temp(fd, path);
        close(fd);
        return locked == 0 ? KERF_OK
                           : kf_fail(err, KERF_E_IO, KF_NOWHERE, "%s: cannot look at it", path);
    }
    t->fd = fd;
    t->lock_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    int e = errno;
    t->path = strdup(path);
    t->slot = kf_cleanup_add(path, t->is_folder, t->lock_fd);
    *done = 1;
    if (t->path && t->lock_fd >= 0) return KERF_OK;
    kerf_status s = t->lock_fd < 0 ? kf_fail_errno(err, e, "%s: cannot keep the lock", path)
                                   : no_memory(path, err);
    remove_temp(fd, path);
    kf_temp_release(t);
    return s;
}

static kerf_status try_name(const char *path, kf_temp *t, int *done, kerf_error *err)
{
    sigset_t before;
    kf_cleanup_hold(&before);
    kerf_status s = make_entered(path, t, done, err);
    kf_cleanup_let(&before);
    return s;
}

kerf_status kf_temp_create(const char *target, int is_folder, kf_temp *t, kerf_error *err)
{
    char prefix[NAME_MAX + 1], name[NAME_MAX + 64];
    *t = (kf_temp)KF_NO_TEMP;
    t->is_folder = is_folder;
    char *folder = kf_path_folder(target);
    if (!folder) return no_memory(target, err);
    name_prefix(target, prefix);
    remove_dead(folder, prefix);

    kerf_status s = KERF_OK;
    int done = 0;
    for (int n = 0; n < MAX_TRIES && s == KERF_OK && !done; n++) {
        snprintf(name, sizeof name, "%s%ld-%d", prefix, (long)getpid(), n);
        char *path = kf_path_join(folder, name);
        s = path ? try_name(path, t, &done, err) : no_memory(target, err);
        free(path);
    }
    if (s == KERF_OK && !done)
        s = kf_fail(err, KERF_E_IO, KF_NOWHERE, "%s: no free name for a temporary beside it",
                    target);
    free(folder);
    return s;
}

/* What somebody else has put there would be published under our name. */
static int is_own(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_uid == geteuid();
}

/* Opens and locks the folder of a dead run; what does not work out leaves it to others. */
static int take_folder(const char *path, int (*judge)(void *ctx, const char *folder), void *ctx,
                       kf_temp *t)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return 0;
    *t = (kf_temp){.fd = fd, .lock_fd = -1, .slot = -1, .is_folder = 1};
    int ours = flock(fd, LOCK_EX | LOCK_NB) == 0 && is_same_file(fd, path) && is_own(fd) &&
               judge(ctx, path);
    if (ours) t->lock_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (ours) t->path = strdup(path);
    if (t->lock_fd >= 0 && t->path) return 1;
    kf_temp_release(t);
    return 0;
}

int kf_temp_adopt(const char *target, int (*judge)(void *ctx, const char *folder), void *ctx,
                  kf_temp *t)
{
    char prefix[NAME_MAX + 1];
    int taken = 0;
    char *folder = kf_path_folder(target);
    DIR *d = folder ? opendir(folder) : NULL;
    name_prefix(target, prefix);
    for (struct dirent *e = d ? readdir(d) : NULL; e && !taken; e = readdir(d)) {
        if (strncmp(e->d_name, prefix, strlen(prefix)) != 0) continue;
        char *path = kf_path_join(folder, e->d_name);
        taken = path && take_folder(path, judge, ctx, t);
        free(path);
    }
    if (d) closedir(d);
    if (taken) remove_dead(folder, prefix);
    free(folder);
    return taken;
}

void kf_temp_keep(kf_temp *t)
{
    kf_cleanup_drop(t->slot);
    t->slot = -1;
}

void kf_temp_sweep(const kf_temp *folder, int (*keeps)(void *ctx, const char *name), void *ctx)
{
    kf_empty_folder(folder->fd, keeps, ctx);
}

/* In a temporary folder `flags` say how a name is opened. */
static kerf_status open_in(const kf_temp *folder, const char *name, int flags, kf_temp *t,
                           kerf_error *err)
{
    *t = (kf_temp)KF_NO_TEMP;
    t->path = kf_path_join(folder->path, name);
    if (!t->path) return no_memory(name, err);
    t->fd = open(t->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0666);
    if (t->fd >= 0) return KERF_OK;
    kerf_status s = kf_fail_errno(err, errno, "%s: cannot %s", t->path,
                                  flags & O_CREAT ? "create" : "open it again");
    kf_temp_release(t);
    return s;
}

kerf_status kf_temp_open_in(const kf_temp *folder, const char *name, kf_temp *t, kerf_error *err)
{
    return open_in(folder, name, 0, t, err);
}

kerf_status kf_temp_create_in(const kf_temp *folder, const char *name, kf_temp *t, kerf_error *err)
{
    return open_in(folder, name, O_CREAT | O_EXCL, t, err);
}

kerf_status kf_temp_size(const kf_temp *t, uint64_t *bytes, kerf_error *err)
{
    struct stat st;
    if (fstat(t->fd, &st) != 0) return kf_fail_errno(err, errno, "%s: cannot look at it", t->path);
    *bytes = (uint64_t)st.st_size;
    return KERF_OK;
}

kerf_status kf_temp_sync(const kf_temp *t, kerf_error *err)
{
    if (kf_sync(t->fd) != 0) return kf_fail_errno(err, errno, "%s: cannot sync", t->path);
    return KERF_OK;
}

kerf_status kf_temp_check_size(const kf_temp *t, uint64_t bytes, kerf_error *err)
{
    uint64_t there;
    KF_TRY(kf_temp_size(t, &there, err));
    if (there == bytes) return KERF_OK;
    return kf_fail(err, KERF_E_IO, KF_NOWHERE, "%s: has %llu bytes on disk, %llu were written",
                   t->path, (unsigned long long)there, (unsigned long long)bytes);
}

kerf_status kf_temp_settle(kf_temp *t, uint64_t bytes, kerf_error *err)
{
    KF_TRY(kf_temp_check_size(t, bytes, err));
    KF_TRY(kf_temp_sync(t, err));
    int fd = t->fd;
    t->fd = -1;
    if (close(fd) != 0) return kf_fail_errno(err, errno, "%s: cannot close", t->path);
    return KERF_OK;
}

kerf_status kf_temp_fill(kf_temp *t, const void *p, size_t n, kerf_error *err)
{
    KF_TRY(kf_write_at(t->fd, t->path, 0, p, n, err));
    void *back = kf_alloc(n, 1);
    if (!back) return no_memory(t->path, err);
    kerf_status s = kf_read_at(t->fd, t->path, 0, back, n, err);
    if (s == KERF_OK && n > 0 && memcmp(p, back, n) != 0)
        s = kf_fail(err, KERF_E_IO, KF_NOWHERE, "%s: reads back other bytes than were written",
                    t->path);
    free(back);
    return s == KERF_OK ? kf_temp_settle(t, n, err) : s;
}

kerf_status kf_temp_put_in(const kf_temp *folder, const char *name, const void *p, size_t n,
                           kerf_error *err)
{
    kf_temp t = KF_NO_TEMP;
    KF_TRY(kf_temp_create_in(folder, name, &t, err));
    kerf_status s = kf_temp_fill(&t, p, n, err);
    if (s == KERF_OK)
        kf_temp_release(&t);
    else
        kf_temp_discard(&t);
    return s;
}

void kf_temp_release(kf_temp *t)
{
    kf_cleanup_drop(t->slot);
    if (t->fd >= 0) close(t->fd);
    if (t->lock_fd >= 0) close(t->lock_fd);
    free(t->path);
    *t = (kf_temp)KF_NO_TEMP;
}

void kf_temp_discard(kf_temp *t)
{
    if (t->path) remove_temp(t->fd >= 0 ? t->fd : t->lock_fd, t->path);
    kf_temp_release(t);
}
