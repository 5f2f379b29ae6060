/* weight_shape.h - the tensor beside codes in words that says how many there are. */
#ifndef KERF_LAYOUT_WEIGHT_SHAPE_H
#define KERF_LAYOUT_WEIGHT_SHAPE_H

#include <kerf/layouts.h>

/* The numbers of .weight_shape: I64 as compressed-tensors writes them, or I32, which its loaders
 * take as well and releases of large models have. *is_shape: whether these are `rank` numbers from
 * 0. */
kerf_status kf_weight_shape_read(const kerf_reader *r, const kerf_tensor *t, unsigned rank,
                                 uint64_t dim[KERF_MAX_RANK], int *is_shape, kerf_error *err);

#endif
