/* stored_bytes.c - between the bytes of a plane and the bytes of the tensor that stores it.
 *
 * Most are the same. Where they differ the difference is a permutation or one operation per
 * number (layout_table.h), done here on the way in and out, so that nobody else knows of it:
 *
 *   flip        exclusive or of every byte: two's complement codes <-> codes counted from zero
 *   reciprocal  a scale to multiply by <-> a scale to divide by
 *   stack       zero points, packed along a row <-> packed along a column
 *   blocks      codes and scales in planes <-> woven into ggml's blocks (block_bytes.c)
 *   widening    a scale in F16 or BF16, as other writers have it, read as F32: exact
 */
#include <stdlib.h>
#include <string.h>

#include "file/block_bytes.h"
#include "file/io.h"
#include "file/layout.h"
#include "file/state.h"

#define CHUNK_BYTES ((size_t)1 << 16)
#define STACK_BYTES ((uint64_t)1 << 28) /* of a plane that must be whole before it is written */

/* --- numbers --- */

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* fp16 is a float with a smaller exponent; every one of its values is a float. */
static uint32_t widen_half(uint32_t h)
{
    uint32_t sign = (h & 0x8000u) << 16, magnitude = h & 0x7fffu;
    if (magnitude >= 0x7c00u) return sign | 0x7f800000u | (magnitude & 0x3ffu) << 13;
    if (magnitude >= 0x400u) return sign | ((magnitude << 13) + 0x38000000u);
    return sign | bits_of((float)magnitude * 0x1p-24f);
}

/* The number whose reciprocal, rounded, is x: of the neighbours of 1/x that give x back the one
 * with the fewest bits, which is what a writer with a shorter type began from. A scale of 0 is
 * that of a tensor of zeros, for which compressed-tensors writes 1. */
static float inverse_of(float x, uint64_t *inexact)
{
    if (x == 0) return 1;
    uint32_t first = bits_of(1 / x), best = first;
    int found = -1;
    for (uint32_t b = first - 1; b != first + 2; b++) {
        int zeros = b & 0x7fffffu ? __builtin_ctz(b) : 23;
        if (bits_of(1 / float_of(b)) != bits_of(x) || zeros <= found) continue;
        found = zeros;
        best = b;
    }
    *inexact += found < 0;
    return float_of(best);
}

/* --- read --- */

static const kf_part *part_of(const kerf_weight *w, kerf_plane_id p)
{
    static const kf_part as_it_is = {.suffix = ""};
    if (!w->codec.format) return &as_it_is;
    const kf_stored *s = kf_stored_find(w->layout, w->codec.format);
    return s ? &s->part[p] : &as_it_is;
}

static void flip(unsigned char *p, size_t n, unsigned char with)
{
    for (size_t i = 0; i < n; i++) p[i] ^= with;
}

/* Elements of 2 bytes in the second half of dst, which become floats from its beginning. */
static void widen(unsigned char *dst, size_t count, int is_half)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t from;
        memcpy(&from, dst + 2 * count + 2 * i, sizeof from);
        uint32_t to = is_half ? widen_half(from) : (uint32_t)from << 16;
        memcpy(dst + 4 * i, &to, sizeof to);
    }
}

static unsigned get_bits(const unsigned char *row, unsigned bits, uint64_t i)
{
    unsigned byte = row[i * bits / 8];
    return byte >> i * bits % 8 & ((1u << bits) - 1);
}

/* One row of zero points out of the words of the rows that are stacked with it. */
static void unstack_row(const kerf_geometry *g, const unsigned char *words, uint64_t row,
                        unsigned char *out, size_t row_bytes)
{
    const unsigned bits = g->format->bits, per_word = 32 / bits;
    memset(out, 0, row_bytes);
    for (uint64_t c = 0; c < g->band_groups; c++) {
        unsigned code = get_bits(words + 4 * c, bits, row % per_word);
        out[c * bits / 8] = (unsigned char)(out[c * bits / 8] | code << c * bits % 8);
    }
}

