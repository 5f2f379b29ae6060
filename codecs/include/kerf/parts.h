/* parts.h - one output that several processes write, on one machine or on many that share a file
 * system, or on many that do not and whose parts are brought together later.
 *
 * Each process is given the same source and options, a number and how many there are. It writes
 * some files of the output, whole; which ones follows from that alone, so none asks another. What
 * they have finished stands beside the output until all are there:
 *
 *   OUT.kerf-parts/3-of-8/   appears by one rename, when its files were read back: those of the
 *                            output that part 3 writes, and two that are not published,
 *     kerf-part.json         whose part it is, of which plan (version of kerf, source, options,
 *                            names and headers of all files), and the names and sizes of its files,
 *     .journal               a hash of every few MiB of them
 *
 * Part 1 also has what stands once in an output: its index, configuration and tokenizer. OUT itself
 * appears when kerf_merge has found all parts, of one plan, with the bytes that were written. */
#ifndef KERF_PARTS_H
#define KERF_PARTS_H

#include <kerf/job.h>
#include <kerf/words.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KERF_PARTS_MOST 65536u

/* Which files of a folder a writer (kerf/file.h) writes. */
typedef struct kerf_own_part {
    unsigned part, parts;     /* part 1 of 1 to KERF_PARTS_MOST of as many             */
    const unsigned char *own; /* [shards] 1: this part writes it                       */
    const char *verb;         /* what is run again when a part is lost, as "quantize"; must live as
                                 long as the writer                                      */
} kerf_own_part;

typedef struct kerf_merge_options {
    int overwrite; /* 1: replace what is at the path; else that is KERF_E_EXISTS */
    int threads;   /* for reading back; 0: all cores                             */
    int compared;  /* 1: every part was compared just now, on this file system, as calls that write
                      parts do before they return: only names and sizes are looked at again    */
} kerf_merge_options;

typedef struct kerf_merged {
    unsigned parts;
    size_t files; /* of the output */
    uint64_t bytes;
    double seconds;
} kerf_merged;

/* Makes the output `path` (a folder) of its finished parts, and removes what held them. Every byte
 * is read and compared with its hash first; then files are renamed, not copied, and the folder of
 * them appears under its path by one rename: the same bytes as from a process that wrote all of it.
 * A call that was killed at any moment is repeated. opt and result may be NULL; the phase that job
 * is told of is "comparing what the parts have written".
 * KERF_E_DATA: a part is missing, damaged, or of another plan than the first; the text has the
 * number of one that must be written again. KERF_E_IO: there are no parts, one is still written, or
 * another call merges them. */
KERF_API KERF_CHECK kerf_status kerf_merge(const char *path, const kerf_merge_options *opt,
                                           const kerf_job *job, kerf_merged *result,
                                           kerf_error *err);

/* That as JSON, schema kerf.merge/1: malloc'd, ends in a 0 that n (may be NULL) does not count, to
 * be freed. path: of the output. */
KERF_API KERF_CHECK kerf_status kerf_merged_write(const char *path, const kerf_merged *r,
                                                  char **text, size_t *n, kerf_error *err);
/* The same for people (kerf/words.h), in a line. */
KERF_API KERF_CHECK kerf_status kerf_merged_text(const char *path, const kerf_merged *r,
                                                 const kerf_text_form *form, char **text, size_t *n,
                                                 kerf_error *err);

/* One part of an output that is no checkpoint, scores or a calibration, when it is finished. */
typedef struct kerf_finished_part {
    const char *schema; /* of the document: "kerf.score/1" */
    const char *path;   /* of the output                   */
    unsigned part, parts;
    size_t tensors, of_tensors; /* measured by this part, and by all; of_tensors 0: not counted */
} kerf_finished_part;

/* That as JSON, as kerf_merged_write writes. */
KERF_API KERF_CHECK kerf_status kerf_finished_part_write(const kerf_finished_part *p, char **text,
                                                         size_t *n, kerf_error *err);
/* The same for people, in a line. */
KERF_API KERF_CHECK kerf_status kerf_finished_part_text(const kerf_finished_part *p,
                                                        const kerf_text_form *form, char **text,
                                                        size_t *n, kerf_error *err);

#ifdef __cplusplus
}
#endif
#endif
