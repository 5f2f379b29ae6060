/* importance.h - how much each column of a weight matters: --imatrix. */
#ifndef KERF_IMPORTANCE_H
#define KERF_IMPORTANCE_H

#include "model/select.h"

/* malloc'd F32 per column of w; NULL when imatrix is not open or has no entry for w. */
kerf_status importance_read(const kerf_checkpoint *imatrix, const kerf_weight *w, float **out,
                            kerf_error *err);

/* How many weights of the plan are named by imatrix, which is open; none at all is an error.
 * named may be NULL. */
kerf_status importance_check(const kerf_checkpoint *imatrix, const kf_selected *plan,
                             const char *source, size_t *named, kerf_error *err);

#endif
