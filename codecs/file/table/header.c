/* header.c - what every container is read into: the table of its tensors and its metadata. */
#include "file/table/header.h"

#include <stdlib.h>
#include <string.h>

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const kf_named *)a)->name, ((const kf_named *)b)->name);
}

size_t kf_sort_names(kf_named *v, size_t n)
{
    qsort(v, n, sizeof *v, compare_names);
    for (size_t i = 1; i < n; i++)
        if (strcmp(v[i - 1].name, v[i].name) == 0) return i;
    return n;
}

const kf_named *kf_find_name(const kf_named *v, size_t n, const char *name)
{
    kf_named key = {name, 0};
    return n ? bsearch(&key, v, n, sizeof *v, compare_names) : NULL;
}

kerf_status kf_tensor_bytes(kerf_dtype dtype, const kerf_shape *shape, uint64_t *bytes)
{
    uint64_t count, bits;
    KF_TRY(kerf_shape_count(shape, &count, NULL));
    if (!kf_mul_ok(count, kerf_dtype_bits(dtype), &bits)) return KERF_E_RANGE;
    *bytes = bits / 8;
    return bits % 8 == 0 ? KERF_OK : KERF_E_DATA;
}

void kf_header_free(kf_header *h)
{
    free(h->tensor);
    free(h->by_name);
    free(h->metadata);
    free(h->strings);
    memset(h, 0, sizeof *h);
}
