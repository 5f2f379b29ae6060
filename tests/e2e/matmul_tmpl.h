/* matmul_tmpl.h - one matrix product for one width of vector; matmul.c includes it once for each,
 * with MATMUL (the function's name), TARGET (its attribute), LANES (floats of a vector) and TILE
 * (rows of x at a time) defined, and every name that it makes derived from MATMUL. */
#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define VEC JOIN(MATMUL, vec)

/* LANES floats at any address. */
typedef float VEC __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* out[count][PANEL] = the products of one panel with `count` rows of x. `count` is a literal in
 * every call, so that the sums live in registers. */
TARGET static inline __attribute__((always_inline)) void
JOIN(MATMUL, tile)(size_t count, float out[][PANEL], view x, const float *panel, size_t inputs)
{
    VEC sum[TILE][PANEL / LANES] = {{{0}}};
    for (size_t k = 0; k < inputs; k++, panel += PANEL)
        for (size_t r = 0; r < count; r++) {
            float a = x.p[r * x.stride + k];
            for (size_t c = 0; c < PANEL / LANES; c++)
                sum[r][c] += a * *(const VEC *)(panel + c * LANES);
        }
    for (size_t r = 0; r < count; r++)
        for (size_t c = 0; c < PANEL / LANES; c++) *(VEC *)(out[r] + c * LANES) = sum[r][c];
}

TARGET static void MATMUL(view y, view x, const matrix *w)
{
    float out[TILE][PANEL];
    for (size_t o = 0; o < w->outputs; o += PANEL) {
        const float *panel = w->panels + o * w->inputs;
        size_t width = w->outputs - o < PANEL ? w->outputs - o : PANEL;
        for (size_t i = 0; i < x.count;) {
            view from = {x.p + i * x.stride, x.count - i, x.stride};
            size_t count = from.count < TILE ? 1 : TILE;
            if (count == TILE)
                JOIN(MATMUL, tile)(TILE, out, from, panel, w->inputs);
            else
                JOIN(MATMUL, tile)(1, out, from, panel, w->inputs);
            for (size_t r = 0; r < count; r++, i++)
                memcpy(y.p + i * y.stride + o, out[r], width * sizeof(float));
        }
    }
}

#undef VEC
#undef JOIN
#undef JOIN_
#undef MATMUL
#undef TARGET
#undef LANES
#undef TILE
