/* output.c - documents and texts on standard output. */
#include "output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <kerf/file.h>

/* --- documents ----------------------------------------------------------------------------------
 */

static int document_begun;
static FILE *documents; /* NULL: standard output */

void set_documents(FILE *to)
{
    documents = to;
}

kerf_status put_document(kerf_status s, char **text, kerf_error *err)
{
    if (s != KERF_OK) return s;
    const int failed = fprintf(documents ? documents : stdout, "%s\n", *text) < 0;
    document_begun = 1;
    free(*text);
    return failed ? kerf_fail(err, KERF_E_IO, "standard output: %s", strerror(errno)) : KERF_OK;
}

kerf_status put_text(kerf_status s, char **text, kerf_error *err)
{
    if (s != KERF_OK) return s;
    const int failed = fputs(*text, stdout) == EOF;
    free(*text);
    return failed ? kerf_fail(err, KERF_E_IO, "standard output: %s", strerror(errno)) : KERF_OK;
}

void print_failure(kerf_status s, int code, const char *text)
{
    if (document_begun) return;
    printf("{\n  \"schema\": \"kerf.error/1\",\n  \"exit_code\": %d,\n  \"status\": \"%s\",\n"
           "  \"error\": \"",
           code, kerf_status_name(s));
    for (; *text; text++) printf(*text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    printf("\"\n}\n");
    fflush(stdout);
}

static char written[1024];

void note_written(const char *path)
{
    const size_t n = strlen(written);
    snprintf(written + n, sizeof written - n, "; %.400s is written, and whole", shown(path));
}

const char *written_text(void)
{
    return written;
}

kerf_status write_file(const char *path, const void *p, size_t n, int overwrite, kerf_error *err)
{
    kerf_status s = kerf_file_replace(path, p, n, overwrite, err);
    if (s == KERF_E_EXISTS) return kerf_fail(err, s, "%.300s exists; -y replaces it", path);
    if (s == KERF_OK) note_written(path);
    return s;
}

kerf_status put_file(kerf_status s, const char *path, char **text, int overwrite, kerf_error *err)
{
    if (s != KERF_OK) return s;
    s = write_file(path, *text, strlen(*text), overwrite, err);
    free(*text);
    return s;
}

const char *shown(const char *text)
{
    static char buffer[8][4096];
    static unsigned next;
    return kerf_text_printable(text, buffer[next++ % 8], sizeof *buffer);
}
