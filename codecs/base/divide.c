/* divide.c - pieces of work among several: longest processing time first. */
#include "base/divide.h"

#include <stdlib.h>

typedef struct piece {
    uint64_t work;
    size_t index;
} piece;

static int heaviest_first(const void *pa, const void *pb)
{
    const piece *a = pa, *b = pb;
    if (a->work != b->work) return a->work > b->work ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static void hand_out(const piece *by, size_t n, uint64_t *load, unsigned parts, unsigned *of)
{
    for (size_t i = 0; i < n; i++) {
        unsigned least = 0;
        for (unsigned k = 1; k < parts; k++)
            if (load[k] < load[least]) least = k;
        load[least] += by[i].work;
        of[by[i].index] = least;
    }
}

kerf_status kf_divide(const uint64_t *work, size_t n, unsigned parts, unsigned *of, kerf_error *err)
{
    piece *by = NULL;
    uint64_t *load = NULL;
    kerf_status s = kf_allocate(&by, n, sizeof *by, err);
    if (s == KERF_OK) s = kf_allocate(&load, parts, sizeof *load, err);
    if (s == KERF_OK) {
        for (size_t i = 0; i < n; i++) by[i] = (piece){work[i], i};
        if (n > 0) qsort(by, n, sizeof *by, heaviest_first);
        hand_out(by, n, load, parts, of);
    }
    free(by);
    free(load);
    return s;
}
