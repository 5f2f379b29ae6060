/* foreign.h - weights whose numbers stand in a form that kerf has no format for: other groups,
 * other tiles, columns in the order of their activations. They are sources all the same. */
#ifndef KERF_LAYOUT_FOREIGN_H
#define KERF_LAYOUT_FOREIGN_H

#include "layout/foreign_forms.h"
#include "layout/weights.h"

/* Whether `codes` are those of such a weight: *found is 1, all its tensors are marked, and *w is a
 * dense weight of F32 whose tensor decodes them while it is read. Fails when what must be asked
 * cannot be read, or for want of memory. */
kerf_status kf_foreign_recognize(kf_weights_builder *b, kf_foreign *folder,
                                 const kerf_tensor *codes, kerf_weight *w, int *found);

/* The form of a weight that is such a source ("int8-g32"), else NULL. */
const char *kf_foreign_form(const kerf_weight *w);

/* The i-th stored tensor that it is decoded from, codes first; NULL past the last, and of others.
 */
const kerf_tensor *kf_foreign_part(const kerf_weight *w, size_t i);

/* Counts its scales, and those that are NaN or infinite; w is such a source. */
kerf_status kf_foreign_scales(const kerf_reader *r, const kerf_weight *w, uint64_t *count,
                              uint64_t *ruined, kerf_error *err);

#endif
