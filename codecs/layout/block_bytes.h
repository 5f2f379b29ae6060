/* block_bytes.h - planes of codes and scales, and ggml's blocks that hold both. */
#ifndef KERF_LAYOUT_BLOCK_BYTES_H
#define KERF_LAYOUT_BLOCK_BYTES_H

#include "layout/layout.h"

/* kerf_weight_read for the codes and the scales of a weight that stands in blocks. */
kerf_status kf_blocks_read(const kerf_reader *r, const kerf_weight *w, kerf_plane_id p,
                           uint64_t offset, void *dst, size_t n, kerf_error *err);

/* How many bytes of what a block has. */
typedef struct kf_block {
    unsigned groups, codes, scale, bytes; /* codes and scale: bytes of one group; bytes: of all */
    unsigned char flip;
} kf_block;

/* Makes blocks of codes and scales, which come one after the other for the same bands. */
typedef struct kf_interleaver {
    kf_block block;
    uint64_t blocks, first, count; /* of the weight; that wait for their scales */
    unsigned char *codes, *blocks_made;
    size_t room; /* in blocks */
} kf_interleaver;

void kf_interleaver_init(kf_interleaver *w, const kf_stored *s, const kerf_weight *weight);
kerf_status kf_interleaver_codes(kf_interleaver *w, uint64_t offset, const unsigned char *src,
                                 size_t n, kerf_error *err);
kerf_status kf_interleaver_scales(kf_interleaver *w, kerf_writer *to, size_t entry, uint64_t offset,
                                  const unsigned char *src, size_t n, kerf_error *err);
kerf_status kf_interleaver_finish(const kf_interleaver *w, kerf_error *err);
void kf_interleaver_free(kf_interleaver *w);

#endif
