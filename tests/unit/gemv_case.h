/* gemv_case.h - a quantized matrix with vectors, and what their product must be: in double, from
 * what kerf_decode says the matrix is. */
#ifndef KERF_TESTS_GEMV_CASE_H
#define KERF_TESTS_GEMV_CASE_H

#include <kerf/encode_matrix.h>
#include <kerf/gemv.h>

#include "block/all.h"
#include "block/struct.h"
#include "cpu/widen.h"
#include "format/format.h"
#include "scalar/pack.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

typedef struct gemv_case {
    kerf_geometry g;
    size_t rows, cols;
    unsigned columns;
    uint8_t *plane[KERF_PLANES];
    float *w;       /* decoded                                  */
    float *x;       /* columns x cols, numbers of type x_type   */
    uint8_t *x_raw; /* the same in x_type                       */
    kerf_dtype x_type;
} gemv_case;

static inline uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* In [-1, 1), with 15 bits. */
static inline float random_unit(uint64_t *state)
{
    return (float)((int)(next_random(state) & 0xffff) - 0x8000) / 32768.0f;
}

static inline void *must_alloc(size_t n)
{
    void *p = calloc(n ? n : 1, 1);
    assert_non_null(p);
    return p;
}

/* Columns that the format can hold: structs have no short rows. */
static inline size_t fit_cols(const kerf_format *f, size_t cols)
{
    if (!kf_is_inline(kf_spec_of(f))) return cols;
    size_t n = kf_inline_elements(kf_spec_of(f));
    return (cols + n - 1) / n * n;
}

static inline gemv_case case_new(const kerf_format *f, size_t rows, size_t cols, unsigned columns,
                                 kerf_dtype x_type)
{
    gemv_case c = {.rows = rows, .cols = fit_cols(f, cols), .columns = columns, .x_type = x_type};
    kerf_shape shape = {2, {rows, c.cols}};
    assert_int_equal(kerf_geometry_init(&c.g, f, &shape, NULL), KERF_OK);
    for (int p = 0; p < KERF_PLANES; p++) c.plane[p] = must_alloc((size_t)c.g.plane[p].bytes);
    c.w = must_alloc(rows * c.cols * sizeof *c.w);
    c.x = must_alloc(columns * c.cols * sizeof *c.x);
    c.x_raw = must_alloc(columns * c.cols * sizeof *c.x);
    return c;
}

static inline void case_free(gemv_case *c)
{
    for (int p = 0; p < KERF_PLANES; p++) free(c->plane[p]);
    free(c->w);
    free(c->x);
    free(c->x_raw);
}

static inline void case_planes(const gemv_case *c, kerf_cspan out[KERF_PLANES])
{
    for (int p = 0; p < KERF_PLANES; p++)
        out[p] = (kerf_cspan){c->plane[p], (size_t)c->g.plane[p].bytes};
}

/* Decodes the planes, to be called when they are final. */
static inline void case_decode(gemv_case *c)
{
    kerf_cspan planes[KERF_PLANES];
    case_planes(c, planes);
    kerf_span out = {c->w, c->rows * c->cols * sizeof *c->w};
    assert_int_equal(kerf_decode(&c->g, 0, c->g.bands, planes, out, KERF_F32, NULL, NULL), KERF_OK);
}

/* Encodes normal-ish random weights of this size. */
static inline void case_encode(gemv_case *c, float size, uint64_t seed)
{
    size_t n = c->rows * c->cols;
    float *src = must_alloc(n * sizeof *src);
    kerf_cspan in = {src, n * sizeof *src};
    kerf_span out[KERF_PLANES];
    for (size_t i = 0; i < n; i++)
        src[i] = size * (random_unit(&seed) + random_unit(&seed) * random_unit(&seed));
    for (int p = 0; p < KERF_PLANES; p++)
        out[p] = (kerf_span){c->plane[p], (size_t)c->g.plane[p].bytes};
    assert_int_equal(kerf_encode_matrix(&c->g, NULL, in, KERF_F32, out, NULL, NULL, NULL), KERF_OK);
    free(src);
    case_decode(c);
}

