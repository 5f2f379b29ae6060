/* turned.c - planes whose elements stand in another order in the tensor that stores them.
 *
 * Such a tensor is read in runs: the n-th elements of some units follow each
 * other. So a few units are read at a time, all of their elements, and rows are made of them. What
 * is written is gathered until a window of rows is complete; its runs are then as long as a window
 * is high, for small writes cost time and memory (ledger.h).
 *
 * Sizes are products of numbers of a plane and of a tensor that kerf_geometry_init and the reader
 * (or the writer's plan) have checked: no unit is larger than the tensor, whose bytes are there, so
 * that none of them can wrap, and memory is a batch, a window or one unit. */
#include "layout/turned.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define BATCH_BYTES ((uint64_t)4 << 20)   /* that are read before rows are made of them */
#define WINDOW_BYTES ((uint64_t)32 << 20) /* of rows that wait to be written            */
#define CHUNK_BYTES ((size_t)1 << 16)

kf_turned kf_turned_of(const kerf_weight *w, const kf_part *part, kerf_plane_id p)
{
    const kerf_geometry all = kerf_weight_geometry(w), *g = &all;
    const int stack = part->form == KF_FORM_STACK || part->form == KF_FORM_TURNED_STACK;
    kf_turned a = {.part = part, .rows = g->rows, .row_bytes = g->plane[p].band_bytes};
    a.bits = g->format->bits;
    a.size = stack || part->form == KF_FORM_TURNED_WORDS ? 4 : kerf_dtype_bits(part->dtype) / 8;
    a.per_unit = stack ? 32 / a.bits : 1;
    a.units = a.rows / a.per_unit;
    a.cols = !stack ? a.row_bytes / a.size : p == KERF_PLANE_CODES ? g->cols : g->band_groups;
    a.is_turned = part->form != KF_FORM_STACK;
    for (unsigned i = 0; i < a.per_unit; i++)
        a.position[part->order ? part->order[i] : (int)i] = (unsigned char)i;
    return a;
}

kf_turned kf_turned_dense(uint64_t rows, uint64_t cols, unsigned size)
{
    static const kf_part plain = {.form = KF_FORM_TURNED, .coding = KF_REORDERED};
    return (kf_turned){.part = &plain,
                       .rows = rows,
                       .row_bytes = cols * size,
                       .units = rows,
                       .cols = cols,
                       .per_unit = 1,
                       .size = size,
                       .bits = 8 * size,
                       .is_turned = 1};
}

/* --- one element --- */

static uint32_t code_mask(const kf_turned *a)
{
    return a->bits < 32 ? (1u << a->bits) - 1 : UINT32_MAX; /* of whole elements: all bits */
}

static unsigned get_code(const unsigned char *row, unsigned bits, uint64_t i)
{
    return (unsigned)row[i * bits / 8] >> i * bits % 8 & ((1u << bits) - 1);
}

/* Element `col` of the unit whose rows begin at `rows`, as it stands in the tensor. */
static void gather_element(const kf_turned *a, const unsigned char *rows, uint64_t col,
                           unsigned char *out)
{
    const uint32_t turn = a->part->flip & code_mask(a);
    uint32_t word = 0;
    if (a->per_unit == 1) {
        for (unsigned i = 0; i < a->size; i++) out[i] = rows[col * a->size + i] ^ a->part->flip;
        return;
    }
    for (unsigned i = 0; i < a->per_unit; i++) {
        uint32_t code = get_code(rows + i * a->row_bytes, a->bits, col) ^ turn;
        word |= ((code - a->part->less) & code_mask(a)) << a->position[i] * a->bits;
    }
    memcpy(out, &word, sizeof word);
}

/* Puts what an element holds of row `i` of its unit into that row. */
static void scatter_element(const kf_turned *a, const unsigned char *element, unsigned i,
                            uint64_t col, unsigned char *row)
{
    uint32_t word;
    if (a->per_unit == 1) {
        for (unsigned k = 0; k < a->size; k++) row[col * a->size + k] = element[k] ^ a->part->flip;
        return;
    }
    memcpy(&word, element, sizeof word);
    uint32_t code = ((word >> a->position[i] * a->bits) + a->part->less) & code_mask(a);
    code ^= a->part->flip & code_mask(a);
    unsigned char *byte = &row[col * a->bits / 8];
    *byte = (unsigned char)(*byte | code << col * a->bits % 8);
}

/* --- read --- */

/* Units [first, first + count), as they stand in the tensor, into `batch`. */
static kerf_status read_batch(const kf_turned *a, const kerf_reader *r, const kerf_tensor *t,
                              uint64_t first, uint64_t count, unsigned char *batch, kerf_error *err)
{
    const uint64_t all = a->cols * count * a->size;
    if (!a->is_turned) return kerf_reader_read(r, t, first * a->cols * a->size, batch, all, err);
    if (count == a->units) return kerf_reader_read(r, t, 0, batch, all, err);
    for (uint64_t c = 0; c < a->cols; c++)
        KF_TRY(kerf_reader_read(r, t, (c * a->units + first) * a->size, batch + c * count * a->size,
                                count * a->size, err));
    return KERF_OK;
}

static void make_row(const kf_turned *a, const unsigned char *batch, uint64_t count, uint64_t unit,
                     unsigned i, unsigned char *row)
{
    memset(row, 0, a->row_bytes);
    for (uint64_t c = 0; c < a->cols; c++) {
        uint64_t at = a->is_turned ? c * count + unit : unit * a->cols + c;
        scatter_element(a, batch + at * a->size, i, c, row);
    }
}

