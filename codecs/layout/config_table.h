/* config_table.h - what the loaders of each layout are told in config.json.
 *
 * config_write.c writes files from this table, config_check.c holds the files of others against it.
 */
#ifndef KERF_LAYOUT_CONFIG_TABLE_H
#define KERF_LAYOUT_CONFIG_TABLE_H

#include "layout/config_keys.h"

/* A file with an object that says how the weights are quantized. */
typedef struct kf_config_file {
    const char *name;   /* NULL: the layout has no such file                                   */
    const char *member; /* of the file, which is that object; NULL: the whole file is          */
    const kf_config_key *key; /* in the order in which they are written; the last has no name;
                                 NULL: nothing is written and nothing checked                  */
    int is_read_only;         /* the keys are checked, never written                           */
} kf_config_file;

typedef struct kf_config_rules {
    kf_config_file file[KERF_COMPANIONS]; /* config.json, then the one that older loaders read */
    int mixes; /* loaders can be told of several formats in one checkpoint */
    int (*mixed)(const kerf_format *f); /* which; NULL: any */
    /* The name of the scale that the object q wants beside each weight of a format, for its inputs
     * ("input_scale"), and the key that wants it; NULL: none. */
    const char *(*input)(const json_t *q, const kerf_format *f, const char **key);
} kf_config_rules;

extern const kf_config_rules kf_config_table[KF_LAYOUTS];

/* --- its parts ------------------------------------------------------------------------------ */

extern const kf_config_key kf_ct_keys[];
const char *kf_ct_input(const json_t *q, const kerf_format *f, const char **key);

/* What q says of the inputs of weights in format f; NULL: they stay as they are. */
const json_t *kf_ct_inputs_of(const json_t *q, const kerf_layout *l, const kerf_format *f);

extern const kf_config_key kf_modelopt_keys[], kf_modelopt_old_keys[];
int kf_modelopt_mixed(const kerf_format *f);
const char *kf_modelopt_input(const json_t *q, const kerf_format *f, const char **key);

/* 1 when modelopt has this scheme only for weights whose inputs have a scale. */
int kf_modelopt_needs_inputs(const char *scheme);

/* The object that Model-Optimizer's files name as their producer. NULL: no memory. */
json_t *kf_modelopt_producer(void);

#endif