static kerf_status read_stack(const kerf_reader *r, const kerf_weight *w, const kf_part *part,
                              uint64_t offset, unsigned char *dst, size_t n, kerf_error *err)
{
    const kerf_geometry *g = &w->geometry;
    const size_t row_bytes = (size_t)g->plane[KERF_PLANE_ZEROS].band_bytes;
    const uint64_t per_word = 32 / g->format->bits, word_row = g->band_groups * 4;
    unsigned char *words = kf_alloc(word_row + row_bytes, 1);
    if (!words) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for zero points");
    unsigned char *line = words + word_row;
    kerf_status s = KERF_OK;
    for (uint64_t have = UINT64_MAX; n > 0 && s == KERF_OK;) {
        uint64_t row = offset / row_bytes, skip = offset % row_bytes;
        size_t take = (size_t)kf_min_u64(n, row_bytes - skip);
        if (row / per_word != have) {
            have = row / per_word;
            s = kerf_reader_read(r, w->plane[KERF_PLANE_ZEROS], have * word_row, words,
                                 (size_t)word_row, err);
            if (s != KERF_OK) break;
        }
        unstack_row(g, words, row, line, row_bytes);
        flip(line, row_bytes, part->flip);
        memcpy(dst, line + skip, take);
        dst += take;
        offset += take;
        n -= take;
    }
    free(words);
    return s;
}

static void invert(unsigned char *p, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float x;
        memcpy(&x, p + 4 * i, sizeof x);
        x = 1 / x;
        memcpy(p + 4 * i, &x, sizeof x);
    }
}

/* The one number of a plane that stands in the JSON of its weight. */
static kerf_status read_offset(const kerf_reader *r, const kerf_weight *w, uint64_t offset,
                               void *dst, size_t n, kerf_error *err)
{
    kf_state state;
    size_t last = KERF_EXTRAS;
    while (last > 0 && !w->extra[last - 1]) last--;
    if (n == 0 && offset <= sizeof state.offset) return KERF_OK;
    if (offset != 0 || n != sizeof state.offset)
        return kf_fail(err, KERF_E_ARG, offset, "kerf_weight_read: beyond the plane");
    if (last == 0 || !kf_state_read(r, w->extra[last - 1], &state))
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.*s: its state cannot be read",
                       KF_NAME(w->name));
    memcpy(dst, &state.offset, n);
    return KERF_OK;
}

static kerf_status read_ones(const kerf_plane *plane, uint64_t offset, void *dst, size_t n,
                             kerf_error *err)
{
    const float one = 1;
    uint64_t end;
    if (!kf_add_ok(offset, n, &end) || end > plane->bytes)
        return kf_fail(err, KERF_E_ARG, offset, "kerf_weight_read: beyond the plane");
    for (size_t i = 0; i + sizeof one <= n; i += sizeof one)
        memcpy((unsigned char *)dst + i, &one, sizeof one);
    return KERF_OK;
}

kerf_status kerf_weight_read(const kerf_reader *r, const kerf_weight *w, kerf_plane_id p,
                             uint64_t offset, void *dst, size_t n, kerf_error *err)
{
    const kerf_tensor *t = w->plane[p];
    const kf_part *part = part_of(w, p);
    if (part->coding == KF_IN_STATE) return read_offset(r, w, offset, dst, n, err);
    if (part->coding == KF_BLOCK_CODES || part->coding == KF_BLOCK_SCALES)
        return kf_blocks_read(r, w, p, offset, dst, n, err);
    if (p == KERF_PLANE_SECOND && w->unit_second && !t)
        return read_ones(&w->geometry.plane[p], offset, dst, n, err);
    if (!t) return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "kerf_weight_read: no such plane");
    if (part->coding == KF_STACK) {
        uint64_t end, bytes = w->geometry.plane[p].bytes;
        if (!kf_add_ok(offset, n, &end) || end > bytes)
            return kf_fail(err, KERF_E_ARG, offset, "kerf_weight_read: beyond the plane");
        return read_stack(r, w, part, offset, dst, n, err);
    }
    if (w->codec.format && w->geometry.plane[p].dtype == KERF_F32 &&
        kerf_dtype_bits(t->dtype) == 16) {
        KF_TRY(kerf_reader_read(r, t, offset / 2, (unsigned char *)dst + n / 2, n / 2, err));
        widen(dst, n / 4, t->dtype == KERF_F16);
        return KERF_OK;
    }
    KF_TRY(kerf_reader_read(r, t, offset, dst, n, err));
    if (part->coding == KF_FLIP) flip(dst, n, part->flip);
    if (part->coding == KF_RECIPROCAL) invert(dst, n / 4);
    return KERF_OK;
}

