/* stored_bytes.c - between the bytes of a plane and the bytes of the tensor that stores it.
 *
 * Most are the same. Where they differ the difference is a permutation or one operation per
 * number (layout_table.h). It is undone here when a plane is read and done when one is written, so
 * that no other file has to know of it:
 *
 *   flip        exclusive or of every byte: two's complement codes <-> codes counted from zero
 *   reciprocal  a scale to multiply by <-> a scale to divide by
 *   times 127   a scale <-> the largest magnitude of its row
 *   reordered   another order of elements (turned.h)
 *   blocks      codes and scales in planes <-> interleaved in ggml's blocks (block_bytes.c)
 *   widening    a scale in F16 or BF16, as other writers have it, read as F32: exact
 */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "layout/turned.h"
#include "layout/block_bytes.h"
#include "layout/layout.h"
#include "layout/state.h"

#define CHUNK_BYTES ((size_t)1 << 16)

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

/* What a scale is stored as, turned back into the scale. */
static float scale_of(kf_coding coding, float stored)
{
    return coding == KF_RECIPROCAL ? 1 / stored : stored / 127.0f;
}

/* The number that turns back into x: of those near the exact one that do so, the one with the
 * fewest bits, which is what a writer with a shorter type began from. A scale of 0 is that of a
 * tensor of zeros: compressed-tensors writes 1 for it, bitsandbytes 0. */
static float stored_of(kf_coding coding, float x, uint64_t *inexact)
{
    if (x == 0) return coding == KF_RECIPROCAL ? 1 : x;
    uint32_t middle = bits_of(coding == KF_RECIPROCAL ? 1 / x : x * 127.0f), best = middle;
    int found = -1;
    for (uint32_t b = middle - 1; b != middle + 2; b++) {
        int zeros = b & 0x7fffffu ? __builtin_ctz(b) : 23;
        if (bits_of(scale_of(coding, float_of(b))) != bits_of(x) || zeros <= found) continue;
        found = zeros;
        best = b;
    }
    *inexact += found < 0;
    return float_of(best);
}

float kerf_inverse_of(float x)
{
    uint64_t inexact = 0;
    return stored_of(KF_RECIPROCAL, x, &inexact);
}

static int is_another_number(kf_coding coding)
{
    return coding == KF_RECIPROCAL || coding == KF_TIMES_127;
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

/* Exponents in the last quarter of dst, which become floats from its beginning: 2^(byte - 127),
 * 0xff is NaN. */
static void widen_exponents(unsigned char *dst, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t byte = dst[3 * count + i];
        const uint32_t to = byte == 0xff ? 0x7fc00000u : byte == 0 ? 0x00400000u : byte << 23;
        memcpy(dst + 4 * i, &to, sizeof to);
    }
}

