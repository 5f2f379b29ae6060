/* gguf_write.h - the header of a GGUF file that is about to be written. */
#ifndef KERF_FILE_GGUF_WRITE_H
#define KERF_FILE_GGUF_WRITE_H

#include "file/table/placement.h"

/* Validates the entries and lays them out in one file: in the order of the header that the metadata
 * of opt carry (KF_GGUF_CARRIED), and what that does not name after the entry that is given before
 * it. Keeps nothing of its arguments. */
kerf_status kf_gguf_place(kf_placement *p, const kerf_entry *entries, size_t count,
                          const kerf_writer_options *opt, kerf_error *err);

#endif