kerf_status kerf_weight_inexact(const kerf_reader *r, const kerf_weight *w, uint64_t *count,
                                kerf_error *err)
{
    *count = 0;
    for (kerf_plane_id p = 0; p < KERF_PLANES; p++) {
        if (!w->plane[p] || part_of(w, p)->coding != KF_RECIPROCAL) continue;
        for (uint64_t at = 0; at + 4 <= w->plane[p]->bytes; at += 4) {
            float stored, x;
            uint64_t rounded = 0;
            KF_TRY(kerf_reader_read(r, w->plane[p], at, &stored, sizeof stored, err));
            x = inverse_of(1 / stored, &rounded);
            *count += rounded || bits_of(x) != bits_of(stored);
        }
    }
    return KERF_OK;
}

/* --- write --- */

struct kerf_weight_writer {
    kerf_writer *writer;
    const kerf_weight *weight;
    const kf_stored *stored; /* NULL: layout kerf */
    size_t entry[KERF_PLANES], extra[KERF_EXTRAS];
    float offset;         /* of KF_IN_STATE */
    unsigned char *whole; /* the zero points, until all are there */
    kf_weaver weaver;     /* of blocks                            */
    uint64_t inexact;
    unsigned char chunk[CHUNK_BYTES];
};

kerf_status kerf_weight_writer_open(kerf_writer *w, const kerf_layout *l, const kerf_weight *weight,
                                    size_t first, kerf_weight_writer **out, kerf_error *err)
{
    kerf_entry entry;
    kerf_plane_id plane;
    size_t extras = 0;
    char name[KERF_MAX_NAME_BYTES + 32];
    uint64_t bytes = weight->geometry.plane[KERF_PLANE_ZEROS].bytes;
    *out = NULL;
    kerf_weight_writer *ww = kf_alloc_zero(1, sizeof *ww);
    if (!ww) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a weight");
    ww->writer = w;
    ww->weight = weight;
    ww->stored = kf_stored_find(l, weight->codec.format);
    if (ww->stored && ww->stored->part[KERF_PLANE_CODES].coding == KF_BLOCK_CODES)
        kf_weaver_init(&ww->weaver, ww->stored, weight);
    for (size_t i = 0; kerf_layout_entry(l, weight, i, name, sizeof name, &entry, &plane); i++)
        *(plane == KERF_PLANES ? &ww->extra[extras++] : &ww->entry[plane]) = first + i;
    if (ww->stored && ww->stored->part[KERF_PLANE_ZEROS].coding == KF_STACK) {
        ww->whole = bytes <= STACK_BYTES ? kf_alloc(bytes, 1) : NULL;
        if (!ww->whole) {
            kerf_weight_writer_close(ww);
            return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE, "%.*s: too many zero points",
                           KF_NAME(weight->name));
        }
    }
    *out = ww;
    return KERF_OK;
}

/* Writes src changed by a part's coding, a chunk at a time. */
static kerf_status write_coded(kerf_weight_writer *w, const kf_part *part, size_t entry,
                               uint64_t offset, const unsigned char *src, size_t n, kerf_error *err)
{
    for (size_t at = 0; at < n; at += CHUNK_BYTES) {
        size_t part_bytes = (size_t)kf_min_u64(CHUNK_BYTES, n - at);
        memcpy(w->chunk, src + at, part_bytes);
        if (part->coding == KF_FLIP) flip(w->chunk, part_bytes, part->flip);
        for (size_t i = 0; part->coding == KF_RECIPROCAL && i + 4 <= part_bytes; i += 4) {
            float x;
            memcpy(&x, w->chunk + i, sizeof x);
            x = inverse_of(x, &w->inexact);
            memcpy(w->chunk + i, &x, sizeof x);
        }
        KF_TRY(kerf_writer_write(w->writer, entry, offset + at, w->chunk, part_bytes, err));
    }
    return KERF_OK;
}

