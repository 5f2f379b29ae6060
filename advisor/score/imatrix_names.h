/* imatrix_names.h - the importance of the columns of all weights of a call (kerf/importance.h). */
#ifndef KERF_IMATRIX_NAMES_H
#define KERF_IMATRIX_NAMES_H

#include <kerf/importance.h>

/* *named: how many of these weights imatrix has an entry for; 0 when imatrix is NULL. KERF_E_DATA:
 * for none of them. source: what their checkpoint is called. */
kerf_status kf_importance_count(const kerf_checkpoint *imatrix, const kerf_weight *const *weight,
                                size_t count, const char *source, size_t *named, kerf_error *err);

#endif
