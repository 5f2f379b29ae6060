/* weights.h - the table behind kerf_weights, for those who fill it. */
#ifndef KERF_LAYOUT_WEIGHTS_H
#define KERF_LAYOUT_WEIGHTS_H

#include <kerf/layouts.h>

#include "file/table/header.h"
#include "layout/other_numbers.h"

struct kerf_weights {
    kerf_weight *weight;
    kf_named *by_name;
    size_t count;
    char **name; /* those that no tensor has as its own */
    size_t names;
    void **owned; /* what weights that were arranged anew are made of */
    size_t owned_count;
    const struct kf_facts *facts; /* of the model; owned */
    kf_other_numbers other;       /* asked for where tensors hold codes */
};

/* What a stored tensor serves as. */
enum { KF_ROLE_DENSE, KF_ROLE_CODES, KF_ROLE_OTHER };

/* A table that is being filled: what stands in it so far. */
typedef struct kf_weights_builder {
    kerf_weights *out;
    const kerf_reader *r;
    const kerf_tensor *first; /* of the reader's table                        */
    unsigned char *role;      /* of each tensor                               */
    kerf_weight *found;       /* in the order in which they were found        */
    size_t founds, room;
    uint32_t *number;          /* of each tensor: which of them has its codes, from 1; 0: none */
    unsigned shard;            /* whose description is read                    */
    const kerf_layout *layout; /* that it names                                */
    kerf_error *err;
} kf_weights_builder;

/* Memory that lives as long as the weights, all zeros; NULL: none. */
void *kf_weights_own(kerf_weights *w, uint64_t count, size_t size);

/* The name of a weight as text that lives as long as w: that of its codes, or a copy. */
kerf_status kf_weights_keep_name(kerf_weights *w, const char *name, const kerf_tensor *codes,
                                 const char **out, kerf_error *err);

/* The weight whose codes a tensor holds, or NULL; it stands until the next is added. */
kerf_weight *kf_weights_found(const kf_weights_builder *b, const kerf_tensor *codes);
kerf_status kf_weights_add(kf_weights_builder *b, const kerf_tensor *codes, const kerf_weight *w);

/* Marks the tensors of a recognized weight; 0 when one of them serves another already. */
int kf_weights_claim(kf_weights_builder *b, const kerf_weight *w);

/* Sorts by_name anew. KERF_E_DATA: two have one name. */
kerf_status kf_weights_index(kerf_weights *w, kerf_error *err);

#endif