kerf_status kerf_weight_writer_write(kerf_weight_writer *w, kerf_plane_id p, uint64_t offset,
                                     const void *src, size_t n, kerf_error *err)
{
    const kf_part *part = w->stored ? &w->stored->part[p] : NULL;
    if (part && part->coding == KF_BESIDE && w->weight->unit_second) return KERF_OK;
    if (!part || part->coding == KF_COPY || part->coding == KF_BESIDE)
        return kerf_writer_write(w->writer, w->entry[p], offset, src, n, err);
    if (part->coding == KF_BLOCK_CODES) return kf_weaver_codes(&w->weaver, offset, src, n, err);
    if (part->coding == KF_BLOCK_SCALES)
        return kf_weaver_scales(&w->weaver, w->writer, w->entry[KERF_PLANE_CODES], offset, src, n,
                                err);
    if (part->coding == KF_IN_STATE) {
        if (offset == 0 && n == sizeof w->offset) memcpy(&w->offset, src, n);
        return KERF_OK;
    }
    if (part->coding != KF_STACK) return write_coded(w, part, w->entry[p], offset, src, n, err);
    uint64_t end;
    if (!kf_add_ok(offset, n, &end) || end > w->weight->geometry.plane[p].bytes)
        return kf_fail(err, KERF_E_ARG, offset, "kerf_weight_writer_write: beyond the plane");
    memcpy(w->whole + offset, src, n);
    return KERF_OK;
}

/* One row of words: the zero points of as many rows as a word has room for. */
static void stack_rows(const kerf_weight_writer *w, uint64_t first, unsigned char *words)
{
    const kerf_geometry *g = &w->weight->geometry;
    const unsigned bits = g->format->bits, per_word = 32 / bits;
    const uint64_t row_bytes = g->plane[KERF_PLANE_ZEROS].band_bytes;
    const unsigned turn = w->stored->part[KERF_PLANE_ZEROS].flip & ((1u << bits) - 1);
    for (uint64_t c = 0; c < g->band_groups; c++) {
        uint32_t word = 0;
        for (unsigned i = 0; i < per_word; i++)
            word |= (get_bits(w->whole + (first + i) * row_bytes, bits, c) ^ turn) << i * bits;
        memcpy(words + 4 * c, &word, sizeof word);
    }
}

static kerf_status write_stack(kerf_weight_writer *w, kerf_error *err)
{
    const kerf_geometry *g = &w->weight->geometry;
    const uint64_t per_word = 32 / g->format->bits, word_row = g->band_groups * 4;
    unsigned char *words = kf_alloc(word_row, 1);
    if (!words) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for zero points");
    kerf_status s = KERF_OK;
    for (uint64_t row = 0; row < g->rows && s == KERF_OK; row += per_word) {
        stack_rows(w, row, words);
        s = kerf_writer_write(w->writer, w->entry[KERF_PLANE_ZEROS], row / per_word * word_row,
                              words, (size_t)word_row, err);
    }
    free(words);
    return s;
}

static kerf_status write_extra(kerf_weight_writer *w, size_t i, kerf_error *err)
{
    const kerf_weight *weight = w->weight;
    float book[256];
    char state[KF_STATE_BYTES];
    size_t n;
    switch (w->stored->extra[i]) {
    case KF_EXTRA_NONE: break;
    case KF_EXTRA_SHAPE:
        return kerf_writer_write(w->writer, w->extra[i], 0, weight->shape.dim,
                                 weight->shape.rank * sizeof(uint64_t), err);
    case KF_EXTRA_CODE_BOOK:
        n = kerf_codebook(weight->codec.format, KERF_PLANE_CODES, book);
        return kerf_writer_write(w->writer, w->extra[i], 0, book, n * sizeof *book, err);
    case KF_EXTRA_SCALE_BOOK:
        n = kerf_codebook(weight->codec.format, KERF_PLANE_SCALES, book);
        return kerf_writer_write(w->writer, w->extra[i], 0, book, n * sizeof *book, err);
    case KF_EXTRA_STATE:
        kf_state_write(weight, w->offset, state);
        return kerf_writer_write(w->writer, w->extra[i], 0, state, sizeof state, err);
    }
    return KERF_OK;
}

kerf_status kerf_weight_writer_finish(kerf_weight_writer *w, kerf_error *err)
{
    KF_TRY(kf_weaver_finish(&w->weaver, err));
    if (w->whole) KF_TRY(write_stack(w, err));
    for (size_t i = 0; w->stored && i < KERF_EXTRAS; i++) KF_TRY(write_extra(w, i, err));
    return KERF_OK;
}

uint64_t kerf_weight_writer_inexact(const kerf_weight_writer *w)
{
    return w->inexact;
}

void kerf_weight_writer_close(kerf_weight_writer *w)
{
    if (!w) return;
    kf_weaver_free(&w->weaver);
    free(w->whole);
    free(w);
}
