/* gemv_problem.h - a quantized matrix, sixteen vectors, and what their product must be in double.
 *
 * A problem is made once and run with many plans: fewer columns are a prefix of the sixteen. */
#ifndef KERF_TESTS_GEMV_PROBLEM_H
#define KERF_TESTS_GEMV_PROBLEM_H

#include "cpu/widen.h"
#include "format/format.h"
#include "scalar/pack.h"

#include <kerf/encode_matrix.h>
#include <kerf/gemv.h>

#define PROGRAM "gemv"
#include "gpu/fit_cols.h"
#include "gpu/zones.h"

#define COLUMNS KERF_GEMV_COLUMNS

typedef struct extent {
    size_t rows, cols;
} extent;

/* What y[c][r] must be, and what its bound is made of. */
typedef struct exact {
    double y, sum;
} exact;

typedef struct problem {
    const kerf_format *format;
    kerf_geometry g;
    size_t rows, cols;
    kerf_dtype x_type;
    uint8_t *plane[KERF_PLANES];
    float *w;           /* what the planes mean        */
    uint8_t *x;         /* COLUMNS x cols, of x_type   */
    exact *e;           /* COLUMNS x rows              */
    float *w_max;       /* per row                     */
    uint8_t *w_special; /* per row: 1 NaN, 2 infinite  */
    double x_max[COLUMNS];
    int x_special[COLUMNS];
} problem;

static problem problem_new(const kerf_format *f, size_t rows, size_t cols, kerf_dtype x_type)
{
    problem p = {.format = f, .rows = rows, .cols = fit_cols(f, cols), .x_type = x_type};
    kerf_shape shape = {2, {rows, p.cols}};
    need(kerf_geometry_init(&p.g, f, &shape, &error), "geometry");
    for (int k = 0; k < KERF_PLANES; k++) p.plane[k] = allocate((size_t)p.g.plane[k].bytes);
    p.w = allocate(rows * p.cols * sizeof *p.w);
    p.x = allocate(COLUMNS * p.cols * size_of(x_type));
    p.e = allocate(COLUMNS * rows * sizeof *p.e);
    p.w_max = allocate(rows * sizeof *p.w_max);
    p.w_special = allocate(rows);
    return p;
}

static void problem_free(problem *p)
{
    for (int k = 0; k < KERF_PLANES; k++) free(p->plane[k]);
    free(p->w);
    free(p->x);
    free(p->e);
    free(p->w_max);
    free(p->w_special);
}

/* Gives the matrix the values of the planes, to be called when those are final. */
static void decode_planes(problem *p)
{
    kerf_cspan planes[KERF_PLANES];
    for (int k = 0; k < KERF_PLANES; k++)
        planes[k] = (kerf_cspan){p->plane[k], (size_t)p->g.plane[k].bytes};
    kerf_span out = {p->w, p->rows * p->cols * sizeof *p->w};
    need(kerf_decode(&p->g, 0, p->g.bands, planes, out, KERF_F32, NULL, &error), "decode");
}

static void encode_planes(problem *p, const float *src)
{
    kerf_cspan in = {src, p->rows * p->cols * sizeof *src};
    kerf_span out[KERF_PLANES];
    kerf_geometry *g = &p->g;
    for (int k = 0; k < KERF_PLANES; k++)
        out[k] = (kerf_span){p->plane[k], (size_t)g->plane[k].bytes};
    need(kerf_encode_matrix(g, NULL, in, KERF_F32, out, NULL, NULL, &error), "encode");
    decode_planes(p);
}

/* A bell, as weights have; wide: flat between the ends of each run of 64, so that every code is
 * there, and the runs of very different size. */
static void fill_weights(problem *p, float size, int wide, uint64_t seed)
{
    size_t n = p->rows * p->cols;
    float *src = allocate(n * sizeof *src);
    for (size_t i = 0; i < n; i++) {
        float flat = (float)(int32_t)(uint32_t)mix(seed + i) * 0x1p-31f;
        int run = (int)(mix(seed + i / 64 * 977) % 9) - 4;
        src[i] = size * (wide ? ldexpf(flat, run) : bell(seed + i));
    }
    encode_planes(p, src);
    free(src);
}

