/* test_gemv.c - the matrix-vector product of every format on every backend: inside its bound,
 * exact where every sum is exact, the same bits for any thread count, and what NaN, infinities,
 * huge and tiny numbers give. */
#include "exact_blocks.h"
#include "gemv_case.h"
#include "rounds.h"

#include <string.h>

#define FOR_FORMATS(f)                                  \
    for (size_t fi = 0; fi < kerf_format_count(); fi++) \
        for (const kerf_format *f = kerf_format_at(fi); f && is_asked(f->name); f = NULL)
#define FOR_BACKENDS(b)                                       \
    for (size_t bi = 0; bi < kerf_gemv_backend_count(); bi++) \
        for (const char *b = kerf_gemv_backend_at(bi); b; b = NULL)

static void check_backends(const gemv_case *c)
{
    gemv_exact *exact = case_exacts(c);
    FOR_BACKENDS(b)
    {
        float *y = case_product(c, b, 1);
        check_product(c, exact, b, y);
        free(y);
    }
    free(exact);
}

/* --- inside the bound ---------------------------------------------------------------------------
 */

static void test_bound(void **state)
{
    (void)state;
    static const size_t cols[] = {1, 2, 3, 15, 31, 33, 64, 127, 130, 256, 511, 640, 1091};
    static const kerf_dtype types[] = {KERF_F32, KERF_F16, KERF_BF16, KERF_BF16};
    FOR_FORMATS(f)
    {
        for (size_t i = 0; i < sizeof cols / sizeof cols[0]; i += STEP(5)) {
            size_t tiles = f->geometry == KERF_GROUP_TILE ? 131 : 9; /* more than one */
            size_t rows = i % 3 == 0 ? 1 : i % 3 == 1 ? 5 : tiles;
            unsigned columns = (unsigned)(i * 5 % KERF_GEMV_COLUMNS + 1);
            gemv_case c = case_new(f, rows, cols[i], columns, types[i % 4]);
            case_encode(&c, 0.5f, i + 1);
            case_random_x(&c, 2, i + 77);
            check_backends(&c);
            case_free(&c);
        }
    }
}

/* Many rows of whole steps by one column and by several: all but the last take their scales
 * straight from the bytes, and each row has some of its own. */
static void test_rows(void **state)
{
    (void)state;
    static const size_t cols[] = {256, 768, 1024};
    static const unsigned columns[] = {1, 6, 11}; /* four, two and one at a time */
    FOR_FORMATS(f)
    {
        for (size_t i = 0; i < sizeof cols / sizeof cols[0]; i += STEP(2)) {
            gemv_case c = case_new(f, 41, cols[i], columns[i], KERF_BF16);
            case_encode(&c, 0.5f, i + 3);
            case_random_x(&c, 1, i + 5);
            check_backends(&c);
            case_free(&c);
        }
    }
}

/* A long row: the bound grows slowly with cols, and a sum that loses parts would show. */
static void test_long(void **state)
{
    (void)state;
    FOR_FORMATS(f)
    {
        for (unsigned columns = 1; columns <= KERF_GEMV_COLUMNS; columns += 5) {
            gemv_case c = case_new(f, 5, 14336 / columns + 64, columns, KERF_BF16);
            case_encode(&c, 0.02f, columns);
            case_random_x(&c, 1, columns);
            check_backends(&c);
            case_free(&c);
        }
    }
}

/* More x than a core keeps near: rows go in blocks then, each summed as beside few columns. */
static void test_wide(void **state)
{
    (void)state;
    FOR_FORMATS(f)
    {
        if (f->geometry != KERF_GROUP_SUPER && f->geometry != KERF_GROUP_STRUCT) continue;
        gemv_case c = case_new(f, 19, 8448, KERF_GEMV_COLUMNS, KERF_F32);
        case_encode(&c, 0.1f, 3);
        case_random_x(&c, 1, 4);
        check_backends(&c);
        FOR_BACKENDS(b)
        {
            float *all = case_product(&c, b, 2), *few;
            c.columns = 3;
            few = case_product(&c, b, 2);
            c.columns = KERF_GEMV_COLUMNS;
            if (strcmp(b, "amx")) /* whose plans differ by columns */
                assert_memory_equal(all, few, 3 * c.rows * sizeof *few);
            free(all);
            free(few);
        }
        case_free(&c);
    }
}

/* --- exactly ------------------------------------------------------------------------------------
 */