static void turn_back(kf_coding coding, unsigned char *p, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float x;
        memcpy(&x, p + 4 * i, sizeof x);
        x = scale_of(coding, x);
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
    int is_state = 0;
    if (last > 0) KF_TRY(kf_state_read(r, w->extra[last - 1], &state, &is_state, err));
    if (!is_state)
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

/* One number that a stack has for each of its matrices. */
static int is_for_all(const kerf_weight *w, const kerf_geometry *g, kerf_plane_id p)
{
    const kerf_plane *plane = &g->plane[p];
    return w->codec.format && plane->per_matrix && plane->dtype == KERF_F32 && g->matrices > 1 &&
           w->plane[p]->bytes == kerf_dtype_bits(w->plane[p]->dtype) / 8;
}

static kerf_status read_plane(const kerf_reader *r, const kerf_weight *w, const kerf_geometry *g,
                              kerf_plane_id p, uint64_t offset, void *dst, size_t n,
                              kerf_error *err)
{
    const kerf_tensor *t = w->plane[p];
    const kf_part *part = part_of(w, p);
    if (part->coding == KF_IN_STATE) return read_offset(r, w, offset, dst, n, err);
    if (part->coding == KF_BLOCK_CODES || part->coding == KF_BLOCK_SCALES)
        return kf_blocks_read(r, w, p, offset, dst, n, err);
    if (p == KERF_PLANE_SECOND && w->unit_second && !t)
        return read_ones(&g->plane[p], offset, dst, n, err);
    if (!t) return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "kerf_weight_read: no such plane");
    if (part->coding == KF_REORDERED) {
        uint64_t end, bytes = g->plane[p].bytes;
        const kf_turned turned = kf_turned_of(w, part, p);
        if (!kf_add_ok(offset, n, &end) || end > bytes)
            return kf_fail(err, KERF_E_ARG, offset, "kerf_weight_read: beyond the plane");
        return kf_turned_read(&turned, r, t, offset, dst, n, err);
    }
    if (w->codec.format && g->plane[p].dtype == KERF_F32 && t->dtype == KERF_F8_E8M0) {
        KF_TRY(kerf_reader_read(r, t, offset / 4, (unsigned char *)dst + n / 4 * 3, n / 4, err));
        widen_exponents(dst, n / 4);
        return KERF_OK;
    }
    if (w->codec.format && g->plane[p].dtype == KERF_F32 && kerf_dtype_bits(t->dtype) == 16) {
        KF_TRY(kerf_reader_read(r, t, offset / 2, (unsigned char *)dst + n / 2, n / 2, err));
        widen(dst, n / 4, t->dtype == KERF_F16);
        return KERF_OK;
    }
    KF_TRY(kerf_reader_read(r, t, offset, dst, n, err));
    if (part->coding == KF_FLIP) flip(dst, n, part->flip);
    if (is_another_number(part->coding)) turn_back(part->coding, dst, n / 4);
    return KERF_OK;
}

static kerf_status read_for_all(const kerf_reader *r, const kerf_weight *w, const kerf_geometry *g,
                                kerf_plane_id p, uint64_t offset, void *dst, size_t n,
                                kerf_error *err)
{
    uint64_t end;
    float x;
    if (!kf_add_ok(offset, n, &end) || end > g->plane[p].bytes)
        return kf_fail(err, KERF_E_ARG, offset, "kerf_weight_read: beyond the plane");
    KF_TRY(read_plane(r, w, g, p, 0, &x, sizeof x, err));
    for (size_t i = 0; i + sizeof x <= n; i += sizeof x)
        memcpy((unsigned char *)dst + i, &x, sizeof x);
    return KERF_OK;
}

kerf_status kerf_weight_read(const kerf_reader *r, const kerf_weight *w, kerf_plane_id p,
                             uint64_t offset, void *dst, size_t n, kerf_error *err)
{
    const kerf_geometry g = kerf_weight_geometry(w);
    if (w->plane[p] && is_for_all(w, &g, p)) return read_for_all(r, w, &g, p, offset, dst, n, err);
    return read_plane(r, w, &g, p, offset, dst, n, err);
}

