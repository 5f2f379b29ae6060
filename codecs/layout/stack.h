/* stack.h - experts that stand one by one become stacks. */
#ifndef KERF_LAYOUT_STACK_H
#define KERF_LAYOUT_STACK_H

#include "layout/arranging.h"

/* Bytes of the name up to the number of an expert, of its matrix or bias; 0: it is none. */
size_t kf_single_prefix(const kerf_weight *w);

/* Adds the stacks of a layer whose names begin with the first `prefix` bytes of that of `first`.
 * *done is 0 when its experts are not all there, or not alike: nothing is added then. */
kerf_status kf_singles_stack(kf_arranging *a, const kerf_weight *first, size_t prefix, int *done);

#endif
