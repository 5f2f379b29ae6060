/* specimen.h - the tensors that selftest encodes: the same bytes on every machine. */
#ifndef KERF_SPECIMEN_H
#define KERF_SPECIMEN_H

#include "base/base.h"

typedef enum kf_specimen_kind {
    KF_SPECIMEN_BELL,    /* bell-shaped values around zero, as weights are        */
    KF_SPECIMEN_ZEROS,   /* zeros of both signs                                   */
    KF_SPECIMEN_OUTLIER, /* bell-shaped, with one element 1000 times larger       */
    KF_SPECIMEN_BITS,    /* every finite bit pattern of the type is equally likely */
    KF_SPECIMEN_ALL,     /* every finite bfloat16, once                            */
    KF_SPECIMEN_TIES     /* fp32: halfway numbers of every width, and their neighbours */
} kf_specimen_kind;

typedef struct kf_specimen {
    kerf_shape shape;
    kf_specimen_kind kind;
    kerf_dtype dtype;
    int cut; /* also to be encoded in several calls and threads */
    uint64_t elements;
    kerf_span bytes;
} kf_specimen;

enum { KF_SPECIMENS = 26 };

/* The i-th specimen, i < KF_SPECIMENS. */
kerf_status kf_specimen_make(size_t i, kf_specimen *out, kerf_error *err);
void kf_specimen_free(kf_specimen *s);

/* Fills planes: with every code under every scale of 8 bits, and with random bits elsewhere. */
void kf_specimen_planes(const kerf_geometry *g, const kerf_span planes[KERF_PLANES]);

#endif
