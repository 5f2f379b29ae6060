/* facts.h - the sizes of a model by which shapes are judged, from config.json whatever it calls
 * them. */
#ifndef KERF_ROLES_FACTS_H
#define KERF_ROLES_FACTS_H

#include <jansson.h>

#include "roles/families.h"

typedef struct kf_facts {
    const kf_family *family; /* NULL: none that the table knows                      */
    char type[64];           /* what the model calls itself; "": it does not         */
    int is_described;        /* there is a config.json, or keys of a GGUF file       */
    uint64_t hidden, vocab, experts, inner, expert_inner, layers; /* 0: not known */
    int encodes; /* beside the language model stands an encoder: of what is heard      */
    int has_mtp; /* layers from `layers` on predict further tokens       */
} kf_facts;

/* The names of the objects of config.json that describe the language model; NULL ends them. One may
 * stand in another. */
extern const char *const kf_language_nests[];

/* config: what stands beside the files; NULL: nothing. architecture: of a GGUF file, or NULL. */
void kf_facts_read(const json_t *config, const char *architecture, kf_facts *out);

/* A whole number under the first of these keys (a bar between two) that has one, in the
 * configuration of the language model or around it; 0: none. */
uint64_t kf_fact_number(const json_t *config, const char *keys);

#endif
