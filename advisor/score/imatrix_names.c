/* imatrix_names.c - how many weights an imatrix names. */
#include "score/imatrix_names.h"

#include "base/base.h"

kerf_status kf_importance_count(const kerf_checkpoint *imatrix, const kerf_weight *const *weight,
                                size_t count, const char *source, size_t *named, kerf_error *err)
{
    *named = 0;
    if (!imatrix) return KERF_OK;
    for (size_t i = 0; i < count; i++) *named += (size_t)kerf_importance_names(imatrix, weight[i]);
    if (*named) return KERF_OK;
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.200s: names none of the tensors of %.200s",
                   kerf_checkpoint_path(imatrix), source);
}
