/* test_codec_numbers.c - what every format and encoder makes of odd numbers: tails, zeros,
 * extremes, NaN and Inf, sources of 16 bits, any byte of a plane. */
#include <kerf/codec.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "encoded.h"
#include "rounds.h"

/* --- shapes, tails, zeros ------------------------------------------------------------------------
 */

/* Decoding must come close: within the coarsest step of any format of this table. */
static void shape_check(const kerf_format *f, const kerf_encoder *encoder)
{
    /* A group on one side of zero is beyond the unsigned zero points of awq and hqq, and a group of
     * small numbers below torchao's least fp16 scale: their projects lose these as well. */
    if (!strcmp(encoder->name, "awq") || !strcmp(encoder->name, "hqq")) return;
    if (!strcmp(encoder->name, "torchao") && source_type(f, encoder) == KERF_F16) return;
    const size_t step = encoder == kerf_encoder_at(f, 0) ? 1 : STEP(3);
    for (size_t k = 0; k < SHAPES; k += step) {
        if (!strcmp(encoder->name, "sweep") && count(shapes[k]) > 10000) continue;
        kerf_shape shape = fit(f, shapes[k]);
        size_t n = (size_t)count(shape);
        float *x = random_floats(n, 77 + k), *y = malloc((n + 1) * sizeof *y);
        encoded e = encoded_new(f, shape);
        kerf_cspan planes[KERF_PLANES];
        kerf_span out = {y, n * 4};
        assert_int_equal(encode_floats(&e, encoder, x), KERF_OK);
        const_planes(&e, planes);
        assert_int_equal(kerf_decode(&e.g, 0, e.g.bands, planes, out, KERF_F32, NULL, NULL),
                         KERF_OK);
        double error = 0, power = 0;
        for (size_t i = 0; i < n; i++) {
            error += ((double)y[i] - (double)x[i]) * ((double)y[i] - (double)x[i]);
            power += (double)x[i] * (double)x[i];
        }
        if (error > power * (f->bits == 2 ? 0.9 : f->bits <= 4 ? 0.2 : 0.01))
            fail_msg("%s:%s shape %zu: error %g of %g", f->name, encoder->name, k, error, power);
        free(x);
        free(y);
        encoded_free(&e);
    }
}

static void every_shape_round_trips(void **state)
{
    (void)state;
    for_each_codec(shape_check);
}

/* All zeros, of both signs, decode to zeros and never to NaN. */
static void zero_check(const kerf_format *f, const kerf_encoder *encoder)
{
    kerf_shape s = fit(f, (kerf_shape){2, {3, 150}});
    float x[3 * 256], y[3 * 256];
    size_t n = (size_t)count(s);
    for (size_t i = 0; i < n; i++) x[i] = i % 3 ? 0.0f : -0.0f;
    encoded e = encoded_new(f, s);
    kerf_cspan planes[KERF_PLANES];
    kerf_span out = {y, sizeof y};
    assert_int_equal(encode_floats(&e, encoder, x), KERF_OK);
    const_planes(&e, planes);
    assert_int_equal(kerf_decode(&e.g, 0, e.g.bands, planes, out, KERF_F32, NULL, NULL), KERF_OK);
    for (size_t i = 0; i < n; i++)
        if (!(y[i] == 0))
            fail_msg("%s:%s element %zu decodes to %g", f->name, encoder->name, i, (double)y[i]);
    encoded_free(&e);
}

static void zeros_stay_zeros(void **state)
{
    (void)state;
    for_each_codec(zero_check);
}

/* The extremes of fp32: no crash, no NaN. */
static void extreme_check(const kerf_format *f, const kerf_encoder *encoder)
{
    static const float values[] = {3.402823466e+38f,
                                   1.401298464e-45f,
                                   -3.402823466e+38f,
                                   1.17549435e-38f,
                                   -1.401298464e-45f,
                                   1,
                                   65504,
                                   -0.0f};
    if ((f->family == KERF_FAMILY_GGML || f->family == KERF_FAMILY_SUPER) &&
        f->scale == KERF_SCALE_F16)
        return; /* as in ggml, a scale beyond fp16 is Inf, and 0 * Inf NaN */
    kerf_shape s = fit(f, (kerf_shape){2, {8, 136}});
    float x[8 * 256], y[8 * 256];
    size_t cols = (size_t)s.dim[1];
    for (size_t i = 0; i < 8 * cols; i++) /* rows of one value, then a mix */
        x[i] = i / cols < 6 ? values[i / cols] : values[(i * 5 + i / cols) % 8];
    encoded e = encoded_new(f, s);
    kerf_cspan planes[KERF_PLANES];
    kerf_span out = {y, sizeof y};
    assert_int_equal(encode_floats(&e, encoder, x), KERF_OK);
    const_planes(&e, planes);
    assert_int_equal(kerf_decode(&e.g, 0, e.g.bands, planes, out, KERF_F32, NULL, NULL), KERF_OK);
    for (size_t i = 0; i < 8 * cols; i++)
        if (isnan(y[i])) fail_msg("%s:%s turns %g into NaN", f->name, encoder->name, (double)x[i]);
    encoded_free(&e);
}

