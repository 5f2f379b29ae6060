/* memory.c - allocation whose size cannot wrap, and copies by several threads. Large memory asks
 * for large pages, where the system gives them to those who ask: the first touch of a page costs
 * more than its share of most work. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LARGE (UINT64_C(64) << 20)
#define LARGE_PAGE (UINT64_C(2) << 20)

/* p, which may be NULL. */
static void *with_large_pages(void *p, uint64_t n)
{
#ifdef MADV_HUGEPAGE
    const uintptr_t first = ((uintptr_t)p + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    const uintptr_t end = ((uintptr_t)p + (size_t)n) / LARGE_PAGE * LARGE_PAGE;
    if (p && n >= LARGE) (void)madvise((void *)first, end - first, MADV_HUGEPAGE);
#else
    (void)n;
#endif
    return p;
}

void *kf_alloc(uint64_t a, uint64_t b)
{
    uint64_t n;
    if (!kf_mul_ok(a, b, &n) || n > PTRDIFF_MAX) return NULL;
    return with_large_pages(malloc(n ? (size_t)n : 1), n);
}

void *kf_alloc_zero(uint64_t a, uint64_t b)
{
    uint64_t n;
    if (!kf_mul_ok(a, b, &n) || n > PTRDIFF_MAX) return NULL;
    return with_large_pages(calloc(n ? (size_t)n : 1, 1), n);
}

kerf_status kf_allocate(void *out, uint64_t count, uint64_t size, kerf_error *err)
{
    void *p = kf_alloc_zero(count, size);
    memcpy(out, &p, sizeof p);
    if (p) return KERF_OK;
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for %llu x %llu bytes",
                   (unsigned long long)count, (unsigned long long)size);
}

/* --- copies ---------------------------------------------------------------------------------- */

#define PART (UINT64_C(1) << 20)

typedef struct copying {
    uint8_t *to;
    const uint8_t *from;
    uint64_t n;
} copying;

static kerf_status copy_part(void *ctx, uint64_t i)
{
    const copying *c = ctx;
    memcpy(c->to + i * PART, c->from + i * PART, (size_t)kf_min_u64(PART, c->n - i * PART));
    return KERF_OK;
}

void kf_copy_bytes(int threads, void *to, const void *from, uint64_t n)
{
    copying c = {to, from, n};
    const kerf_status s =
        kf_parallel(kf_div_up(n, PART), n > 4 * PART ? threads : 1, copy_part, &c);
    (void)s; /* no part fails */
}
