/* io.c - whole reads and writes, names of paths, syncing. */
#include "file/disk/io.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/system.h"

#define MAX_CALL_BYTES ((size_t)1 << 30)

kerf_status kf_read_at(int fd, const char *path, uint64_t offset, void *dst, size_t n,
                       kerf_error *err)
{
    uint8_t *p = dst;
    while (n > 0) {
        ssize_t got = pread(fd, p, n < MAX_CALL_BYTES ? n : MAX_CALL_BYTES, (off_t)offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            return kf_fail_errno(err, errno, "%s: cannot read at byte %" PRIu64, path, offset);
        if (got == 0)
            return kf_fail(err, KERF_E_IO, offset,
                           "%s: ends at byte %" PRIu64 ", it was cut while it was read", path,
                           offset);
        p += got;
        n -= (size_t)got;
        offset += (uint64_t)got;
    }
    return KERF_OK;
}

/* A full disk is found while room is reserved or, if others fill it, while a file is written. Both
 * are said in the same words. */
static kerf_status no_room(const char *path, uint64_t bytes, int native, kerf_error *err)
{
    return kf_fail_errno(err, native, "%s: no room for %" PRIu64 " bytes", path, bytes);
}

kerf_status kf_reserve_at(int fd, const char *path, uint64_t bytes, kerf_error *err)
{
    return kf_reserve(fd, (off_t)bytes) == 0 ? KERF_OK : no_room(path, bytes, errno, err);
}

kerf_status kf_write_at(int fd, const char *path, uint64_t offset, const void *src, size_t n,
                        kerf_error *err)
{
    const uint8_t *p = src;
    while (n > 0) {
        ssize_t put = pwrite(fd, p, n < MAX_CALL_BYTES ? n : MAX_CALL_BYTES, (off_t)offset);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0 && (errno == ENOSPC || errno == EDQUOT)) return no_room(path, n, errno, err);
        if (put <= 0)
            return kf_fail_errno(err, put < 0 ? errno : EIO, "%s: cannot write at byte %" PRIu64,
                                 path, offset);
        p += put;
        n -= (size_t)put;
        offset += (uint64_t)put;
    }
    return KERF_OK;
}

static kf_stamp take_stamp(const struct stat *st)
{
    return (kf_stamp){st->st_dev, st->st_ino, st->st_size, kf_changed(st)};
}

int kf_stamp_of(const char *path, kf_stamp *stamp)
{
    struct stat st;
    const int is_there = stat(path, &st) == 0;
    *stamp = is_there ? take_stamp(&st) : (kf_stamp){0};
    return is_there;
}

static int is_other(const kf_stamp *s, const struct stat *st)
{
    const struct timespec changed = kf_changed(st);
    return s->device != st->st_dev || s->inode != st->st_ino || s->bytes != st->st_size ||
           s->changed.tv_sec != changed.tv_sec || s->changed.tv_nsec != changed.tv_nsec;
}

/* 1: the same as ever; 0: another, or gone; -1: that cannot be said. */
static int compare_stamp(const kf_stamp *s, int failed, const struct stat *st)
{
    if (failed) return errno == ENOENT ? 0 : -1;
    return !is_other(s, st);
}

kerf_status kf_stamp_check(const kf_stamp *s, int fd, const char *path, const char *name,
                           kerf_error *err)
{
    struct stat st;
    int same = fd < 0 ? 1 : compare_stamp(s, fstat(fd, &st), &st);
    if (same > 0 && path) same = compare_stamp(s, stat(path, &st), &st);
    if (same > 0) return KERF_OK;
    if (same < 0) return kf_fail_errno(err, errno, "%s: cannot look at it again", name);
    return kf_fail(err, KERF_E_IO, KF_NOWHERE,
                   "%s: changed while it was read: run again when nobody writes to it", name);
}

kerf_status kf_open_stamped(const char *path, int *fd, kf_stamp *stamp, kerf_error *err)
{
    struct stat st;
    int f = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (f < 0) return kf_fail_errno(err, errno, "%s: cannot open", path);
    if (fstat(f, &st) != 0) {
        int e = errno;
        close(f);
        return kf_fail_errno(err, e, "%s: cannot look at it", path);
    }
    if (!S_ISREG(st.st_mode)) {
        close(f);
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%s: not a regular file", path);
    }
    *fd = f;
    *stamp = take_stamp(&st);
    return KERF_OK;
}

kerf_status kf_open_regular(const char *path, int *fd, uint64_t *bytes, kerf_error *err)
{
    kf_stamp stamp;
    KF_TRY(kf_open_stamped(path, fd, &stamp, err));
    *bytes = (uint64_t)stamp.bytes;
    return KERF_OK;
}

kerf_status kf_read_whole(const char *path, uint64_t limit, char **out, size_t *n, kerf_error *err)
{
    int fd = -1;
    kf_stamp stamp;
    KF_TRY(kf_open_stamped(path, &fd, &stamp, err));
    const uint64_t bytes = (uint64_t)stamp.bytes;
    kerf_status s = KERF_OK;
    char *text = NULL;
    if (bytes > limit)
        s = kf_fail(err, KERF_E_LIMIT, KF_NOWHERE,
                    "%s: %" PRIu64 " bytes, at most %" PRIu64 " are read", path, bytes, limit);
    else if (!(text = kf_alloc(bytes + 1, 1)))
        s = kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory for %" PRIu64 " bytes", path,
                    bytes);
    if (s == KERF_OK) s = kf_read_at(fd, path, 0, text, (size_t)bytes, err);
    if (s == KERF_OK) s = kf_stamp_check(&stamp, fd, NULL, path, err);
    close(fd);
    if (s != KERF_OK) {
        free(text);
        return s;
    }
    text[bytes] = 0;
    *out = text;
    *n = (size_t)bytes;
    return KERF_OK;
}

kerf_status kf_open_folder(const char *path, int *fd, kerf_error *err)
{
    *fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd < 0) return kf_fail_errno(err, errno, "%s: cannot open the folder", path);
    return KERF_OK;
}

kerf_status kf_sync_folder(int fd, const char *path, kerf_error *err)
{
    /* Some file systems cannot sync a folder and say EINVAL; they offer nothing better. */
    if (kf_sync(fd) == 0 || errno == EINVAL) return KERF_OK;
    return kf_fail_errno(err, errno, "%s: cannot sync the folder", path);
}

const char *kf_next_name(DIR *folder, int *failed)
{
    for (;;) {
        errno = 0;
        const struct dirent *e = readdir(folder);
        *failed = e ? 0 : errno;
        if (!e) return NULL;
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) return e->d_name;
    }
}

char *kf_path_join(const char *folder, const char *name)
{
    size_t a = strlen(folder), b = strlen(name);
    char *out = kf_alloc(a + b + 2, 1);
    if (!out) return NULL;
    memcpy(out, folder, a);
    if (a > 0 && folder[a - 1] != '/') out[a++] = '/';
    memcpy(out + a, name, b + 1);
    return out;
}

const char *kf_path_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *kf_path_folder(const char *path)
{
    const char *base = kf_path_base(path);
    if (base == path) return strdup(".");
    size_t n = (size_t)(base - path);
    return n == 1 ? strdup("/") : strndup(path, n - 1);
}
