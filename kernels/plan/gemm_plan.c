/* gemm_plan.c - plans of products with many columns: what can be multiplied as what, how much of
 * everything that takes, and the checks of a run. The multiplying is cuda/cublaslt.c's. */
#include "plan/gemm_plan.h"
#include "plan/spans.h"

#include <stdlib.h>

/* --- ways -------------------------------------------------------------------------------------
 * The first row that fits a format and a type of x. */

static int is_fp8(kerf_dtype t)
{
    return t == KERF_F8_E4M3 || t == KERF_F8_E5M2;
}

static int is_dense(const kerf_format *f, kerf_dtype x)
{
    return (f->element == KERF_ELEM_F32 && x == KERF_F32) ||
           (f->element == KERF_ELEM_F16 && x == KERF_F16) ||
           (f->element == KERF_ELEM_BF16 && x == KERF_BF16);
}

static int is_fp8_pair(const kerf_format *f, kerf_dtype x)
{
    return (f->element == KERF_ELEM_E4M3 && is_fp8(x)) ||
           (f->element == KERF_ELEM_E5M2 && x == KERF_F8_E4M3);
}

static int multiplies_fp8(const kerf_format *f, kerf_dtype x)
{
    return f->family == KERF_FAMILY_FP8 && f->geometry != KERF_GROUP_TILE && is_fp8_pair(f, x);
}

static int multiplies_int8(const kerf_format *f, kerf_dtype x)
{
    return f->element == KERF_ELEM_S8 && f->scale == KERF_SCALE_F32 && f->zero == KERF_ZERO_NONE &&
           (f->geometry == KERF_GROUP_ROW || f->geometry == KERF_GROUP_TENSOR) && x == KERF_I8;
}

static int multiplies_blocks(const kerf_format *f, kerf_dtype x)
{
    if (f->geometry != KERF_GROUP_BLOCK) return 0;
    if (f->family == KERF_FAMILY_NVFP4) return x == KERF_F4;
    return f->family == KERF_FAMILY_MX && is_fp8_pair(f, x);
}

static int is_decoded(const kerf_format *f, kerf_dtype x)
{
    (void)f;
    return kf_is_float(x);
}

static const struct way {
    const char *name;
    int (*fits)(const kerf_format *f, kerf_dtype x);
    double bound; /* beside the rounding of sums */
} ways[] = {
    [KF_GEMM_DENSE] = {"dense", is_dense, 0},
    /* Hopper adds the products of fp8 with about 14 bits, 32 at a time. */
    [KF_GEMM_FP8] = {"fp8", multiplies_fp8, 0x1p-9},
    [KF_GEMM_INT8] = {"int8", multiplies_int8, 0x1p-22},
    [KF_GEMM_BLOCKS] = {"block-scaled", multiplies_blocks, 0x1p-9},
    [KF_GEMM_DEQUANTIZE] = {"dequantize", is_decoded, 0},
};
enum { WAYS = sizeof ways / sizeof ways[0] };

static double bound_of(const kerf_gemm *p)
{
    kerf_dtype x = p->shape.x;
    double sums = p->way == KF_GEMM_INT8 ? 0 : ((double)p->shape.cols + 32) * 0x1p-23;
    double rounded = x == KERF_BF16 ? 0x1p-9 : x == KERF_F16 ? 0x1p-11 : 0;
    return sums + ways[p->way].bound + (p->way == KF_GEMM_DEQUANTIZE ? rounded : 0);
}

/* --- plan ------------------------------------------------------------------------------------- */

static kerf_status choose_way(kerf_gemm *p, kerf_error *err)
{
    const kerf_gemm_shape *s = &p->shape;
    int way = 0;
    while (way < WAYS && !ways[way].fits(s->format, s->x)) way++;
    if (way == WAYS)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "%s times x of type %s; x of type F16, BF16 or F32 works", s->format->name,
                       kerf_dtype_name(s->x));
    if (way == KF_GEMM_INT8 && s->cols >= 131072)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "sums of %llu products of int8 may not fit 32 bits; x of type F16, BF16 or "
                       "F32 works",
                       (unsigned long long)s->cols);
    p->way = (kf_gemm_way)way;
    p->bound = bound_of(p);
    return KERF_OK;
}

static kerf_status check_shape(kerf_gemm *p, kerf_error *err)
{
    kerf_gemm_shape *s = &p->shape;
    kerf_shape shape = {2, {s->rows, s->cols}};
    uint64_t n;
    if (!s->format) return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "no format");
    KF_TRY(kf_check_float(s->y, "y", err));
    if (s->flags & ~(unsigned)KERF_GEMM_BIAS)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "flags 0x%x", s->flags);
    if (s->rows == 0 || s->cols == 0 || s->columns == 0)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "an empty product");
    if (s->x_stride == 0) s->x_stride = s->cols;
    if (s->y_stride == 0) s->y_stride = s->rows;
    if (s->x_stride < s->cols || s->y_stride < s->rows)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "vectors overlap: strides %llu and %llu",
                       (unsigned long long)s->x_stride, (unsigned long long)s->y_stride);
    if (s->rows > INT32_MAX || s->cols > INT32_MAX || s->columns > INT32_MAX ||
        !kf_mul_ok(s->x_stride, s->columns, &n) || n > PTRDIFF_MAX / 8 ||
        !kf_mul_ok(s->y_stride, s->columns, &n) || n > PTRDIFF_MAX / 8)
        return kf_fail(err, KERF_E_RANGE, KF_NOWHERE, "%llu x %llu x %llu is too large",
                       (unsigned long long)s->rows, (unsigned long long)s->cols,
                       (unsigned long long)s->columns);
    return kerf_geometry_init(&p->geometry, s->format, &shape, err);
}

