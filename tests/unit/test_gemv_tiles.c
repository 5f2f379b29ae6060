/* test_gemv_tiles.c - the matrix-vector product on tiles (cpu/gemv_tiles.h) in plain C, which any
 * machine runs: inside its bound for every format it takes, the same whatever rows are done beside
 * a row, right about what is not finite; and, where there are tiles of AMX, the same bytes as they
 * give. */
#include "cpu/tiles_plain.h"

#define KF_ISA(name) kf_test_tiles_##name
#include "cpu/gemv_tiles.h"

#include "gemv_case.h"
#include "rounds.h"

static const kf_gemv_ops plain = {"tiles", tile_plan, tile_start, tile_rows};

#define FOR_FORMATS(f)                                  \
    for (size_t fi = 0; fi < kerf_format_count(); fi++) \
        for (const kerf_format *f = kerf_format_at(fi); f && is_asked(f->name); f = NULL)

/* A plan of plain tiles; NULL: they do not take this. The caller frees it. */
static kerf_gemv *tiles_plan(const gemv_case *c)
{
    const kerf_exec exec = {.backend = "ref", .threads = 1};
    kerf_gemv *plan = case_plan(c, KERF_F32, &exec);
    if (plain.plan(plan) == KERF_OK) {
        plan->ops = &plain;
        return plan;
    }
    kerf_gemv_plan_free(plan);
    return NULL;
}

static float *run_plan(const gemv_case *c, const kerf_gemv *plan)
{
    const size_t bytes = c->columns * c->rows * sizeof(float);
    float *y = must_alloc(bytes);
    case_run(c, plan, y, bytes);
    return y;
}

/* Both backends, where there are both. 0: tiles do not take this. */
static int check_tiles(const gemv_case *c)
{
    kerf_gemv *plan = tiles_plan(c);
    if (!plan) return 0;
    float *y = run_plan(c, plan);
    gemv_exact *exact = case_exacts(c);
    for (size_t i = 0; i < c->columns * c->rows; i++)
        if (!is_right(c, exact[i], plan, (double)y[i]))
            fail_msg("%s, %zu x %zu, %u columns: y[%zu] = %.9g, exactly %.17g, bound %g of %g",
                     c->g.format->name, c->rows, c->cols, c->columns, i, (double)y[i], exact[i].y,
                     kerf_gemv_bound(plan), exact[i].sum_abs);
    free(exact);
    kerf_gemv *best = case_plan(c, KERF_F32, NULL);
    if (!strcmp(kerf_gemv_backend(best), "amx")) {
        float *other = run_plan(c, best);
        for (size_t i = 0; i < c->columns * c->rows; i++)
            if (kf_bits(y[i]) != kf_bits(other[i]) && !(isnan(y[i]) && isnan(other[i])))
                fail_msg("%s, %zu x %zu, %u columns of type %d: y[%zu] = %.9g, by AMX %.9g",
                         c->g.format->name, c->rows, c->cols, c->columns, (int)c->x_type, i,
                         (double)y[i], (double)other[i]);
        free(other);
    }
    kerf_gemv_plan_free(best);
    kerf_gemv_plan_free(plan);
    free(y);
    return 1;
}

static void test_bound(void **state)
{
    (void)state;
    static const size_t cols[] = {32, 256, 500, 832, 2050, 4352}, rows[] = {1, 16, 17, 33, 70};
    static const kerf_dtype types[] = {KERF_BF16, KERF_F16, KERF_F32};
    size_t formats = 0;
    FOR_FORMATS(f)
    {
        int ours = 0;
        for (size_t i = 0; i < sizeof cols / sizeof cols[0]; i += STEP(2)) {
            for (size_t few = 0; few < 3; few++) {
                const unsigned columns =
                    few ? 2 + (unsigned)(fi + i) % 7 : 9 + (unsigned)(fi + 3 * i) % 8;
                gemv_case c = case_new(f, rows[(fi + i) % 5], cols[i], columns,
                                       types[(fi + 2 * i + few) % 3]);
                case_encode(&c, 0.5f, i + 1);
                case_random_x(&c, 2, i + 77);
                ours |= check_tiles(&c);
                case_free(&c);
            }
        }
        formats += (size_t)ours;
    }
    /* of 59: not casts, e5m2, nor 2 bits in groups of 16; a few want more columns than come up
     * where tests are slow */
    assert_true(getenv("FORMATS") || formats >= (STEP(2) > 1 ? 47 : 50));
}

