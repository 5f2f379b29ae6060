/* unstack.h - stacked experts become one matrix for each. */
#ifndef KERF_LAYOUT_UNSTACK_H
#define KERF_LAYOUT_UNSTACK_H

#include "layout/arranging.h"

/* The experts of a layer. inner: features between the matrices. */
typedef struct kf_expert_layer {
    size_t prefix; /* bytes of the name up to the experts, kf_experts_mark included */
    const kerf_weight *stack[KF_STACKS];
    uint64_t experts, inner, hidden;
    int alternates;
} kf_expert_layer;

/* The layer that w is a stack of; 0: none, or one whose experts cannot be separated. */
int kf_stacks_find(const kerf_weights *all, const kerf_weight *w, kf_expert_layer *l);

/* Adds the experts of a layer, one by one. */
kerf_status kf_stacks_split(kf_arranging *a, const kf_expert_layer *l);

#endif
