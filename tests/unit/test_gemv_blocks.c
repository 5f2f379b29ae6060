/* test_gemv_blocks.c - how products with GGUF's blocks are cut and divided on a GPU, against
 * figures worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "format/format.h"
#include "plan/gemv_division.h"
#include "plan/gemv_tuning.h"

/* Units of GGUF's blocks: elements and bytes of a row, the bytes that it has in shared memory, and
 * those of the sums of x. */
static void units_of_blocks(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        unsigned codes, bytes, pitch, sums;
    } rows[] = {
        {"ggml-q8_0", 256, 8 * 34, 19 * 16, 0},   {"ggml-q4_0", 512, 16 * 18, 19 * 16, 0},
        {"ggml-mxfp4", 512, 16 * 17, 19 * 16, 0}, {"ggml-nvfp4", 512, 8 * 36, 19 * 16, 0},
        {"q4_1", 512, 16 * 20, 21 * 16, 16 * 4},  {"q5_0", 256, 8 * 22, 13 * 16, 0},
        {"q5_1", 256, 8 * 24, 13 * 16, 8 * 4},    {"iq4_nl", 512, 16 * 18, 19 * 16, 0},
        {"q2_k", 512, 2 * 84, 13 * 16, 32 * 4},   {"q3_k", 512, 2 * 110, 15 * 16, 0},
        {"q4_k", 512, 2 * 144, 2 * 144, 16 * 4},  {"q5_k", 256, 176, 176, 8 * 4},
        {"q6_k", 256, 210, 15 * 16, 0},           {"iq4_xs", 512, 2 * 136, 19 * 16, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const kf_gemv_tiling t = kf_gemv_tiling_of(kf_spec_of(kerf_format_find(rows[i].format)));
        if (t.stage_codes != rows[i].codes || t.stage != rows[i].bytes ||
            t.stage_pitch != rows[i].pitch || t.stage_sums != rows[i].sums)
            fail_msg("%s: %u %u %u %u", rows[i].format, t.stage_codes, t.stage, t.stage_pitch,
                     t.stage_sums);
        assert_true(t.is_tiled && t.has_few && !t.has_many && !t.has_wide);
        assert_int_equal(t.stage_ring, 8 * 2 * 16 * t.stage_pitch);
    }
}

static int count_blocks(void *ctx, const kf_gemv_launch *l)
{
    (void)ctx;
    return (int)l->grid.blocks;
}

/* Eight columns of x beside a ring of 72 KiB of q4_k: all of x has room up to 8192 inputs; of more,
 * two blocks have a half each; of 65536 not even these. One block takes all registers. */
static void eight_columns_of_blocks(void **state)
{
    (void)state;
    static const struct {
        uint64_t cols;
        unsigned cluster;
    } rows[] = {{4096, 1}, {8192, 1}, {14336, 2}, {16384, 2}};
    const kerf_format *f = kerf_format_find("q4_k");
    const kf_gemv_machine m = kf_gemv_machine_of("sm_90", 132, 4800);
    const kf_gemv_tiling t = kf_gemv_tiling_of(kf_spec_of(f));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const kf_gemv_task task = {.cols = rows[i].cols,
                                   .columns = 8,
                                   .weight_bytes = 1 << 26,
                                   .tiles = 256,
                                   .together = 1};
        kf_gemv_launch l = {.task = task};
        assert_int_equal(kf_gemv_divide(&l, &t, &m, count_blocks, NULL), 1);
        assert_int_equal(l.division.is_few, 1);
        assert_int_equal(l.division.cluster, rows[i].cluster);
        assert_int_equal(l.grid.per_sm, 1);
        assert_true(l.grid.shared_bytes <= m.most_shared);
    }
    kf_gemv_launch l = {.task = {.cols = 65536, .columns = 8, .tiles = 64, .together = 1}};
    assert_int_equal(kf_gemv_divide(&l, &t, &m, count_blocks, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_of_blocks),
        cmocka_unit_test(eight_columns_of_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