/* Every byte of every plane: scales and codes that are NaN or infinite, and subnormal ones. */
static void test_random_bytes(void **state)
{
    (void)state;
    FOR_FORMATS(f)
    {
        for (uint64_t seed = 1; seed <= 4; seed += STEP(3)) {
            gemv_case c = case_new(f, 19, seed % 2 ? 512 : 67, seed % 4 < 2 ? 8 : 12, KERF_BF16);
            case_random_planes(&c, seed * 1000);
            case_random_x(&c, 1, seed);
            check_tiles(&c);
            case_free(&c);
        }
    }
}

/* x that is cut into terms of which the last are tiny, or that is not for tiles at all. */
static void test_special_x(void **state)
{
    (void)state;
    static const float special[] = {NAN,       INFINITY,  -INFINITY, 0x1.fep127f, 0x1.234566p-60f,
                                    0x1p-126f, 0x1p-149f, 0x1p70f,   -0.0f,       0x1.fffffep0f};
    FOR_FORMATS(f)
    {
        for (size_t i = 0; i < sizeof special / sizeof special[0]; i += STEP(3)) {
            for (int all = 0; all < 2; all++) {
                gemv_case c = case_new(f, 6, 320, 10, KERF_F32);
                case_encode(&c, 0x1p-6f, i);
                case_random_x(&c, 1, i);
                for (size_t k = 0; k < 10 * c.cols; k++)
                    if (all || k == c.cols + 71) case_set_x(&c, k, special[i]);
                check_tiles(&c);
                case_free(&c);
            }
        }
    }
}

/* Products below 2^-126 count as zero on tiles: that may cost what the bound allows and no more,
 * with weights as small as a format has them. */
static void test_least_weights(void **state)
{
    (void)state;
    const float one = 1;
    gemv_case c = case_new(kerf_format_find("nvfp4"), 1, 256, 3, KERF_BF16);
    memset(c.plane[KERF_PLANE_CODES], 0x11, (size_t)c.g.plane[KERF_PLANE_CODES].bytes);
    memset(c.plane[KERF_PLANE_SCALES], 0x01, (size_t)c.g.plane[KERF_PLANE_SCALES].bytes);
    memcpy(c.plane[KERF_PLANE_SECOND], &one, sizeof one);
    c.plane[KERF_PLANE_CODES][0] = 0x10; /* the weight of the largest x is zero */
    case_decode(&c);
    for (size_t k = 0; k < 3 * c.cols; k++) case_set_x(&c, k, k % c.cols ? 0x1.fap-109f : 0x1p-60f);
    assert_true(check_tiles(&c));
    case_free(&c);
}

/* A product without inputs is zero, whatever lies behind its workspace. */
static void test_no_inputs(void **state)
{
    (void)state;
    size_t formats = 0;
    FOR_FORMATS(f)
    {
        for (unsigned columns = 4; columns <= 16; columns += 6) {
            gemv_case c = case_new(f, 37, 0, columns, KERF_BF16);
            formats += (size_t)check_tiles(&c);
            case_free(&c);
        }
    }
    assert_true(getenv("FORMATS") || formats >= 50);
}

static void test_infinite_minima(void **state)
{
    (void)state;
    FOR_FORMATS(f)
    {
        if (!has_minima(f)) continue;
        gemv_case c = case_new(f, 2, 256, 8, KERF_BF16);
        case_infinite_minima(&c);
        assert_true(check_tiles(&c));
        case_free(&c);
    }
}

