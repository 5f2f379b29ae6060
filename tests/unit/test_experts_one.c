/* test_experts_one.c - how the launches of a layer of experts for one token are divided, against
 * figures worked out by hand, and what must hold of every division. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "format/format.h"
#include "plan/experts_plan.h"
#include "plan/gemv_tuning.h"

/* A launch of a format on a machine of an architecture with so many multiprocessors. */
static kf_experts_one_need need_of(const char *format, const char *arch, unsigned sms, int is_down,
                                   unsigned hidden, unsigned inter, unsigned top_k)
{
    const kf_gemv_tiling t = kf_gemv_tiling_of(kf_spec_of(kerf_format_find(format)));
    const kf_gemv_machine m = kf_gemv_machine_of(arch, sms, 3000);
    const unsigned cols = is_down ? inter : hidden, rows = is_down ? hidden : inter;
    return (kf_experts_one_need){.is_down = is_down,
                                 .tiles = (rows + 15) / 16,
                                 .slices = (cols + t.stage_codes - 1) / t.stage_codes,
                                 .top_k = top_k,
                                 .unit = kf_experts_unit(t),
                                 .x_stage = t.stage_codes * 2,
                                 .x_sums = t.stage_sums,
                                 .table = t.table,
                                 .multiprocessors = m.multiprocessors,
                                 .most_shared = m.most_shared,
                                 .has_clusters = m.has_clusters};
}

static void figures_of_known_layers(void **state)
{
    (void)state;
    kf_experts_one_room r;
    /* Qwen3-30B-A3B, nvfp4: 8 x 48 tiles of h; 128 of y, for 66 pairs. Units have 16 x (256 + 36)
     * bytes, in whole 128; x of gate and up is 4 stages of 1 KiB, that of a pair's block 8 of 16.
     */
    kf_experts_one_need n = need_of("nvfp4", "sm_90", 132, 0, 2048, 768, 8);
    assert_true(kf_experts_one_divide(&r, &n));
    assert_int_equal(r.team, 1);
    assert_int_equal(r.blocks, 132);
    assert_int_equal(r.x_at, 8 * 2 * 4736);
    assert_int_equal(r.backs_at - r.x_at, 4 * 1024);
    n = need_of("nvfp4", "sm_90", 132, 1, 2048, 768, 8);
    assert_true(kf_experts_one_divide(&r, &n));
    assert_int_equal(r.team, 2);
    assert_int_equal(r.blocks, 132);
    assert_int_equal(r.backs_at - r.x_at, 8 * 1024);
    /* Two tiles for each of 66 pairs, twice 2 x 16 sums of 4 bytes. */
    assert_int_equal(r.runs_at - r.sums_at, (2 + 8) * 64);
    assert_true(r.table_at - r.mail_at >= 2 * 2 * 64);
    /* In q2_k a stage of 512 elements has 32 groups: 128 bytes of sums of x. 4 + 4 factors of
     * stages, in whole 128 bytes, come before. */
    n = need_of("q2_k", "sm_90", 132, 1, 2048, 768, 8);
    assert_true(kf_experts_one_divide(&r, &n));
    assert_int_equal(r.backs_at - r.x_at, 8 * 1024);
    assert_int_equal(r.x_sums_at - r.backs_at, 128);
    assert_int_equal(r.sums_at - r.x_sums_at, 8 * 128);
    /* No clusters: none that share rows. */
    n = need_of("nvfp4", "sm_89", 142, 1, 2048, 768, 8);
    assert_true(kf_experts_one_divide(&r, &n));
    assert_int_equal(r.team, 1);
    assert_int_equal(r.blocks, 128);
    /* 16 slots of 16384: h alone is 512 KiB, half of it still more than there is. */
    n = need_of("nvfp4", "sm_90", 132, 1, 4096, 16384, 16);
    assert_false(kf_experts_one_divide(&r, &n));
}

static void pairs_where_tiles_come_out_even(void **state)
{
    (void)state;
    kf_experts_one_room r;
    /* 132 tiles are one for each block, and two for each pair: as much. */
    kf_experts_one_need n = need_of("nvfp4", "sm_90", 132, 1, 132 * 16, 2048, 8);
    assert_true(kf_experts_one_divide(&r, &n));
    assert_int_equal(r.team, 2);
    /* 133 are two at most, or three for a pair: less. */
    n = need_of("nvfp4", "sm_90", 132, 1, 133 * 16, 2048, 8);
    assert_true(kf_experts_one_divide(&r, &n));
    assert_int_equal(r.team, 2);
    /* One stage in all cannot be shared. */
    n = need_of("nvfp4", "sm_90", 132, 1, 2048, 512, 1);
    assert_true(kf_experts_one_divide(&r, &n));
    assert_int_equal(r.team, 1);
}

static void places_do_not_meet(void **state)
{
    (void)state;
    static const struct {
        const char *arch;
        unsigned sms;
    } machines[] = {{"sm_80", 108}, {"sm_89", 142}, {"sm_90", 132}, {"sm_120", 170}, {"sm_90", 1}};
    static const unsigned sizes[] = {16, 48, 768, 2880, 7168, 14336};
    unsigned divided = 0;
    for (size_t f = 0; f < kerf_format_count(); f++) {
        const kerf_format *format = kerf_format_at(f);
        if (!kf_gemv_tiling_of(kf_spec_of(format)).has_few) continue;
        for (size_t i = 0; i < 5 * 2 * 6 * 6 * 3; i++) {
            static const unsigned slots[] = {1, 8, 16};
            const size_t machine = i % 5, rest = i / 10;
            const kf_experts_one_need n =
                need_of(format->name, machines[machine].arch, machines[machine].sms, i / 5 % 2,
                        sizes[rest % 6], sizes[rest / 6 % 6], slots[rest / 36]);
            kf_experts_one_room r;
            if (!kf_experts_one_divide(&r, &n)) continue;
            const unsigned steps = n.slices * (n.is_down ? n.top_k : 1), teams = r.blocks / r.team;
            const unsigned items = n.tiles * (n.is_down ? 1 : n.top_k);
            const unsigned results = (items + teams - 1) / teams * (n.is_down ? 1 : 2);
            const unsigned own = (steps + r.team - 1) / r.team;
            assert_true(r.team == 1 || (r.team == 2 && n.has_clusters && n.is_down));
            assert_true(r.blocks % r.team == 0 && r.blocks <= n.multiprocessors);
            assert_int_equal(r.x_at, 16 * n.unit);
            assert_true(r.backs_at >= r.x_at + own * n.x_stage);
            assert_true(r.x_sums_at >= r.backs_at + own * 4);
            assert_true(r.sums_at >= r.x_sums_at + own * n.x_sums);
            assert_true(r.runs_at >= r.sums_at + (results + 8) * 64);
            assert_true(r.mail_at >= r.runs_at + results * 4);
            assert_true(r.table_at >= r.mail_at + (r.team > 1 ? r.team * results * 64 : 0));
            assert_true(r.bytes == r.table_at + n.table && r.bytes <= n.most_shared);
            assert_true(r.x_at % 128 == 0 && r.sums_at % 16 == 0 && r.table_at % 128 == 0);
            divided++;
        }
    }
    assert_true(divided > 20000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_of_known_layers),
        cmocka_unit_test(pairs_where_tiles_come_out_even),
        cmocka_unit_test(places_do_not_meet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
