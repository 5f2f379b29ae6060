/* test_scalar.c - every scalar conversion against the nearest code found by trying all of them,
 * in double, where every candidate and every distance is exact. */
#include "block/element.h"
#include "block/nf4.h"
#include "scalar/pack.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

typedef struct kind {
    const char *name;
    uint32_t (*encode)(float x);
    float (*decode)(uint32_t code);
    uint32_t codes;   /* magnitudes are 0 .. codes - 1 */
    uint32_t largest; /* where finite numbers saturate */
    uint32_t sign, nan;
} kind;

static uint32_t e2m1_encode(float x)
{
    return kf_e2m1_encode(x);
}
static uint32_t e2m3_encode(float x)
{
    return kf_e2m3_encode(x);
}
static uint32_t e3m2_encode(float x)
{
    return kf_e3m2_encode(x);
}
static uint32_t e4m3_encode(float x)
{
    return kf_e4m3_encode(x);
}
static uint32_t e5m2_encode(float x)
{
    return kf_e5m2_encode(x);
}
static float e2m1_decode(uint32_t c)
{
    return kf_e2m1_decode(c);
}
static float e2m3_decode(uint32_t c)
{
    return kf_e2m3_decode(c);
}
static float e3m2_decode(uint32_t c)
{
    return kf_e3m2_decode(c);
}
static float e4m3_decode(uint32_t c)
{
    return kf_e4m3_decode(c);
}
static float e5m2_decode(uint32_t c)
{
    return kf_e5m2_decode(c);
}

static const kind kinds[] = {
    {"E2M1", e2m1_encode, e2m1_decode, 8, 0x07, 0x08, 0x07},
    {"E2M3", e2m3_encode, e2m3_decode, 32, 0x1f, 0x20, 0x1f},
    {"E3M2", e3m2_encode, e3m2_decode, 32, 0x1f, 0x20, 0x1f},
    {"E4M3", e4m3_encode, e4m3_decode, 127, 0x7e, 0x80, 0x7f},
    {"E5M2", e5m2_encode, e5m2_decode, 124, 0x7b, 0x80, 0x7f},
};

/* Nearest magnitude, ties to the even code, saturating. */
static uint32_t nearest(const kind *k, float x)
{
    double mag = fmin(fabs((double)x), 1e6), least = INFINITY; /* beyond all of them: exact */
    uint32_t best = 0;
    for (uint32_t c = 0; c < k->codes; c++) {
        double d = fabs((double)k->decode(c) - mag);
        if (d < least || (d == least && c % 2 == 0)) {
            least = d;
            best = c;
        }
    }
    return best | (signbit(x) ? k->sign : 0);
}

static void check_one(const kind *k, float x)
{
    uint32_t got = k->encode(x), want = nearest(k, x);
    if (got != want)
        fail_msg("%s of %a (%08x): code %#x, nearest is %#x", k->name, (double)x, kf_bits(x), got,
                 want);
}

static void check_both_signs(const kind *k, float x)
{
    check_one(k, x);
    check_one(k, -x);
}

/* All bf16 patterns, each boundary between codes with its fp32 neighbours, and a stride over all
 * fp32 patterns. */
static void minifloats_are_nearest(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const kind *k = &kinds[i];
        for (uint32_t b = 0; b <= 0x7f80; b++) check_both_signs(k, kf_float(b << 16));
        for (uint32_t c = 0; c < k->codes; c++) {
            float mid = (k->decode(c) + k->decode(c + 1 < k->codes ? c + 1 : c)) / 2;
            for (uint32_t d = 0; d < 3; d++) {
                check_both_signs(k, kf_float(kf_bits(mid) + d));
                if (kf_bits(mid) > d) check_both_signs(k, kf_float(kf_bits(mid) - d));
            }
        }
        for (uint32_t u = 0; u <= 0x7f800000u; u += 9973) check_both_signs(k, kf_float(u));
        assert_int_equal(k->encode(kf_float(0x7fc00000)), k->nan);
        assert_int_equal(k->encode(kf_float(0xffc00001)), k->nan);
    }
}

