/* test_scale_tally.c - scales of each type that are nothing to speak of, with one that is at every
 * place that a fast pass could miss. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "stream/scale_tally.h"

enum { COUNT = 1300 };

typedef struct kind {
    kf_scale_type type;
    size_t bytes;
    uint32_t least, most;           /* the range in which there is nothing to say */
    uint32_t bad, negative, larger; /* 0: there are none                           */
} kind;

static const kind kinds[] = {
    {KF_SCALE_E4M3, 1, 1, 0x7e, 0x7f, 0xb8, 0},
    {KF_SCALE_E8M0, 1, 1, 0xfe, 0xff, 0, 0},
    {KF_SCALE_F16, 2, 1, 0x7bff, 0x7c00, 0x8001, 0},
    {KF_SCALE_BF16, 2, 1, 0x7f7f, 0x7fc0, 0x8000, 0},
    {KF_SCALE_F32, 4, 1, 0x41800000, 0x7f800001, 0x80000000, 0x41800001},
};

static kf_scale_tally count_one(const kind *k, uint32_t usual, size_t place, uint32_t other)
{
    unsigned char scales[COUNT * 4];
    kf_scale_tally t = {.type = k->type};
    for (size_t i = 0; i < COUNT; i++)
        memcpy(scales + i * k->bytes, i == place ? &other : &usual, k->bytes);
    kf_tally_add(&t, scales, 700 * k->bytes);
    kf_tally_add(&t, scales + 700 * k->bytes, (COUNT - 700) * k->bytes);
    assert_int_equal(t.seen, COUNT);
    return t;
}

static void one_is_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const kind *k = &kinds[i];
        for (size_t place = 0; place < COUNT; place += 37) {
            kf_scale_tally t = count_one(k, k->most, place, k->least);
            assert_true(!t.bad && !t.negative && !t.zero && !t.large);
            t = count_one(k, k->least, place, 0);
            assert_true(!t.bad && !t.negative && t.zero == 1 && !t.large);
            t = count_one(k, k->least, place, k->bad);
            assert_true(t.bad == 1 && t.first_bad == place && !t.negative && !t.zero && !t.large);
            t = count_one(k, k->most, place, k->negative ? k->negative : k->most);
            assert_true(t.negative == (k->negative != 0) && !t.bad && !t.zero && !t.large);
            if (t.negative) assert_int_equal(t.first_negative, place);
            t = count_one(k, k->least, place, k->larger ? k->larger : k->most);
            assert_true(t.large == (k->larger != 0) && !t.bad && !t.negative && !t.zero);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_is_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
