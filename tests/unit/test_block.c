/* test_block.c - what the block headers promise where no row of formats.def leads today: element
 * types without a code book, scale types that a family reads itself, and no family at all. */
#include "block/all.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void unsigned_elements(void **state)
{
    (void)state;
    for (uint32_t code = 0; code < 16; code++) {
        assert_true(kf_element_decode(KERF_ELEM_U4, code) == (float)code);
        assert_true(kf_element_decode(KERF_ELEM_NF4, code) == (float)code);
        assert_int_equal(kf_element_encode(KERF_ELEM_U4, (float)code + 0.25f), code);
        assert_int_equal(kf_element_encode(KERF_ELEM_NF4, (float)code - 0.25f), code);
        assert_int_equal(kf_element_encode(KERF_ELEM_U2, (float)code), code < 3 ? code : 3);
    }
    assert_int_equal(kf_element_encode(KERF_ELEM_U4, 2.5f), 2); /* ties to even, saturating */
    assert_int_equal(kf_element_encode(KERF_ELEM_U4, -1), 0);
    assert_int_equal(kf_element_encode(KERF_ELEM_U4, 99), 15);
    assert_true(kf_element_max(KERF_ELEM_U4) == 15 && kf_element_max(KERF_ELEM_U2) == 3);
    assert_true(kf_element_max(KERF_ELEM_F32) == 1);
    assert_true(kf_element_decode((kerf_element)99, 1) == 0);
    assert_int_equal(kf_element_encode((kerf_element)99, 1), 0);
}

static void scales_of_every_type(void **state)
{
    (void)state;
    assert_true(kf_scale_value(KERF_SCALE_E8M0, 128) == 2);
    assert_true(isnan(kf_scale_value(KERF_SCALE_E8M0, 255)));
    assert_true(kf_scale_value(KERF_SCALE_E4M3, 0x38) == 1);
    assert_true(kf_scale_value(KERF_SCALE_F32, kf_bits(0.3f)) == 0.3f);
    static const unsigned bytes[] = {
        [KERF_SCALE_NONE] = 0, [KERF_SCALE_F32] = 4,  [KERF_SCALE_F16] = 2, [KERF_SCALE_BF16] = 2,
        [KERF_SCALE_E8M0] = 1, [KERF_SCALE_E4M3] = 1, [KERF_SCALE_MAP8] = 1};
    for (int k = 0; k <= KERF_SCALE_MAP8; k++)
        assert_int_equal(kf_scale_bytes((kerf_scale_kind)k), bytes[k]);
    assert_int_equal(kf_scale_bytes((kerf_scale_kind)99), 0);
    assert_true(kf_scale_quotient(0, 3) == 0 && kf_scale_quotient(KF_F32_TINY, 3) == KF_F32_TINY);
}

/* No range and no scale of a peer gives a NaN today; one that did would become a code, for a NaN
 * has no integer to be turned into. */
static void a_nan_is_clamped(void **state)
{
    (void)state;
    assert_true(kf_clamp(NAN, -8, 7) == -8);
    assert_true(kf_clamp(9, -8, 7) == 7 && kf_clamp(-9, -8, 7) == -8 && kf_clamp(3, -8, 7) == 3);
}

/* A spec of zeros names no family: everything is zero, nothing is touched. */
static void no_family(void **state)
{
    (void)state;
    kf_spec s;
    kf_tensor t;
    kf_quant q;
    memset(&s, 0, sizeof s);
    memset(&t, 0, sizeof t);
    memset(&q, 0, sizeof q);
    float x = 3;
    kf_group g = {&x, 1, 1, 1, 1};
    kf_scale scale = kf_choose(s, 0, &t, g);
    assert_true(scale.bits == 0 && scale.zero == 0);
    assert_true(kf_quant_init(s, 0, &t, scale, g).factor == 0);
    assert_int_equal(kf_code(s, q, x), 0);
    kf_dequant d = kf_dequant_init(s, scale, 1, 1);
    assert_true(d.scale == 0 && kf_value(s, d, 1) == 0);
    assert_int_equal(kf_cast_choose(s, 0, &t, g).bits, 0); /* casts have no scale */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unsigned_elements),
        cmocka_unit_test(scales_of_every_type),
        cmocka_unit_test(a_nan_is_clamped),
        cmocka_unit_test(no_family),
    };
    return cmocka_run_group_tests_name("block", tests, NULL, NULL);
}