static void extremes_make_no_nan(void **state)
{
    (void)state;
    for_each_codec(extreme_check);
}

/* --- NaN and Inf of the source -------------------------------------------------------------------
 */

static void nan_check(const kerf_format *f, const kerf_encoder *encoder)
{
    if (source_type(f, encoder) != KERF_F32) return;
    kerf_shape s = fit(f, (kerf_shape){2, {70, 100}});
    float *x = random_floats((size_t)count(s), 3);
    encoded e = encoded_new(f, s), want = encoded_new(f, s);
    kerf_error err;
    kerf_exec zero = {.nan = KERF_NAN_ZERO}, two = {.threads = 2};
    float a = x[4321], b = x[6000];
    x[4321] = -INFINITY;
    x[6000] = NAN;
    assert_int_equal(encode_all(&e, encoder, x, KERF_F32, &two, &err), KERF_E_DATA);
    assert_int_equal(err.offset, 4321);
    assert_non_null(strstr(err.text, "element 4321 is -Inf"));
    assert_int_equal(encode_all(&e, encoder, x, KERF_F32, &zero, &err), KERF_OK);
    x[4321] = x[6000] = 0;
    assert_int_equal(encode_all(&want, encoder, x, KERF_F32, NULL, &err), KERF_OK);
    assert_same_planes(&e, &want, encoder->name);
    x[4321] = a;
    x[6000] = b;
    free(x);
    encoded_free(&e);
    encoded_free(&want);
}

static void nan_is_named_or_zeroed(void **state)
{
    (void)state;
    for_each_codec(nan_check);
}

static void inf_saturates_on_request(void **state)
{
    (void)state;
    static const uint16_t bf16[4] = {0x7f80, 0xff80, 0x7fc0, 0x3f80}; /* Inf, -Inf, NaN, 1 */
    static const float want[4] = {0x1.fep127f, -0x1.fep127f, 0, 1};
    float got[4];
    kerf_shape s = {1, {4}};
    kerf_exec saturate = {.threads = 1, .nan = KERF_NAN_SATURATE};
    encoded e = encoded_new(kerf_format_find("fp32"), s);
    kerf_cspan planes[KERF_PLANES];
    kerf_span out = {got, sizeof got};
    assert_int_equal(
        encode_all(&e, kerf_encoder_at(e.g.format, 0), bf16, KERF_BF16, &saturate, NULL), KERF_OK);
    const_planes(&e, planes);
    assert_int_equal(kerf_decode(&e.g, 0, e.g.bands, planes, out, KERF_F32, NULL, NULL), KERF_OK);
    assert_memory_equal(got, want, sizeof got);
    encoded_free(&e);
}

/* --- sources and targets of 16 bits ----------------------------------------------------------- */

/* These round to the type of the source on their way, as the projects that they are named after. */
static int computes_in_source_type(const kerf_format *f, const kerf_encoder *encoder)
{
    static const char *const names[] = {"ct", "torchao", "awq"};
    for (size_t i = 0; i < 3; i++)
        if (!strcmp(encoder->name, names[i])) return 1;
    return f->family == KERF_FAMILY_FP8 && !strcmp(encoder->name, "modelopt");
}

/* bf16 and fp16 sources give the bytes of the same numbers in fp32; 16-bit targets are the fp32
 * numbers rounded once. */
