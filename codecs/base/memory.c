/* memory.c - allocation whose size cannot wrap. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

void *kf_alloc(uint64_t a, uint64_t b)
{
    uint64_t n;
    if (!kf_mul_ok(a, b, &n) || n > PTRDIFF_MAX) return NULL;
    return malloc(n ? (size_t)n : 1);
}

void *kf_alloc_zero(uint64_t a, uint64_t b)
{
    uint64_t n;
    if (!kf_mul_ok(a, b, &n) || n > PTRDIFF_MAX) return NULL;
    return calloc(n ? (size_t)n : 1, 1);
}

kerf_status kf_allocate(void *out, uint64_t count, uint64_t size, kerf_error *err)
{
    void *p = kf_alloc_zero(count, size);
    memcpy(out, &p, sizeof p);
    if (p) return KERF_OK;
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for %llu x %llu bytes",
                   (unsigned long long)count, (unsigned long long)size);
}
