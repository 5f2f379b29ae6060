/* publish.c - a finished temporary gets the name of its target, by one rename. */
#include "file/disk/publish.h"

#include <errno.h>
#include <kerf/file.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/system.h"
#include "file/disk/cleanup.h"
#include "file/disk/io.h"

kerf_status kf_fail_exists(const char *target, kerf_error *err)
{
    return kf_fail(err, KERF_E_EXISTS, KF_NOWHERE, "%.300s: exists already; -y replaces it",
                   target);
}

/* Renames only when nothing has the new name. Some file systems cannot do both in one step: there
 * the name is looked up first. */
static int rename_new(const char *from, const char *to)
{
    struct stat st;
    if (kf_rename_new(from, to) == 0) return 0;
    if (errno != EINVAL && errno != ENOSYS) return -1;
    if (lstat(to, &st) == 0) {
        errno = EEXIST;
        return -1;
    }
    return rename(from, to);
}

/* *old: open on the folder that was there and now has the name of the temporary; -1: none was. It
 * is opened before, when that can still fail. */
static kerf_status rename_folder(const kf_temp *t, const char *target, int overwrite, int *old,
                                 kerf_error *err)
{
    *old = -1;
    if (rename(t->path, target) == 0) return KERF_OK; /* nothing there, or an empty folder */
    int is_there = errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR;
    if (!is_there) return kf_fail_errno(err, errno, "%s: cannot rename to it", target);
    if (!overwrite) return kf_fail_exists(target, err);
    KF_TRY(kf_open_folder(target, old, err));
    if (kf_rename_exchange(t->path, target) == 0) return KERF_OK;
    kerf_status s =
        kf_fail_errno(err, errno, "%s: cannot exchange the old folder for the new", target);
    close(*old);
    return s;
}

static kerf_status rename_file(const kf_temp *t, const char *target, int overwrite, kerf_error *err)
{
    int failed = overwrite ? rename(t->path, target) : rename_new(t->path, target);
    if (failed == 0) return KERF_OK;
    if (errno == EEXIST) return kf_fail_exists(target, err);
    return kf_fail_errno(err, errno, "%s: cannot rename to it", target);
}

/* They are needed up to here, should anything fail. */
static kerf_status remove_unpublished(const kf_temp *t, kerf_error *err)
{
    for (const char *const *name = t->unpublished; *name; name++)
        if (unlinkat(t->fd, *name, 0) != 0 && errno != ENOENT)
            return kf_fail_errno(err, errno, "%s/%s: cannot remove it", t->path, *name);
    /* Or they might come back into the published folder after a loss of power. */
    return kf_sync_folder(t->fd, t->path, err);
}

static kerf_status publish_in(kf_temp *t, int folder, const char *target, int overwrite,
                              kerf_error *err)
{
    int old = -1;
    if (t->is_folder) KF_TRY(kf_sync_folder(t->fd, t->path, err));
    if (t->unpublished) KF_TRY(remove_unpublished(t, err));
    KF_TRY(t->is_folder ? rename_folder(t, target, overwrite, &old, err)
                        : rename_file(t, target, overwrite, err));
    kerf_status s = kf_sync_folder(folder, target, err);
    if (s != KERF_OK)
        kf_fail_at(err, s, "the output is in place and whole, but may not outlast a loss of power");
    if (old >= 0) {
        kf_remove_folder(old, t->path);
        close(old);
    }
    kf_temp_release(t); /* the name is gone: nothing may remove what has it next */
    return s;
}

kerf_status kf_temp_publish(kf_temp *t, const char *target, int overwrite, kerf_error *err)
{
    int fd = -1;
    char *folder = kf_path_folder(target);
    if (!folder) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", target);
    kerf_status s = kf_open_folder(folder, &fd, err);
    if (s == KERF_OK) s = publish_in(t, fd, target, overwrite, err);
    if (fd >= 0) close(fd);
    free(folder);
    return s;
}

kerf_status kf_temp_check_exchange(const kf_temp *t, const char *target, kerf_error *err)
{
    kf_temp other;
    KF_TRY(kf_temp_create(target, 1, &other, err));
    kerf_status s = KERF_OK;
    /* There and back, so that both keep their locks. */
    if (kf_rename_exchange(t->path, other.path) != 0 ||
        kf_rename_exchange(t->path, other.path) != 0)
        s = errno == EINVAL || errno == ENOSYS
                ? kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                          "%s: this file system cannot exchange two folders: remove the old one "
                          "first",
                          target)
                : kf_fail_errno(err, errno, "%s: cannot exchange two folders beside it", target);
    kf_temp_discard(&other);
    return s;
}

kerf_status kerf_file_replace(const char *path, const void *p, size_t n, int overwrite,
                              kerf_error *err)
{
    kf_temp t;
    struct stat st;
    if (!path || path[0] == 0) return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "a file without a name");
    KF_TRY(kerf_files_check(&(kerf_files){.output = &path, .outputs = 1}, err));
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return kf_fail(err, KERF_E_EXISTS, KF_NOWHERE, "%.300s: is a folder; choose another name",
                       path);
    KF_TRY(kf_temp_create(path, 0, &t, err));
    kerf_status s = kf_temp_fill(&t, p, n, err);
    if (s == KERF_OK) s = kf_temp_publish(&t, path, overwrite, err);
    kf_temp_discard(&t);
    return s;
}
