/* importance.c - reads and checks the importance of one weight's columns. */
#include "score/importance.h"

#include <stdlib.h>

#include "base/base.h"

static kerf_status read_values(const kerf_checkpoint *imatrix, const kerf_tensor *t, float *value,
                               kerf_error *err)
{
    KF_TRY(kerf_reader_read(kerf_checkpoint_reader(imatrix), t, 0, value, (size_t)t->bytes, err));
    for (uint64_t i = 0; i < t->shape.dim[0]; i++) {
        if (value[i] >= 0 && value[i] <= 3.4e38f) continue;
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "%.200s: %.200s: value %llu is negative or not finite",
                       kerf_checkpoint_path(imatrix), t->name, (unsigned long long)i);
    }
    return KERF_OK;
}

kerf_status kf_importance_read(const kerf_checkpoint *imatrix, const kerf_weight *w, float **out,
                               kerf_error *err)
{
    *out = NULL;
    if (!imatrix) return KERF_OK;
    const kerf_tensor *t = kerf_reader_find(kerf_checkpoint_reader(imatrix), w->name);
    if (!t) return KERF_OK;
    uint64_t columns = w->shape.rank ? w->shape.dim[w->shape.rank - 1] : 1;
    if (t->dtype != KERF_F32 || t->shape.rank != 1 || t->shape.dim[0] != columns) {
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "%.200s: %.200s must be F32 [%llu], one value per column",
                       kerf_checkpoint_path(imatrix), w->name, (unsigned long long)columns);
    }
    KF_TRY(kf_allocate(out, columns, sizeof **out, err));
    kerf_status s = read_values(imatrix, t, *out, err);
    if (s == KERF_OK) return KERF_OK;
    free(*out);
    *out = NULL;
    return s;
}

kerf_status kf_importance_count(const kerf_checkpoint *imatrix, const kerf_weight *const *weight,
                                size_t count, const char *source, size_t *named, kerf_error *err)
{
    *named = 0;
    if (!imatrix) return KERF_OK;
    for (size_t i = 0; i < count; i++)
        *named += kerf_reader_find(kerf_checkpoint_reader(imatrix), weight[i]->name) != NULL;
    if (*named) return KERF_OK;
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.200s: names none of the tensors of %.200s",
                   kerf_checkpoint_path(imatrix), source);
}
