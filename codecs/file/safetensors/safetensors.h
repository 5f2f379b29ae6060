/* safetensors.h - the header of one safetensors file, as a validated table. */
#ifndef KERF_FILE_SAFETENSORS_H
#define KERF_FILE_SAFETENSORS_H

#include <kerf/file.h>

#include "base/base.h"

typedef struct kf_named {
    const char *name;
    size_t index;
} kf_named;

typedef struct kf_header {
    kerf_tensor *tensor; /* by offset; shard is 0                    */
    size_t count;
    kf_named *by_name;
    kerf_key_value *metadata; /* by key */
    size_t metadata_count;
    char *strings; /* every name, key and value stands in here */
} kf_header;

/* The length of the JSON text, from the first 8 bytes of a file of file_bytes. */
kerf_status kf_header_length(const char *path, const uint8_t first[8], uint64_t file_bytes,
                             size_t *n, kerf_error *err);

/* Parses and validates the n bytes of JSON that follow. A pure function of its arguments. */
kerf_status kf_header_parse(const char *path, const char *text, size_t n, uint64_t file_bytes,
                            kf_header *out, kerf_error *err);
void kf_header_free(kf_header *h);

/* Bytes of a tensor: KERF_E_RANGE when they do not fit, KERF_E_DATA when they are not whole. */
kerf_status kf_tensor_bytes(kerf_dtype dtype, const kerf_shape *shape, uint64_t *bytes);

/* Sorts; returns the place of a name that occurs twice in a row, or n. */
size_t kf_sort_names(kf_named *v, size_t n);
const kf_named *kf_find_name(const kf_named *v, size_t n, const char *name);

#endif
