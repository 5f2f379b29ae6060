/* view.c - reads what stands elsewhere in another order. Elements that follow each other in the
 * file are read at once: rows, or those of a column where rows are columns there.
 *
 * What a view reads may be a view itself, for which a single row costs as many reads of the file as
 * many rows do. So rows are asked for together, also where others lie between them.
 *
 * The maker of a view has checked that its elements are inside of the tensors that it is made of;
 * kerf_reader_read checks it again. */
#include "file/read/view.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define RUN_BYTES ((size_t)1 << 16)
#define ROWS_BYTES ((uint64_t)4 << 20) /* of rows that are read together to be put apart       */
#define LONG_ROW ((size_t)4096)        /* of a file's: so many bytes are a read of their own */
#define FAR_APART ((uint64_t)1 << 16)  /* and so are rows with so much between them          */

/* Some rows and columns of one matrix. */
typedef struct area {
    const kerf_reader *reader;
    const kerf_view *view;
    uint64_t matrix, row, rows, col, cols;
} area;

/* Some of the rows of kf_rows_read, through `room`, which has as many bytes. */
static kerf_status read_together(const kerf_reader *r, const kf_rows *from, uint64_t first,
                                 uint64_t count, unsigned char *room, unsigned char *dst,
                                 kerf_error *err)
{
    const size_t n = (size_t)((count - 1) * from->step + from->bytes);
    KF_TRY(kerf_reader_read(r, from->tensor, from->offset + first * from->step, room, n, err));
    for (uint64_t i = 0; i < count; i++)
        memcpy(dst + (first + i) * from->to_step, room + i * from->step, from->bytes);
    return KERF_OK;
}

kerf_status kf_rows_read(const kerf_reader *r, const kf_rows *from, unsigned char *dst,
                         kerf_error *err)
{
    const int in_turn = from->step == from->bytes && from->to_step == from->bytes;
    const int stands_alone = from->bytes >= LONG_ROW || from->step >= FAR_APART;
    const int are_single = !from->tensor->view && stands_alone;
    unsigned char *room = NULL;
    if (in_turn)
        return kerf_reader_read(r, from->tensor, from->offset, dst,
                                (size_t)(from->count * from->bytes), err);
    uint64_t most = are_single || from->step < from->bytes ? 1 : ROWS_BYTES / from->step;
    most = kf_min_u64(most ? most : 1, from->count);
    if (most > 1) KF_TRY(kf_allocate(&room, most * from->step, 1, err));
    kerf_status s = KERF_OK;
    for (uint64_t i = 0; s == KERF_OK && i < from->count; i += most) {
        const uint64_t n = kf_min_u64(most, from->count - i);
        s = room ? read_together(r, from, i, n, room, dst, err)
                 : kerf_reader_read(r, from->tensor, from->offset + i * from->step,
                                    dst + i * from->to_step, from->bytes, err);
    }
    free(room);
    return s;
}

/* Rows that several tensors have in turn. */
static kerf_status read_parts(const area *a, unsigned char *dst, kerf_error *err)
{
    const kerf_view *v = a->view;
    const size_t n = (size_t)(a->cols * v->size);
    for (uint64_t i = 0; i < kf_min_u64(v->parts, a->rows); i++) {
        const uint64_t row = a->row + i;
        const kf_rows rows = {
            .tensor = v->from[a->matrix * v->parts + row % v->parts],
            .offset = (row / v->parts * v->cols + a->col) * v->size,
            .count = (a->rows - i - 1) / v->parts + 1,
            .bytes = n,
            .step = v->cols * v->size,
            .to_step = v->parts * n,
        };
        KF_TRY(kf_rows_read(a->reader, &rows, dst + i * n, err));
    }
    return KERF_OK;
}

/* Rows of elements that follow each other. */
static kerf_status read_rows(const area *a, unsigned char *dst, kerf_error *err)
{
    const kerf_view *v = a->view;
    const kf_rows rows = {
        .tensor = v->from[0],
        .offset = (v->first + a->matrix * v->matrix + a->row * v->row + a->col) * v->size,
        .count = a->rows,
        .bytes = (size_t)(a->cols * v->size),
        .step = v->row * v->size,
        .to_step = a->cols * v->size,
    };
    return kf_rows_read(a->reader, &rows, dst, err);
}

/* Rows [row, row + rows), which are few enough for a run, of all columns. */
static kerf_status read_columns(const area *a, uint64_t row, uint64_t rows, unsigned char *dst,
                                kerf_error *err)
{
    const kerf_view *v = a->view;
    unsigned char run[RUN_BYTES];
    const size_t n = (size_t)(((rows - 1) * v->row + 1) * v->size);
    for (uint64_t c = 0; c < a->cols; c++) {
        uint64_t at = v->first + a->matrix * v->matrix + row * v->row + (a->col + c) * v->col;
        KF_TRY(kerf_reader_read(a->reader, v->from[0], at * v->size, run, n, err));
        for (uint64_t i = 0; i < rows; i++)
            memcpy(dst + (i * a->cols + c) * v->size, run + i * v->row * v->size, v->size);
    }
    return KERF_OK;
}

static kerf_status read_area(const area *a, unsigned char *dst, kerf_error *err)
{
    const kerf_view *v = a->view;
    const uint64_t row_bytes = a->cols * v->size;
    if (v->parts) return read_parts(a, dst, err);
    if (v->col == 1) return read_rows(a, dst, err);
    const uint64_t in_run = RUN_BYTES / v->size, most = v->row ? (in_run - 1) / v->row + 1 : 1;
    for (uint64_t i = 0; i < a->rows; i += most) {
        uint64_t n = kf_min_u64(most, a->rows - i);
        KF_TRY(read_columns(a, a->row + i, n, dst + i * row_bytes, err));
    }
    return KERF_OK;
}

/* The largest area of whole rows that begins at an element, or what is left of its row. */
static area area_at(const kerf_view *v, uint64_t element, uint64_t count)
{
    const uint64_t row = element / v->cols, in_matrix = row % v->rows;
    area a = {.view = v, .matrix = row / v->rows, .row = in_matrix, .rows = 1};
    a.col = element % v->cols;
    a.cols = kf_min_u64(count, v->cols - a.col);
    if (a.cols == v->cols) a.rows = kf_min_u64(count / v->cols, v->rows - in_matrix);
    return a;
}

kerf_status kf_view_read(const kerf_reader *r, const kerf_tensor *t, uint64_t offset,
                         unsigned char *dst, size_t n, kerf_error *err)
{
    const kerf_view *v = t->view;
    if (offset % v->size || n % v->size)
        return kf_fail(err, KERF_E_ARG, offset, "tensor \"%s\": parts of elements were asked for",
                       t->name);
    if (v->read) return v->read(r, t, offset, dst, n, err);
    for (uint64_t at = offset / v->size, end = (offset + n) / v->size; at < end;) {
        area a = area_at(v, at, end - at);
        a.reader = r;
        KF_TRY(read_area(&a, dst, err));
        dst += a.rows * a.cols * v->size;
        at += a.rows * a.cols;
    }
    return KERF_OK;
}

uint64_t kf_stored_bytes(const kerf_tensor *t)
{
    return t->view && t->view->stored_bytes ? t->view->stored_bytes : t->bytes;
}
