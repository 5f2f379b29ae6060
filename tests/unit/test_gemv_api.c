/* test_gemv_api.c - the interface of the matrix-vector product: what it refuses, strides, alpha,
 * bias, residual, empty shapes, which bytes it touches (planes and vectors that end or begin at a
 * page without access), and threads without subnormal numbers. */
#include "fence.h"
#include "flushed.h"
#include "gemv_case.h"

#include "cpu/gemv_ops.h"

#include <string.h>

static const kerf_format *format(const char *name)
{
    const kerf_format *f = kerf_format_find(name);
    assert_non_null(f);
    return f;
}

/* --- refusals -----------------------------------------------------------------------------------
 */

static void refuse_plan(kerf_gemv_shape s, const char *backend, kerf_status status,
                        const char *text)
{
    kerf_gemv *plan;
    kerf_error err;
    kerf_exec exec = {.backend = backend};
    assert_int_equal(kerf_gemv_plan_create(&plan, &s, &exec, &err), status);
    assert_null(plan);
    if (!strstr(err.text, text)) fail_msg("\"%s\" lacks \"%s\"", err.text, text);
}

static void test_refused_plans(void **state)
{
    (void)state;
    kerf_gemv_shape good = {.format = format("nvfp4"),
                            .rows = 8,
                            .cols = 64,
                            .columns = 1,
                            .x = KERF_F32,
                            .y = KERF_F32},
                    s = good;
    s.format = NULL;
    refuse_plan(s, NULL, KERF_E_ARG, "format");
    s = good, s.columns = 0;
    refuse_plan(s, NULL, KERF_E_NOSUP, "1 to 16");
    s = good, s.columns = 17;
    refuse_plan(s, NULL, KERF_E_NOSUP, "1 to 16");
    s = good, s.x = KERF_F64;
    refuse_plan(s, NULL, KERF_E_NOSUP, "x of type F64");
    s = good, s.y = KERF_I8;
    refuse_plan(s, NULL, KERF_E_NOSUP, "y of type I8");
    s = good, s.format = format("ggml-q4_0"), s.cols = 40;
    refuse_plan(s, NULL, KERF_E_NOSUP, "multiple");
    s = good, s.rows = UINT64_MAX / 2;
    refuse_plan(s, NULL, KERF_E_RANGE, "overflow");
    s = good, s.rows = UINT64_MAX / 4, s.cols = 0;
    refuse_plan(s, NULL, KERF_E_RANGE, "");
    refuse_plan(good, "abacus", KERF_E_NOSUP, "\"abacus\"");

    int somewhere; /* a device is never looked at */
    kerf_exec on_device = {.device = (kerf_device *)&somewhere};
    kerf_gemv *plan;
    assert_int_equal(kerf_gemv_plan_create(&plan, &good, &on_device, NULL), KERF_E_NOSUP);
}

