/* test_scale_tiles.c - scales in cuBLASLt's tiles: the published formula, a bijection, zeros in the
 * padding, and refusals. */
#include <kerf/codec.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The formula of CUDALibrarySamples, written down again. */
static uint64_t place_of(uint64_t r, uint64_t c, uint64_t cols)
{
    return (r / 128 * ((cols + 3) / 4) + c / 4) * 512 + r % 32 * 16 + r % 128 / 32 * 4 + c % 4;
}

static void check_shape(uint64_t matrices, uint64_t rows, uint64_t cols)
{
    uint64_t n = matrices * rows * cols, tiled;
    kerf_error err;
    assert_int_equal(kerf_tiled_scale_bytes(matrices, rows, cols, &tiled, &err), KERF_OK);
    assert_int_equal(tiled, matrices * ((rows + 127) / 128 * 128) * ((cols + 3) / 4 * 4));
    uint8_t *plain = malloc(n + 1), *tiles = malloc(tiled + 1), *back = malloc(n + 1);
    assert_true(plain && tiles && back);
    for (uint64_t i = 0; i < n; i++) plain[i] = (uint8_t)(1 + i % 255); /* no zero among them */
    memset(tiles, 0xff, tiled);
    assert_int_equal(kerf_scales_to_tiles(matrices, rows, cols, (kerf_cspan){plain, n},
                                          (kerf_span){tiles, tiled}, &err),
                     KERF_OK);
    for (uint64_t m = 0; m < matrices; m++)
        for (uint64_t r = 0; r < rows; r++)
            for (uint64_t c = 0; c < cols; c++)
                assert_int_equal(tiles[m * tiled / matrices + place_of(r, c, cols)],
                                 plain[(m * rows + r) * cols + c]);
    uint64_t zeros = 0;
    for (uint64_t i = 0; i < tiled; i++) zeros += tiles[i] == 0;
    assert_int_equal(zeros, tiled - n); /* nothing but the padding */
    assert_int_equal(kerf_scales_from_tiles(matrices, rows, cols, (kerf_cspan){tiles, tiled},
                                            (kerf_span){back, n}, &err),
                     KERF_OK);
    assert_memory_equal(back, plain, n);
    free(plain);
    free(tiles);
    free(back);
}

static void test_shapes(void **state)
{
    (void)state;
    static const uint64_t shapes[][3] = {{1, 128, 4},  {1, 1, 1},    {2, 127, 3}, {3, 129, 5},
                                         {1, 256, 64}, {2, 300, 17}, {1, 33, 128}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        check_shape(shapes[i][0], shapes[i][1], shapes[i][2]);
}

static void test_refusals(void **state)
{
    (void)state;
    uint8_t plain[4] = {0}, tiles[512];
    uint64_t n;
    kerf_error err;
    assert_int_equal(
        kerf_scales_to_tiles(1, 1, 4, (kerf_cspan){plain, 4}, (kerf_span){tiles, 511}, &err),
        KERF_E_BUFFER);
    assert_int_equal(
        kerf_scales_from_tiles(1, 1, 4, (kerf_cspan){tiles, 512}, (kerf_span){plain, 3}, &err),
        KERF_E_BUFFER);
    assert_int_equal(
        kerf_scales_to_tiles(1, 1, 4, (kerf_cspan){NULL, 4}, (kerf_span){tiles, 512}, &err),
        KERF_E_ARG);
    assert_int_equal(
        kerf_scales_from_tiles(1, 1, 4, (kerf_cspan){tiles, 512}, (kerf_span){NULL, 4}, &err),
        KERF_E_ARG);
    assert_int_equal(kerf_tiled_scale_bytes(1, UINT64_MAX, 4, &n, &err), KERF_E_RANGE);
    assert_int_equal(kerf_tiled_scale_bytes(UINT64_MAX, 128, 4, &n, &err), KERF_E_RANGE);
    assert_int_equal(kerf_tiled_scale_bytes(0, 128, 4, &n, &err), KERF_OK);
    assert_int_equal(n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes),
                                       cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
