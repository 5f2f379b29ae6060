/* config_keys.h - objects of JSON from tables of keys, and what most layouts say of weights.
 *
 * A table lists keys and, for each, a function that makes its value for weights in a format, and
 * one that says whether the value in a file agrees. One table thus serves the writer of a file and
 * the check of a file that somebody else wrote. */
#ifndef KERF_LAYOUT_CONFIG_KEYS_H
#define KERF_LAYOUT_CONFIG_KEYS_H

#include <jansson.h>

#include "layout/layout.h"

/* The weights that a configuration speaks of. */
typedef struct kf_configured {
    const kerf_layout *layout;
    const kerf_weight *weights;
    size_t count;
    const kerf_format *format[64]; /* those of the quantized weights, each once */
    size_t formats;
    const struct kf_cache *cache; /* what is said of the KV cache (config_cache.h); NULL: nothing */
} kf_configured;

typedef struct kf_config_key {
    const char *name;
    /* What the key says of weights in format f (checking may ask for a format that is not in the
     * list of q): *out, which the caller decrefs. NULL there: nothing, the key is left out. Returns
     * 0 when there is no memory. */
    int (*value)(const struct kf_config_key *k, const kf_configured *q, const kerf_format *f,
                 json_t **out);
    const char *literal; /* the JSON of a value that is the same for all formats */
    /* Whether what stands in a file agrees with weights in format f; ours: what `value` says of
     * them. NULL: any content agrees. */
    int (*agrees)(const json_t *there, const json_t *ours, const kf_configured *q,
                  const kerf_format *f);
} kf_config_key;

/* An object with these keys for the weights of q, in format f. NULL: no memory. */
json_t *kf_config_object(const kf_config_key *key, const kf_configured *q, const kerf_format *f);

/* An object with a member group_0, group_1, ... for each format of q. NULL: no memory. */
json_t *kf_config_groups(const kf_configured *q,
                         json_t *(*group)(const kf_configured *q, const kerf_format *f));

/* The first key of an object that does not agree with weights in format f, or NULL. */
const char *kf_config_contradiction(const kf_config_key *key, const json_t *object,
                                    const kf_configured *q, const kerf_format *f);

/* The list of layers that were not quantized, under any name that a loader knows; NULL: none. */
const json_t *kf_config_kept(const json_t *object);

/* 1 when every weight of format f has a scale of this name beside it, or enough of them are there.
 */
int kf_config_has_scale(const kf_configured *q, const kerf_format *f, const char *name);

/* 1 when every weight of format f has the scale of its inputs beside it. */
int kf_config_has_inputs(const kf_configured *q, const kerf_format *f);

/* --- for those who write values ------------------------------------------------------------- */

/* The arguments of kf_config_key.value. */
#define KF_VALUE_ARGS \
    const kf_config_key *k, const kf_configured *q, const kerf_format *f, json_t **out

/* Ends a value: 0 when there was no memory for it. */
int kf_give(json_t **out, json_t *value);
/* Ends one that the key has none of. */
int kf_leave_out(json_t **out);
/* Adds a member; takes the value over. 0: no memory. */
int kf_set(json_t *object, const char *name, json_t *value);

int kf_say_literal(KF_VALUE_ARGS);   /* k->literal                                           */
int kf_say_bits(KF_VALUE_ARGS);      /* of a code                                            */
int kf_say_group(KF_VALUE_ARGS);     /* elements of a group, where a row has several         */
int kf_say_symmetric(KF_VALUE_ARGS); /* true: codes have no zero points                      */
int kf_say_type(KF_VALUE_ARGS);      /* "float" or "int"                                     */
int kf_say_tile(KF_VALUE_ARGS);      /* [rows, columns] of a tile, where scales are of tiles */
int kf_say_kept(KF_VALUE_ARGS);      /* the list of modules that are not quantized           */

json_t *kf_module_name(const kerf_weight *w); /* NULL: no memory */

/* Adds the names by which runtimes ask for experts that were kept: as_layers of the layer of all
 * experts, else of the matrices of the first one. 0: no memory. */
int kf_name_kept_experts(const kf_configured *q, int as_layers, json_t *list);

/* Adds the name by which they ask for this matrix of the first expert, if it is one and the list
 * does not have it. 0: no memory. */
int kf_name_first_expert(const kerf_weight *w, json_t *list);

/* An agrees: the same value, or one of another type, which says nothing that could be wrong
 * ("auto", null). */
int kf_is_same(const json_t *there, const json_t *ours, const kf_configured *q,
               const kerf_format *f);

/* The modules with weights in format f. NULL: no memory. */
json_t *kf_modules_of(const kf_configured *q, const kerf_format *f);

#endif
