/* importance.h - how much each column of a weight matters: --imatrix. */
#ifndef KERF_IMPORTANCE_H
#define KERF_IMPORTANCE_H

#include "checkpoint.h"

/* malloc'd F32 per column of w; NULL when imatrix is not open or has no entry for w. */
kerf_status importance_read(const checkpoint *imatrix, const kerf_weight *w, float **out,
                            kerf_error *err);

#endif