/* Every byte of every plane: scales and codes that are NaN or infinite, and subnormal ones. */
static inline void case_random_planes(gemv_case *c, uint64_t seed)
{
    for (int p = 0; p < KERF_PLANES; p++)
        for (size_t i = 0; i < c->g.plane[p].bytes; i++)
            c->plane[p][i] = (uint8_t)next_random(&seed);
    case_decode(c);
}

static inline void case_set_x(gemv_case *c, size_t i, float x)
{
    kf_store(c->x_type, c->x_raw, i, x);
    c->x[i] = kf_load(c->x_type, c->x_raw, i);
}

static inline void case_random_x(gemv_case *c, float size, uint64_t seed)
{
    for (size_t i = 0; i < c->columns * c->cols; i++)
        case_set_x(c, i, size * random_unit(&seed) * (i % 7 == 0 ? 4 : 1));
}

static inline int has_minima(const kerf_format *f)
{
    const kf_spec s = kf_spec_of(f);
    return s.geometry == KERF_GROUP_SUPER && kf_super_of(s).m;
}

/* Blocks of which each element is an infinity less another, and so NaN, though their codes and
 * their minima alone, times the x of this case, are infinities of one sign. */
static inline void case_infinite_minima(gemv_case *c)
{
    const kf_spec s = kf_spec_of(c->g.format);
    const kf_super k = kf_super_of(s);
    memset(c->plane[0], 0, (size_t)c->g.plane[0].bytes);
    for (size_t i = 0; i < c->rows * c->cols; i++) {
        uint8_t *block = c->plane[0] + i / k.elements * k.bytes;
        const unsigned in = (unsigned)(i % k.elements);
        kf_super_put(k, block, in, in % 4 ? 1 : 3);
        kf_super_put_half(block + k.d, INFINITY);
        kf_super_put_half(block + k.m, k.levels == KF_LEVELS_NONE ? -INFINITY : INFINITY);
        if (in % s.group == 0) kf_level_put(k.levels, block + k.at, in / s.group, 1, 1);
    }
    case_decode(c);
    for (size_t i = 0; i < c->columns * c->cols; i++) case_set_x(c, i, i % 4 ? -1 : 2.5f);
}

static inline kerf_gemv *case_plan(const gemv_case *c, kerf_dtype y, const kerf_exec *exec)
{
    kerf_gemv_shape s = {.format = c->g.format,
                         .rows = c->rows,
                         .cols = c->cols,
                         .columns = c->columns,
                         .x = c->x_type,
                         .y = y};
    kerf_gemv *plan = NULL;
    kerf_error err;
    if (kerf_gemv_plan_create(&plan, &s, exec, &err) != KERF_OK)
        fail_msg("%s: %s", c->g.format->name, err.text);
    return plan;
}

/* Runs a plan over a case: y has columns x rows numbers of its type. */
static inline void case_run(const gemv_case *c, const kerf_gemv *plan, void *y, size_t y_bytes)
{
    kerf_gemv_args a = {.x = {c->x_raw, c->columns * c->cols * kerf_dtype_bits(c->x_type) / 8},
                        .y = {y, y_bytes}};
    kerf_error err;
    case_planes(c, a.weights);
    a.workspace.n = kerf_gemv_workspace(plan);
    a.workspace.p = must_alloc(a.workspace.n);
    memset(a.workspace.p, 0xa5, a.workspace.n); /* NaN-like bytes where nothing may be read */
    if (kerf_gemv_run(plan, &a, NULL, &err) != KERF_OK)
        fail_msg("%s: %s", c->g.format->name, err.text);
    free(a.workspace.p);
}

/* y as F32 on one backend; the caller frees it. */
static inline float *case_product(const gemv_case *c, const char *backend, int threads)
{
    kerf_exec exec = {.threads = threads, .backend = backend};
    kerf_gemv *plan = case_plan(c, KERF_F32, &exec);
    float *y = must_alloc(c->columns * c->rows * sizeof *y);
    case_run(c, plan, y, c->columns * c->rows * sizeof *y);
    kerf_gemv_plan_free(plan);
    return y;
}

