/* verdict.h - what a self test finds out about one codec. */
#ifndef KERF_VERDICT_H
#define KERF_VERDICT_H

#include <jansson.h>

#include "base/base.h"

typedef struct verdict {
    uint64_t digest;  /* of everything that the codec wrote and read */
    uint64_t vectors; /* golden vectors that it was held against     */
    size_t problems;
    json_t *texts; /* the first problems; NULL: none */
} verdict;

/* Counts a problem and keeps its text if it is among the first. */
void verdict_add(verdict *v, const char *fmt, ...) KERF_PRINTF(2, 3);
/* Makes these bytes part of the digest. */
void verdict_digest(verdict *v, const void *p, size_t n);
void verdict_free(verdict *v);

#endif
