/* plan.h - where every tensor of an output will lie, and the headers that say so. */
#ifndef KERF_FILE_PLAN_H
#define KERF_FILE_PLAN_H

#include "file/safetensors/safetensors.h"
#include "file/json/text.h"

typedef struct kf_place {
    uint64_t offset, bytes; /* in its file */
    size_t file;
    uint32_t padding; /* zero bytes behind it */
} kf_place;

typedef struct kf_plan_file {
    kf_text header; /* with the length in front: the first bytes of the file */
    uint64_t bytes; /* of the whole file                                     */
} kf_plan_file;

typedef struct kf_plan {
    kf_place *place; /* per entry */
    kf_named *by_name;
    size_t count;
    kf_plan_file *file;
    size_t files;
    uint64_t tensor_bytes;
    char *strings;
} kf_plan;

/* Validates the entries and lays them out over `files` files: wide dtypes first, then by name. The
 * plan keeps nothing of its arguments. */
kerf_status kf_plan_init(kf_plan *p, const kerf_entry *entries, size_t count, size_t files,
                         const kerf_writer_options *opt, kerf_error *err);
void kf_plan_free(kf_plan *p);

/* The same for a GGUF file (gguf_write.c): tensors in the order of the header that the metadata
 * carry, those that it does not name behind the one that is given before them. */
kerf_status kf_plan_init_gguf(kf_plan *p, const kerf_entry *entries, size_t count,
                              const kerf_writer_options *opt, kerf_error *err);

/* What both begin with: the entries are checked, their names and sizes taken. */
kerf_status kf_plan_begin(kf_plan *p, const kerf_entry *entries, size_t count, size_t files,
                          kerf_error *err);

#endif
