/* vector_check.h - golden vectors held against the library: every tensor is encoded and every
 * plane decoded on one backend, and what comes out must be what stands there. */
#ifndef KERF_VECTOR_CHECK_H
#define KERF_VECTOR_CHECK_H

#include "base/base.h"

enum { VECTOR_ENCODERS = 64 }; /* of one format, at most */

/* One comparison that failed. */
typedef struct vector_difference {
    const kerf_encoder *encoder; /* NULL: planes that are only decoded */
    const char *file, *label;
    unsigned line; /* of the text */
    const char *what;
} vector_difference;

/* Set the first four; the tallies grow with each text. */
typedef struct vector_check {
    const kerf_format *format;
    const kerf_exec *exec;
    void (*differs)(void *context, const vector_difference *d);
    void *context;
    struct vector_tally {
        uint64_t vectors, blocks;
    } tally[VECTOR_ENCODERS]; /* by the encoder's position in its format's list */
    uint64_t decoded;         /* vectors that are only decoded */
} vector_check;

/* Checks the n bytes of text, which hold vectors of one format; `file` names them. Differences go
 * to differs(); a failure means that text is malformed: KERF_E_DATA. */
kerf_status vector_check_text(vector_check *c, const char *file, const char *text, size_t n,
                              kerf_error *err);

#endif
