/* gemv_product.c - what both timers need of a product: weights, x, and the reference's result. */
#include "time/gemv_product.h"

#include <math.h>
#include <stdlib.h>

#include "base/pseudo_random.h"

#include <kerf/encode_matrix.h>

enum { PATTERN_ROWS = 256, PLANE_STEP = 256 };

kerf_status kf_take_span(kerf_span *s, size_t n, kerf_error *err)
{
    KF_TRY(kf_allocate(&s->p, n + 1, 1, err));
    s->n = n;
    return KERF_OK;
}

/* --- numbers ------------------------------------------------------------------------------- */

/* Near to normal, the same in every run. */
static float number_at(uint64_t i)
{
    return kf_bell(kf_mix((i + 1) * KF_RANDOM_STEP)) * 0x1p-21f;
}

/* Encodes numbers of a whole geometry; planes are taken here. */
static kerf_status encode_numbers(const kerf_geometry *g, kerf_span planes[KERF_PLANES],
                                  kerf_error *err)
{
    kerf_span numbers = {0};
    for (int i = 0; i < KERF_PLANES; i++) {
        KF_TRY(kf_take_span(&planes[i], (size_t)g->plane[i].bytes, err));
    }
    KF_TRY(kf_take_span(&numbers, (size_t)g->elements * sizeof(float), err));
    kerf_cspan in = {numbers.p, numbers.n};
    float *x = numbers.p;
    for (uint64_t i = 0; i < g->elements; i++) x[i] = number_at(i);
    kerf_status s = kerf_encode_matrix(g, NULL, in, KERF_F32, planes, NULL, NULL, err);
    free(numbers.p);
    return s;
}

/* A plain type as a format: what vectors of numbers are encoded and decoded by. */
static kerf_status plain_geometry(kerf_geometry *g, kerf_dtype t, uint64_t rows, uint64_t cols,
                                  kerf_error *err)
{
    const char *name = t == KERF_F32 ? "fp32" : t == KERF_F16 ? "fp16" : "bf16";
    return kerf_geometry_init(g, kerf_format_find(name), &(kerf_shape){2, {rows, cols}}, err);
}

static kerf_status fill_x(kf_gemv_product *p, kerf_error *err)
{
    kerf_geometry g;
    kerf_span planes[KERF_PLANES] = {0};
    KF_TRY(plain_geometry(&g, p->shape.x, p->shape.columns, p->shape.cols, err));
    kerf_status s = encode_numbers(&g, planes, err);
    for (int i = 1; i < KERF_PLANES; i++) free(planes[i].p);
    p->x = planes[0];
    return s;
}

/* --- product ------------------------------------------------------------------------------- */

kerf_status kf_gemv_product_open(kf_gemv_product *p, const kerf_gemv_shape *shape, kerf_error *err)
{
    uint64_t rows = shape->rows < PATTERN_ROWS ? shape->rows : PATTERN_ROWS;
    *p = (kf_gemv_product){.shape = *shape};
    KF_TRY(kerf_geometry_init(&p->whole, shape->format,
                              &(kerf_shape){2, {shape->rows, shape->cols}}, err));
    KF_TRY(kerf_geometry_init(&p->part, shape->format, &(kerf_shape){2, {rows, shape->cols}}, err));
    KF_TRY(encode_numbers(&p->part, p->pattern, err));
    KF_TRY(fill_x(p, err));
    for (int i = 0; i < KERF_PLANES; i++) {
        p->plane_at[i] = p->copy_bytes;
        p->copy_bytes +=
            ((size_t)p->whole.plane[i].bytes + PLANE_STEP - 1) / PLANE_STEP * PLANE_STEP;
    }
    return KERF_OK;
}

void kf_gemv_product_close(kf_gemv_product *p)
{
    for (int i = 0; i < KERF_PLANES; i++) free(p->pattern[i].p);
    free(p->x.p);
    *p = (kf_gemv_product){0};
}

void kf_gemv_product_find(const kf_gemv_product *p, const void *copy, kerf_cspan out[KERF_PLANES])
{
    for (int i = 0; i < KERF_PLANES; i++) {
        out[i] = (kerf_cspan){(const unsigned char *)copy + p->plane_at[i],
                              (size_t)p->whole.plane[i].bytes};
    }
}

size_t kf_gemv_product_y_bytes(const kf_gemv_product *p)
{
    return (size_t)(p->shape.columns * p->shape.rows) * (kerf_dtype_bits(p->shape.y) / 8);
}

/* --- error --------------------------------------------------------------------------------- */

/* y of the first rows by the reference, as F32. */
static kerf_status run_reference(const kf_gemv_product *p, int threads, kerf_span *y,
                                 kerf_error *err)
{
    kerf_exec exec = {.threads = threads, .backend = "ref"};
    kerf_gemv_shape shape = p->shape;
    kerf_gemv_args a = {.x = {p->x.p, p->x.n}};
    kerf_gemv *plan = NULL;
    shape.rows = p->part.shape.dim[0];
    shape.y = KERF_F32;
    shape.flags = 0;
    KF_TRY(kf_take_span(y, (size_t)(shape.rows * shape.columns) * sizeof(float), err));
    KF_TRY(kerf_gemv_plan_create(&plan, &shape, &exec, err));
    a.y = *y;
    for (int k = 0; k < KERF_PLANES; k++) {
        a.weights[k] = (kerf_cspan){p->pattern[k].p, p->pattern[k].n};
    }
    kerf_status s = kf_take_span(&a.workspace, kerf_gemv_workspace(plan), err);
    if (s == KERF_OK) s = kerf_gemv_run(plan, &a, NULL, err);
    free(a.workspace.p);
    kerf_gemv_plan_free(plan);
    return s;
}

/* y, of any type, as F32. */
static kerf_status widen_y(const kf_gemv_product *p, kerf_cspan y, kerf_span *out, kerf_error *err)
{
    kerf_geometry g;
    kerf_cspan planes[KERF_PLANES] = {y};
    kerf_exec exec = {0};
    KF_TRY(kf_take_span(out, (size_t)(p->shape.rows * p->shape.columns) * sizeof(float), err));
    KF_TRY(plain_geometry(&g, p->shape.y, p->shape.columns, p->shape.rows, err));
    return kerf_decode(&g, 0, g.bands, planes, *out, KERF_F32, &exec, err);
}

kerf_status kf_gemv_product_error(const kf_gemv_product *p, kerf_cspan y, int threads, double *out,
                                  kerf_error *err)
{
    kerf_span reference = {0}, wide = {0};
    uint64_t rows = p->part.shape.dim[0];
    double error = 0, power = 0;
    kerf_status s = run_reference(p, threads, &reference, err);
    if (s == KERF_OK) s = widen_y(p, y, &wide, err);
    const float *want = reference.p, *got = wide.p;
    for (uint64_t c = 0; s == KERF_OK && c < p->shape.columns; c++) {
        for (uint64_t r = 0; r < rows; r++) {
            double w = (double)want[c * rows + r], d = (double)got[c * p->shape.rows + r] - w;
            error += d * d;
            power += w * w;
        }
    }
    *out = sqrt(error / power);
    free(reference.p), free(wide.p);
    return s;
}
