/* weight_shape.c - reads the shape that stands beside codes in words. */
#include "layout/weight_shape.h"

#include <string.h>

#include "base/base.h"

kerf_status kf_weight_shape_read(const kerf_reader *r, const kerf_tensor *t, unsigned rank,
                                 uint64_t dim[KERF_MAX_RANK], int *is_shape, kerf_error *err)
{
    int32_t shorter[KERF_MAX_RANK];
    const unsigned size = t->dtype == KERF_I64 ? 8 : t->dtype == KERF_I32 ? 4 : 0;
    *is_shape = 0;
    if (!size || rank > KERF_MAX_RANK || t->bytes != (uint64_t)rank * size) return KERF_OK;
    if (size == 8) {
        KF_TRY(kerf_reader_read(r, t, 0, dim, (size_t)t->bytes, err));
        *is_shape = 1;
        return KERF_OK;
    }
    KF_TRY(kerf_reader_read(r, t, 0, shorter, (size_t)t->bytes, err));
    *is_shape = 1;
    for (unsigned i = 0; i < rank; i++) {
        *is_shape &= shorter[i] >= 0;
        dim[i] = (uint64_t)(uint32_t)shorter[i];
    }
    return KERF_OK;
}