static kerf_status count_scales(kerf_gemm *p, kerf_error *err)
{
    const kerf_gemm_shape *s = &p->shape;
    p->scale_bytes = p->geometry.plane[KERF_PLANE_SCALES].bytes;
    p->x_scale_bytes = sizeof(float) * s->columns;
    if (p->way == KF_GEMM_FP8 && s->format->geometry == KERF_GROUP_TENSOR)
        p->x_scale_bytes = sizeof(float);
    if (p->way == KF_GEMM_DENSE || p->way == KF_GEMM_DEQUANTIZE) p->x_scale_bytes = 0;
    p->needs_x_scale = p->way == KF_GEMM_BLOCKS ||
                       (p->way == KF_GEMM_FP8 && s->format->geometry == KERF_GROUP_ROW);
    if (p->way != KF_GEMM_BLOCKS) return KERF_OK;
    uint64_t blocks = kf_div_up(s->cols, s->format->group);
    KF_TRY(kerf_tiled_scale_bytes(1, s->rows, blocks, &p->scale_bytes, err));
    return kerf_tiled_scale_bytes(1, s->columns, blocks, &p->x_scale_bytes, err);
}

static kerf_status fill_plan(kerf_gemm *p, const kerf_exec *exec, kerf_error *err)
{
    KF_TRY(check_shape(p, err));
    KF_TRY(choose_way(p, err));
    KF_TRY(count_scales(p, err));
    if (!exec || !exec->device)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "products with many columns run on a GPU only; kerf_gemv takes %d columns "
                       "at a time",
                       KERF_GEMV_COLUMNS);
    return kf_cublaslt_plan(p, exec->device, err);
}

kerf_status kerf_gemm_plan_create(kerf_gemm **out, const kerf_gemm_shape *shape,
                                  const kerf_exec *exec, kerf_error *err)
{
    *out = NULL;
    kerf_gemm *plan = kf_alloc_zero(1, sizeof *plan);
    if (!plan) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "out of memory");
    plan->shape = *shape;
    kerf_status s = fill_plan(plan, exec, err);
    if (s != KERF_OK) {
        kerf_gemm_plan_free(plan);
        return s;
    }
    *out = plan;
    return KERF_OK;
}

void kerf_gemm_plan_free(kerf_gemm *plan)
{
    if (plan) kf_cublaslt_free(plan->library);
    free(plan);
}

size_t kerf_gemm_workspace(const kerf_gemm *plan)
{
    return plan->panel_bytes + plan->scratch;
}

double kerf_gemm_bound(const kerf_gemm *plan)
{
    return plan->bound;
}

const char *kerf_gemm_way(const kerf_gemm *plan)
{
    return ways[plan->way].name;
}

/* --- run -------------------------------------------------------------------------------------- */

static kerf_status check_weights(const kerf_gemm *p, const kerf_gemm_args *a, kerf_error *err)
{
    for (int i = 0; i < KERF_PLANES; i++) {
        const kerf_plane *plane = &p->geometry.plane[i];
        const int is_wide = i == KERF_PLANE_CODES || p->way == KF_GEMM_BLOCKS;
        const uint64_t need = i == KERF_PLANE_SCALES ? p->scale_bytes : plane->bytes;
        if (plane->dtype != KERF_DTYPE_NONE)
            KF_TRY(kf_check_span(a->weights[i], need, is_wide ? 16 : kf_element_bytes(plane->dtype),
                                 kf_plane_names[i], err));
    }
    return KERF_OK;
}

static int is_absent(kerf_cspan s)
{
    return !s.p && s.n == 0;
}

static kerf_status check_args(const kerf_gemm *p, const kerf_gemm_args *a, kerf_error *err)
{
    const kerf_gemm_shape *s = &p->shape;
    const kf_vectors x = {s->columns, s->cols, s->x_stride, s->x};
    const kf_vectors y = {s->columns, s->rows, s->y_stride, s->y};
    const kerf_cspan work = kf_read_only(a->workspace);
    const unsigned scale_align = p->way == KF_GEMM_BLOCKS ? 16 : 4;
    KF_TRY(check_weights(p, a, err));
    KF_TRY(kf_check_vectors(a->x, &x, 16, "x", err));
    KF_TRY(kf_check_vectors(kf_read_only(a->y), &y, 16, "y", err));
    KF_TRY(kf_check_span(work, kerf_gemm_workspace(p), 256, "workspace", err));
    if (p->x_scale_bytes && (p->needs_x_scale || !is_absent(a->x_scale)))
        KF_TRY(kf_check_span(a->x_scale, p->x_scale_bytes, scale_align, "scales of x", err));
    if (!is_absent(a->x_second))
        KF_TRY(kf_check_span(a->x_second, sizeof(float), 4, "second-level scale of x", err));
    if (!is_absent(a->residual)) KF_TRY(kf_check_vectors(a->residual, &y, 16, "residual", err));
    if (s->flags & KERF_GEMM_BIAS)
        return kf_check_span(a->bias, s->rows * kf_element_bytes(s->y), 16, "bias", err);
    if (!is_absent(a->bias))
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "a bias without KERF_GEMM_BIAS in the plan");
    return KERF_OK;
}

kerf_status kerf_gemm_run(const kerf_gemm *plan, const kerf_gemm_args *args, void *stream,
                          kerf_error *err)
{
    KF_TRY(check_args(plan, args, err));
    return kf_cublaslt_run(plan, args, stream, err);
}