/* Blocks that are all alike beside an x that is: every rounding of a long row goes one way, as many
 * as the bound counts. */
static void test_alike(void **state)
{
    (void)state;
    FOR_FORMATS(f)
    {
        const kf_spec s = kf_spec_of(f);
        const kf_super k = kf_super_of(s);
        if (!has_minima(f) || k.levels == KF_LEVELS_NONE) continue;
        gemv_case c = case_new(f, 4, 65536, 16, KERF_BF16);
        uint64_t seed = 5;
        memset(c.plane[0], 0, (size_t)c.g.plane[0].bytes);
        for (size_t r = 0; r < c.rows; r++) {
            const float min = 0.75f + 0.25f * random_unit(&seed);
            for (size_t i = 0; i < c.cols / k.elements; i++) {
                uint8_t *block = c.plane[0] + (r * (c.cols / k.elements) + i) * k.bytes;
                kf_super_put_half(block + k.m, min);
                for (unsigned j = 0; j < k.elements / s.group; j++)
                    kf_level_put(k.levels, block + k.at, j, 0, 1);
            }
        }
        case_decode(&c);
        for (size_t i = 0; i < c.columns; i++) {
            const float x = 0.75f + 0.25f * random_unit(&seed);
            for (size_t j = 0; j < c.cols; j++) case_set_x(&c, i * c.cols + j, x);
        }
        assert_true(check_tiles(&c));
        case_free(&c);
    }
}

/* A row gives the same bits whatever rows are done with it, and from wherever they begin. */
static void test_rows_apart(void **state)
{
    (void)state;
    FOR_FORMATS(f)
    {
        gemv_case c = case_new(f, 53, 544, 11, KERF_BF16);
        case_encode(&c, 1, 9);
        case_random_x(&c, 1, 5);
        kerf_gemv *plan = tiles_plan(&c);
        for (size_t panel = 1; plan && panel < 53; panel += panel < 9 ? 4 : 31) {
            const size_t as_is = plan->panel;
            float *whole = run_plan(&c, plan);
            plan->panel = panel;
            float *apart = run_plan(&c, plan);
            assert_memory_equal(whole, apart, c.rows * c.columns * sizeof *apart);
            plan->panel = as_is;
            free(whole);
            free(apart);
        }
        kerf_gemv_plan_free(plan);
        case_free(&c);
    }
}

/* Fewer columns, numbers that bfloat16 has not, and rows that begin inside groups are not for
 * tiles. */
static void test_declined(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        unsigned columns;
        int is_ours;
    } rows[] = {{"int4-g128", 2, 0},     {"int4-g128", 3, 1},      {"int4-g32", 2, 0},
                {"int4-g32", 3, 1},      {"ggml-q4_0", 3, 0},      {"ggml-q4_0", 4, 1},
                {"ggml-q8_0", 3, 0},     {"ggml-q8_0", 4, 1},      {"q6_k", 4, 0},
                {"q6_k", 5, 1},          {"q4_k", 3, 0},           {"q4_k", 4, 1},
                {"iq4_xs", 4, 0},        {"iq4_xs", 5, 1},         {"int4-g32-asym", 2, 0},
                {"int8", 2, 0},          {"int4-g32-asym", 3, 1},  {"int8", 3, 1},
                {"mxint8", 3, 1},        {"int4-g128-asym", 2, 0}, {"int4-g128-asym", 3, 1},
                {"nvfp4", 2, 0},         {"nvfp4", 3, 1},          {"nf4", 2, 0},
                {"nf4", 3, 1},           {"nf4-dq", 16, 1},        {"nf4-f16", 16, 1},
                {"bf16", 16, 0},         {"int2-g32", 1, 0},       {"int2-g32", 2, 1},
                {"int2-g128", 2, 1},     {"int2-g16", 16, 0},      {"int2-g16-asym", 16, 0},
                {"int2-g32-asym", 2, 0}, {"int2-g32-asym", 3, 1},  {"fp8-e5m2", 16, 0},
                {"fp8-e4m3", 16, 1},     {"mxint8", 16, 1},        {"int8-asym", 16, 1},
                {"q5_0", 16, 1},         {"ggml-q8_0", 16, 1},     {"q3_k", 16, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gemv_case c =
            case_new(kerf_format_find(rows[i].format), 32, 256, rows[i].columns, KERF_BF16);
        kerf_gemv *plan = tiles_plan(&c);
        if ((plan != NULL) != rows[i].is_ours)
            fail_msg("%s by %u columns", rows[i].format, rows[i].columns);
        kerf_gemv_plan_free(plan);
        case_free(&c);
    }
}

