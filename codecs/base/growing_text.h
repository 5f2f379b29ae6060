/* growing_text.h - a text that grows, part by part or through a stream. A failure is kept and
 * reported once, at the end. The C library's own stream in memory is not used: where it cannot
 * grow in the middle of a formatted part, it drops the part, and ferror says nothing of it. */
#ifndef KERF_GROWING_TEXT_H
#define KERF_GROWING_TEXT_H

#include <stdio.h>

#include "base/base.h"
#include "base/plain_numbers.h"

typedef struct kf_text {
    char *p; /* always terminated when not NULL; the owner frees */
    size_t n, capacity;
    int failed;
    kf_plain plain; /* while there is a stream */
} kf_text;

void kf_text_add(kf_text *t, const char *fmt, ...) KERF_PRINTF(2, 3); /* at most 255 bytes */
void kf_text_add_bytes(kf_text *t, const char *p, size_t n);
void kf_text_fill(kf_text *t, char c, size_t n);

/* A stream that writes to the end of t; NULL: no memory. Close it with kf_text_close, in the same
 * thread: up to there, numbers have a point in any locale. */
FILE *kf_text_stream(kf_text *t);

/* Closes the stream (NULL: there was no memory for one) and hands over the text, malloc'd; it ends
 * in a 0 that n (may be NULL) does not count. 0: something is missing in it, and *text is NULL. */
int kf_text_close(kf_text *t, FILE *to, char **text, size_t *n);

#endif
