/* inspect.h - what is wrong, or odd, in a checkpoint. */
#ifndef KERF_INSPECT_H
#define KERF_INSPECT_H

#include <kerf/checkpoint.h>
#include <kerf/job.h>
#include <kerf/words.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kerf_severity {
    KERF_NOTE, /* odd, but readers get the numbers that were meant, or nobody can tell  */
    KERF_ERROR /* readers get other numbers than were meant, or none                    */
} kerf_severity;

/* Texts are valid during the call of the callback alone. */
typedef struct kerf_finding {
    kerf_severity severity;
    const char *tensor; /* which tensor, or which file of the folder: "config.json" */
    const char *text;   /* one line that follows the name                           */
} kerf_finding;

typedef void (*kerf_found)(void *ctx, const kerf_finding *f);

/* Reads the scales of every quantized weight and tells `found` of each finding, in the order of the
 * weights, in the calling thread: scales that are NaN, infinite, negative or stored upside down;
 * merged layers that were not quantized alike; tensors that belong to no weight; bytes that are
 * well formed but were meant another way; a config.json that disagrees with the tensors. A finding
 * is no failure: the call fails only when something cannot be read. job may be NULL. */
KERF_API KERF_CHECK kerf_status kerf_inspect(const kerf_checkpoint *c, kerf_found found, void *ctx,
                                             const kerf_job *job, kerf_error *err);

/* All of it at once. */
typedef struct kerf_inspection {
    const kerf_checkpoint *checkpoint; /* the caller's                                         */
    kerf_finding *finding;             /* [findings] in the same order; texts are UTF-8, and live as
                                          long as the inspection                               */
    size_t findings, errors;           /* errors: so many of them are KERF_ERROR               */
    size_t weights, quantized;
    uint64_t elements, bytes; /* of all weights */
} kerf_inspection;

/* kerf_inspect with all findings kept; c must outlive the result. *out is NULL after a failure. */
KERF_API KERF_CHECK kerf_status kerf_inspect_all(const kerf_checkpoint *c, const kerf_job *job,
                                                 kerf_inspection **out, kerf_error *err);
KERF_API void kerf_inspection_free(kerf_inspection *x); /* NULL is fine */

/* Weights, planes, totals and findings as JSON, schema kerf.inspect/1: malloc'd, ends in a 0 that n
 * (may be NULL) does not count, to be freed. */
KERF_API KERF_CHECK kerf_status kerf_inspection_write(const kerf_inspection *x, char **text,
                                                      size_t *n, kerf_error *err);
/* The same for people, in the form that is asked for (kerf/words.h). planes: tensors as they stand
 * in the files, instead of weights. */
KERF_API KERF_CHECK kerf_status kerf_inspection_text(const kerf_inspection *x, int planes,
                                                     const kerf_text_form *form, char **text,
                                                     size_t *n, kerf_error *err);

/* The part of this that whoever reads the weights should know: scales of quantized weights that
 * are NaN, infinite, negative, all zero or upside down. *count: how many such findings there are;
 * text: the first of them behind the name of its tensor, empty where there is none. job may be
 * NULL. */
KERF_API KERF_CHECK kerf_status kerf_find_ruined(const kerf_checkpoint *c, char *text, size_t size,
                                                 size_t *count, const kerf_job *job,
                                                 kerf_error *err);

#ifdef __cplusplus
}
#endif
#endif
