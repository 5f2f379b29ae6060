/* test_gemv_room.c - which matrices the kernels for tiles take on a GPU: all that are large, on
 * every card, but for rows that are too long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "format/format.h"
#include "plan/gemv_outline.h"

static int is_tiled(const char *format, uint64_t rows, uint64_t cols, unsigned columns,
                    const kf_gemv_machine *m)
{
    kf_gemv_outline o;
    const kerf_format *f = kerf_format_find(format);
    assert_non_null(f);
    assert_int_equal(kf_gemv_outline_of(f, rows, cols, columns, m, &o), KERF_OK);
    return o.end != KF_GEMV_END_ANY;
}

/* Lanes count the bytes of sixteen rows in 32 bits: longer rows go an element at a time. */
static void rows_of_any_length(void **state)
{
    (void)state;
    const kf_gemv_machine m = kf_gemv_machine_of("sm_90", 132, 4800);
    assert_true(is_tiled("fp16", 16, (1u << 27) - 16, 1, &m));
    assert_false(is_tiled("fp16", 16, 1u << 27, 1, &m));
    assert_false(is_tiled("fp16", 16, 1u << 30, 1, &m));
    assert_false(is_tiled("nvfp4", 16, 1u << 30, 1, &m));
}

/* Sums of all rows of a block may have no room in it: then more blocks have fewer rows. On no card
 * is the kernel for an element at a time what is left of a large matrix. */
static void every_card_has_room(void **state)
{
    (void)state;
    static const struct {
        const char *arch;
        unsigned multiprocessors;
    } cards[] = {{"sm_80", 108}, {"sm_86", 28}, {"sm_86", 82},   {"sm_89", 24},   {"sm_89", 128},
                 {"sm_90", 132}, {"sm_90", 78}, {"sm_100", 148}, {"sm_120", 170}, {"sm_120", 36}};
    static const uint64_t rows[] = {4096, 14336, 28672, 128256, 262144}, cols[] = {4096, 16384};
    static const unsigned columns[] = {1, 2, 4, 8, 16};
    for (size_t fi = 0; fi < kerf_format_count(); fi++) {
        const kerf_format *f = kerf_format_at(fi);
        if (!kf_gemv_tiling_of(kf_spec_of(f)).is_tiled) continue;
        for (size_t i = 0; i < sizeof cards / sizeof *cards; i++)
            for (size_t n = 0; n < 5 * 2 * 5; n++) {
                const kf_gemv_machine m =
                    kf_gemv_machine_of(cards[i].arch, cards[i].multiprocessors, 1000);
                const uint64_t r = rows[n % 5], k = cols[n / 5 % 2];
                if (!is_tiled(f->name, r, k, columns[n / 10], &m))
                    fail_msg("%s on %s with %u: %u x %u by %u columns", f->name, cards[i].arch,
                             cards[i].multiprocessors, (unsigned)r, (unsigned)k, columns[n / 10]);
            }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_any_length),
        cmocka_unit_test(every_card_has_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
