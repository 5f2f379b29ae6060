/* placement.h - where every tensor of an output will lie, and the headers that say so.
 *
 * A container's writer (safetensors_write.h, gguf_write.h) makes one from the list of entries
 * before a byte of data is there. The writer of a checkpoint then knows the size of every file and
 * the place of every tensor, whichever container it is. */
#ifndef KERF_FILE_PLACEMENT_H
#define KERF_FILE_PLACEMENT_H

#include "file/json/text.h"
#include "file/table/header.h"

/* One entry's data. */
typedef struct kf_place {
    uint64_t offset, bytes; /* in its file               */
    size_t file;
    uint32_t padding; /* zero bytes that follow it */
} kf_place;

typedef struct kf_placed_file {
    kf_text header; /* the first bytes of the file; of safetensors, the length in front included */
    uint64_t bytes; /* of the whole file                                                         */
} kf_placed_file;

typedef struct kf_placement {
    kf_place *place;   /* of each entry   */
    kf_named *by_name; /* index: an entry */
    size_t count;
    kf_placed_file *file;
    size_t files;
    uint64_t tensor_bytes; /* of all files    */
    char *strings;
} kf_placement;

/* What every container begins with: checks the entries, takes their sizes and copies their names.
 * Offsets and headers are still missing. Nothing of the arguments is kept. After a failure too, the
 * caller frees. */
kerf_status kf_placement_begin(kf_placement *p, const kerf_entry *entries, size_t count,
                               size_t files, kerf_error *err);
void kf_placement_free(kf_placement *p);

#endif