/* Codes whose numbers, under a scale of one, are small multiples of 1/16. */
static size_t tame_codes(kf_spec s, uint32_t codes[256])
{
    kf_dequant unit = {1, 0, 0};
    size_t n = 0;
    if (s.bits > 8) { /* casts: some integers */
        for (int i = -16; i < 16; i++) codes[n++] = kf_element_encode(s.element, (float)i);
        return n;
    }
    for (uint32_t i = 0; i < 1u << s.bits; i++) {
        float v = kf_value(s, unit, i);
        if (fabsf(v) <= 16 && v * 16 == floorf(v * 16)) codes[n++] = i;
    }
    return n;
}

/* The bytes of a scale of 2^e, e in [-2, 1]. */
static uint32_t scale_of_two(kf_spec s, int e)
{
    switch (s.scale) {
    case KERF_SCALE_E8M0: return (uint32_t)(127 + e);
    case KERF_SCALE_E4M3: return kf_e4m3_encode(kf_exp2(e));
    case KERF_SCALE_MAP8: return 255; /* 1 */
    default: return kf_scale_store(s.scale, kf_exp2(e));
    }
}

static void fill_exact(gemv_case *c, uint64_t seed)
{
    kf_spec s = kf_spec_of(c->g.format);
    if (s.geometry == KERF_GROUP_SUPER) {
        fill_exact_blocks(c->plane[0], (size_t)c->g.plane[0].bytes, s, next_random, &seed);
        case_decode(c);
        return;
    }
    uint32_t codes[256];
    size_t n = tame_codes(s, codes), places = (size_t)c->g.plane[0].bytes * 8 / s.bits;
    unsigned bits = 8 * kf_scale_bytes(s.scale);
    assert_true(n >= 3);
    size_t row_bytes = (size_t)c->g.plane[0].band_bytes / (size_t)c->g.band_rows;
    for (size_t i = 0; i < places; i++) {
        if (s.bits != 6) kf_put_code(c->plane[0], s.bits, i, codes[next_random(&seed) % n]);
    }
    for (size_t r = 0; s.bits == 6 && r < c->rows; r++)
        for (size_t k = 0; k < c->cols; k++)
            kf_put_code(c->plane[0] + r * row_bytes, 6, k, codes[next_random(&seed) % n]);
    if (s.geometry == KERF_GROUP_STRUCT) {
        for (size_t r = 0; r < c->rows; r++)
            for (size_t i = 0; i < c->cols / s.group; i++) {
                uint8_t *at = c->plane[0] + r * row_bytes + kf_struct_scale(s, i);
                memset(at, 0, bits / 8);
                kf_put_code(at, bits, 0, scale_of_two(s, (int)(next_random(&seed) % 4) - 2));
            }
    } else if (bits) {
        for (size_t i = 0; i < c->g.plane[KERF_PLANE_SCALES].bytes * 8 / bits; i++)
            kf_put_code(c->plane[KERF_PLANE_SCALES], bits, i,
                        scale_of_two(s, (int)(next_random(&seed) % 4) - 2));
    }
    for (size_t i = 0; i < c->g.plane[KERF_PLANE_SECOND].bytes / 4; i++)
        kf_put_code(c->plane[KERF_PLANE_SECOND], 32, i, kf_bits(0.5f));
    for (size_t i = 0; s.zero == KERF_ZERO_CODE && i < c->g.plane[KERF_PLANE_ZEROS].bytes; i++)
        c->plane[KERF_PLANE_ZEROS][i] =
            (uint8_t)(s.bits == 8 ? next_random(&seed) % 16 : next_random(&seed));
    case_decode(c);
}

static void test_exact(void **state)
{
    (void)state;
    static const size_t cols[] = {5, 96, 256, 1000, 2051};
    FOR_FORMATS(f)
    {
        for (size_t i = 0; i < sizeof cols / sizeof cols[0]; i++) {
            gemv_case c =
                case_new(f, 7, cols[i], (unsigned)(i % 5 + 1), i % 2 ? KERF_F16 : KERF_BF16);
            uint64_t seed = i;
            fill_exact(&c, i * 31 + 1);
            for (size_t k = 0; k < c.columns * c.cols; k++)
                case_set_x(&c, k, (float)((int)(next_random(&seed) % 9) - 4) * 0.5f);
            gemv_exact *exact = case_exacts(&c);
            FOR_BACKENDS(b)
            {
                float *y = case_product(&c, b, 2);
                for (size_t j = 0; j < c.columns * c.rows; j++)
                    if ((double)y[j] != exact[j].y)
                        fail_msg("%s on %s, %zu columns: %.9g, not %.9g", f->name, b, c.cols,
                                 (double)y[j], exact[j].y);
                free(y);
            }
            free(exact);
            case_free(&c);
        }
    }
}

