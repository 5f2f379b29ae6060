/* importance.h - the importance of a weight's columns, which weighs its errors: see
 * kerf_score_request.imatrix. */
#ifndef KERF_IMPORTANCE_H
#define KERF_IMPORTANCE_H

#include <kerf/checkpoint.h>

/* *out: malloc'd, one value per column of w; NULL when imatrix is NULL or has no tensor of that
 * name. KERF_E_DATA: a tensor of another type or shape, or a value that is negative or not finite.
 */
kerf_status kf_importance_read(const kerf_checkpoint *imatrix, const kerf_weight *w, float **out,
                               kerf_error *err);

/* *named: how many of these weights imatrix has a tensor for; 0 when imatrix is NULL. KERF_E_DATA:
 * for none of them. source: what their checkpoint is called. */
kerf_status kf_importance_count(const kerf_checkpoint *imatrix, const kerf_weight *const *weight,
                                size_t count, const char *source, size_t *named, kerf_error *err);

#endif
