/* patterns.h - the sources of the exhaustive test of blocks: every finite number of a 16-bit type
 * in some group, under a largest element of every mantissa.
 *
 * A group holds neighbours in magnitude, with both signs; its largest element lies 0 to D binades
 * above them, D as wide as the element type, so that each number meets the top, the middle and the
 * subnormal end of the grid. Matrices with a second-level scale draw its amax up to 20 binades
 * above that: scales become subnormal and vanish. Then there are groups and matrices of zeros. */
#ifndef KERF_TEST_PATTERNS_H
#define KERF_TEST_PATTERNS_H

#include "exhaustive/coded.h"

enum { MANTISSAS = 128 };

/* How the groups of a format are laid out in a test tensor [matrices, rows, cols]. */
typedef struct layout {
    kerf_dtype type;        /* of the source                                     */
    unsigned rows, cols;    /* of a matrix                                       */
    unsigned groups, width; /* per matrix; elements of one                       */
    unsigned payload;       /* groups per matrix that hold numbers to be tested  */
    unsigned binades;       /* between those and the largest element of a group  */
} layout;

layout layout_of(const kerf_format *f, kerf_dtype type);

/* Matrices that hold all finite numbers once; the last is one of zeros. */
uint64_t layout_matrices(const layout *l);

/* Matrix k under mantissa m, as fp16 or bfloat16 bits. An fp32 source has bfloat16 numbers, in
 * every second matrix with random bits below, in `x` alone. one_sided: magnitudes only, so that the
 * range of a group ends at zero. `x` holds the same as numbers. */
void fill_matrix(uint16_t *bits, float *x, const layout *l, uint64_t k, unsigned m, int one_sided);

#endif