static void codes_survive(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        for (uint32_t c = 0; c < kinds[i].codes; c++) {
            assert_int_equal(kinds[i].encode(kinds[i].decode(c)), c);
            assert_int_equal(kinds[i].encode(kinds[i].decode(c | kinds[i].sign)),
                             c | kinds[i].sign);
        }
    assert_true(isnan(kf_e4m3_decode(0x7f)) && isnan(kf_e4m3_decode(0xff)));
    assert_true(isinf(kf_e5m2_decode(0x7c)) && kf_e5m2_decode(0xfc) < 0);
    assert_true(isnan(kf_e5m2_decode(0x7d)) && isnan(kf_e5m2_decode(0xff)));
}

/* The tables of the specifications, written out. */
static void known_values(void **state)
{
    (void)state;
    static const float e2m1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    for (uint32_t c = 0; c < 8; c++) assert_true(kf_e2m1_decode(c) == e2m1[c]);
    assert_true(kf_e4m3_decode(0x7e) == 448 && kf_e4m3_decode(0x01) == 0x1p-9f);
    assert_true(kf_e5m2_decode(0x7b) == 57344 && kf_e5m2_decode(0x01) == 0x1p-16f);
    assert_true(kf_e2m3_decode(0x1f) == 7.5f && kf_e3m2_decode(0x1f) == 28);
    assert_int_equal(kf_e4m3_encode(464), 0x7e); /* a tie with 480, which does not exist */
    assert_int_equal(kf_e4m3_encode(1e30f), 0x7e);
    assert_int_equal(kf_e5m2_encode(1e30f), 0x7b);
    assert_int_equal(kf_e2m1_encode(-0.0f), 0x8);
    assert_int_equal(kf_e2m1_encode(-0.25f), 0x8); /* tie to zero, sign kept */
    assert_true(kf_e8m0_decode(0) == 0x1p-127f && kf_e8m0_decode(254) == 0x1p127f);
    assert_true(isnan(kf_e8m0_decode(255)));
}

static void e8m0_rounds_up(void **state)
{
    (void)state;
    for (uint32_t u = 0; u < 0x7f800000u; u += 4093) {
        double x = (double)kf_float(u);
        uint32_t code = kf_e8m0_encode_up((float)x);
        if (code < 0xfe) assert_true((double)kf_e8m0_decode(code) >= x);
        if (code > 0) assert_true((double)kf_e8m0_decode(code - 1) < x);
    }
    assert_int_equal(kf_e8m0_encode_up(0), 0);
    assert_int_equal(kf_e8m0_encode_up(1), 127);
    assert_int_equal(kf_e8m0_encode_up(kf_float(0x3f800001)), 128);
    assert_int_equal(kf_e8m0_encode_up(KF_F32_MAX), 254);
}

/* fp16 and bf16: the two neighbours of x among all codes bound it; the nearer one was taken. */
static void check_half(float x, uint32_t code, double below, double value, double above)
{
    double error = fabs(value - (double)x);
    int even = code % 2 == 0;
    assert_true(error < fabs(below - (double)x) || (error == fabs(below - (double)x) && even));
    assert_true(error < fabs(above - (double)x) || (error == fabs(above - (double)x) && even));
}

static double f16_or_beyond(uint32_t c)
{
    return c == 0x7c00 ? 65536 : (double)kf_f16_decode((uint16_t)c);
}

static double bf16_or_beyond(uint32_t c)
{
    return c == 0x7f80 ? 0x1p128 : (double)kf_bf16_decode((uint16_t)c);
}

