/* inspect.h - what is wrong, or odd, in a checkpoint. */
#ifndef KERF_INSPECT_H
#define KERF_INSPECT_H

#include <kerf/checkpoint.h>
#include <kerf/job.h>

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

#ifdef __cplusplus
}
#endif
#endif