kerf_status kerf_weight_inexact(const kerf_reader *r, const kerf_weight *w, uint64_t *count,
                                kerf_error *err)
{
    *count = 0;
    for (kerf_plane_id p = 0; p < KERF_PLANES; p++) {
        const kf_coding coding = part_of(w, p)->coding;
        if (!w->plane[p] || !is_another_number(coding)) continue;
        for (uint64_t at = 0; at + 4 <= w->plane[p]->bytes; at += 4) {
            float stored, x;
            uint64_t rounded = 0;
            KF_TRY(kerf_reader_read(r, w->plane[p], at, &stored, sizeof stored, err));
            x = stored_of(coding, scale_of(coding, stored), &rounded);
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
    float offset; /* of KF_IN_STATE */
    kf_window window[KERF_PLANES];
    kf_interleaver interleaver; /* of blocks */
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
    *out = NULL;
    kerf_weight_writer *ww = kf_alloc_zero(1, sizeof *ww);
    if (!ww) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a weight");
    ww->writer = w;
    const kerf_geometry g = kerf_weight_geometry(weight);
    ww->weight = weight;
    ww->stored = kf_stored_find(l, weight->codec.format);
    if (ww->stored && ww->stored->part[KERF_PLANE_CODES].coding == KF_BLOCK_CODES)
        kf_interleaver_init(&ww->interleaver, ww->stored, weight);
    for (size_t i = 0; kerf_layout_entry(l, weight, i, name, sizeof name, &entry, &plane); i++)
        *(plane == KERF_PLANES ? &ww->extra[extras++] : &ww->entry[plane]) = first + i;
    for (kerf_plane_id p = 0; ww->stored && p < KERF_PLANES; p++) {
        const kf_part *part = &ww->stored->part[p];
        if (g.plane[p].dtype == KERF_DTYPE_NONE || part->coding != KF_REORDERED) continue;
        kerf_status s = kf_window_open(&ww->window[p], kf_turned_of(weight, part, p), err);
        if (s == KERF_OK) continue;
        kerf_weight_writer_close(ww);
        return s;
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
        for (size_t i = 0; is_another_number(part->coding) && i + 4 <= part_bytes; i += 4) {
            float x;
            memcpy(&x, w->chunk + i, sizeof x);
            x = stored_of(part->coding, x, &w->inexact);
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
    if (part && part->coding == KF_UNLESS_ONE && w->weight->unit_second) return KERF_OK;
    if (!part || part->coding == KF_COPY || part->coding == KF_UNLESS_ONE)
        return kerf_writer_write(w->writer, w->entry[p], offset, src, n, err);
    if (part->coding == KF_BLOCK_CODES)
        return kf_interleaver_codes(&w->interleaver, offset, src, n, err);
    if (part->coding == KF_BLOCK_SCALES)
        return kf_interleaver_scales(&w->interleaver, w->writer, w->entry[KERF_PLANE_CODES], offset,
                                     src, n, err);
    if (part->coding == KF_IN_STATE) {
        if (offset == 0 && n == sizeof w->offset) memcpy(&w->offset, src, n);
        return KERF_OK;
    }
    if (part->coding != KF_REORDERED) return write_coded(w, part, w->entry[p], offset, src, n, err);
    uint64_t end;
    if (!kf_add_ok(offset, n, &end) || end > kerf_weight_geometry(w->weight).plane[p].bytes)
        return kf_fail(err, KERF_E_ARG, offset, "kerf_weight_writer_write: beyond the plane");
    return kf_window_write(&w->window[p], w->writer, w->entry[p], offset, src, n, err);
}

/* Words that are all alike, or count groups, until the entry is full. */
static kerf_status write_words(kerf_weight_writer *w, size_t entry, uint64_t count, uint32_t word,
                               uint64_t group, kerf_error *err)
{
    const uint64_t room = CHUNK_BYTES / sizeof word;
    for (uint64_t at = 0; at < count; at += room) {
        uint64_t n = kf_min_u64(room, count - at);
        for (uint64_t i = 0; i < n; i++) {
            uint32_t x = group ? (uint32_t)((at + i) / group) : word;
            memcpy(w->chunk + i * sizeof x, &x, sizeof x);
        }
        KF_TRY(
            kerf_writer_write(w->writer, entry, at * sizeof word, w->chunk, n * sizeof word, err));
    }
    return KERF_OK;
}

static kerf_status write_extra(kerf_weight_writer *w, size_t i, kerf_error *err)
{
    const kerf_weight *weight = w->weight;
    const kerf_geometry all = kerf_weight_geometry(weight), *g = &all;
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
    case KF_EXTRA_ROW_MAJOR: return kerf_writer_write(w->writer, w->extra[i], 0, "", 1, err);
    case KF_EXTRA_MIDDLE:
        return write_words(w, w->extra[i], g->band_groups * g->rows * g->format->bits / 32,
                           kf_middle_word(w->stored, g->format), 0, err);
    case KF_EXTRA_GROUP_INDEX:
        return write_words(w, w->extra[i], g->cols, 0, g->format->group, err);
    }
    return KERF_OK;
}

kerf_status kerf_weight_writer_finish(kerf_weight_writer *w, kerf_error *err)
{
    KF_TRY(kf_interleaver_finish(&w->interleaver, err));
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
    for (kerf_plane_id p = 0; p < KERF_PLANES; p++) kf_window_close(&w->window[p]);
    kf_interleaver_free(&w->interleaver);
    free(w);
}
