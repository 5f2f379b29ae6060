/* target.c - whether an output of this name may be written. */
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

static kerf_status fail_source(const char *path, kerf_error *err)
{
    return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                   "%s: the output would overwrite its own source: choose another name", path);
}

static int is_folder_of(const struct stat *st, const kerf_reader *source)
{
    struct stat folder;
    return source && stat(kerf_reader_folder(source), &folder) == 0 &&
           folder.st_dev == st->st_dev && folder.st_ino == st->st_ino;
}

static int holds(const kerf_reader *source, const struct stat *st)
{
    return source && kf_reader_holds(source, st->st_dev, st->st_ino);
}

/* Overwriting a folder removes what is in it, so only plain files may be there. */
static kerf_status check_content(const char *path, const kerf_reader *source, int *files,
                                 kerf_error *err)
{
    struct stat st;
    kerf_status s = KERF_OK;
    *files = 0;
    DIR *d = opendir(path);
    if (!d) return kf_fail_errno(err, errno, "%s: cannot open the folder", path);
    for (struct dirent *e = readdir(d); e && s == KERF_OK; e = readdir(d)) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        *files = 1;
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            s = kf_fail_errno(err, errno, "%s/%s: cannot look at it", path, e->d_name);
        else if (holds(source, &st))
            s = fail_source(path, err);
        else if (!S_ISREG(st.st_mode))
            s = kf_fail(err, KERF_E_EXISTS, KF_NOWHERE,
                        "%s: holds \"%s\", which is not a file: only a folder of plain files is "
                        "overwritten",
                        path, e->d_name);
    }
    closedir(d);
    return s;
}

static kerf_status check_folder(kf_target *t, const kerf_writer_options *opt, const struct stat *st,
                                kerf_error *err)
{
    if (!S_ISDIR(st->st_mode))
        return kf_fail(err, KERF_E_EXISTS, KF_NOWHERE,
                       "%s: is there and not a folder (an output file is named *.safetensors)",
                       t->path);
    if (is_folder_of(st, opt->source)) return fail_source(t->path, err);
    kerf_status s = check_content(t->path, opt->source, &t->needs_exchange, err);
    if (t->needs_exchange && !opt->overwrite) return kf_fail_exists(t->path, err);
    return s;
}

static kerf_status check_file(const kf_target *t, const kerf_writer_options *opt,
                              const struct stat *st, kerf_error *err)
{
    if (holds(opt->source, st)) return fail_source(t->path, err);
    if (S_ISDIR(st->st_mode))
        return kf_fail(err, KERF_E_EXISTS, KF_NOWHERE, "%s: a folder of this name is there",
                       t->path);
    return opt->overwrite ? KERF_OK : kf_fail_exists(t->path, err);
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
    kerf_status s = KERF_OK;
    if (stat(out->path, &st) == 0)
        s = out->is_folder ? check_folder(out, opt, &st, err) : check_file(out, opt, &st, err);
    else if (lstat(out->path, &st) == 0 && (out->is_folder || !opt->overwrite))
        s = kf_fail_exists(out->path, err); /* a link that leads nowhere */
    if (s != KERF_OK) {
        free(out->path);
        out->path = NULL;
    }
    return s;
}
