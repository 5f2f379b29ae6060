/* gemv_nvfp4_plan.c - plans of the NVFP4 x NVFP4 product, and the product on the processor: every
 * block in integers, so that its only rounding is that of the finished sum. */
#include "plan/gemv_nvfp4_plan.h"
#include "block/scale_tiles.h"
#include "cpu/widen.h"
#include "plan/spans.h"
#include "scalar/minifloat.h"

#include <stdlib.h>

enum { BLOCK = 16, PANEL = 16 };

/* --- plan ------------------------------------------------------------------------------------- */

static kerf_status too_large(const kerf_gemv_nvfp4_shape *s, kerf_error *err)
{
    return kf_fail(err, KERF_E_RANGE, KF_NOWHERE, "%llu matrices of %llu x %llu are too large",
                   (unsigned long long)s->batch, (unsigned long long)s->rows,
                   (unsigned long long)s->cols);
}

static kerf_status check_shape(const kerf_gemv_nvfp4_shape *s, kerf_error *err)
{
    uint64_t n;
    KF_TRY(kf_check_float(s->y, "y", err));
    if (s->cols % BLOCK != 0)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "%llu columns, which are no whole blocks of 16; pad A and b with zeros",
                       (unsigned long long)s->cols);
    if (s->flags & ~(unsigned)KERF_GEMV_CONSTANT_WEIGHTS)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "flags 0x%x", s->flags);
    if (!kf_add_ok(s->rows, 127, &n) || !kf_mul_ok(n, s->batch, &n) ||
        !kf_mul_ok(n, s->cols + 64, &n) || s->cols > UINT32_MAX || n > PTRDIFF_MAX)
        return too_large(s, err);
    return KERF_OK;
}

static kerf_status count_scales(kerf_scale_order order, uint64_t batch, uint64_t rows,
                                uint64_t cols, uint64_t *each, uint64_t *all, kerf_error *err)
{
    if (order == KERF_SCALES_TILES)
        KF_TRY(kerf_tiled_scale_bytes(1, rows, cols / BLOCK, each, err));
    else if (order == KERF_SCALES_ROWS)
        *each = rows * (cols / BLOCK);
    else
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "an unknown order of scales");
    if (!kf_mul_ok(*each, batch, all))
        return kf_fail(err, KERF_E_RANGE, KF_NOWHERE, "too many scales");
    return KERF_OK;
}

static kerf_status fill_plan(kerf_gemv_nvfp4 *p, const kerf_exec *exec, kerf_error *err)
{
    const kerf_gemv_nvfp4_shape *s = &p->shape;
    p->a_codes = s->batch * s->rows * (s->cols / 2);
    p->b_codes = s->batch * (s->cols / 2);
    KF_TRY(count_scales(s->a_scales, s->batch, s->rows, s->cols, &p->a_scales_each, &p->a_scales,
                        err));
    KF_TRY(count_scales(s->b_scales, s->batch, 1, s->cols, &p->b_scales_each, &p->b_scales, err));
    if (exec && exec->device) return kf_nvfp4_cuda_plan(p, exec->device, NULL, err);
    p->threads = exec ? exec->threads : 0;
    p->bound = 0x1p-22; /* one rounding of an exact sum, and three factors */
    return KERF_OK;
}

kerf_status kerf_gemv_nvfp4_plan_create(kerf_gemv_nvfp4 **out, const kerf_gemv_nvfp4_shape *shape,
                                        const kerf_exec *exec, kerf_error *err)
{
    *out = NULL;
    KF_TRY(check_shape(shape, err));
    kerf_gemv_nvfp4 *plan = kf_alloc_zero(1, sizeof *plan);
    if (!plan) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "out of memory");
    plan->shape = *shape;
    kerf_status s = fill_plan(plan, exec, err);
    if (s != KERF_OK) {
        free(plan);
        return s;
    }
    *out = plan;
    return KERF_OK;
}

void kerf_gemv_nvfp4_plan_free(kerf_gemv_nvfp4 *plan)
{
    free(plan);
}

double kerf_gemv_nvfp4_bound(const kerf_gemv_nvfp4 *plan)
{
    return plan->bound;
}

const char *kerf_gemv_nvfp4_backend(const kerf_gemv_nvfp4 *plan)
{
    return !plan->on_gpu ? "ref" : plan->fast ? "cuda" : "cuda-any";
}

/* --- the processor ---------------------------------------------------------------------------- */

typedef struct run {
    const kerf_gemv_nvfp4 *plan;
    const kerf_gemv_nvfp4_args *args;
    int8_t twice[16];   /* 2 x the number of each code           */
    int32_t scale[256]; /* 512 x the number of each scale       */
    uint64_t panels;    /* of a matrix                           */
} run;

static uint64_t scale_place(kerf_scale_order order, uint64_t cols, uint64_t row, uint64_t block)
{
    return order == KERF_SCALES_TILES
               ? kf_tiled_place(row, block, kf_div_up(cols / BLOCK, KF_TILE_COLS))
               : row * (cols / BLOCK) + block;
}

/* Four times the dot product of a block. */
static int32_t dot_of(const run *r, const uint8_t *a, const uint8_t *b)
{
    int32_t sum = 0;
    for (int i = 0; i < BLOCK / 2; i++)
        sum +=
            r->twice[a[i] & 15] * r->twice[b[i] & 15] + r->twice[a[i] >> 4] * r->twice[b[i] >> 4];
    return sum;
}

