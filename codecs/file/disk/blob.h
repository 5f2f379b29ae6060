/* blob.h - one open file as plain bytes, also when it is compressed (zstd's seekable format):
 * offsets and sizes are those of the unpacked bytes. */
#ifndef KERF_FILE_BLOB_H
#define KERF_FILE_BLOB_H

#include "file/disk/io.h"
#include "file/disk/seekable.h"

typedef struct kf_blob {
    char *path;
    int fd;
    kf_stamp stamp; /* of the file when it was opened */
    uint64_t bytes; /* unpacked */
    kf_seek *seek;  /* NULL: plain */
} kf_blob;

/* Opens a regular file; kf_blob_close frees. Any thread may read. */
kerf_status kf_blob_open(const char *path, kf_blob *b, kerf_error *err);
void kf_blob_close(kf_blob *b);
/* KERF_E_IO: it was written to, or another file has its name. */
kerf_status kf_blob_check(const kf_blob *b, kerf_error *err);
kerf_status kf_blob_read(const kf_blob *b, uint64_t offset, void *dst, size_t n, kerf_error *err);

#endif
