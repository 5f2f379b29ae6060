/* header.h - what every container is read into: the table of its tensors and its metadata.
 *
 * safetensors and GGUF files differ in how they write this table, not in what it says, so that a
 * reader needs to know nothing of either once a file is open. */
#ifndef KERF_FILE_HEADER_H
#define KERF_FILE_HEADER_H

#include <kerf/file.h>

#include "base/base.h"

/* No dimension of a tensor is larger. Above it, readers that keep numbers in doubles see another
 * one. */
#define KF_MAX_DIM ((uint64_t)1 << 53)

/* A name and the place in some list of what has it. */
typedef struct kf_named {
    const char *name;
    size_t index;
} kf_named;

/* Sorts by name. Returns the place of a name that equals the one before it, or n. */
size_t kf_sort_names(kf_named *v, size_t n);
/* Finds a name in a sorted list; NULL: it is not there. */
const kf_named *kf_find_name(const kf_named *v, size_t n, const char *name);

/* All of it is validated: sizes fit, names are unique, data lies inside of the file. */
typedef struct kf_header {
    kerf_tensor *tensor; /* by offset; shard is 0           */
    size_t count;
    kf_named *by_name;        /* index: a tensor                 */
    kerf_key_value *metadata; /* by key                          */
    size_t metadata_count;
    char *strings; /* holds every name, key and value */
} kf_header;

void kf_header_free(kf_header *h); /* fine on zeros */

/* Bytes of a tensor: KERF_E_RANGE when they do not fit 64 bits, KERF_E_DATA when its elements do
 * not fill whole bytes. */
kerf_status kf_tensor_bytes(kerf_dtype dtype, const kerf_shape *shape, uint64_t *bytes);

#endif
