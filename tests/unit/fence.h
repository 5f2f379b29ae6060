/* fence.h - memory that ends (or begins) at a page without access: a byte read or written outside
 * ends the test, and one written inside, but beside what was asked for, shows. */
#ifndef KERF_TESTS_FENCE_H
#define KERF_TESTS_FENCE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define FENCE_FILL 0xcb /* of what is given no content */

typedef struct fence {
    uint8_t *map, *p;
    size_t mapped, n;
} fence;

/* n bytes, copied from `from` if that is not NULL. */
static inline void *fenced(fence *f, const void *from, size_t n, int at_end)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), inner = (n + page - 1) / page * page;
    f->n = n;
    f->mapped = inner + 2 * page;
    f->map = mmap(NULL, f->mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(f->map != MAP_FAILED);
    if (inner) assert_int_equal(mprotect(f->map + page, inner, PROT_READ | PROT_WRITE), 0);
    f->p = f->map + page + (at_end ? inner - n : 0);
    if (inner) memset(f->map + page, FENCE_FILL, inner);
    if (from && n) memcpy(f->p, from, n);
    return f->p;
}

/* Whether nothing was written beside the n bytes. */
static inline int fence_is_clean(const fence *f)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (const uint8_t *b = f->map + page; b < f->map + f->mapped - page; b++)
        if ((b < f->p || b >= f->p + f->n) && *b != FENCE_FILL) return 0;
    return 1;
}

static inline void fence_free(fence *f)
{
    munmap(f->map, f->mapped);
}

#endif
