/* shape_list.h - the lists of --shape and --batch: which matrix products a verb speaks of. */
#ifndef KERF_SHAPE_LIST_H
#define KERF_SHAPE_LIST_H

#include "cli.h"

enum { MAX_SHAPES = 4096, MAX_BATCHES = 64 };

typedef struct shape {
    uint64_t n, k; /* outputs and inputs */
} shape;

typedef struct shape_list {
    shape *item;
    size_t count;
} shape_list;

typedef struct batches {
    uint64_t item[MAX_BATCHES];
    size_t count;
} batches;

/* "NxK,NxK,...", from 1 to 2^32 each. */
kerf_status parse_shapes(const char *text, shape_list *out, kerf_error *err);
void shape_list_free(shape_list *l); /* all zeros are fine */

/* "N,N,..."; NULL: 1. */
kerf_status parse_batches(const char *text, batches *out, kerf_error *err);

#endif
