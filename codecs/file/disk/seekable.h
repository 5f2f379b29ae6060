/* seekable.h - zstd's seekable format: independent frames and, in a skippable frame at the end,
 * a table of their sizes. Any zstd reads it front to back; with the table, any byte range costs
 * the frames it touches. (facebook/zstd,
 * contrib/seekable_format/zstd_seekable_compression_format.md) */
#ifndef KERF_FILE_SEEKABLE_H
#define KERF_FILE_SEEKABLE_H

#include <kerf/job.h>

#include "base/base.h"

#define KF_SEEK_TABLE_MAGIC 0x184D2A5Eu
#define KF_SEEK_FOOTER_MAGIC 0x8F92EAB1u
#define KF_SEEK_FOOTER_BYTES 9u
#define KF_SEEK_FRAME_BYTES (1u << 20)     /* of unpacked data in the frames that kerf writes */
#define KF_SEEK_MAX_FRAME_BYTES (1u << 26) /* in those it reads: bounds memory                */
#define KF_SEEK_MAX_FRAMES (1u << 23)

typedef struct kf_seek kf_seek;

/* 1 when these are the first bytes of a zstd file; no safetensors file of a legal size starts so.
 */
int kf_seek_is_zstd(const uint8_t first[4]);

/* Reads and validates the seek table. fd and path must outlive *out. */
kerf_status kf_seek_open(int fd, const char *path, uint64_t file_bytes, kf_seek **out,
                         kerf_error *err);
void kf_seek_close(kf_seek *s);
uint64_t kf_seek_bytes(const kf_seek *s); /* unpacked */

/* Unpacks n bytes from an offset that kf_seek_bytes allows; any thread at any time. */
kerf_status kf_seek_read(kf_seek *s, uint64_t offset, void *dst, size_t n, kerf_error *err);

typedef struct kf_seek_pack {
    int in, out; /* descriptors */
    const char *in_path, *out_path;
    uint64_t bytes; /* of in */
    int level, threads;
    const kerf_job *job; /* asked before each frame; may be NULL */
} kf_seek_pack;

/* Packs a whole file into *packed_bytes. They depend on the level and on libzstd's version alone.
 */
kerf_status kf_seek_write(const kf_seek_pack *job, uint64_t *packed_bytes, kerf_error *err);

#endif
