/* experts.h - what loaders require of the experts of a layer: to them they are one module. */
#ifndef KERF_LAYOUT_EXPERTS_H
#define KERF_LAYOUT_EXPERTS_H

#include <kerf/layouts.h>

/* KERF_E_NOSUP, with the two tensors, when experts of one layer differ in format, or when stacked
 * ones have their output features last. Layout `kerf` needs neither. */
kerf_status kf_experts_check(const kerf_layout *l, const kerf_weight *weights, size_t count,
                             kerf_error *err);

#endif
