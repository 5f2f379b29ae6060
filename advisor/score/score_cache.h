/* score_cache.h - a file of scores, found by content: the digests of a tensor and of its
 * importance, and a codec. Another budget, another machine or a renamed checkpoint find them again.
 * The file is JSON with the schema kerf.scores/1. Scores of another version of kerf are not used.
 */
#ifndef KERF_SCORE_CACHE_H
#define KERF_SCORE_CACHE_H

#include <jansson.h>

#include <kerf/score.h>

typedef struct kf_score_cache {
    const char *path; /* NULL: no cache; nothing is found and nothing is kept */
    json_t *scores;
    size_t added;
    int lost; /* there was no memory for one */
} kf_score_cache;

/* What a score depends on besides the codec. */
typedef struct kf_score_key {
    uint64_t tensor;     /* of its shape, type and elements                */
    uint64_t importance; /* of its columns' importance, and of what else
                            changes how it is encoded; 0: of neither       */
} kf_score_key;

/* A file that does not exist is an empty cache. KERF_E_DATA: the file is no cache. */
kerf_status kf_score_cache_open(kf_score_cache *c, const char *path, kerf_error *err);
/* 1: found. Figures of compression are not kept. */
int kf_score_cache_find(const kf_score_cache *c, kf_score_key key, kerf_codec codec,
                        kerf_score *out);
void kf_score_cache_add(kf_score_cache *c, kf_score_key key, kerf_codec codec, const kerf_score *s);
/* Writes the file anew when something was added. */
kerf_status kf_score_cache_save(const kf_score_cache *c, kerf_error *err);
void kf_score_cache_close(kf_score_cache *c); /* all zeros are fine */

#endif