/* What the bound is made of. sum_x_max: of |w| times the largest x near it, of 64, 128 or 256
 * inputs; sum_parts: of |w x|, where |w| is |scale * code| and |what is taken off it|. */
typedef struct gemv_exact {
    double y, sum_abs, sum_parts, sum_x_max[3], w_max, x_max;
    int w_nan, w_inf, x_special;
} gemv_exact;

/* Whether blocks of one level may be integers as they lie: codes under an fp16 (q4_0, q8_0). */
static inline int case_is_small(kf_spec s)
{
    return s.geometry == KERF_GROUP_STRUCT && s.scale == KERF_SCALE_F16 && s.group == 32;
}

/* |w| as the bound counts it where ggml's blocks are integers as they lie. */
static inline double case_parts(const gemv_case *c, size_t r, size_t i)
{
    const kf_spec s = kf_spec_of(c->g.format);
    const double w = fabs((double)c->w[r * c->cols + i]);
    const uint8_t *at = c->plane[0];
    if (s.geometry != KERF_GROUP_SUPER) return w;
    const kf_super k = kf_super_of(s);
    const unsigned in = (unsigned)(i % k.elements);
    const uint8_t *block = at + (r * c->cols + i) / k.elements * k.bytes;
    const kf_dequant q = kf_super_group(k, block, in / s.group);
    const double off = k.m ? (double)q.offset : (double)q.scale * k.middle;
    return k.book ? w : fabs((double)q.scale * kf_super_get(k, block, in)) + fabs(off);
}

/* x near which a bound looks for the largest is in runs of 64 inputs, and in two and four of them.
 */
#define RUN ((size_t)64)

/* What column i of a case has alone, whatever the row; near: its largest |x| of each run. */
static inline gemv_exact case_column(const gemv_case *c, unsigned i, double *near)
{
    gemv_exact e = {0};
    for (size_t k = 0; k < c->cols; k++) {
        const float x = c->x[i * c->cols + k];
        near[k / RUN] = fmax(near[k / RUN], fabs((double)x));
        e.x_max = fmax(e.x_max, fabs((double)x));
        e.x_special |= !isfinite(x);
    }
    return e;
}

/* Adds what row r has alone, whatever the column; run: the sum of |w| of each run; parts: of each
 * weight case_parts(), for formats that have them. */
static inline void case_row(const gemv_case *c, size_t r, gemv_exact *e, double *run, double *parts)
{
    const float *w = c->w + r * c->cols;
    memset(run, 0, (c->cols + RUN - 1) / RUN * sizeof *run);
    for (size_t k = 0; k < c->cols; k++) {
        run[k / RUN] += fabs((double)w[k]);
        e->w_max = fmax(e->w_max, fabs((double)w[k]));
        e->w_nan |= isnan(w[k]);
        e->w_inf |= isinf(w[k]);
        if (parts) parts[k] = case_parts(c, r, k);
    }
}

/* Adds the sums of row r times column i. */
static inline void case_sums(const gemv_case *c, size_t r, unsigned i, gemv_exact *e,
                             const double *run, const double *near, const double *parts)
{
    const size_t runs = (c->cols + RUN - 1) / RUN;
    const float *w = c->w + r * c->cols, *x = c->x + i * c->cols;
    double low = 0; /* what the sum lost: Neumaier */
    for (size_t k = 0; k < c->cols; k++) {
        double p = (double)w[k] * (double)x[k], t = e->y + p;
        low += fabs(e->y) >= fabs(p) ? e->y - t + p : p - t + e->y;
        e->y = t;
        e->sum_abs += fabs(p);
        if (parts) e->sum_parts += parts[k] * fabs((double)x[k]);
    }
    if (!parts) e->sum_parts = e->sum_abs;
    if (isfinite(e->y)) e->y += low;
    for (size_t n = 0; n < 3; n++) {
        for (size_t j = 0; j < runs; j++) {
            double largest = 0;
            for (size_t at = j >> n << n, end = at + ((size_t)1 << n); at < end && at < runs; at++)
                largest = fmax(largest, near[at]);
            e->sum_x_max[n] += run[j] * largest;
        }
    }
}

