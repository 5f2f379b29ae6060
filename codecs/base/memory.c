/* memory.c - allocation whose size cannot wrap. */
#include "base.h"

#include <stdlib.h>

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
