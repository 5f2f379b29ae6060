/* job_journal.c - kerf-jobs.json in the folder that outputs go to. */
#include "serve/job_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <kerf/file.h>

#include "serve/json_taken.h"
#include "serve/serve.h"

enum { PATH_ROOM = 4200, DOCUMENT_MOST = 64 << 20 };

static void journal_path(char path[PATH_ROOM])
{
    snprintf(path, PATH_ROOM, "%s/kerf-jobs.json", serving.output);
}

void journal_write(json_t *doc)
{
    char path[PATH_ROOM];
    kerf_error err = {0};
    char *text = doc ? json_dumps(doc, JSON_INDENT(1)) : NULL;
    journal_path(path);
    if (text && kerf_file_replace(path, text, strlen(text), 1, &err) != KERF_OK)
        fprintf(stderr, "kerf: %s\n", err.text);
    free(text);
    json_decref(doc);
}

/* What an open file holds. errno is 0 where it is read, but no JSON. The library's reader of JSON
 * (json_read.h) is not in its interface, which knows no type of jansson: a server asks jansson
 * itself, as it does for bodies, and finds out whether only memory was missing. */
static json_t *parse(int fd, size_t n)
{
    char *text = malloc(n + 1);
    size_t got = 0;
    ssize_t more = 1;
    while (text && got < n && more > 0) {
        more = read(fd, text + got, n - got);
        if (more > 0) got += (size_t)more;
        if (more < 0 && errno == EINTR) more = 1;
    }
    json_error_t where = {.text = "cut"};
    json_t *doc = text && more > 0 ? json_taken(text, got, &where) : NULL;
    if (text && more >= 0) errno = where.text[0] ? 0 : ENOMEM;
    free(text);
    return doc;
}

/* A name that somebody made a pipe is not waited for. */
kerf_status document_read(const char *path, json_t **doc, kerf_error *err)
{
    struct stat st;
    int large = 0;
    *doc = NULL;
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0) {
        errno = 0;
        large = S_ISREG(st.st_mode) && st.st_size > DOCUMENT_MOST;
        if (S_ISREG(st.st_mode) && !large) *doc = parse(fd, (size_t)st.st_size);
    }
    const int why = errno;
    if (fd >= 0) close(fd);
    if (*doc) return KERF_OK;
    if (large) return kerf_fail(err, KERF_E_LIMIT, "%.300s is larger than 64 MiB", path);
    if (why)
        return kerf_fail(err, why == ENOMEM ? KERF_E_NOMEM : KERF_E_IO, "%.300s: %s", path,
                         strerror(why));
    return kerf_fail(err, KERF_E_DATA, "%.300s is no JSON that can be read", path);
}

/* Until this server ends: two would both go on with the jobs. File systems may not know. */
static kerf_status take_folder(kerf_error *err)
{
    const int fd = open(serving.output, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return KERF_OK;
    close(fd);
    return kerf_fail(err, KERF_E_EXISTS, "%.300s: another kerf serve writes to it", serving.output);
}

kerf_status journal_read(json_t **doc, kerf_error *err)
{
    char path[PATH_ROOM];
    struct stat st;
    *doc = NULL;
    TRY(take_folder(err));
    journal_path(path);
    if (stat(path, &st) != 0 && errno == ENOENT) return KERF_OK;
    const kerf_status s = document_read(path, doc, err);
    if (s != KERF_E_DATA) return s;
    return kerf_fail(err, s, "%.300s is no JSON that can be read; remove it", path);
}
