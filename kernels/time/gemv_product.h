/* gemv_product.h - a product to be timed: random weights of any size made of a small pattern, an x,
 * and how far a result is from the reference. All in host memory. */
#ifndef KERF_GEMV_PRODUCT_H
#define KERF_GEMV_PRODUCT_H

#include <kerf/gemv.h>

#include "base/base.h"

typedef struct gemv_product {
    kerf_gemv_shape shape;
    kerf_geometry whole, part; /* part: the first rows of random weights, which the whole repeats */
    kerf_span pattern[KERF_PLANES]; /* of the part */
    size_t plane_at[KERF_PLANES];   /* in a copy of the whole; a multiple of 256 */
    size_t copy_bytes;              /* likewise */
    kerf_span x;
} gemv_product;

/* shape: one matrix. Close it also after a failure. */
kerf_status gemv_product_open(gemv_product *p, const kerf_gemv_shape *shape, kerf_error *err);
void gemv_product_close(gemv_product *p); /* all zeros are fine */

/* The planes of the copy that begins here. */
void gemv_product_find(const gemv_product *p, const void *copy, kerf_cspan out[KERF_PLANES]);

/* Bytes of y, and its relative rms distance, in the first rows, from the reference: far apart only
 * when a kernel is wrong. */
size_t gemv_product_y_bytes(const gemv_product *p);
kerf_status gemv_product_error(const gemv_product *p, kerf_cspan y, int threads, double *out,
                               kerf_error *err);

/* n bytes, and one more, so that none is fine. */
kerf_status take_span(kerf_span *s, size_t n, kerf_error *err);

#endif