static void halves_are_nearest(void **state)
{
    (void)state;
    for (uint32_t u = 1; u < 0x7f800000u; u += 1009) {
        float x = kf_float(u);
        uint32_t h = kf_f16_encode(x), b = kf_bf16_encode(x);
        assert_int_equal(kf_f16_encode(-x), h | 0x8000);
        assert_int_equal(kf_bf16_encode(-x), b | 0x8000);
        if (h < 0x7c00)
            check_half(x, h, h ? f16_or_beyond(h - 1) : -1, f16_or_beyond(h), f16_or_beyond(h + 1));
        else
            assert_true(x >= 65520);
        if (b < 0x7f80)
            check_half(x, b, b ? bf16_or_beyond(b - 1) : -1, bf16_or_beyond(b),
                       bf16_or_beyond(b + 1));
        else
            assert_true((double)x >= 0x1.ffp127);
    }
    for (uint32_t c = 0; c <= 0xffff; c++) {
        if ((c & 0x7fff) > 0x7c00)
            assert_true(isnan(kf_f16_decode((uint16_t)c)) &&
                        isnan(kf_f16_decode(kf_f16_encode(NAN))));
        else
            assert_int_equal(kf_f16_encode(kf_f16_decode((uint16_t)c)), c);
        if ((c & 0x7fff) <= 0x7f80)
            assert_int_equal(kf_bf16_encode(kf_bf16_decode((uint16_t)c)), c);
    }
    assert_true(isnan(kf_bf16_decode(kf_bf16_encode(kf_float(0x7f800001)))));
}

static void integers_round_to_even(void **state)
{
    (void)state;
    for (int i = -600; i <= 600; i++) {
        float x = (float)i / 4;
        int want = (int)nearbyint((double)x);
        int got = kf_round_clamp(x, -128, 127);
        assert_int_equal(got, want < -128 ? -128 : want > 127 ? 127 : want);
    }
    assert_int_equal(kf_round_clamp(INFINITY, -8, 7), 7);
    assert_int_equal(kf_round_clamp(-INFINITY, -8, 7), -8);
}

static void packing_is_a_bit_stream(void **state)
{
    (void)state;
    static const unsigned widths[] = {2, 4, 6, 8, 16, 32};
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        unsigned bits = widths[w];
        uint32_t mask = bits == 32 ? UINT32_MAX : (1u << bits) - 1, code[19];
        uint8_t row[19 * 4 + 1] = {0}, stream[19 * 4 + 1] = {0};
        for (size_t i = 0; i < 19; i++) {
            code[i] = (uint32_t)(i * 2654435761u) >> 3 & mask;
            kf_put_code(row, bits, i, code[i]);
            for (unsigned b = 0; b < bits; b++)
                stream[(i * bits + b) / 8] |= (uint8_t)((code[i] >> b & 1) << (i * bits + b) % 8);
        }
        assert_memory_equal(row, stream, sizeof row);
        for (size_t i = 0; i < 19; i++) assert_int_equal(kf_get_code(row, bits, i), code[i]);
    }
}

/* Code books: nearest by search, ties to the lower entry; and the published ends of the tables. */
static void code_books_are_nearest(void **state)
{
    (void)state;
    for (int i = -4100; i <= 4100; i++) {
        float x = (float)i / 4096, least = 3;
        uint32_t best = 0;
        for (uint32_t c = 0; c < 16; c++) {
            float d = fabsf(kf_nf4_entry(c) - x);
            if (d < least) {
                least = d;
                best = c;
            }
        }
        assert_int_equal(kf_nf4_nearest(x), best);
    }
    for (uint32_t c = 0; c < 256; c++) {
        assert_int_equal(kf_map_nearest(kf_map_entry(c)), c);
        if (c) assert_true(kf_map_entry(c - 1) < kf_map_entry(c));
    }
    assert_true(kf_map_entry(255) == 1 && kf_map_entry(127) == 0);
    assert_true(fabsf(kf_map_entry(0) + 0.99296874f) < 1e-7f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(minifloats_are_nearest),
        cmocka_unit_test(codes_survive),
        cmocka_unit_test(known_values),
        cmocka_unit_test(e8m0_rounds_up),
        cmocka_unit_test(halves_are_nearest),
        cmocka_unit_test(integers_round_to_even),
        cmocka_unit_test(packing_is_a_bit_stream),
        cmocka_unit_test(code_books_are_nearest),
    };
    return cmocka_run_group_tests_name("scalar", tests, NULL, NULL);
}
