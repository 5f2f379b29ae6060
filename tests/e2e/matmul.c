/* matmul.c - see matmul.h. A tile is as many rows as leave its sums, the weights and the inputs in
 * sixteen vector registers. Wider vectors hold more sums, never parts of one, and nothing is
 * contracted into a fused multiply-add: the bits do not depend on the machine. */
#include "matmul.h"

#include <string.h>

size_t matrix_floats(size_t outputs, size_t inputs)
{
    return (outputs + PANEL - 1) / PANEL * PANEL * inputs;
}

void matrix_pack(matrix *m, const float *w, size_t step_output, size_t step_input)
{
    memset(m->panels, 0, matrix_floats(m->outputs, m->inputs) * sizeof(float));
    for (size_t o = 0; o < m->outputs; o++) {
        float *panel = m->panels + o / PANEL * PANEL * m->inputs + o % PANEL;
        for (size_t k = 0; k < m->inputs; k++)
            panel[k * PANEL] = w[o * step_output + k * step_input];
    }
}

#define MATMUL matmul_any
#define TARGET
#define LANES 4
#define TILE 2
#include "matmul_tmpl.h"

#ifdef __x86_64__
#define MATMUL matmul_avx2
#define TARGET __attribute__((target("avx2")))
#define LANES 8
#define TILE 4
#include "matmul_tmpl.h"
#endif

void matmul(view y, view x, const matrix *w)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        matmul_avx2(y, x, w);
        return;
    }
#endif
    matmul_any(y, x, w);
}
