/* part.h - the folders OUT.kerf-parts/I-of-N, in which the parts of an output wait for each other
 * (kerf/parts.h). */
#ifndef KERF_FILE_PART_H
#define KERF_FILE_PART_H

#include <jansson.h>

#include <kerf/file.h>
#include <kerf/parts.h>

#include "file/disk/temp.h"
#include "file/read/folder.h"
#include "file/write/journal.h"

#define KF_PART_NAME "kerf-part.json"
#define KF_PARTS_WHOLE "whole" /* where a merge gathers the files */

/* --- the folder of all parts --------------------------------------------------------------- */

/* Locked by each part for itself and others, by a merge for itself alone, where the file system has
 * locks: a merge does not begin while a part is written. Without locks the renames of a merge are
 * safe still, and a part that comes late is left over. */
typedef struct kf_parts {
    char *out;  /* the output; an existing folder under its real name */
    char *path; /* out KF_PARTS_ENDING                                */
    int fd;     /* open on it and locked; -1: not                     */
} kf_parts;

/* Refuses an output that may not be written, as kf_target_check does, and one that is a file. */
kerf_status kf_parts_find(const char *out, const kerf_writer_options *opt, kf_parts *p,
                          kerf_error *err);
/* Makes it where it is missing, for a part. */
kerf_status kf_parts_enter(kf_parts *p, kerf_error *err);
/* For a merge: it must be there. */
kerf_status kf_parts_own(kf_parts *p, kerf_error *err);
kerf_status kf_fail_no_parts(const kf_parts *p, kerf_error *err);
/* Removes it when nothing is in it and nobody else at work; {.fd = -1} is fine. */
void kf_parts_leave(kf_parts *p);

/* --- one part ------------------------------------------------------------------------------ */

typedef struct kf_part_file {
    uint32_t index; /* in the journal */
    const char *name;
    uint64_t bytes;
} kf_part_file;

/* What KF_PART_NAME says. */
typedef struct kf_part_record {
    json_t *text; /* owns the names */
    unsigned part, parts;
    uint64_t shards; /* of the whole output */
    const char *verb;
    kf_journal_head head;
    kf_part_file *file;
    size_t files;
    uint64_t bytes; /* of the files */
} kf_part_record;

/* OUT.kerf-parts/I-of-N, malloc'd; NULL: no memory. */
char *kf_part_path(const kf_parts *p, unsigned part, unsigned parts);

/* Writes KF_PART_NAME into the temporary folder of a part. */
kerf_status kf_part_write(const kf_temp *folder, const kf_part_record *r, kerf_error *err);
/* Reads and validates it. */
kerf_status kf_part_read(const char *path, kf_part_record *out, kerf_error *err);
void kf_part_free(kf_part_record *r); /* all zeros are fine */

/* Compares every file of a part with its hashes. A file is looked for in `path`, the folder of the
 * part, then in `moved`, which may be NULL. marks (NULL: not wanted): what the journal has of them.
 */
kerf_status kf_part_verify(const char *path, const char *moved, const kf_part_record *r,
                           int threads, kf_watch *watch, kf_marks *marks, kerf_error *err);
/* Looks at no more than their sizes. */
kerf_status kf_part_measure(const char *path, const char *moved, const kf_part_record *r,
                            kerf_error *err);

/* Whether a failure to read or compare a part says nothing of the part: no memory, no descriptor, a
 * disk that cannot be read, a call that was cancelled. */
int kf_part_may_be_whole(kerf_status s, const kerf_error *why);

/* NULL, or in a few words in what two plans differ. */
const char *kf_part_differs(const kf_journal_head *a, const kf_journal_head *b);

#endif