/* A row in units of 2^-20. A block has less than 2^47 of them: 2^16 blocks fit 63 bits. */
static double sum_row(const run *r, uint64_t l, uint64_t row)
{
    const kerf_gemv_nvfp4 *p = r->plan;
    const kerf_gemv_nvfp4_shape *s = &p->shape;
    const uint8_t *a =
        (const uint8_t *)r->args->a[KERF_PLANE_CODES].p + (l * s->rows + row) * (s->cols / 2);
    const uint8_t *b = (const uint8_t *)r->args->b[KERF_PLANE_CODES].p + l * (s->cols / 2);
    const uint8_t *sa = (const uint8_t *)r->args->a[KERF_PLANE_SCALES].p + l * p->a_scales_each;
    const uint8_t *sb = (const uint8_t *)r->args->b[KERF_PLANE_SCALES].p + l * p->b_scales_each;
    double sum = 0;
    int64_t part = 0;
    for (uint64_t i = 0; i < s->cols / BLOCK; i++) {
        unsigned x = sa[scale_place(s->a_scales, s->cols, row, i)];
        unsigned y = sb[scale_place(s->b_scales, s->cols, 0, i)];
        if ((x & 0x7f) == 0x7f || (y & 0x7f) == 0x7f) return (double)kf_float(0x7fc00000);
        part += (int64_t)dot_of(r, a + 8 * i, b + 8 * i) * ((int64_t)r->scale[x] * r->scale[y]);
        if (i % 65536 == 65535) sum += (double)part, part = 0;
    }
    return (sum + (double)part) * 0x1p-20;
}

static float second_of(kerf_cspan second, uint64_t l)
{
    return second.p ? kf_load(KERF_F32, second.p, l) : 1;
}

static kerf_status run_panel(void *ctx, uint64_t i)
{
    const run *r = ctx;
    const kerf_gemv_nvfp4_shape *s = &r->plan->shape;
    uint64_t l = i / r->panels, from = i % r->panels * PANEL;
    for (uint64_t row = from; row < kf_min_u64(from + PANEL, s->rows); row++) {
        float y = (float)sum_row(r, l, row);
        y *= r->args->alpha == 0 ? 1 : r->args->alpha;
        y *= second_of(r->args->b[KERF_PLANE_SECOND], l);
        y *= second_of(r->args->a[KERF_PLANE_SECOND], l);
        kf_store(s->y, r->args->y.p, l * s->rows + row, y);
    }
    return KERF_OK;
}

static kerf_status run_here(const kerf_gemv_nvfp4 *plan, const kerf_gemv_nvfp4_args *args)
{
    run r = {.plan = plan, .args = args, .panels = kf_div_up(plan->shape.rows, PANEL)};
    for (unsigned i = 0; i < 16; i++) r.twice[i] = (int8_t)(2 * kf_e2m1_decode(i));
    for (unsigned i = 0; i < 256; i++)
        if ((i & 0x7f) != 0x7f) r.scale[i] = (int32_t)(512 * kf_e4m3_decode(i));
    return kf_parallel(plan->shape.batch * r.panels, plan->threads, run_panel, &r);
}

/* --- run -------------------------------------------------------------------------------------- */

static kerf_status check_args(const kerf_gemv_nvfp4 *p, const kerf_gemv_nvfp4_args *x,
                              kerf_error *err)
{
    const kerf_gemv_nvfp4_shape *s = &p->shape;
    const unsigned size = kf_element_bytes(s->y);
    const struct {
        kerf_cspan span;
        uint64_t need;
        unsigned size; /* of an element */
        int is_optional;
        const char *what;
    } all[] = {{x->a[KERF_PLANE_CODES], p->a_codes, 1, 0, "codes of A"},
               {x->a[KERF_PLANE_SCALES], p->a_scales, 1, 0, "scales of A"},
               {x->b[KERF_PLANE_CODES], p->b_codes, 1, 0, "codes of b"},
               {x->b[KERF_PLANE_SCALES], p->b_scales, 1, 0, "scales of b"},
               {x->a[KERF_PLANE_SECOND], 4 * s->batch, 4, 1, "second-level scales of A"},
               {x->b[KERF_PLANE_SECOND], 4 * s->batch, 4, 1, "second-level scales of b"},
               {kf_read_only(x->y), s->batch * s->rows * size, size, 0, "y"}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const int is_absent = all[i].is_optional && !all[i].span.p && all[i].span.n == 0;
        const unsigned align = p->on_gpu ? all[i].size : 1;
        if (!is_absent) KF_TRY(kf_check_span(all[i].span, all[i].need, align, all[i].what, err));
    }
    return KERF_OK;
}

kerf_status kerf_gemv_nvfp4_run(const kerf_gemv_nvfp4 *plan, const kerf_gemv_nvfp4_args *args,
                                void *stream, kerf_error *err)
{
    KF_TRY(check_args(plan, args, err));
    if (plan->shape.batch == 0 || plan->shape.rows == 0) return KERF_OK;
    return plan->on_gpu ? kf_nvfp4_cuda_run(plan, args, stream, err) : run_here(plan, args);
}