static void test_refused_runs(void **state)
{
    (void)state;
    gemv_case c = case_new(format("nvfp4"), 8, 64, 3, KERF_F16);
    case_encode(&c, 1, 1);
    kerf_gemv *plan = case_plan(&c, KERF_BF16, NULL);
    uint16_t y[24];
    const uint8_t *crooked = (const uint8_t *)y + 1;
    size_t work = kerf_gemv_workspace(plan);
    kerf_gemv_args good = {.x = {c.x_raw, 3 * 64 * 2}, .y = {y, sizeof y}}, a;
    kerf_error err;
    good.workspace = (kerf_span){must_alloc(work), work};
    case_planes(&c, good.weights);
    memset(y, 0x5a, sizeof y);
#define REFUSED(change, status, word)                              \
    a = good, change;                                              \
    assert_int_equal(kerf_gemv_run(plan, &a, NULL, &err), status); \
    if (!strstr(err.text, word)) fail_msg("\"%s\" lacks \"%s\"", err.text, word);
    REFUSED(a.weights[KERF_PLANE_CODES].n--, KERF_E_BUFFER, "codes has 255 bytes, needs 256")
    REFUSED(a.weights[KERF_PLANE_SCALES].n = 0, KERF_E_BUFFER, "plane of scales")
    REFUSED(a.weights[KERF_PLANE_SECOND].n = 3, KERF_E_BUFFER, "second-level")
    REFUSED(a.weights[KERF_PLANE_CODES].p = NULL, KERF_E_ARG, "codes is NULL")
    REFUSED(a.x.n -= 2, KERF_E_BUFFER, "x has 382 bytes, needs 384")
    REFUSED(a.y.n--, KERF_E_BUFFER, "y has 47 bytes, needs 48")
    REFUSED(a.x_stride = 65, KERF_E_BUFFER, "x has")
    REFUSED(a.x_stride = 63, KERF_E_ARG, "stride of 63")
    REFUSED(a.y_stride = UINT64_MAX / 2, KERF_E_RANGE, "overflow")
    REFUSED((a.bias.p = y, a.bias.n = 15), KERF_E_BUFFER, "bias")
    REFUSED((a.residual.p = y, a.residual.n = 46), KERF_E_BUFFER, "residual")
    if (work) {
        REFUSED(a.workspace.n--, KERF_E_BUFFER, "workspace")
    }
    plan->on_device = 1; /* in device memory numbers lie at multiples of their size */
    REFUSED(a.x.p = c.x_raw + 1, KERF_E_ARG, "x is not aligned to 2 bytes")
    REFUSED(a.y.p = (uint8_t *)y + 1, KERF_E_ARG, "y is not aligned to 2 bytes")
    REFUSED((a.bias.p = crooked, a.bias.n = 16), KERF_E_ARG, "bias is not aligned to 2 bytes")
    REFUSED((a.residual.p = crooked, a.residual.n = 48), KERF_E_ARG,
            "residual is not aligned to 2 bytes")
    plan->on_device = 0;
#undef REFUSED
    for (size_t i = 0; i < 24; i++) assert_int_equal(y[i], 0x5a5a); /* nothing was written */
    assert_int_equal(kerf_gemv_run(plan, &good, NULL, &err), KERF_OK);
    free(good.workspace.p);
    kerf_gemv_plan_free(plan);
    kerf_gemv_plan_free(NULL);
    case_free(&c);
}

/* --- alpha, bias, residual, strides, empty shapes -----------------------------------------------
 */

static void test_epilogue(void **state)
{
    (void)state;
    gemv_case c = case_new(format("mxfp6-e2m3"), 21, 100, 3, KERF_BF16);
    case_encode(&c, 1, 4);
    case_random_x(&c, 1, 4);
    for (size_t bi = 0; bi < kerf_gemv_backend_count(); bi++) {
        kerf_exec exec = {.backend = kerf_gemv_backend_at(bi)};
        kerf_gemv *plan = case_plan(&c, KERF_F32, &exec);
        float *plain = case_product(&c, exec.backend, 1), bias[21], y[3 * 30], residual[3 * 30];
        uint16_t x[3 * 111] = {0};
        for (size_t i = 0; i < 21; i++) bias[i] = (float)i - 5.5f;
        for (size_t i = 0; i < 90; i++) y[i] = residual[i] = 0.25f * (float)i;
        for (size_t i = 0; i < 3; i++) memcpy(x + i * 111, c.x_raw + i * 200, 200);
        kerf_gemv_args a = {.x = {x, sizeof x - 22},
                            .y = {y, sizeof y - 36},
                            .x_stride = 111,
                            .y_stride = 30,
                            .alpha = 0.75f,
                            .bias = {bias, sizeof bias},
                            .residual = {y, sizeof y - 36}};
        kerf_error err;
        case_planes(&c, a.weights);
        a.workspace.n = kerf_gemv_workspace(plan);
        a.workspace.p = must_alloc(a.workspace.n);
        assert_int_equal(kerf_gemv_run(plan, &a, NULL, &err), KERF_OK);
        for (size_t i = 0; i < 90; i++) {
            size_t r = i % 30, column = i / 30;
            float want = residual[i]; /* between the vectors: untouched */
            if (r < 21) {
                want = plain[column * 21 + r] * 0.75f;
                want += bias[r];
                want += residual[i];
            }
            assert_true(y[i] == want);
        }
        free(a.workspace.p);
        free(plain);
        kerf_gemv_plan_free(plan);
    }
    case_free(&c);
}

static void test_empty(void **state)
{
    (void)state;
    for (size_t fi = 0; fi < kerf_format_count(); fi++) {
        for (size_t bi = 0; bi < kerf_gemv_backend_count(); bi++) {
            gemv_case none = case_new(kerf_format_at(fi), 3, 0, 2, KERF_F32);
            float *y = case_product(&none, kerf_gemv_backend_at(bi), 0);
            for (size_t i = 0; i < 6; i++) assert_true(y[i] == 0);
            free(y);
            case_free(&none);
            gemv_case rows = case_new(kerf_format_at(fi), 0, 64, 1, KERF_F32);
            free(case_product(&rows, kerf_gemv_backend_at(bi), 0));
            case_free(&rows);
        }
    }
}

