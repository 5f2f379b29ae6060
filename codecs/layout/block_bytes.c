/* block_bytes.c - planes of codes and scales, and ggml's blocks that hold both.
 *
 * A block is the scales of its groups, then their codes group by group. In a plane two neighbours
 * share a byte, in a block the first half of a group lies in the low nibbles and the second half in
 * the high ones. Rows are whole blocks, so that a tensor is one run of them. */
#include "layout/block_bytes.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "file/gguf/gguf.h"

#define READ_BLOCKS 1024u

static kf_block block_of(const kf_stored *s, const kerf_format *f)
{
    const kf_gguf_type *type = kf_gguf_type_find(s->scheme);
    kf_block b = {.groups = type->elements / f->group,
                  .codes = f->group / 2,
                  .bytes = type->bytes,
                  .flip = s->part[KERF_PLANE_CODES].flip};
    b.scale = (b.bytes - b.groups * b.codes) / b.groups;
    return b;
}

static unsigned nibble(const unsigned char *p, unsigned i)
{
    return p[i / 2] >> i % 2 * 4 & 15;
}

/* The codes of one group, n bytes of them. */
static void interleave(const unsigned char *plane, unsigned char *block, unsigned n,
                       unsigned char flip)
{
    for (unsigned j = 0; j < n; j++)
        block[j] = (unsigned char)((nibble(plane, j) | nibble(plane, j + n) << 4) ^ flip);
}

static void separate(const unsigned char *block, unsigned char *plane, unsigned n,
                     unsigned char flip)
{
    memset(plane, 0, n);
    for (unsigned j = 0; j < n; j++) {
        const unsigned b = block[j] ^ flip;
        plane[j / 2] = (unsigned char)(plane[j / 2] | (b & 15) << j % 2 * 4);
        plane[(j + n) / 2] = (unsigned char)(plane[(j + n) / 2] | (b >> 4) << (j + n) % 2 * 4);
    }
}

/* --- read --- */

static unsigned part_bytes(const kf_block *b, kerf_plane_id p)
{
    return b->groups * (p == KERF_PLANE_CODES ? b->codes : b->scale);
}

static void unpack(const kf_block *b, kerf_plane_id p, const unsigned char *blocks, uint64_t count,
                   unsigned char *out)
{
    for (uint64_t i = 0; i < count; i++, blocks += b->bytes, out += part_bytes(b, p)) {
        const unsigned char *codes = blocks + b->groups * b->scale;
        if (p == KERF_PLANE_SCALES) memcpy(out, blocks, part_bytes(b, p));
        for (unsigned g = 0; p == KERF_PLANE_CODES && g < b->groups; g++)
            separate(codes + g * b->codes, out + g * b->codes, b->codes, b->flip);
    }
}

kerf_status kf_blocks_read(const kerf_reader *r, const kerf_weight *w, kerf_plane_id p,
                           uint64_t offset, void *dst, size_t n, kerf_error *err)
{
    const kf_block b = block_of(kf_stored_find(w->layout, w->codec.format), w->codec.format);
    const unsigned each = part_bytes(&b, p);
    uint64_t end;
    if (!kf_add_ok(offset, n, &end) || end > kerf_weight_geometry(w).plane[p].bytes)
        return kf_fail(err, KERF_E_ARG, offset, "kerf_weight_read: beyond the plane");
    unsigned char *blocks = kf_alloc(READ_BLOCKS, b.bytes + each), *to = dst;
    if (!blocks) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for blocks");
    unsigned char *plane = blocks + (size_t)READ_BLOCKS * b.bytes;
    kerf_status s = KERF_OK;
    while (n > 0 && s == KERF_OK) {
        const uint64_t first = offset / each, skip = offset % each;
        const uint64_t count = kf_min_u64(READ_BLOCKS, kf_div_up(skip + n, each));
        const size_t take = (size_t)kf_min_u64(n, count * each - skip);
        s = kerf_reader_read(r, w->plane[KERF_PLANE_CODES], first * b.bytes, blocks,
                             (size_t)(count * b.bytes), err);
        if (s != KERF_OK) break;
        unpack(&b, p, blocks, count, plane);
        memcpy(to, plane + skip, take);
        to += take;
        offset += take;
        n -= take;
    }
    free(blocks);
    return s;
}

/* --- write --- */

void kf_interleaver_init(kf_interleaver *w, const kf_stored *s, const kerf_weight *weight)
{
    const kerf_geometry g = kerf_weight_geometry(weight);
    *w = (kf_interleaver){.block = block_of(s, weight->codec.format)};
    w->blocks = g.plane[KERF_PLANE_CODES].bytes / part_bytes(&w->block, KERF_PLANE_CODES);
}

static kerf_status fail_order(uint64_t offset, kerf_error *err)
{
    return kf_fail(err, KERF_E_ARG, offset,
                   "kerf_weight_writer_write: blocks are written codes first, then the scales of "
                   "the same bands, in whole blocks");
}

/* Blocks [first, first + count) of which n bytes from `offset` of a plane are. */
static int is_run(const kf_interleaver *w, kerf_plane_id p, uint64_t offset, size_t n,
                  uint64_t *first, uint64_t *count)
{
    const unsigned each = part_bytes(&w->block, p);
    *first = offset / each;
    *count = n / each;
    return offset % each == 0 && n % each == 0 && *first <= w->blocks &&
           *count <= w->blocks - *first;
}

kerf_status kf_interleaver_codes(kf_interleaver *w, uint64_t offset, const unsigned char *src,
                                 size_t n, kerf_error *err)
{
    uint64_t first, count;
    if (w->count || !is_run(w, KERF_PLANE_CODES, offset, n, &first, &count))
        return fail_order(offset, err);
    if (count > w->room) {
        free(w->codes);
        w->codes = kf_alloc(count, part_bytes(&w->block, KERF_PLANE_CODES) + w->block.bytes);
        w->room = w->codes ? (size_t)count : 0;
        if (!w->codes) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for blocks");
    }
    w->blocks_made = w->codes + n;
    w->first = first;
    w->count = count;
    if (n > 0) memcpy(w->codes, src, n);
    return KERF_OK;
}

kerf_status kf_interleaver_scales(kf_interleaver *w, kerf_writer *to, size_t entry, uint64_t offset,
                                  const unsigned char *src, size_t n, kerf_error *err)
{
    const kf_block *b = &w->block;
    uint64_t first, count;
    if (!is_run(w, KERF_PLANE_SCALES, offset, n, &first, &count) || count != w->count ||
        (count && first != w->first))
        return fail_order(offset, err);
    const unsigned char *codes = w->codes;
    unsigned char *out = w->blocks_made;
    for (uint64_t i = 0; i < count; i++, src += b->groups * b->scale, out += b->bytes) {
        memcpy(out, src, b->groups * b->scale);
        for (unsigned g = 0; g < b->groups; g++, codes += b->codes)
            interleave(codes, out + b->groups * b->scale + g * b->codes, b->codes, b->flip);
    }
    w->count = 0;
    return kerf_writer_write(to, entry, first * b->bytes, w->blocks_made,
                             (size_t)(count * b->bytes), err);
}

kerf_status kf_interleaver_finish(const kf_interleaver *w, kerf_error *err)
{
    return w->count ? fail_order(w->first, err) : KERF_OK;
}

void kf_interleaver_free(kf_interleaver *w)
{
    free(w->codes);
}
