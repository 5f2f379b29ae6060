/* matmul.h - Y = X W^T in float32, fast enough to judge a checkpoint in seconds.
 *
 * W is kept in panels of 16 outputs, so that one step over the inputs is one load of 16
 * neighbouring weights. Every output is one sum over the inputs in rising order, a product and an
 * addition each: the same bits on every machine, however rows are spread over threads. */
#ifndef KERF_E2E_MATMUL_H
#define KERF_E2E_MATMUL_H

#include <stddef.h>

#define PANEL 16

/* outputs x inputs, as [panel][input][16]; the last panel is padded with zeros. */
typedef struct matrix {
    size_t outputs, inputs;
    float *panels;
} matrix;

/* Floats that the panels of a matrix take. */
size_t matrix_floats(size_t outputs, size_t inputs);

/* Fills the panels of m from w: the weight of output o and input k is w[o * step_output +
 * k * step_input], so that a matrix, its transpose or one head of it can be taken. */
void matrix_pack(matrix *m, const float *w, size_t step_output, size_t step_input);

/* A run of rows inside a larger array. */
typedef struct view {
    float *p;
    size_t count, stride;
} view;

/* y[i][o] = sum over k of x[i][k] w[o][k]; y has at least w->outputs columns. */
void matmul(view y, view x, const matrix *w);

#endif