/* A dot by hand: even and odd numbers apart, subnormals as zero. */
static void test_dot(void **state)
{
    (void)state;
    static uint16_t a[32 * 32], b[32 * 2];
    static tiles t;
    float c[32 * 16] = {0};
    for (size_t i = 0; i < 32; i++) b[2 * (i / 2 * 2) + i % 2] = 0x3f80; /* ones in column 0 */
    a[0] = 0x4b80; /* 2^24, then ones: even and odd sums do not meet before their end */
    a[1] = a[2] = a[3] = 0x3f80;
    a[32] = 0x0001; /* subnormal */
    a[33] = 0x0080; /* 2^-126 */
    tiles_begin(&t, 2);
    tiles_zero(&t);
    tiles_dot(&t, a, b, 2, 0);
    tiles_store(&t, c, 0);
    assert_true(c[0] == 0x1p24f + 2); /* 2^24 + 1 is 2^24; 1 + 1 beside it */
    assert_true(c[1] == 0);
    assert_true(c[16] == 0x1p-126f);
    tiles_end(&t);
}

/* Bytes by hand: fours of a column, and the second sums behind the first. */
static void test_byte_dot(void **state)
{
    (void)state;
    static uint8_t a[16 * 64], b[2 * 32 * 2];
    static tiles t;
    static int32_t first[32 * 16], second[32 * 16];
    a[0] = 0x80; /* -128, then 127 as number 5 */
    a[5] = 127;
    a[40] = 3;                  /* row 1, its stride being 40 */
    b[0] = 0x80;                /* number 0 of column 0 */
    b[4 * (1 * 2 + 1) + 1] = 2; /* number 5 of column 1 */
    b[32 * 2] = 7;              /* number 0 of column 0, second sums */
    bytes_begin(&t, 32, 2);
    bytes_zero(&t, 0);
    bytes_dot(&t, a, 40, b, 32, 2, 0, 0);
    bytes_dot(&t, a, 40, b, 32, 2, 0, 0);
    bytes_store(&t, first, second, 0);
    assert_int_equal(first[0], 2 * 128 * 128);
    assert_int_equal(first[1], 2 * 127 * 2);
    assert_int_equal(first[16], -2 * 3 * 128);
    assert_int_equal(second[0], -2 * 128 * 7);
    assert_int_equal(second[1], 0);
    tiles_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_dot),
                                       cmocka_unit_test(test_byte_dot),
                                       cmocka_unit_test(test_declined),
                                       cmocka_unit_test(test_bound),
                                       cmocka_unit_test(test_random_bytes),
                                       cmocka_unit_test(test_special_x),
                                       cmocka_unit_test(test_least_weights),
                                       cmocka_unit_test(test_no_inputs),
                                       cmocka_unit_test(test_infinite_minima),
                                       cmocka_unit_test(test_alike),
                                       cmocka_unit_test(test_rows_apart)};
    return cmocka_run_group_tests_name("gemv_tiles", tests, NULL, NULL);
}
