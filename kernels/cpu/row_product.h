/* row_product.h - Y = X W^T in float32 for many rows of X: what a forward pass consists of.
 *
 * Every output is one chain of fused multiply-adds over the inputs in rising order, begun at 0:
 * the same bits for every width of vector, tile and number of threads. A processor without fused
 * multiply-add takes them from the C library, one at a time. */
#ifndef KERF_CPU_ROW_PRODUCT_H
#define KERF_CPU_ROW_PRODUCT_H

#include <stddef.h>

/* X or Y: rows of `columns` floats, `stride` floats apart. */
typedef struct kf_rows {
    float *p;
    size_t rows, columns, stride;
} kf_rows;

/* W: the weight of output o and input k is p[o * step_output + k * step_input]; one of the steps
 * is 1. */
typedef struct kf_factor {
    const float *p;
    size_t outputs, inputs, step_output, step_input;
} kf_factor;

/* Floats of scratch that one thread needs for a product, on any machine. */
#define KF_PRODUCT_SCRATCH ((size_t)32 * 256)

/* y = x w^T in the calling thread. x.columns == w.inputs, y.columns == w.outputs. */
typedef void kf_product(kf_rows y, kf_rows x, kf_factor w, float *scratch);

#endif
