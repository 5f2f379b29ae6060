/* vector_check.h - compares the library with golden vectors: every tensor is encoded and every
 * plane decoded on one backend, and the result must be the one in the text. */
#ifndef KERF_VECTOR_CHECK_H
#define KERF_VECTOR_CHECK_H

#include <kerf/job.h>

#include "base/base.h"

enum { KF_VECTOR_ENCODERS = 64 }; /* of one format, at most */

/* One comparison that failed. */
typedef struct kf_vector_difference {
    const kerf_encoder *encoder; /* NULL: planes that are only decoded */
    const char *file, *label;
    unsigned line; /* of the text */
    const char *what;
} kf_vector_difference;

/* Set the first five; the tallies grow with each text. */
typedef struct kf_vector_check {
    const kerf_format *format;
    const kerf_exec *exec;
    const kerf_job *job; /* asked before each vector; NULL is fine */
    void (*differs)(void *context, const kf_vector_difference *d);
    void *context;
    struct kf_vector_tally {
        uint64_t vectors, blocks;
    } tally[KF_VECTOR_ENCODERS]; /* by the encoder's position in its format's list */
    uint64_t decoded;            /* vectors that are only decoded */
} kf_vector_check;

/* Checks the n bytes of text, which hold vectors of one format; `file` names them. Differences go
 * to differs(); a failure means that text is malformed: KERF_E_DATA. */
kerf_status kf_vector_check_text(kf_vector_check *c, const char *file, const char *text, size_t n,
                                 kerf_error *err);

#endif
