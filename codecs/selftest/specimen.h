/* specimen.h - the tensors that selftest encodes: the same bytes on every machine. */
#ifndef KERF_SPECIMEN_H
#define KERF_SPECIMEN_H

#include "base/base.h"

typedef enum specimen_kind {
    SPECIMEN_BELL,    /* bell-shaped values around zero, as weights are        */
    SPECIMEN_ZEROS,   /* zeros of both signs                                   */
    SPECIMEN_OUTLIER, /* bell-shaped, with one element 1000 times larger       */
    SPECIMEN_BITS,    /* every finite bit pattern of the type is equally likely */
    SPECIMEN_ALL,     /* every finite bfloat16, once                            */
    SPECIMEN_TIES     /* fp32: halfway numbers of every width, and their neighbours */
} specimen_kind;

typedef struct specimen {
    kerf_shape shape;
    specimen_kind kind;
    kerf_dtype dtype;
    int cut; /* also to be encoded in several calls and threads */
    uint64_t elements;
    kerf_span bytes;
} specimen;

enum { SPECIMENS = 26 };

/* The i-th specimen, i < SPECIMENS. */
kerf_status specimen_make(size_t i, specimen *out, kerf_error *err);
void specimen_free(specimen *s);

/* Fills planes: with every code under every scale of 8 bits, and with random bits elsewhere. */
void specimen_planes(const kerf_geometry *g, const kerf_span planes[KERF_PLANES]);

#endif
