/* text.h - a text that grows, for the JSON that kerf writes line by line. Strings are quoted by
 * jansson. A failure is kept and reported once, at the end. */
#ifndef KERF_FILE_TEXT_H
#define KERF_FILE_TEXT_H

#include <jansson.h>

#include "base/base.h"

typedef struct kf_text {
    char *p; /* always terminated when not NULL; the owner frees */
    size_t n, capacity;
    int failed;
} kf_text;

void kf_text_add(kf_text *t, const char *fmt, ...) KERF_PRINTF(2, 3); /* at most 255 bytes */
void kf_text_add_bytes(kf_text *t, const char *p, size_t n);
void kf_text_add_quoted(kf_text *t, const char *s); /* fails when s is not UTF-8 */
/* A document, or NULL: there was no memory for it. Its texts must come from here: json_dumps leaves
 * out a name of a member when it has no memory for it, and says nothing. */
void kf_text_add_json(kf_text *t, const json_t *j, size_t flags);
void kf_text_fill(kf_text *t, char c, size_t n);

int kf_is_utf8(const char *s);

#endif
