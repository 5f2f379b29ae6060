/* test_peer_ends.c - other projects' rules where a scale leaves its type: codes are those that the
 * packages write (torchao 0.18, bitsandbytes 0.50, hqq 0.2.8), and where those write NaN, zeros. */
#include "exhaustive/coded.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { N = 64 };

static coded encode_row(const char *codec, const void *src, kerf_dtype dtype, uint64_t rows)
{
    kerf_codec found;
    coded c;
    assert_int_equal(kerf_codec_find(codec, &found, NULL), KERF_OK);
    coded_init(&c, found, (kerf_shape){2, {rows, N / rows}});
    coded_encode(&c, src, dtype);
    return c;
}

static void all_bytes_are(const coded *c, kerf_plane_id plane, uint8_t want)
{
    for (size_t i = 0; i < c->plane[plane].n; i++)
        assert_int_equal(((uint8_t *)c->plane[plane].p)[i], want);
}

/* Largest less least number is Inf: the factor is 0, and every code is the zero point. */
static void ranges_that_overflow(void **state)
{
    (void)state;
    uint16_t half[N];
    float wide[N];
    for (int i = 0; i < N; i++) {
        half[i] = (uint16_t)((0x7b00 + i) | (i % 2) << 15);
        wide[i] = i % 2 ? -3e38f : 3e38f;
    }
    coded a = encode_row("int8-asym:torchao", half, KERF_F16, 1);
    all_bytes_are(&a, KERF_PLANE_CODES, 0x80);
    all_bytes_are(&a, KERF_PLANE_ZEROS, 0x80);
    coded b = encode_row("int4-g32-asym:hqq", wide, KERF_F32, 1);
    all_bytes_are(&b, KERF_PLANE_CODES, 0);
    coded_free(&a);
    coded_free(&b);
}

/* LLM.int8 goes through fp16: a row that is Inf there has codes 0. */
static void rows_beyond_fp16(void **state)
{
    (void)state;
    float x[N];
    for (int i = 0; i < N; i++) x[i] = (float)(i - 32) * 4000;
    coded c = encode_row("int8:bnb", x, KERF_F32, 1);
    all_bytes_are(&c, KERF_PLANE_CODES, 0);
    coded_free(&c);
}

/* 1 / d is Inf in a block of the least numbers: zeros are still code 8. */
static void blocks_below_fp16(void **state)
{
    (void)state;
    float x[N] = {0};
    x[0] = 0x1p-140f;
    coded c = encode_row("ggml-q4_0", x, KERF_F32, 1);
    const uint8_t *bytes = c.plane[KERF_PLANE_CODES].p; /* two structs of fp16 and 16 bytes */
    assert_int_equal(bytes[2], 0x80);
    for (int i = 3; i < 18; i++) assert_int_equal(bytes[i], 0x88);
    coded_free(&c);
}

/* So small a matrix that 1 / second or 1 / amax is Inf: zeros stay zeros, no scale is NaN. */
static void matrices_below_the_second_scale(void **state)
{
    (void)state;
    float x[N] = {0};
    for (int i = 0; i < 16; i++) x[i] = (float)i * 0x1p-135f;
    coded a = encode_row("nvfp4:autoround", x, KERF_F32, 4);
    const uint8_t *scales = a.plane[KERF_PLANE_SCALES].p;
    for (int i = 1; i < 4; i++) assert_int_equal(scales[i], 0);
    coded b = encode_row("nvfp4:torchao", x, KERF_F32, 4);
    const uint8_t *codes = b.plane[KERF_PLANE_CODES].p;
    assert_int_equal(codes[0], 0x70); /* element 0 is zero, 1 saturates */
    for (int i = 8; i < N / 2; i++) assert_int_equal(codes[i], 0);
    coded_free(&a);
    coded_free(&b);
}

/* awq and hqq do not widen a range to hold zero, but a tail ends in zeros. */
static void tails_end_in_zeros(void **state)
{
    (void)state;
    static const char *const codecs[] = {"int4-g128-asym:awq", "int4-g128-asym:hqq"};
    uint16_t x[2 * N] = {0};
    for (int i = 0; i < N; i++) x[i] = (uint16_t)(0x3f80 + i);
    for (int k = 0; k < 2; k++) {
        kerf_codec found;
        coded whole;
        assert_int_equal(kerf_codec_find(codecs[k], &found, NULL), KERF_OK);
        coded_init(&whole, found, (kerf_shape){2, {1, 2 * N}});
        coded_encode(&whole, x, KERF_BF16);
        coded tail = encode_row(codecs[k], x, KERF_BF16, 1);
        assert_memory_equal(tail.plane[KERF_PLANE_SCALES].p, whole.plane[KERF_PLANE_SCALES].p, 2);
        assert_memory_equal(tail.plane[KERF_PLANE_CODES].p, whole.plane[KERF_PLANE_CODES].p, N / 2);
        coded_free(&whole);
        coded_free(&tail);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_that_overflow), cmocka_unit_test(rows_beyond_fp16),
        cmocka_unit_test(blocks_below_fp16),    cmocka_unit_test(matrices_below_the_second_scale),
        cmocka_unit_test(tails_end_in_zeros),
    };
    return cmocka_run_group_tests_name("peer ends", tests, NULL, NULL);
}
