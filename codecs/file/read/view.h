/* view.h - tensors that are made of others while they are read: a part of one, its rows in another
 * order, or the rows of several in turn. No file has them under their own name, but they have a
 * name, a type and a shape, and kerf_reader_read reads them like any tensor. */
#ifndef KERF_FILE_VIEW_H
#define KERF_FILE_VIEW_H

#include <kerf/file.h>

struct kerf_view {
    uint64_t rows, cols; /* of a matrix of the view                                          */
    unsigned size;       /* bytes of an element                                              */
    /* Row r of matrix m is row r / parts of from[m * parts + r % parts]. 0: there is one, and its
     * element first + m * matrix + r * row + c * col is element [m, r, c] of the view.      */
    unsigned parts;
    const kerf_tensor *const *from;
    uint64_t first, matrix, row, col;
    /* not NULL: the elements are computed, and nothing above but `size` means anything; called as
     * kf_view_read is, for whole elements inside of the tensor */
    kerf_status (*read)(const kerf_reader *r, const kerf_tensor *t, uint64_t offset,
                        unsigned char *dst, size_t n, kerf_error *err);
    const void *ctx;       /* of `read`                                                    */
    const kerf_tensor *of; /* whose elements these are in another order or type; or NULL  */
    uint64_t stored_bytes; /* of what the files have of it, where that is not as many; or 0 */
};

/* Bytes that the files have of a tensor, or of what it is computed from. */
uint64_t kf_stored_bytes(const kerf_tensor *t);

/* Reads n bytes from byte `offset`; both whole elements and inside the tensor. */
kerf_status kf_view_read(const kerf_reader *r, const kerf_tensor *t, uint64_t offset,
                         unsigned char *dst, size_t n, kerf_error *err);

/* Rows of a tensor that lie `step` bytes after each other, and go as far apart to dst. */
typedef struct kf_rows {
    const kerf_tensor *tensor;
    uint64_t offset, count; /* where the first one begins, and how many there are */
    size_t bytes;           /* of a row                                           */
    uint64_t step, to_step; /* at least `bytes`                                   */
} kf_rows;

/* Reads them together, with what lies between them, through memory of at most some MiB; those that
 * follow each other here and there go where they belong at once. */
kerf_status kf_rows_read(const kerf_reader *r, const kf_rows *from, unsigned char *dst,
                         kerf_error *err);

#endif