/* --- the largest integers -----------------------------------------------------------------------
 */

/* Bytes that levels take in a block. */
static size_t level_bytes(kf_levels levels)
{
    switch (levels) {
    case KF_LEVELS_BYTES:
    case KF_LEVELS_EIGHT: return 16;
    case KF_LEVELS_PAIRS:
    case KF_LEVELS_SIX: return 12;
    case KF_LEVELS_SPLIT: return 6;
    default: return 0;
    }
}

/* Blocks of two levels, q4_0 and codes of 6 bits, full of one byte, and their levels of another,
 * beside x whose integers and their bytes are the largest there are: what a sum of words or dwords
 * cannot hold would show. */
static void test_largest(void **state)
{
    (void)state;
    static const uint8_t bytes[][2] = {{0xff, 0xff}, {0x7f, 0x7f}, {0x80, 0x80},
                                       {0x00, 0x00}, {0x00, 0x80}, {0xff, 0x7f}};
    static const int x[] = {32512, -32512, 32384, -32384, 32511, 129, -128, -32511};
    FOR_FORMATS(f)
    {
        const kf_spec s = kf_spec_of(f);
        kf_super k = kf_super_of(s);
        if (case_is_small(s)) k.bytes = 18; /* d at the beginning, no minimum */
        if (!k.bytes && s.bits != 6) continue;
        for (size_t i = 0; i < 2 * sizeof bytes / sizeof *bytes; i++) {
            const uint8_t *b = bytes[i / 2];
            gemv_case c = case_new(f, 3, 768, i % 2 ? 1 : 8, KERF_F32);
            const size_t n = (size_t)c.g.plane[0].bytes;
            memset(c.plane[0], b[0], n);
            memset(c.plane[KERF_PLANE_SCALES], 127, (size_t)c.g.plane[KERF_PLANE_SCALES].bytes);
            for (uint8_t *at = c.plane[0]; k.bytes && at < c.plane[0] + n; at += k.bytes) {
                memset(at + k.at, b[1], level_bytes(k.levels));
                kf_super_put_half(at + k.d, 1);
                if (k.m) kf_super_put_half(at + k.m, -1);
            }
            case_decode(&c);
            for (size_t j = 0; j < c.columns * c.cols; j++)
                case_set_x(&c, j, (float)(j % c.cols ? x[j / c.cols] : 32512));
            check_backends(&c);
            case_free(&c);
        }
    }
}

/* --- the same bits ------------------------------------------------------------------------------
 */

static void test_reproducible(void **state)
{
    (void)state;
    FOR_FORMATS(f)
    {
        gemv_case c = case_new(f, 203, 325, 3, KERF_BF16);
        case_encode(&c, 1, 9);
        case_random_x(&c, 1, 5);
        FOR_BACKENDS(b)
        {
            size_t n = c.columns * c.rows * sizeof(float);
            float *first = case_product(&c, b, 1);
            for (int threads = 0; threads < 6; threads++) {
                float *y = case_product(&c, b, threads);
                if (memcmp(first, y, n) != 0)
                    fail_msg("%s on %s: %d threads change bits", f->name, b, threads);
                free(y);
            }
            free(first);
        }
        case_free(&c);
    }
}

static int same_kernel(const gemv_case *c, const gemv_case *d, const char *backend)
{
    kerf_exec exec = {.backend = backend};
    kerf_gemv *a = case_plan(c, KERF_F32, &exec), *b = case_plan(d, KERF_F32, &exec);
    int same = !strcmp(kerf_gemv_backend(a), kerf_gemv_backend(b));
    kerf_gemv_plan_free(a);
    kerf_gemv_plan_free(b);
    return same;
}

/* Types of y: one rounding of what F32 gives. Types of x: the same numbers give the same y, where
 * the same kernel takes them. */
