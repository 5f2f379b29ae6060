/* job_journal.c - kerf-jobs.json in the folder that outputs go to. */
#include "serve/job_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <kerf/file.h>

#include "serve/serve.h"

enum { PATH_ROOM = 4200, JOURNAL_MOST = 64 << 20 };

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

/* A name that somebody made a pipe is not waited for. */
kerf_status journal_read(json_t **doc, kerf_error *err)
{
    char path[PATH_ROOM];
    struct stat st;
    *doc = NULL;
    journal_path(path);
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) return KERF_OK;
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= JOURNAL_MOST)
        *doc = json_loadfd(fd, 0, NULL);
    if (fd >= 0) close(fd);
    if (*doc) return KERF_OK;
    return kerf_fail(err, KERF_E_DATA, "%.300s is no JSON that can be read; remove it", path);
}
