/* companions.c - the small files that make a folder of weights a model.
 *
 * Weights in any other container are left behind: beside new weights they would be a second,
 * different model in the same folder. */
#include "file/write/companions.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <kerf/words.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file/disk/download.h"
#include "file/disk/io.h"

#define COPY_BYTES ((size_t)1 << 20)

static const char *const wanted[] = {
    "config.json",
    "generation_config.json",
    "tokenizer*",
    "*.model",
    "*.spm", /* Marian's two */
    "special_tokens_map.json",
    "added_tokens.json",
    "*vocab*", /* also RWKV's, and of entities */
    "merges.txt",
    "chat_template*",
    "*.jinja",
    "*.py",
    "*processor_config.json", /* also of images and videos */
    "*.tiktoken",
    "tekken.json", /* Mistral's tokenizer */
    "params.json", /* and sizes */
    "*SYSTEM_PROMPT.txt",
    "mel_filters.npz",
    "normalizer.json",
    "modules.json",
    "*sentence_*.json", /* sentence-transformers */
    "bpe.codes",
    "dict.txt",
    "LICENSE*",
    "README*",
};

static const char *const unwanted[] = {"*.safetensors*", "*.bin", "*.pt", "*.pth", "*.gguf"};

static int matches(const char *name, const char *const *patterns, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (kerf_glob_matches(patterns[i], name)) return 1;
    return 0;
}

static int is_companion(DIR *folder, const char *name)
{
    struct stat st;
    if (name[0] == '.') return 0; /* hidden */
    if (!matches(name, wanted, sizeof wanted / sizeof *wanted)) return 0;
    if (matches(name, unwanted, sizeof unwanted / sizeof *unwanted)) return 0;
    /* A folder of such a name is another matter. What is no file, or cannot be looked at, is found
     * out when it is opened. */
    return fstatat(dirfd(folder), name, &st, 0) != 0 || !S_ISDIR(st.st_mode) ||
           strcmp(name, "config.json") == 0;
}

static kerf_status copy_bytes(int from, const char *path, uint64_t bytes, kf_temp *to,
                              kerf_error *err)
{
    char *buffer = kf_alloc(2, COPY_BYTES);
    if (!buffer) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", path);
    char *back = buffer + COPY_BYTES;
    kerf_status s = KERF_OK;
    for (uint64_t at = 0; at < bytes && s == KERF_OK; at += COPY_BYTES) {
        size_t n = (size_t)kf_min_u64(COPY_BYTES, bytes - at);
        s = kf_read_at(from, path, at, buffer, n, err);
        if (s == KERF_OK) s = kf_write_at(to->fd, to->path, at, buffer, n, err);
        if (s == KERF_OK) s = kf_read_at(to->fd, to->path, at, back, n, err);
        if (s == KERF_OK && memcmp(buffer, back, n) != 0)
            s = kf_fail(err, KERF_E_IO, at, "%s: reads back other bytes than were written",
                        to->path);
    }
    free(buffer);
    return s == KERF_OK ? kf_temp_settle(to, bytes, err) : s;
}

static kerf_status copy_file(const char *folder, const char *name, const kf_temp *to,
                             kerf_error *err)
{
    int fd = -1;
    kf_stamp stamp;
    kf_temp copy = KF_NO_TEMP;
    char *path = kf_path_join(folder, name);
    if (!path) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", name);
    kerf_status s = kf_open_stamped(path, &fd, &stamp, err);
    if (s == KERF_OK) s = kf_temp_create_in(to, name, &copy, err);
    if (s == KERF_OK) s = copy_bytes(fd, path, (uint64_t)stamp.bytes, &copy, err);
    if (s == KERF_OK) s = kf_stamp_check(&stamp, fd, NULL, path, err);
    if (s == KERF_OK)
        kf_temp_release(&copy);
    else
        kf_temp_discard(&copy);
    if (fd >= 0) close(fd);
    free(path);
    return s;
}

static int is_given(const char *name, const kerf_companion *given, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, given[i].name) == 0) return 1;
    return 0;
}

kerf_status kf_copy_companions(const char *from, const kf_temp *to, const kerf_companion *given,
                               size_t count, kerf_error *err)
{
    kerf_status s = KERF_OK;
    const char *name;
    int failed = 0;
    DIR *d = opendir(from);
    if (!d) return kf_fail_errno(err, errno, "%s: cannot open the folder", from);
    while (s == KERF_OK && (name = kf_next_name(d, &failed)) != NULL)
        if (is_companion(d, name) && !is_given(name, given, count))
            s = copy_file(from, name, to, err);
    closedir(d);
    if (s == KERF_OK && failed) s = kf_fail_errno(err, failed, "%s: cannot read it", from);
    return s;
}

kerf_status kf_write_companions(const kf_temp *to, const kerf_companion *given, size_t count,
                                kerf_error *err)
{
    for (size_t i = 0; i < count; i++)
        KF_TRY(kf_temp_put_in(to, given[i].name, given[i].text, strlen(given[i].text), err));
    return KERF_OK;
}

/* Whether a file holds a few bytes that stand for others. What cannot be read is found out when it
 * is copied. */
static const char *find_pointer(DIR *folder, const char *name)
{
    char first[KF_DOWNLOAD_BYTES];
    const int fd = openat(dirfd(folder), name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const ssize_t n = fd < 0 ? -1 : pread(fd, first, sizeof first, 0);
    if (fd >= 0) close(fd);
    const char *is = n > 0 ? kf_download_is(first, (size_t)n) : NULL;
    return is && strncmp(is, "a pointer of ", 13) == 0 ? is : NULL;
}

kerf_status kf_find_pointer(const char *from, char *name, size_t size, const char **is,
                            kerf_error *err)
{
    const char *next;
    int failed = 0;
    DIR *d = opendir(from);
    *is = NULL;
    if (!d) return kf_fail_errno(err, errno, "%s: cannot open the folder", from);
    while (!*is && (next = kf_next_name(d, &failed)) != NULL) {
        if (!is_companion(d, next)) continue;
        *is = find_pointer(d, next);
        snprintf(name, size, "%s", next);
    }
    closedir(d);
    return failed ? kf_fail_errno(err, failed, "%s: cannot read it", from) : KERF_OK;
}