/* Any bytes at all, in codes, scales and the rest. */
static void fill_bytes(problem *p, uint64_t seed)
{
    for (int k = 0; k < KERF_PLANES; k++)
        for (size_t i = 0; i < p->g.plane[k].bytes; i++)
            p->plane[k][i] = (uint8_t)mix(seed * 1000003 + (uint64_t)k * 0x10000000 + i);
    decode_planes(p);
}

static void set_x(problem *p, size_t column, size_t k, float x)
{
    kf_store(p->x_type, p->x, column * p->cols + k, x);
}

static void fill_x(problem *p, float size, uint64_t seed)
{
    for (size_t c = 0; c < COLUMNS; c++)
        for (size_t k = 0; k < p->cols; k++) set_x(p, c, k, size * bell(seed + c * 1000003 + k));
}

/* --- the reference ------------------------------------------------------------------------------
 */

typedef struct exact_job {
    problem *p;
    double *x; /* cols x COLUMNS */
} exact_job;

static kerf_status exact_row(void *ctx, uint64_t r)
{
    const exact_job *job = ctx;
    problem *p = job->p;
    double y[COLUMNS] = {0}, sum[COLUMNS] = {0};
    const float *w = p->w + r * p->cols;
    float largest = 0;
    int special = 0;
    for (size_t k = 0; k < p->cols; k++) {
        const double *x = job->x + k * COLUMNS;
        double v = (double)w[k];
        float size = fabsf(w[k]);
        special |= size != size ? 1 : isinf(size) ? 2 : 0;
        largest = size > largest ? size : largest;
        for (int c = 0; c < COLUMNS; c++) {
            double t = v * x[c];
            y[c] += t;
            sum[c] += fabs(t);
        }
    }
    for (size_t c = 0; c < COLUMNS; c++) p->e[c * p->rows + r] = (exact){y[c], sum[c]};
    p->w_max[r] = largest;
    p->w_special[r] = (uint8_t)special;
    return KERF_OK;
}

/* To be called when weights and x are final. */
static void solve(problem *p)
{
    exact_job job = {p, allocate(p->cols * COLUMNS * sizeof(double))};
    for (size_t c = 0; c < COLUMNS; c++) {
        p->x_max[c] = 0;
        p->x_special[c] = 0;
        for (size_t k = 0; k < p->cols; k++) {
            double x = (double)kf_load(p->x_type, p->x, c * p->cols + k);
            job.x[k * COLUMNS + c] = x;
            p->x_special[c] |= !isfinite(x);
            p->x_max[c] = fmax(p->x_max[c], fabs(x));
        }
    }
    need(kf_parallel(p->rows, 0, exact_row, &job), "reference");
    free(job.x);
}

/* Whether numbers are so large that gemv.h promises nothing. */
static int is_beyond(const problem *p, size_t c, size_t r)
{
    double largest = (double)p->cols * (double)p->w_max[r] * (1 + (double)p->x_max[c]);
    return gpu ? largest >= 0x1p100 : p->e[c * p->rows + r].sum >= 0x1p127;
}

/* What y may differ by before it is rounded: the promise of gemv.h, and this reference's own sums.
 */
static double tolerance(const problem *p, double bound, size_t c, size_t r)
{
    double n = (double)p->cols, w = (double)p->w_max[r];
    double lost = gpu ? 0x1p-39 * w * p->x_max[c] : 0; /* of x, on its way to fp16 */
    return (bound + n * 0x1p-52) * p->e[c * p->rows + r].sum +
           n * (lost + 0x1p-110 * w + 0x1p-148 * (1 + p->x_max[c]));
}

/* Whether a result is what gemv.h promises. */
static int is_right(const problem *p, double bound, size_t c, size_t r, double got)
{
    exact e = p->e[c * p->rows + r];
    if (p->w_special[r] & 1) return p->w_special[r] & 2 ? !isfinite(got) : isnan(got);
    if (p->w_special[r]) return 1;
    if (p->x_special[c]) return isnan(e.y) ? isnan(got) : got == e.y;
    if (is_beyond(p, c, r)) return 1;
    return fabs(got - e.y) <= tolerance(p, bound, c, r);
}

#endif