/* Whether a result is what the interface promises. */
static inline int is_right(const gemv_case *c, gemv_exact e, const kerf_gemv *plan, double got)
{
    double n = (double)c->cols;
    if (e.w_nan) return e.w_inf ? !isfinite(got) : isnan(got);
    if (e.w_inf) return 1; /* infinite, NaN, or finite where only kerf_decode overflows */
    if (e.x_special) return isnan(e.y) ? isnan(got) : got == e.y;
    if (e.sum_abs >= 0x1p127) return 1;
    const kf_spec s = kf_spec_of(c->g.format);
    const char *backend = kerf_gemv_backend(plan);
    const int on_tiles = !strcmp(backend, "amx") || !strcmp(backend, "tiles");
    const int is_super = s.geometry == KERF_GROUP_SUPER;
    const int lies = is_super || (case_is_small(s) && !strcmp(backend, "avx512int"));
    const int run = lies || on_tiles ? 2 : s.bits == 2; /* 256 inputs; 128; 64 */
    const double sum = kerf_gemv_x_bound(plan) > 0 && is_super ? e.sum_parts : e.sum_abs;
    return fabs(got - e.y) <= kerf_gemv_bound(plan) * sum +
                                  kerf_gemv_x_bound(plan) * e.sum_x_max[run] +
                                  n * (0x1p-110 * e.w_max + 0x1p-148 * (1 + e.x_max));
}

/* The exact products of a case, column by column; the caller frees them. */
static inline gemv_exact *case_exacts(const gemv_case *c)
{
    const size_t runs = (c->cols + RUN - 1) / RUN;
    const int has_parts = kf_spec_of(c->g.format).geometry == KERF_GROUP_SUPER;
    gemv_exact *e = must_alloc(c->columns * c->rows * sizeof *e);
    gemv_exact column[KERF_GEMV_COLUMNS];
    double *near = must_alloc(c->columns * runs * sizeof *near);
    double *run = must_alloc(runs * sizeof *run);
    double *parts = has_parts ? must_alloc(c->cols * sizeof *parts) : NULL;
    for (unsigned i = 0; i < c->columns; i++) column[i] = case_column(c, i, near + i * runs);
    for (size_t r = 0; r < c->rows; r++) {
        gemv_exact row = {0};
        case_row(c, r, &row, run, parts);
        for (unsigned i = 0; i < c->columns; i++) {
            gemv_exact *one = e + i * c->rows + r;
            *one = row;
            one->x_max = column[i].x_max;
            one->x_special = column[i].x_special;
            case_sums(c, r, i, one, run, near + i * runs, parts);
        }
    }
    free(near);
    free(run);
    free(parts);
    return e;
}

/* Fails when a result breaks a promise. */
static inline void check_product(const gemv_case *c, const gemv_exact *exact, const char *backend,
                                 const float *y)
{
    kerf_exec exec = {.backend = backend};
    kerf_gemv *plan = case_plan(c, KERF_F32, &exec);
    for (size_t i = 0; i < c->columns * c->rows; i++) {
        double got = (double)y[i];
        if (is_right(c, exact[i], plan, got)) continue;
        fail_msg("%s on %s, %zu x %zu, %u columns: y[%zu] = %.9g, exactly %.17g, bound %g of %g, "
                 "%g of %g",
                 c->g.format->name, backend, c->rows, c->cols, c->columns, i, got, exact[i].y,
                 kerf_gemv_bound(plan), exact[i].sum_abs, kerf_gemv_x_bound(plan),
                 exact[i].sum_x_max[2]);
    }
    kerf_gemv_plan_free(plan);
}

#endif
