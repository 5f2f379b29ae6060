/* product_kernel.h - one product of row_product.h for one kind of vector. The including file
 * defines
 *
 *   KF_PRODUCT     the function's name
 *   V, LANES       a vector of floats and how many
 *   V_LOAD(p), V_STORE(p, v), V_SPLAT(a), V_FMA(a, b, c) = a * b + c with one rounding
 *   ACROSS, TILE   vectors of a panel of outputs, rows of X at a time: ACROSS * TILE sums and
 *                  ACROSS weights live in registers
 *
 * W is packed into panels of LANES * ACROSS outputs, a slice of inputs at a time, so that one step
 * over the inputs is one load of neighbouring weights. Sums rest in Y between two slices. */
#include <string.h>

#include "cpu/product_ops.h"

#define PANEL ((size_t)LANES * ACROSS)
#define SLICE ((size_t)256) /* inputs; a panel of them stays in the first-level cache */

/* Four floats at any address, which every compiler turns about without leaving registers. */
typedef float four __attribute__((vector_size(16), aligned(4), may_alias));

/* Eight outputs, whose inputs are `step` apart in w, side by side: squares of four by four. */
static inline void pack_eight(float *panel, const float *w, size_t step, size_t depth)
{
    size_t k = 0;
    for (; k + 4 <= depth; k += 4)
        for (size_t half = 0; half < 8; half += 4) {
            const float *from = w + half * step + k;
            float *to = panel + k * PANEL + half;
            const four a = *(const four *)from, b = *(const four *)(from + step);
            const four c = *(const four *)(from + 2 * step), d = *(const four *)(from + 3 * step);
            *(four *)to = (four){a[0], b[0], c[0], d[0]};
            *(four *)(to + PANEL) = (four){a[1], b[1], c[1], d[1]};
            *(four *)(to + 2 * PANEL) = (four){a[2], b[2], c[2], d[2]};
            *(four *)(to + 3 * PANEL) = (four){a[3], b[3], c[3], d[3]};
        }
    for (; k < depth; k++)
        for (size_t j = 0; j < 8; j++) panel[k * PANEL + j] = w[j * step + k];
}

/* panel[k][PANEL] of `count` outputs; the others are zeros. */
static void pack_panel(float *restrict panel, const float *w, size_t count, size_t depth,
                       const kf_factor *f)
{
    if (count < PANEL) memset(panel, 0, depth * PANEL * sizeof *panel);
    if (f->step_output == 1) {
        for (size_t k = 0; k < depth; k++)
            memcpy(panel + k * PANEL, w + k * f->step_input, count * sizeof *panel);
        return;
    }
    size_t o = 0;
    for (; o + 8 <= count; o += 8)
        pack_eight(panel + o, w + o * f->step_output, f->step_output, depth);
    for (; o < count; o++)
        for (size_t k = 0; k < depth; k++) panel[k * PANEL + o] = w[o * f->step_output + k];
}

/* `rows` is a literal in every call, so that the sums live in registers. */
static inline __attribute__((always_inline)) void tile_rows(size_t rows, float *y, size_t y_stride,
                                                            const float *x, size_t x_stride,
                                                            const float *panel, size_t depth,
                                                            int first)
{
    V sum[TILE][ACROSS];
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < ACROSS; c++)
            sum[r][c] = first ? V_SPLAT(0.0f) : V_LOAD(y + r * y_stride + c * LANES);
    for (size_t k = 0; k < depth; k++, panel += PANEL) {
        V w[ACROSS];
        for (size_t c = 0; c < ACROSS; c++) w[c] = V_LOAD(panel + c * LANES);
        for (size_t r = 0; r < rows; r++) {
            const V a = V_SPLAT(x[r * x_stride + k]);
            for (size_t c = 0; c < ACROSS; c++) sum[r][c] = V_FMA(a, w[c], sum[r][c]);
        }
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < ACROSS; c++) V_STORE(y + r * y_stride + c * LANES, sum[r][c]);
}

/* The outputs of one panel. Those of a panel that is not whole go through `edge`. */
static void multiply_panel(const kf_rows *y, const kf_rows *x, size_t o, size_t k0, size_t depth,
                           const float *panel)
{
    const size_t width = y->columns - o < PANEL ? y->columns - o : PANEL;
    float edge[TILE][PANEL];
    for (size_t i = 0; i < x->rows;) {
        const size_t rows = x->rows - i < TILE ? 1 : TILE;
        float *to = y->p + i * y->stride + o;
        const float *from = x->p + i * x->stride + k0;
        size_t stride = y->stride;
        if (width < PANEL) {
            for (size_t r = 0; r < rows; r++)
                memcpy(edge[r], to + r * y->stride, width * sizeof(float));
            to = edge[0];
            stride = PANEL;
        }
        if (rows == TILE)
            tile_rows(TILE, to, stride, from, x->stride, panel, depth, k0 == 0);
        else
            tile_rows(1, to, stride, from, x->stride, panel, depth, k0 == 0);
        for (size_t r = 0; width < PANEL && r < rows; r++)
            memcpy(y->p + (i + r) * y->stride + o, edge[r], width * sizeof(float));
        i += rows;
    }
}

/* The slice of X stays in the second-level cache while all panels pass by. */
void KF_PRODUCT(kf_rows y, kf_rows x, kf_factor w, float *scratch)
{
    for (size_t k = 0; k < w.inputs; k += SLICE) {
        const size_t depth = w.inputs - k < SLICE ? w.inputs - k : SLICE;
        for (size_t o = 0; o < w.outputs; o += PANEL) {
            const size_t count = w.outputs - o < PANEL ? w.outputs - o : PANEL;
            pack_panel(scratch, w.p + o * w.step_output + k * w.step_input, count, depth, &w);
            multiply_panel(&y, &x, o, k, depth, scratch);
        }
    }
}
