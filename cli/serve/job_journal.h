/* job_journal.h - the file that outlives a server: what waited and ran, for the next one. */
#ifndef KERF_SERVE_JOB_JOURNAL_H
#define KERF_SERVE_JOB_JOURNAL_H

#include <jansson.h>

#include "cli.h"

/* Puts doc (NULL: memory ran out, nothing is done) in the place of the journal in the output
 * folder, and releases it. Says on standard error when it cannot. */
void journal_write(json_t *doc);

/* *doc: the journal, to be released; NULL: there is none. KERF_E_DATA: it is no JSON;
 * KERF_E_EXISTS: another server has the output folder, which is this one's from now on. */
kerf_status journal_read(json_t **doc, kerf_error *err);

/* A file of JSON of 64 MiB at most. */
kerf_status document_read(const char *path, json_t **doc, kerf_error *err);

#endif
