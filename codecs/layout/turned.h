/* turned.h - tensors that hold a plane in another order: their rows are its columns, or one of
 * their words holds codes of one column instead of one row.
 *
 * A plane is cut into units: single rows, or as many rows as a word has codes. The elements of a
 * unit follow each other in the tensor (KF_FORM_STACK), or the n-th elements of all units do (the
 * turned forms). */
#ifndef KERF_LAYOUT_TURNED_H
#define KERF_LAYOUT_TURNED_H

#include "layout/layout_table.h"

typedef struct kf_turned {
    const kf_part *part;
    uint64_t rows, row_bytes;   /* of the plane                                     */
    uint64_t units, cols;       /* of the tensor: cols elements in each unit        */
    unsigned per_unit;          /* rows                                             */
    unsigned size, bits;        /* bytes of an element of the tensor; bits of a code */
    int is_turned;              /* n-th elements of units follow each other         */
    unsigned char position[32]; /* of the code of each row of a unit in its word    */
} kf_turned;

/* Of a part whose coding is KF_REORDERED; the geometry of w must fit its row of the table. */
kf_turned kf_turned_of(const kerf_weight *w, const kf_part *part, kerf_plane_id p);

/* A dense matrix [rows, cols] of elements of `size` bytes whose rows are columns in its tensor. */
kf_turned kf_turned_dense(uint64_t rows, uint64_t cols, unsigned size);

/* Reads n bytes of the plane from its byte `offset`, which must be inside. */
kerf_status kf_turned_read(const kf_turned *a, const kerf_reader *r, const kerf_tensor *t,
                           uint64_t offset, unsigned char *dst, size_t n, kerf_error *err);

/* Rows that were given but not written yet: each element of the tensor needs several rows. Of a
 * large plane only a part is kept at a time, so its rows must come in order. */
typedef struct kf_window {
    kf_turned turned;
    unsigned char *bytes;
    uint64_t first, most, filled; /* row, rows, bytes */
    uint64_t base;                /* of the matrix in the entry */
} kf_window;

kerf_status kf_window_open(kf_window *w, kf_turned a, kerf_error *err);
void kf_window_close(kf_window *w); /* all zeros are fine */
/* Goes on with the first row of the next matrix of the entry; all rows of this one were given. */
void kf_window_next_matrix(kf_window *w);

/* Takes n bytes of the plane from its byte `offset`; writes what is complete into an entry. */
kerf_status kf_window_write(kf_window *w, kerf_writer *to, size_t entry, uint64_t offset,
                            const unsigned char *src, size_t n, kerf_error *err);

#endif
