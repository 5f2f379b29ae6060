/* gemv_product.h - a product to be timed: weights of any size, made of a small pattern of random
 * rows that repeats; an x; and how far a result is from the reference. All in host memory. */
#ifndef KERF_GEMV_PRODUCT_H
#define KERF_GEMV_PRODUCT_H

#include <kerf/gemv.h>

#include "base/base.h"

typedef struct kf_gemv_product {
    kerf_gemv_shape shape;
    kerf_geometry whole, part; /* part: the first rows of random weights, which the whole repeats */
    kerf_span pattern[KERF_PLANES]; /* of the part */
    size_t plane_at[KERF_PLANES];   /* in a copy of the whole; a multiple of 256 */
    size_t copy_bytes;              /* likewise */
    kerf_span x;
} kf_gemv_product;

/* shape: one matrix. Close it also after a failure. */
kerf_status kf_gemv_product_open(kf_gemv_product *p, const kerf_gemv_shape *shape, kerf_error *err);
void kf_gemv_product_close(kf_gemv_product *p); /* all zeros are fine */

/* The planes of the copy that begins here. */
void kf_gemv_product_find(const kf_gemv_product *p, const void *copy, kerf_cspan out[KERF_PLANES]);

/* Bytes of y, and its relative rms distance, in the first rows, from the reference: a large one
 * means that a kernel is wrong. */
size_t kf_gemv_product_y_bytes(const kf_gemv_product *p);
kerf_status kf_gemv_product_error(const kf_gemv_product *p, kerf_cspan y, int threads, double *out,
                                  kerf_error *err);

/* Allocates n zeroed bytes, which may be none. */
kerf_status kf_take_span(kerf_span *s, size_t n, kerf_error *err);

#endif
