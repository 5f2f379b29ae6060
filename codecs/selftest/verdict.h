/* verdict.h - what a self test finds out about one codec. */
#ifndef KERF_VERDICT_H
#define KERF_VERDICT_H

#include "base/base.h"

enum { KF_VERDICT_TEXTS = 20 }; /* one broken rule fails hundreds of vectors */

typedef struct kf_verdict {
    uint64_t digest;  /* of everything that the codec wrote and read */
    uint64_t vectors; /* golden vectors that it was held against     */
    size_t problems;
    char *text[KF_VERDICT_TEXTS]; /* of the first problems; owned */
    size_t texts;
} kf_verdict;

/* Counts a problem and keeps its text if it is among the first. */
void kf_verdict_add(kf_verdict *v, const char *fmt, ...) KERF_PRINTF(2, 3);
/* Makes these bytes part of the digest. */
void kf_verdict_digest(kf_verdict *v, const void *p, size_t n);
void kf_verdict_free(kf_verdict *v);

#endif
