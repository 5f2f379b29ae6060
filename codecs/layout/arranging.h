/* arranging.h - making weights whose planes are views (view.h) of stored tensors: names and memory
 * for them, and the words by which the experts of a layer are found.
 *
 *   unstack.c   [experts, out, in] -> one matrix for each expert
 *   stack.c     one matrix for each expert -> [experts, out, in]
 *   arrange.c   which of the two a layer gets, for all layers of a checkpoint */
#ifndef KERF_LAYOUT_ARRANGING_H
#define KERF_LAYOUT_ARRANGING_H

#include "file/read/view.h"
#include "layout/weights.h"

/* Parts of a layer, stacked and one by one. */
enum { KF_GATE_UP, KF_DOWN, KF_GATE_UP_BIAS, KF_DOWN_BIAS, KF_STACKS };
enum { KF_GATE, KF_UP, KF_SINGLE_DOWN, KF_SINGLES }; /* the stack of down is KF_DOWN */

/* The last part of a name: of a single expert ("gate_proj"), of a stack ("gate_up_proj_bias"); the
 * latter is written into out, which it returns. */
#define KF_STACK_END 32
const char *kf_single_end(int which);
const char *kf_stack_end(int which, char out[KF_STACK_END]);

extern const char kf_experts_mark[]; /* what stands before them in names */

/* Of "X.experts.7.Y" the bytes before the 7, which *number (may be NULL) becomes; of several, the
 * last. 0: it is no name of one expert. */
size_t kf_before_expert(const char *name, uint64_t *number);

/* Of a stack that GGUF's names were given, made of experts one by one: how many; else 0. */
uint64_t kf_stacked_singles(const kerf_weight *w);
/* Writes what one of them is called. Returns out. */
char *kf_stacked_name(const kerf_weight *w, uint64_t expert, char *out, size_t size);

/* A list of weights that is being made. */
typedef struct kf_arranging {
    kerf_weights *out;
    const kerf_reader *reader;
    kerf_weight *at; /* the new list; NULL: it is the old one up to here */
    size_t count, room;
    kerf_error *err;
} kf_arranging;

kerf_status kf_arrange_no_memory(kerf_error *err);

/* Memory that lives as long as the weights, all zeros; NULL: none. */
void *kf_arrange_keep(kf_arranging *a, uint64_t count, size_t size);

/* The first n bytes of a name and another end, kept likewise; NULL: no memory. */
char *kf_arrange_name(kf_arranging *a, const char *prefix, size_t n, const char *rest);

/* Adds a weight to the new list. */
kerf_status kf_arrange_append(kf_arranging *a, const kerf_weight *w);

/* A tensor like `from` of another name and shape; v says where its elements are. */
kerf_status kf_arrange_tensor(kf_arranging *a, const kerf_tensor *from, const char *name,
                              kerf_shape shape, kerf_view v, const kerf_tensor **out);

/* The weight whose name has the first `prefix` bytes of another and this end; NULL: none. */
const kerf_weight *kf_expert_find(const kerf_weights *w, const char *like, size_t prefix,
                                  const char *rest);

/* Dense, and of elements that are whole bytes. */
int kf_is_plain(const kerf_weight *w);

#endif
