/* safetensors_write.h - the headers of safetensors files that are about to be written. */
#ifndef KERF_FILE_SAFETENSORS_WRITE_H
#define KERF_FILE_SAFETENSORS_WRITE_H

#include "file/table/placement.h"

/* Validates the entries and lays them out over `files` files: wide dtypes first, then by name. Uses
 * the metadata and block types of opt. Keeps nothing of its arguments. */
kerf_status kf_safetensors_place(kf_placement *p, const kerf_entry *entries, size_t count,
                                 size_t files, const kerf_writer_options *opt, kerf_error *err);

#endif
