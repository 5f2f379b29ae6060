/* change.c - random numbers, bytes, and changes without knowledge of a format. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

/* Of libFuzzer; absent in a build without one. */
__attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t *p, size_t n, size_t room);

unsigned fuzz_below(fuzz_random *r, unsigned n)
{
    r->state = r->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return n ? (unsigned)((r->state >> 33) % n) : 0;
}

static void *must(void *p)
{
    if (!p) abort();
    return p;
}

fuzz_bytes fuzz_copy(const void *p, size_t n)
{
    fuzz_bytes b = {must(malloc(n + 1)), n};
    if (n > 0) memcpy(b.p, p, n);
    return b;
}

void fuzz_add(fuzz_bytes *b, const void *p, size_t n)
{
    b->p = must(realloc(b->p, b->n + n + 1));
    if (n > 0) memcpy(b->p + b->n, p, n);
    b->n += n;
}

static size_t change_some(fuzz_random *r, uint8_t *p, size_t n, size_t room)
{
    static const uint8_t odd[] = {0, 1, 0x7f, 0x80, 0xff, '"', '{', ' '};
    const size_t at = fuzz_below(r, (unsigned)n);
    switch (fuzz_below(r, 5)) {
    case 0:
        if (n > 0) p[at] ^= (uint8_t)(1u << fuzz_below(r, 8));
        return n;
    case 1:
        if (n > 0) p[at] = odd[fuzz_below(r, sizeof odd)];
        return n;
    case 2:
        if (n > 0) p[at] = (uint8_t)(p[at] + fuzz_below(r, 9) - 4);
        return n;
    case 3: /* cut */ return n - fuzz_below(r, (unsigned)(n / 4 + 1));
    default: /* repeat a part */
        if (n > 0 && n < room) {
            size_t k = 1 + fuzz_below(r, 16);
            if (k > n - at) k = n - at;
            if (k > room - n) k = room - n;
            memmove(p + at + k, p + at, n - at);
            return n + k;
        }
        return n;
    }
}

fuzz_bytes fuzz_change_bytes(fuzz_random *r, const uint8_t *p, size_t n)
{
    const size_t room = n + 64;
    fuzz_bytes b = {must(calloc(room + 1, 1)), n};
    if (n > 0) memcpy(b.p, p, n);
    b.n = LLVMFuzzerMutate ? LLVMFuzzerMutate(b.p, n, room) : change_some(r, b.p, n, room);
    return b;
}
