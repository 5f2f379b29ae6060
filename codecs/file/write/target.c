/* target.c - whether an output of this name may be written: nothing is there yet, or overwriting is
 * allowed and what is there may be removed. */
#include "file/write/target.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base.h"
#include "file/disk/publish.h"
#include "file/read/reader.h"
#include "file/safetensors/index.h"

/* The paths that the source was opened under. */
static kerf_status check_source(const char *path, const kerf_reader *source, kerf_error *err)
{
    const size_t count = source && !source->is_folder ? source->shards : source != NULL;
    const char **name = kf_alloc(count, sizeof *name);
    if (!name) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", path);
    for (size_t i = 0; i < count; i++)
        name[i] = source->is_folder ? source->folder : source->shard[i].blob.path;
    const kerf_files files = {.source = name, .sources = count, .output = &path, .outputs = 1};
    kerf_status s = kerf_files_check(&files, err);
    free(name);
    return s;
}

/* Whether a folder that is open has lost its name to another, as far as can be said. */
static int is_replaced(int fd, const char *path)
{
    struct stat own, there;
    if (fstat(fd, &own) != 0) return 0;
    if (stat(path, &there) != 0) return errno == ENOENT;
    return own.st_dev != there.st_dev || own.st_ino != there.st_ino;
}

/* Overwriting a folder removes what is in it: only plain files may be there, and weights among
 * them, or it is no output of an earlier run but somebody's folder that was named by mistake. */
static kerf_status check_content(const char *path, int *files, kerf_error *err)
{
    struct stat st;
    const char *name;
    char *other = NULL;
    kerf_status s = KERF_OK;
    int failed = 0, weights = 0;
    *files = 0;
    DIR *d = opendir(path);
    if (!d) return kf_fail_errno(err, errno, "%s: cannot open the folder", path);
    while (s == KERF_OK && (name = kf_next_name(d, &failed)) != NULL) {
        *files = 1;
        weights |= kf_is_shard_name(name) || kf_has_suffix(name, ".gguf");
        if (!other) other = strdup(name);
        if (fstatat(dirfd(d), name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            s = errno == ENOENT ? KERF_OK /* another run has just replaced the folder */
                                : kf_fail_errno(err, errno, "%s/%s: cannot look at it", path, name);
        else if (!S_ISREG(st.st_mode))
            s = kf_fail(err, KERF_E_EXISTS, KF_NOWHERE,
                        "%s: holds \"%s\", which is not a file: only a folder of plain files is "
                        "overwritten; choose another name",
                        path, name);
    }
    /* Of a folder that another run has just replaced and removes, only some files may be left. */
    const int is_old = *files && !weights && is_replaced(dirfd(d), path);
    closedir(d);
    if (s == KERF_OK && failed) s = kf_fail_errno(err, failed, "%s: cannot read it", path);
    if (s == KERF_OK && *files && !weights && !is_old)
        s = kf_fail(err, KERF_E_EXISTS, KF_NOWHERE,
                    "%s: holds \"%.100s\" and no weights: only a checkpoint is overwritten; choose "
                    "another name, or remove the folder",
                    path, other ? other : "");
    free(other);
    return s;
}

static kerf_status check_folder(kf_target *t, const char *path, const kerf_writer_options *opt,
                                const struct stat *st, kerf_error *err)
{
    if (!S_ISDIR(st->st_mode))
        return kf_fail(err, KERF_E_EXISTS, KF_NOWHERE,
                       "%s: is there and not a folder (an output file is named *.safetensors)",
                       t->path);
    KF_TRY(check_content(t->path, &t->needs_exchange, err));
    return t->needs_exchange && !opt->overwrite ? kf_fail_exists(path, err) : KERF_OK;
}

static kerf_status check_file(const char *path, const kerf_writer_options *opt,
                              const struct stat *st, kerf_error *err)
{
    if (S_ISDIR(st->st_mode))
        return kf_fail(err, KERF_E_EXISTS, KF_NOWHERE, "%s: a folder of this name is there", path);
    return opt->overwrite ? KERF_OK : kf_fail_exists(path, err);
}

/* An existing folder gets its real name, so that links, "." and trailing slashes do not matter. */
static kerf_status take_path(const char *path, kf_target *t, kerf_error *err)
{
    struct stat st;
    size_t n = strlen(path);
    while (t->is_folder && n > 1 && path[n - 1] == '/') n--;
    if (t->is_folder && stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        t->path = realpath(path, NULL);
        if (!t->path) return kf_fail_errno(err, errno, "%s: cannot resolve", path);
        return KERF_OK;
    }
    t->path = strndup(path, n);
    return t->path ? KERF_OK : kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", path);
}

kerf_status kf_target_check(const char *path, const kerf_writer_options *opt, kf_target *out,
                            kerf_error *err)
{
    struct stat st;
    *out = (kf_target){.is_packed = kf_has_suffix(path, ".safetensors.zst"),
                       .is_gguf = kf_has_suffix(path, ".gguf")};
    out->is_folder = !out->is_packed && !out->is_gguf && !kf_has_suffix(path, ".safetensors");
    if (path[0] == 0) return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "the output has no name");
    KF_TRY(take_path(path, out, err));
    kerf_status s = check_source(out->path, opt->source, err);
    const int is_there = stat(out->path, &st) == 0, why = is_there ? 0 : errno;
    if (s == KERF_OK && why && why != ENOENT && why != ELOOP)
        s = kf_fail_errno(err, why, "%s: cannot look at it", out->path);
    else if (s == KERF_OK && is_there)
        s = out->is_folder ? check_folder(out, path, opt, &st, err)
                           : check_file(path, opt, &st, err);
    else if (s == KERF_OK && lstat(out->path, &st) == 0 && out->is_folder)
        s = kf_fail(err, KERF_E_EXISTS, KF_NOWHERE,
                    "%.300s: a link that leads nowhere; remove it, or choose another name", path);
    else if (s == KERF_OK && lstat(out->path, &st) == 0 && !opt->overwrite)
        s = kf_fail_exists(path, err); /* a link that leads nowhere */
    if (s != KERF_OK) {
        free(out->path);
        out->path = NULL;
    }
    return s;
}
