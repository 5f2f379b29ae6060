/* nvfp4_case.h - products of NVFP4 by NVFP4 to be tested: data, the sums in double that they should
 * give, and the comparison. Codes are full range with both signs; scales are every byte, or every
 * one that is a number. */
#ifndef NVFP4_CASE_H
#define NVFP4_CASE_H

#include "block/scale_tiles.h"
#include "plan/gemv_nvfp4_plan.h"

#include "unit/tally.h"

#include <math.h>

/* --- a problem in host memory ----------------------------------------------------------------- */

typedef enum data {
    ANY_NUMBERS, /* every code, every scale that is not NaN, second-level scales and alpha     */
    BELL,        /* scales of about 1: what weights look like                                   */
    POWERS,      /* powers of two without signs: every order of summation is exact              */
    NANS         /* as ANY_NUMBERS, a few scales of A NaN, and one of the last vector's         */
} data;

typedef struct problem {
    uint64_t rows, cols, batch, blocks;
    kerf_scale_order a_order, b_order;
    data kind;
    uint8_t *a, *b, *sa, *sb;    /* codes, scales in rows                  */
    uint8_t *ta, *tb;            /* scales as a_order and b_order have them */
    size_t a_n, b_n, sa_n, sb_n; /* bytes; sa, sb: of ta and tb            */
    float *second_a, *second_b, alpha;
    double *want, *size; /* of y, and of S times all factors      */
} problem;

static uint8_t scale_of(data kind, uint64_t r)
{
    uint8_t s = (uint8_t)(r >> 8);
    if (kind == BELL) return (uint8_t)(0x30 + s % 16);
    if (kind == POWERS) return (uint8_t)(0x30 + s % 3 * 8);
    return (s & 0x7f) == 0x7f ? (uint8_t)(s - 1) : s;
}

static void fill(uint8_t *codes, size_t n, uint8_t *scales, size_t blocks, data kind, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) codes[i] = kind == POWERS ? 0x22 : (uint8_t)mix(seed + i);
    for (size_t i = 0; i < blocks; i++) scales[i] = scale_of(kind, mix(seed + n + i));
}

static uint8_t *order_scales(kerf_scale_order order, uint64_t batch, uint64_t rows, uint64_t blocks,
                             const uint8_t *plain, size_t *n)
{
    uint64_t bytes = batch * rows * blocks;
    if (order == KERF_SCALES_TILES)
        need(kerf_tiled_scale_bytes(batch, rows, blocks, &bytes, &error), "tiles");
    uint8_t *out = allocate(bytes);
    *n = bytes;
    if (order == KERF_SCALES_ROWS) {
        memcpy(out, plain, bytes);
        return out;
    }
    need(kerf_scales_to_tiles(batch, rows, blocks, (kerf_cspan){plain, batch * rows * blocks},
                              (kerf_span){out, bytes}, &error),
         "tiles");
    /* What pads the edges must not matter: NaN wherever no scale lies. */
    uint8_t *used = allocate(bytes);
    memset(used, 0, bytes);
    for (uint64_t l = 0; l < batch; l++)
        for (uint64_t r = 0; r < rows; r++)
            for (uint64_t c = 0; c < blocks; c++)
                used[l * (bytes / batch) + kf_tiled_place(r, c, kf_div_up(blocks, KF_TILE_COLS))] =
                    1;
    for (size_t i = 0; i < bytes; i++)
        if (!used[i]) out[i] = 0x7f;
    free(used);
    return out;
}

/* A row of numbers by kerf_decode, without second-level scales. */
static void decode_rows(const uint8_t *codes, const uint8_t *scales, uint64_t rows, uint64_t cols,
                        float *out)
{
    static const float one = 1;
    kerf_shape shape = {2, {rows, cols}};
    kerf_geometry g;
    need(kerf_geometry_init(&g, kerf_format_find("nvfp4"), &shape, &error), "geometry");
    kerf_cspan planes[KERF_PLANES] = {
        [KERF_PLANE_CODES] = {codes, g.plane[KERF_PLANE_CODES].bytes},
        [KERF_PLANE_SCALES] = {scales, g.plane[KERF_PLANE_SCALES].bytes},
        [KERF_PLANE_SECOND] = {&one, sizeof one}};
    need(kerf_decode(&g, 0, g.bands, planes, (kerf_span){out, rows * cols * 4}, KERF_F32, NULL,
                     &error),
         "decode");
}

static void find_want(problem *p)
{
    float *a = allocate(4 * p->cols), *b = allocate(4 * p->cols);
    for (uint64_t l = 0; l < p->batch; l++) {
        decode_rows(p->b + l * p->cols / 2, p->sb + l * p->blocks, 1, p->cols, b);
        double factor = (double)p->alpha * p->second_a[l] * p->second_b[l];
        for (uint64_t r = 0; r < p->rows; r++) {
            uint64_t row = l * p->rows + r;
            double sum = 0, size = 0;
            decode_rows(p->a + row * (p->cols / 2), p->sa + row * p->blocks, 1, p->cols, a);
            for (uint64_t k = 0; k < p->cols; k++) {
                sum += (double)a[k] * b[k];
                size += fabs((double)a[k] * b[k]);
            }
            p->want[row] = sum * factor;
            p->size[row] = size * fabs(factor);
        }
    }
    free(a);
    free(b);
}