kerf_status kf_turned_read(const kf_turned *a, const kerf_reader *r, const kerf_tensor *t,
                           uint64_t offset, unsigned char *dst, size_t n, kerf_error *err)
{
    if (n == 0) return KERF_OK;
    const uint64_t last = (offset + n - 1) / a->row_bytes / a->per_unit;
    uint64_t unit = offset / a->row_bytes / a->per_unit;
    uint64_t most = BATCH_BYTES / (a->cols * a->size);
    most = kf_min_u64(most ? most : 1, last - unit + 1);
    unsigned char *batch = kf_alloc(a->cols * a->size * most + a->row_bytes, 1);
    if (!batch) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a part of a plane");
    unsigned char *row = batch + a->cols * a->size * most;
    kerf_status s = KERF_OK;
    for (; unit <= last && s == KERF_OK; unit += most) {
        uint64_t count = kf_min_u64(most, last - unit + 1);
        s = read_batch(a, r, t, unit, count, batch, err);
        for (uint64_t i = 0; s == KERF_OK && i < count * a->per_unit && n > 0; i++) {
            uint64_t at = (unit * a->per_unit + i) * a->row_bytes;
            if (at + a->row_bytes <= offset) continue;
            size_t skip = (size_t)(offset - at);
            size_t take = (size_t)kf_min_u64(n, a->row_bytes - skip);
            make_row(a, batch, count, i / a->per_unit, (unsigned)(i % a->per_unit), row);
            memcpy(dst, row + skip, take);
            dst += take;
            offset += take;
            n -= take;
        }
    }
    free(batch);
    return s;
}

/* --- write --- */

kerf_status kf_window_open(kf_window *w, kf_turned a, kerf_error *err)
{
    uint64_t most = WINDOW_BYTES / (a.row_bytes * a.per_unit);
    most = kf_min_u64(most ? most : 1, a.units) * a.per_unit;
    *w = (kf_window){.turned = a, .most = most, .bytes = kf_alloc(most, a.row_bytes)};
    if (w->bytes) return KERF_OK;
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for rows that are turned");
}

void kf_window_close(kf_window *w)
{
    free(w->bytes);
    *w = (kf_window){.bytes = NULL};
}

void kf_window_next_matrix(kf_window *w)
{
    w->base += w->turned.rows * w->turned.row_bytes;
    w->first = w->filled = 0;
}

/* Elements that follow each other in the tensor. */
typedef struct run {
    kerf_writer *to;
    size_t entry, n;
    uint64_t offset;
    unsigned char bytes[CHUNK_BYTES];
} run;

static kerf_status end_run(run *r, kerf_error *err)
{
    if (r->n == 0) return KERF_OK;
    KF_TRY(kerf_writer_write(r->to, r->entry, r->offset, r->bytes, r->n, err));
    r->offset += r->n;
    r->n = 0;
    return KERF_OK;
}

static kerf_status add_element(run *r, const kf_window *w, uint64_t unit, uint64_t col,
                               kerf_error *err)
{
    const kf_turned *a = &w->turned;
    const uint64_t there = w->first / a->per_unit + unit;
    const uint64_t at =
        w->base + (a->is_turned ? col * a->units + there : there * a->cols + col) * a->size;
    if (at != r->offset + r->n || r->n == CHUNK_BYTES) {
        KF_TRY(end_run(r, err));
        r->offset = at;
    }
    gather_element(a, w->bytes + unit * a->per_unit * a->row_bytes, col, r->bytes + r->n);
    r->n += a->size;
    return KERF_OK;
}

static kerf_status write_elements(run *r, const kf_window *w, uint64_t units, kerf_error *err)
{
    const uint64_t cols = w->turned.cols;
    for (uint64_t i = 0; i < units * cols; i++) {
        uint64_t unit = w->turned.is_turned ? i % units : i / cols;
        KF_TRY(add_element(r, w, unit, w->turned.is_turned ? i / units : i % cols, err));
    }
    return end_run(r, err);
}

static uint64_t rows_in(const kf_window *w)
{
    return kf_min_u64(w->most, w->turned.rows - w->first);
}

static kerf_status empty_window(kf_window *w, kerf_writer *to, size_t entry, kerf_error *err)
{
    run *r = kf_alloc(1, sizeof *r);
    if (!r) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for rows that are turned");
    r->to = to;
    r->entry = entry;
    r->n = 0;
    r->offset = 0;
    kerf_status s = write_elements(r, w, rows_in(w) / w->turned.per_unit, err);
    free(r);
    w->first += rows_in(w);
    w->filled = 0;
    return s;
}

kerf_status kf_window_write(kf_window *w, kerf_writer *to, size_t entry, uint64_t offset,
                            const unsigned char *src, size_t n, kerf_error *err)
{
    while (n > 0) {
        const uint64_t begin = w->first * w->turned.row_bytes;
        const uint64_t bytes = rows_in(w) * w->turned.row_bytes;
        if (offset < begin || offset - begin >= bytes)
            return kf_fail(err, KERF_E_ARG, offset,
                           "kerf_weight_writer_write: rows of a large plane out of order");
        size_t take = (size_t)kf_min_u64(n, bytes - (offset - begin));
        memcpy(w->bytes + (offset - begin), src, take);
        w->filled += take;
        src += take;
        offset += take;
        n -= take;
        if (w->filled == bytes) KF_TRY(empty_window(w, to, entry, err));
    }
    return KERF_OK;
}
