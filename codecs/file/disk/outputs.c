/* outputs.c - what a call writes must be neither what it reads nor written twice: looked at by the
 * identity of files, so that links and other spellings of a path do not matter. And it must have a
 * folder to be in.
 *
 * An output replaces what has its name, a folder with all that is in it. What is read is a file, or
 * a folder with all that is in it: weights, index, configuration, tokenizer. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <kerf/file.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file/disk/io.h"

#define MAX_LINKS 40      /* as the kernel follows */
#define LONGEST_PATH 4096 /* as it takes           */

/* One file, whatever it is called. */
typedef struct file_id {
    dev_t device;
    ino_t inode;
    int is_listed; /* found in a folder, not named */
} file_id;

typedef struct file_ids {
    file_id *id;
    size_t count, room;
} file_ids;

static kerf_status no_memory(const char *path, kerf_error *err)
{
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", path);
}

static kerf_status add_id(file_ids *all, const struct stat *st, int is_listed, const char *path,
                          kerf_error *err)
{
    if (all->count == all->room) {
        const size_t room = 2 * all->room + 64;
        file_id *grown = realloc(all->id, room * sizeof *grown);
        if (!grown) return no_memory(path, err);
        all->id = grown;
        all->room = room;
    }
    all->id[all->count++] = (file_id){st->st_dev, st->st_ino, is_listed};
    return KERF_OK;
}

/* Adds the files in a folder that `takes` (NULL: every) returns 1 for. */
static kerf_status add_folder(file_ids *all, const char *folder,
                              int (*takes)(const char *name, const char *beside),
                              const char *beside, kerf_error *err)
{
    struct stat st;
    const char *name;
    kerf_status s = KERF_OK;
    int failed = 0;
    DIR *d = opendir(folder);
    if (!d) return kf_fail_errno(err, errno, "%s: cannot open the folder", folder);
    while (s == KERF_OK && (name = kf_next_name(d, &failed)) != NULL) {
        if (takes && !takes(name, beside)) continue;
        if (fstatat(dirfd(d), name, &st, 0) == 0) {
            if (S_ISREG(st.st_mode)) s = add_id(all, &st, 1, folder, err);
        } else if (errno != ENOENT && errno != ELOOP && errno != EACCES) {
            s = kf_fail_errno(err, errno, "%s/%s: cannot look at it", folder, name);
        }
    }
    closedir(d);
    if (s == KERF_OK && failed) s = kf_fail_errno(err, failed, "%s: cannot read it", folder);
    return s;
}

/* What is read with a file of weights: the configuration beside it, and the other parts of a model
 * in several GGUF files, "a-00001-of-00003.gguf". */
static int is_read_with(const char *name, const char *beside)
{
    static const char part[] = "00001-of-00003.gguf";
    const size_t n = strlen(beside), digits = sizeof part - 1, number = 5;
    if (strcmp(name, "config.json") == 0 || strcmp(name, "hf_quant_config.json") == 0) return 1;
    return n > digits && strlen(name) == n && kf_has_suffix(beside, ".gguf") &&
           memcmp(beside + n - digits + number, "-of-", 4) == 0 &&
           memcmp(name, beside, n - digits) == 0 &&
           strcmp(name + n - digits + number, beside + n - digits + number) == 0;
}

/* What is not there, or is no path at all, is read by nobody. */
static kerf_status add_source(file_ids *all, const char *path, kerf_error *err)
{
    struct stat st;
    if (stat(path, &st) != 0) return KERF_OK;
    KF_TRY(add_id(all, &st, 0, path, err));
    if (S_ISDIR(st.st_mode)) return add_folder(all, path, NULL, NULL, err);
    char *folder = kf_path_folder(path);
    if (!folder) return no_memory(path, err);
    kerf_status s = add_folder(all, folder, is_read_with, kf_path_base(path), err);
    free(folder);
    return s;
}

/* A report of an earlier run that lies in the folder of the source may be replaced. */
static int is_report(const char *path)
{
    static const char *const marks[] = {"\"schema\": \"kerf.",
                                        "<title>kerf: ", "# Precision advice\n",
                                        "<testsuites name=\"kerf ", "# kerf verify\n"};
    char text[512];
    int fd;
    uint64_t bytes;
    if (kf_open_regular(path, &fd, &bytes, NULL) != KERF_OK) return 0;
    const size_t n = (size_t)kf_min_u64(bytes, sizeof text - 1);
    const kerf_status s = kf_read_at(fd, path, 0, text, n, NULL);
    close(fd);
    text[n] = 0;
    for (size_t i = 0; s == KERF_OK && i < sizeof marks / sizeof *marks; i++)
        if (strstr(text, marks[i])) return 1;
    return 0;
}

static int is_among(const file_ids *all, const file_id *f, const char *path)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->id[i].device == f->device && all->id[i].inode == f->inode &&
            !(all->id[i].is_listed && is_report(path)))
            return 1;
    return 0;
}