static void width_check(const kerf_format *f, const kerf_encoder *encoder)
{
    static const kerf_dtype types[] = {KERF_BF16, KERF_F16};
    kerf_shape s = fit(f, (kerf_shape){2, {6, 150}});
    size_t n = (size_t)count(s);
    for (size_t t = 0; t < 2; t++) {
        if (source_type(f, encoder) != KERF_F32 && source_type(f, encoder) != types[t]) continue;
        const kerf_format *cast = kerf_format_find(types[t] == KERF_F16 ? "fp16" : "bf16");
        float *x = random_floats(n, t), wide[6 * 256], y[6 * 256];
        encoded narrow = encoded_new(cast, s), a = encoded_new(f, s), b = encoded_new(f, s);
        encoded rounded = encoded_new(cast, s);
        kerf_cspan planes[KERF_PLANES];
        kerf_span out = {wide, sizeof wide}, out_y = {y, sizeof y};
        uint16_t half[6 * 256];
        kerf_span out_half = {half, sizeof half};
        assert_int_equal(encode_all(&narrow, kerf_encoder_at(cast, 0), x, KERF_F32, NULL, NULL),
                         KERF_OK);
        const_planes(&narrow, planes);
        assert_int_equal(
            kerf_decode(&narrow.g, 0, narrow.g.bands, planes, out, KERF_F32, NULL, NULL), KERF_OK);
        assert_int_equal(encode_all(&a, encoder, narrow.plane[0].p, types[t], NULL, NULL), KERF_OK);
        if (!computes_in_source_type(f, encoder)) {
            assert_int_equal(encode_all(&b, encoder, wide, KERF_F32, NULL, NULL), KERF_OK);
            assert_same_planes(&a, &b, encoder->name);
        }

        const_planes(&a, planes);
        assert_int_equal(kerf_decode(&a.g, 0, a.g.bands, planes, out_y, KERF_F32, NULL, NULL),
                         KERF_OK);
        assert_int_equal(kerf_decode(&a.g, 0, a.g.bands, planes, out_half, types[t], NULL, NULL),
                         KERF_OK);
        assert_int_equal(encode_all(&rounded, kerf_encoder_at(cast, 0), y, KERF_F32, NULL, NULL),
                         KERF_OK);
        assert_memory_equal(half, rounded.plane[0].p, n * 2);
        free(x);
        encoded_free(&narrow);
        encoded_free(&rounded);
        encoded_free(&a);
        encoded_free(&b);
    }
}

static void sixteen_bits_agree(void **state)
{
    (void)state;
    for_each_codec(width_check);
}

/* --- misuse ----------------------------------------------------------------------------------- */

/* Any bytes decode: nothing traps, nothing is read outside the planes. */
static void every_byte_pattern_decodes(void **state)
{
    (void)state;
    for (size_t i = 0; i < kerf_format_count(); i++) {
        kerf_shape s = fit(kerf_format_at(i), (kerf_shape){2, {7, 131}});
        encoded e = encoded_new(kerf_format_at(i), s);
        float y[7 * 256];
        kerf_cspan planes[KERF_PLANES];
        kerf_span out = {y, sizeof y};
        uint32_t seed = (uint32_t)i;
        for (int round = 0; round < 50; round += STEP(7)) {
            for (int p = 0; p < KERF_PLANES; p++)
                for (size_t k = 0; k < e.plane[p].n; k++)
                    ((uint8_t *)e.plane[p].p)[k] =
                        (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
            const_planes(&e, planes);
            assert_int_equal(kerf_decode(&e.g, 0, e.g.bands, planes, out, KERF_F32, NULL, NULL),
                             KERF_OK);
        }
        encoded_free(&e);
    }
}

/* Clip share: floor clips the top of a block, rceil never does. */
static void clipping_is_counted(void **state)
{
    (void)state;
    kerf_shape s = {2, {1, 32}};
    float x[32] = {7.9f, -7.5f, 6.5f, 6.0f, 1};
    static const struct {
        const char *codec;
        uint64_t clipped;
    } want[] = {{"mxfp4:floor", 3}, {"mxfp4:rceil", 0}, {"fp32", 0}, {"int8", 0}};
    for (size_t i = 0; i < 4; i++) {
        kerf_codec c;
        assert_int_equal(kerf_codec_find(want[i].codec, &c, NULL), KERF_OK);
        encoded e = encoded_new(c.format, s);
        kerf_cspan planes[KERF_PLANES], src = {x, sizeof x};
        uint64_t clipped = 99;
        assert_int_equal(encode_all(&e, c.encoder, x, KERF_F32, NULL, NULL), KERF_OK);
        const_planes(&e, planes);
        assert_int_equal(
            kerf_count_clipped(&e.g, 0, 1, planes, src, KERF_F32, NULL, &clipped, NULL), KERF_OK);
        assert_int_equal(clipped, want[i].clipped);
        encoded_free(&e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_round_trips),    cmocka_unit_test(zeros_stay_zeros),
        cmocka_unit_test(extremes_make_no_nan),       cmocka_unit_test(nan_is_named_or_zeroed),
        cmocka_unit_test(inf_saturates_on_request),   cmocka_unit_test(sixteen_bits_agree),
        cmocka_unit_test(every_byte_pattern_decodes), cmocka_unit_test(clipping_is_counted),
    };
    return cmocka_run_group_tests_name("codec", tests, NULL, NULL);
}