static void test_types(void **state)
{
    (void)state;
    static const kerf_dtype types[] = {KERF_F16, KERF_BF16};
    FOR_FORMATS(f)
    {
        gemv_case c = case_new(f, 17, 192, 2, KERF_F32);
        case_encode(&c, 1, 3);
        uint64_t seed = 8; /* numbers that all three types hold */
        for (size_t i = 0; i < c.columns * c.cols; i++)
            case_set_x(&c, i, (float)((int)(next_random(&seed) % 255) - 127) / 64.0f);
        gemv_exact *exact = case_exacts(&c);
        FOR_BACKENDS(b)
        {
            kerf_exec exec = {.threads = 1, .backend = b};
            float *y = case_product(&c, b, 1);
            for (size_t t = 0; t < 2; t++) {
                uint16_t narrow[34], want[2]; /* room for the widest store */
                kerf_gemv *plan = case_plan(&c, types[t], &exec);
                case_run(&c, plan, narrow, sizeof narrow);
                kerf_gemv_plan_free(plan);
                for (size_t i = 0; i < 34; i++) {
                    kf_store(types[t], (uint8_t *)want, 0, y[i]);
                    assert_int_equal(narrow[i], want[0]);
                }
                gemv_case d = c;
                d.x_type = types[t];
                d.x_raw = must_alloc(c.columns * c.cols * 2);
                d.x = must_alloc(c.columns * c.cols * sizeof *d.x);
                for (size_t i = 0; i < c.columns * c.cols; i++) case_set_x(&d, i, c.x[i]);
                float *other = case_product(&d, b, 1);
                if (same_kernel(&c, &d, b))
                    assert_memory_equal(y, other, sizeof(float) * 34);
                else
                    check_product(&d, exact, b, other);
                free(other);
                free(d.x_raw);
                free(d.x);
            }
            free(y);
        }
        free(exact);
        case_free(&c);
    }
}

/* --- NaN, infinities, huge and tiny -------------------------------------------------------------
 */

/* Every byte of every plane is a number or a NaN that the sum must show. */
static void test_random_bytes(void **state)
{
    (void)state;
    FOR_FORMATS(f)
    {
        for (uint64_t seed = 1; seed <= 6; seed += STEP(3)) {
            gemv_case c = case_new(f, 17, seed % 2 ? 384 : 67, 2, KERF_BF16);
            case_random_planes(&c, seed * 1000);
            case_random_x(&c, 1, seed);
            check_backends(&c);
            case_free(&c);
        }
    }
}

static void test_infinite_minima(void **state)
{
    (void)state;
    FOR_FORMATS(f)
    {
        if (!has_minima(f)) continue;
        gemv_case c = case_new(f, 2, 256, 6, KERF_BF16);
        case_infinite_minima(&c);
        check_backends(&c);
        case_free(&c);
    }
}

static void test_special_x(void **state)
{
    (void)state;
    static const float special[] = {NAN,    INFINITY,  -INFINITY, 0x1.fep127f, -0x1.8p126f,
                                    1e-42f, 0x1p-126f, 0x1p-100f, 0x1p70f,     -0.0f,
                                    0x1p9f, -0x1p29f,  0x1p59f,   0x1p-58f};
    FOR_FORMATS(f)
    {
        for (size_t i = 0; i < sizeof special / sizeof special[0]; i += STEP(3)) {
            for (int all = 0; all < 2; all++) { /* in one place, or everywhere */
                gemv_case c = case_new(f, 6, 150, 2, KERF_F32);
                case_encode(&c, 0x1p-6f, i);
                case_random_x(&c, 1, i);
                for (size_t k = 0; k < 2 * c.cols; k++)
                    if (all || k == c.cols + 71) case_set_x(&c, k, special[i]);
                check_backends(&c);
                case_free(&c);
            }
        }
    }
}

static void test_sizes_of_w(void **state)
{
    (void)state;
    static const float size[] = {0, 1e-30f, 0x1p-120f, 0x1p60f, 0x1p115f};
    FOR_FORMATS(f)
    {
        for (size_t i = 0; i < 5; i++) {
            if (kf_spec_of(f).scale == KERF_SCALE_F16 || f->id == KERF_FORMAT_FP16) continue;
            gemv_case c = case_new(f, 6, 200, 1, KERF_F32);
            case_encode(&c, size[i], i);
            case_random_x(&c, 0x1p-9f, i);
            check_backends(&c);
            case_free(&c);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bound),      cmocka_unit_test(test_rows),
        cmocka_unit_test(test_long),       cmocka_unit_test(test_exact),
        cmocka_unit_test(test_largest),    cmocka_unit_test(test_reproducible),
        cmocka_unit_test(test_types),      cmocka_unit_test(test_random_bytes),
        cmocka_unit_test(test_special_x),  cmocka_unit_test(test_infinite_minima),
        cmocka_unit_test(test_sizes_of_w), cmocka_unit_test(test_wide),
    };
    return cmocka_run_group_tests_name("gemv", tests, NULL, NULL);
}
