/* npy_header.h - what the header of NumPy's file of one array says. */
#ifndef KERF_NPY_HEADER_H
#define KERF_NPY_HEADER_H

#include "file/disk/blob.h"

typedef struct kf_npy {
    kerf_dtype dtype; /* U8 to I64 */
    unsigned rank;    /* 1 or 2    */
    uint64_t dim[2];
    uint64_t data; /* where the elements begin */
} kf_npy;

/* Reads and checks it: all elements are in the file and nothing follows them. KERF_E_NOSUP: an
 * array that is no list or table of little-endian integers in C order. */
kerf_status kf_npy_header(const kf_blob *b, kf_npy *out, kerf_error *err);

#endif