/* --- bytes touched ------------------------------------------------------------------------------
 */

static void check_fenced(const gemv_case *c, const char *backend, int at_end)
{
    fence f[KERF_PLANES + 3];
    int n = 0;
    kerf_exec exec = {.threads = 1, .backend = backend};
    kerf_gemv *plan = case_plan(c, KERF_BF16, &exec);
    size_t x_bytes = c->columns * c->cols * kerf_dtype_bits(c->x_type) / 8;
    size_t y_bytes = c->columns * c->rows * 2, work = kerf_gemv_workspace(plan);
    uint8_t *want = must_alloc(y_bytes);
    case_run(c, plan, want, y_bytes);

    kerf_gemv_args a = {.x = {fenced(&f[n++], c->x_raw, x_bytes, at_end), x_bytes}};
    a.y = (kerf_span){fenced(&f[n++], NULL, y_bytes, at_end), y_bytes};
    a.workspace = (kerf_span){fenced(&f[n++], NULL, work, at_end), work};
    for (int p = 0; p < KERF_PLANES; p++) {
        size_t bytes = (size_t)c->g.plane[p].bytes;
        a.weights[p] = (kerf_cspan){fenced(&f[n++], c->plane[p], bytes, at_end), bytes};
    }
    assert_int_equal(kerf_gemv_run(plan, &a, NULL, NULL), KERF_OK);
    if (memcmp(a.y.p, want, y_bytes) != 0)
        fail_msg("%s on %s: the place in memory changes bits", c->g.format->name, backend);
    free(want);
    kerf_gemv_plan_free(plan);
    while (n-- > 0) fence_free(&f[n]);
}

static void test_fences(void **state)
{
    (void)state;
    static const size_t cols[] = {1, 7, 64, 130, 515, 2048};
    static const kerf_dtype types[] = {KERF_F32, KERF_F16, KERF_BF16};
    for (size_t fi = 0; fi < kerf_format_count(); fi++) {
        for (size_t i = 0; i < sizeof cols / sizeof cols[0]; i++) {
            gemv_case c = case_new(kerf_format_at(fi), i % 2 ? 5 : 4, cols[i],
                                   (unsigned)(i % 3 + 1), types[i % 3]);
            case_encode(&c, 1, i);
            case_random_x(&c, 1, i);
            for (size_t bi = 0; bi < kerf_gemv_backend_count(); bi++)
                for (int at_end = 0; at_end < 2; at_end++)
                    check_fenced(&c, kerf_gemv_backend_at(bi), at_end);
            case_free(&c);
        }
    }
}

/* --- the mode of a thread -----------------------------------------------------------------------
 */

static void check_flushed(const gemv_case *c, const char *backend)
{
    const uint64_t mode = thread_mode();
    float *want = case_product(c, backend, 1);
    set_thread_mode(mode | FLUSH_BITS);
    float *y = case_product(c, backend, 1);
    const uint64_t after = thread_mode();
    set_thread_mode(mode);
    assert_true((after & FLUSH_BITS) == FLUSH_BITS);
    assert_memory_equal(y, want, c->rows * c->columns * sizeof *y);
    free(y);
    free(want);
}

/* A thread that takes subnormal numbers for zero: the same bits, and the thread goes on so. */
static void test_flushed(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * kerf_format_count(); i++) {
        gemv_case c = case_new(kerf_format_at(i / 2), 9, 256, 3, KERF_F32);
        case_encode(&c, 0.5f, 5);
        case_random_x(&c, i % 2 ? 0x1p-128f : 2, 6); /* subnormal x, too */
        for (size_t bi = 0; bi < kerf_gemv_backend_count(); bi++)
            check_flushed(&c, kerf_gemv_backend_at(bi));
        case_free(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_plans), cmocka_unit_test(test_refused_runs),
        cmocka_unit_test(test_epilogue),      cmocka_unit_test(test_empty),
        cmocka_unit_test(test_fences),        cmocka_unit_test(test_flushed),
    };
    return cmocka_run_group_tests_name("gemv_api", tests, NULL, NULL);
}