static problem make_problem(uint64_t rows, uint64_t cols, uint64_t batch, kerf_scale_order a_order,
                            kerf_scale_order b_order, data kind)
{
    problem p = {.rows = rows, .cols = cols, .batch = batch, .blocks = cols / 16};
    uint64_t seed = rows * 1000003 + cols * 1009 + batch + (uint64_t)kind * 77777777;
    p.a_order = a_order;
    p.b_order = b_order;
    p.kind = kind;
    p.alpha = kind == ANY_NUMBERS || kind == NANS ? 0x1.8p-30f : kind == BELL ? 0x1p-8f : 0x1p-20f;
    p.a_n = batch * rows * cols / 2;
    p.b_n = batch * cols / 2;
    p.a = allocate(p.a_n);
    p.b = allocate(p.b_n);
    p.sa = allocate(batch * rows * p.blocks);
    p.sb = allocate(batch * p.blocks);
    fill(p.a, p.a_n, p.sa, batch * rows * p.blocks, kind, seed);
    fill(p.b, p.b_n, p.sb, batch * p.blocks, kind, seed + 1000000007);
    for (uint64_t i = 0; i < batch * rows && kind == NANS && p.blocks; i += 5)
        p.sa[i * p.blocks + mix(seed + i) % p.blocks] = i % 2 ? 0x7f : 0xff;
    if (kind == NANS && batch && p.blocks) p.sb[batch * p.blocks - 1] = 0x7f;
    p.ta = order_scales(a_order, batch, rows, p.blocks, p.sa, &p.sa_n);
    p.tb = order_scales(b_order, batch, 1, p.blocks, p.sb, &p.sb_n);
    p.second_a = allocate(4 * batch);
    p.second_b = allocate(4 * batch);
    for (uint64_t l = 0; l < batch; l++) {
        p.second_a[l] = kind == POWERS ? 0.5f : 1.0f + 0.3f * (float)l;
        p.second_b[l] = kind == POWERS ? 4.0f : 0.7f - 0.2f * (float)l;
    }
    p.want = allocate(8 * batch * rows);
    p.size = allocate(8 * batch * rows);
    find_want(&p);
    return p;
}

static void free_problem(problem *p)
{
    void *all[] = {p->a,  p->b,        p->sa,       p->sb,   p->ta,
                   p->tb, p->second_a, p->second_b, p->want, p->size};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]);
}

static kerf_gemv_nvfp4_shape shape_of(const problem *p, kerf_dtype y, unsigned flags)
{
    return (kerf_gemv_nvfp4_shape){p->rows, p->cols, p->batch, y, p->a_order, p->b_order, flags};
}

/* --- comparison ------------------------------------------------------------------------------- */

static double number_at(kerf_dtype t, const uint8_t *y, size_t i)
{
    uint32_t u = 0;
    float f;
    if (t == KERF_F32) {
        memcpy(&f, y + 4 * i, 4);
        return (double)f;
    }
    memcpy(&u, y + 2 * i, 2);
    if (t == KERF_BF16) {
        u <<= 16;
        memcpy(&f, &u, 4);
        return (double)f;
    }
    int e = (int)(u >> 10 & 31), m = (int)(u & 1023);
    double v =
        e == 31 ? (m ? (double)NAN : (double)INFINITY) : ldexp(e ? m + 1024 : m, e ? e - 25 : -24);
    return u >> 15 ? -v : v;
}

/* Half a unit in the last place of a number of the type, or of its subnormals. */
static double rounding(kerf_dtype t, double v)
{
    int bits = t == KERF_F32 ? 24 : t == KERF_F16 ? 11 : 8;
    double tiny = t == KERF_F16 ? 0x1p-25 : 0x1p-134;
    return fmax(fabs(v) * ldexp(1, -bits), tiny);
}

static void compare(const problem *p, kerf_dtype t, double bound, const uint8_t *y,
                    const char *what)
{
    static const char *const kinds[] = {"numbers", "bell", "powers", "nan"};
    char text[200];
    uint64_t bad = 0, first = 0, nans = 0;
    for (uint64_t i = 0; i < p->batch * p->rows; i++) {
        double got = number_at(t, y, i), want = p->want[i];
        double room = p->kind == POWERS ? 0 : 1.001 * bound * p->size[i];
        int right = isnan(want) ? isnan(got) : fabs(got - want) <= room + rounding(t, want);
        if (p->kind == POWERS && t == KERF_F32) right = got == want; /* no sum needs 24 bits */
        nans += isnan(want) != 0;
        if (!right && bad++ == 0) first = i;
    }
    snprintf(text, sizeof text, "%llu x %llu x %llu %s: %llu wrong, y[%llu] = %g, not %g",
             (unsigned long long)p->rows, (unsigned long long)p->cols, (unsigned long long)p->batch,
             kinds[p->kind], (unsigned long long)bad, (unsigned long long)first,
             bad ? number_at(t, y, first) : 0, bad ? p->want[first] : 0);
    check(bad == 0, what, text);
    if (p->kind == NANS && p->batch && p->rows && p->blocks)
        check(nans > 0 && (p->batch == 1 || nans < p->rows * p->batch), what, "no NaN in the case");
}

static kerf_gemv_nvfp4_args host_args(const problem *p, void *y, size_t n)
{
    kerf_gemv_nvfp4_args x = {.y = {y, n}, .alpha = p->alpha};
    x.a[KERF_PLANE_CODES] = (kerf_cspan){p->a, p->a_n};
    x.a[KERF_PLANE_SCALES] = (kerf_cspan){p->ta, p->sa_n};
    x.a[KERF_PLANE_SECOND] = (kerf_cspan){p->second_a, 4 * p->batch};
    x.b[KERF_PLANE_CODES] = (kerf_cspan){p->b, p->b_n};
    x.b[KERF_PLANE_SCALES] = (kerf_cspan){p->tb, p->sb_n};
    x.b[KERF_PLANE_SECOND] = (kerf_cspan){p->second_b, 4 * p->batch};
    return x;
}

#endif
