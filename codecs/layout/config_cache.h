/* config_cache.h - the KV cache of a model whose weights are quantized: what config.json says of it
 * has nothing to do with the bytes of weights, and must not be lost with the rest of what is
 * written anew. */
#ifndef KERF_LAYOUT_CONFIG_CACHE_H
#define KERF_LAYOUT_CONFIG_CACHE_H

#include "layout/config_keys.h"

/* What the files of a source say of its cache, as a layout says it. */
typedef struct kf_cache {
    const kerf_layout *from; /* that they name; NULL: none                                       */
    int is_there;            /* they say that the cache is quantized                             */
    json_t *scheme;          /* for config.json; NULL: nothing, or the layout has no words for it */
    json_t *algorithm;       /* the same for hf_quant_config.json                                */
} kf_cache;

/* weights: all of the output. Scales of the cache that are not among them, but in the source, were
 * left out: then nothing is said of it. Those that are no tensors of the source were made: then it
 * is FP8, whatever the source says. */
kerf_status kf_cache_open(const kerf_reader *r, const kerf_layout *to, const kerf_weight *weights,
                          size_t count, kf_cache *out, kerf_error *err);
void kf_cache_close(kf_cache *c); /* all zeros are fine */

/* How the name of a scale ends in this layout, behind that of the attention: of keys (which 0) or
 * values; *is_vector: it has one axis. NULL: the layout has no words for a cache. */
const char *kf_cache_scale_end(const kerf_layout *l, int which, int *is_vector);

int kf_is_cache_scale(const char *name); /* in any layout */

/* How the name of a weight ends that makes the keys of an attention, beside which loaders look for
 * scales of its cache; NULL: another weight, or one that is called otherwise. */
const char *kf_cache_tail(const char *weight);
/* The scale of keys (which 0) or values beside such a weight, under any name; NULL: there is none.
 */
const kerf_tensor *kf_cache_scale_find(const kerf_reader *r, const char *weight, int which);

/* *out: 1 when the files say that the cache is FP8 with a scale for each tensor. */
kerf_status kf_cache_is_fp8(const kerf_reader *r, int *out, kerf_error *err);

/* 1: this is a scale of the cache that loaders of both layouts read, under this name. */
int kf_cache_keeps(const kf_cache *c, const kerf_layout *to, const char *name);

int kf_say_cache_scheme(KF_VALUE_ARGS);
int kf_say_cache_algorithm(KF_VALUE_ARGS); /* null: not quantized */

#endif
