/* book.h - which weights of a model are calibrated, and which tensors of the folder hold what is
 * found: known before the first token runs. */
#ifndef KERF_CALIBRATION_BOOK_H
#define KERF_CALIBRATION_BOOK_H

#include <kerf/calibrate.h>

/* Parts of a weight in the folder, in this order; those that it has not are left out. */
typedef enum kf_part { KF_PART_MEAN, KF_PART_AMAX, KF_PART_COUNT, KF_PART_GRAM, KF_PARTS } kf_part;

typedef struct kf_slot {
    const kerf_weight *weight;
    uint64_t columns, experts; /* experts: of a stack, else 1                            */
    size_t input;              /* the first slot with the same input, maybe this one     */
    size_t gram;               /* the slot that has the Gram matrix                      */
    size_t group;              /* which of the groups that get noise, over all layers    */
    size_t entry[KF_PARTS];    /* SIZE_MAX: none                                         */
    size_t alpha;              /* its entry; SIZE_MAX: none                              */
} kf_slot;

/* Weights of one layer: slots, entries and groups from these on to those of the next. */
typedef struct kf_leaf {
    size_t slot, entry, alpha, group; /* alpha: the first entry of its alphas            */
} kf_leaf;

typedef struct kf_book {
    kf_slot *slot;
    size_t slots, groups;
    kf_leaf *leaf; /* [layers + 1] */
    uint64_t layers;
    kerf_entry *entry; /* names are owned */
    size_t entries, room;
    char **map; /* [layers] kerf.gram_of, JSON; NULL: none */
} kf_book;

kerf_status kf_book_open(kf_book *b, const kerf_checkpoint *source, uint64_t layers,
                         const kerf_calibrate_request *r, kerf_error *err);
void kf_book_close(kf_book *b); /* all zeros are fine */

/* How many bytes of a weight's name say the layer: "model.layers.3" of
 * "model.layers.3.mlp.up_proj.weight". */
int kf_layer_bytes(const char *name);

/* The slot of a weight in one layer; NULL: it is not calibrated. */
kf_slot *kf_book_find(const kf_book *b, uint64_t layer, const char *name);

/* Opens the writer of the folder. own[layers]: which of them a part writes. machine: a number for
 * what the results depend on besides model and request. */
kerf_status kf_book_create(const kf_book *b, const kerf_checkpoint *source,
                           const kerf_calibrate_request *r, const unsigned char *own,
                           uint64_t machine, const kerf_job *job, kerf_writer **out,
                           kerf_error *err);

#endif