/* Compares what writing to this path would replace with what is read. */
static kerf_status check_output(const file_ids *sources, const char *path, kerf_error *err)
{
    struct stat st;
    file_ids replaced = {0};
    if (stat(path, &st) != 0) return KERF_OK; /* nothing, or a link that leads nowhere */
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return kf_fail(err, KERF_E_EXISTS, KF_NOWHERE, "%s: is there and not a regular file", path);
    kerf_status s = add_id(&replaced, &st, 0, path, err);
    if (s == KERF_OK && S_ISDIR(st.st_mode) && sources->count > 0)
        s = add_folder(&replaced, path, NULL, NULL, err);
    for (size_t i = 0; i < replaced.count && s == KERF_OK; i++)
        if (is_among(sources, &replaced.id[i], path))
            s = kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                        "%s: the output would overwrite its own source: choose another name", path);
    free(replaced.id);
    return s;
}

/* --- two outputs --------------------------------------------------------------------------- */

/* The path of a link's target; NULL: it is no link, or there is no memory. */
static char *follow(const char *path)
{
    char to[4096];
    const ssize_t n = readlink(path, to, sizeof to - 1);
    if (n < 0) return NULL;
    to[n] = 0;
    if (to[0] == '/') return strdup(to);
    char *folder = kf_path_folder(path);
    char *out = folder ? kf_path_join(folder, to) : NULL;
    free(folder);
    return out;
}

/* One spelling for all paths of a file, also of one that is not there yet. */
static char *real_path(const char *path, int links)
{
    char *real = realpath(path, NULL);
    if (real) return real;
    char *target = links > 0 ? follow(path) : NULL;
    if (target) {
        real = real_path(target, links - 1);
        free(target);
        return real;
    }
    size_t n = strlen(path);
    if (n > LONGEST_PATH) return strdup(path); /* that of no file */
    while (n > 1 && path[n - 1] == '/') n--;
    char *own = strndup(path, n), *folder = own ? kf_path_folder(own) : NULL;
    /* its folder may not be there either */
    char *real_folder = folder && strcmp(folder, own) != 0 ? real_path(folder, links) : NULL;
    real = real_folder ? kf_path_join(real_folder, kf_path_base(own)) : strdup(path);
    free(real_folder);
    free(folder);
    free(own);
    return real;
}

/* The same, or one inside of the other. */
static int collides(const char *a, const char *b)
{
    const size_t n = strlen(a), m = strlen(b), least = n < m ? n : m;
    if (strncmp(a, b, least) != 0) return 0;
    return n == m || (n < m ? b : a)[least] == '/';
}

static int is_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static kerf_status check_pair(const char *a, const char *b, kerf_error *err)
{
    char *x = real_path(a, MAX_LINKS), *y = real_path(b, MAX_LINKS);
    kerf_status s = KERF_OK;
    if (!x || !y)
        s = no_memory(a, err);
    else if (collides(x, y) || is_same_file(a, b))
        s = kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                    "%s: two outputs have this name: choose another for one", b);
    free(x);
    free(y);
    return s;
}

/* Outputs, then caches. */
static const char *written(const kerf_files *f, size_t i)
{
    return i < f->outputs ? f->output[i] : f->cache[i - f->outputs];
}

kerf_status kerf_files_check(const kerf_files *f, kerf_error *err)
{
    file_ids sources = {0};
    kerf_status s = KERF_OK;
    if (!f) return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "kerf_files_check: no files");
    for (size_t i = 0; i < f->sources && f->outputs > 0 && s == KERF_OK; i++)
        s = add_source(&sources, f->source[i], err);
    for (size_t i = 0; i < f->outputs && s == KERF_OK; i++)
        s = check_output(&sources, f->output[i], err);
    for (size_t i = 0; i < f->outputs + f->caches && s == KERF_OK; i++)
        for (size_t k = 0; k < i && s == KERF_OK; k++)
            s = check_pair(written(f, k), written(f, i), err);
    free(sources.id);
    return s;
}

/* A link is judged by who writes through it. */
static kerf_status check_folder(const char *path, kerf_error *err)
{
    struct stat st;
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    char *own = strndup(path, n), *folder = own ? kf_path_folder(own) : NULL;
    kerf_status s = folder ? KERF_OK : no_memory(path, err);
    if (s == KERF_OK && (lstat(own, &st) != 0 || !S_ISLNK(st.st_mode)) &&
        access(folder, W_OK | X_OK) != 0)
        s = kf_fail_errno(err, errno, "%s: cannot write into this folder%s", folder,
                          errno == ENOENT ? " (mkdir -p makes it)" : "");
    free(folder);
    free(own);
    return s;
}

kerf_status kerf_files_check_folders(const kerf_files *f, kerf_error *err)
{
    kerf_status s = KERF_OK;
    if (!f) return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "kerf_files_check_folders: no files");
    for (size_t i = 0; i < f->outputs + f->caches && s == KERF_OK; i++)
        s = check_folder(written(f, i), err);
    return s;
}
