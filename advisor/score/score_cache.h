/* score_cache.h - scores by content: the digest of a tensor, of its importance, and a codec. A
 * second budget, another machine or a renamed file find them again. The file is JSON,
 * kerf.scores/1; scores of another version of kerf are not believed. */
#ifndef KERF_SCORE_CACHE_H
#define KERF_SCORE_CACHE_H

#include <jansson.h>

#include <kerf/advisor.h>

#include "base/base.h"

typedef struct score_cache {
    const char *path; /* NULL: nothing is kept */
    json_t *scores;
    size_t added;
} score_cache;

/* A path that does not exist is an empty cache. */
kerf_status score_cache_open(score_cache *c, const char *path, kerf_error *err);
int score_cache_find(const score_cache *c, uint64_t tensor, uint64_t importance, kerf_codec codec,
                     kerf_score *out);
void score_cache_add(score_cache *c, uint64_t tensor, uint64_t importance, kerf_codec codec,
                     const kerf_score *s);
/* Writes what was added. */
kerf_status score_cache_save(score_cache *c, kerf_error *err);
void score_cache_close(score_cache *c); /* all zeros are fine */

#endif
