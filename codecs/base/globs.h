/* globs.h - a list of shell patterns, and which of them match a name: found by what stands before
 * their first wildcard, or behind the last one where nothing does, so that ten thousand names of
 * tensors, or ends of names, are asked for as fast as ten. */
#ifndef KERF_BASE_GLOBS_H
#define KERF_BASE_GLOBS_H

#include "base/base.h"

typedef struct kf_glob_entry {
    const char *text;
    size_t prefix;   /* bytes before the first wildcard: of all of them when there is none */
    size_t index;    /* in the list */
    const char *key; /* what a name begins with, or ends with */
    size_t bytes;
    int is_end;
} kf_glob_entry;

typedef struct kf_glob_span {
    size_t bytes, first, end; /* entries with keys of this length */
    int is_end;
} kf_glob_span;

typedef struct kf_globs {
    kf_glob_entry *entry; /* by key */
    kf_glob_span *span;
    size_t spans;
    int takes_equal; /* a text that equals the name matches, whatever wildcards are in it */
} kf_globs;

/* A list of `count` structs of `size` bytes, each of which begins with its pattern, a const char *;
 * they must outlive it. kf_globs_close also after a failure; all zeros are an empty list. */
kerf_status kf_globs_open(kf_globs *g, const void *list, size_t count, size_t size,
                          kerf_error *err);
void kf_globs_close(kf_globs *g);

#define KF_NO_GLOB SIZE_MAX

/* The last pattern of the list before the index `before` that matches; KF_NO_GLOB: none. */
size_t kf_globs_last(const kf_globs *g, const char *name, size_t before);

/* The same for a weight with two names: a pattern for a stack of experts, `whole`, is one for each
 * of them. NULL: it has but one. */
size_t kf_globs_last_of(const kf_globs *g, const char *name, const char *whole, size_t before);

#endif
