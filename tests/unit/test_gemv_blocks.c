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

/* Of a GPU on which a cluster of four finds no place in four multiprocessors, and one of eight in
 * another eight. */
static int count_clusters(void *ctx, const kf_gemv_launch *l)
{
    const unsigned cluster = l->division.cluster, most = 128 / cluster;
    const unsigned asked = l->grid.blocks / cluster;
    (void)ctx;
    return (int)(cluster > 2 && asked > most ? most : asked);
}

/* Eight columns of x beside a ring of 72 KiB of q4_k, with two tiles for each multiprocessor: two
 * blocks have a half of x each from 4096 inputs on, since that is faster; of 28672 four, of 65536
 * eight find room for it. Where blocks must not share rows, all of x has room up to 8192 inputs,
 * and of 65536, 128 stages, a block has 19 at a time. One block takes all registers. */
static void eight_columns_of_blocks(void **state)
{
    (void)state;
    static const struct {
        uint64_t cols;
        unsigned cluster, blocks;
        kf_gemv_pairing pairing;
    } rows[] = {{2048, 1, 132, 0},  {3584, 1, 132, 0},
                {4096, 2, 132, 0},  {14336, 2, 132, 0},
                {16384, 2, 132, 0}, {28672, 4, 128, 0},
                {65536, 8, 128, 0}, {8192, 1, 132, KF_GEMV_PAIR_NEVER}};
    const kerf_format *f = kerf_format_find("q4_k");
    const kf_gemv_machine m = kf_gemv_machine_of("sm_90", 132, 4800);
    const kf_gemv_tiling t = kf_gemv_tiling_of(kf_spec_of(f));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const kf_gemv_task task = {.cols = rows[i].cols,
                                   .columns = 8,
                                   .weight_bytes = 1 << 26,
                                   .tiles = 256,
                                   .together = 1,
                                   .options = {.pairing = rows[i].pairing}};
        kf_gemv_launch l = {.task = task};
        assert_int_equal(kf_gemv_divide(&l, &t, &m, count_clusters, NULL), 1);
        assert_int_equal(l.division.is_few, 1);
        assert_int_equal(l.division.cluster, rows[i].cluster);
        assert_int_equal(l.division.steps, 1);
        assert_int_equal(l.grid.blocks, rows[i].blocks);
        assert_true(l.share.most * l.grid.blocks / rows[i].cluster >= 256);
        assert_int_equal(l.grid.per_sm, 1);
        assert_true(l.grid.shared_bytes <= m.most_shared);
    }
    kf_gemv_launch l = {.task = {.cols = 65536,
                                 .columns = 8,
                                 .tiles = 64,
                                 .together = 1,
                                 .options = {.pairing = KF_GEMV_PAIR_NEVER}}};
    assert_int_equal(kf_gemv_divide(&l, &t, &m, count_blocks, NULL), 1);
    assert_int_equal(l.division.steps, 7);
}

/* 16 columns of q4_k on an sm_90: x of 8 stages is 139776 bytes with its sums and gaps, beside a
 * ring of 72 KiB and the sums of two tiles; two blocks share it, as they do twice as much with
 * rings of one unit. Four share the 28 stages of 14336 inputs, or the sums of 28672 rows. Where
 * blocks must not share rows these stages are three steps. 56 stages of 8192 rows would be six, of
 * which two launches of eight have none: each of these five costs 50 MB of an H100's reading, more
 * than there is to read. The two of 128256 rows cost less. */
static void sixteen_columns_of_blocks(void **state)
{
    (void)state;
    static const struct {
        uint64_t rows, cols;
        unsigned ahead, cluster, steps; /* steps 0: not in one launch */
        kf_gemv_pairing pairing;
    } shapes[] = {{4096, 4096, 2, 2, 1, 0},
                  {8192, 8192, 1, 2, 1, 0},
                  {4096, 14336, 2, 4, 1, 0},
                  {28672, 8192, 1, 4, 1, 0},
                  {128256, 4096, 1, 1, 3, 0},
                  {4096, 4096, 2, 1, 1, KF_GEMV_PAIR_NEVER},
                  {8192, 28672, 0, 0, 0, 0},
                  {4096, 14336, 1, 1, 3, KF_GEMV_PAIR_NEVER},
                  {28672, 8192, 1, 1, 2, KF_GEMV_PAIR_NEVER}};
    const kf_gemv_machine m = kf_gemv_machine_of("sm_90", 132, 3350);
    const kf_gemv_tiling t = kf_gemv_tiling_of(kf_spec_of(kerf_format_find("q4_k")));
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        kf_gemv_launch l = {.task = {.cols = shapes[i].cols,
                                     .columns = 16,
                                     .weight_bytes = shapes[i].rows * shapes[i].cols * 9 / 16,
                                     .tiles = (uint32_t)shapes[i].rows / 16,
                                     .together = 1,
                                     .overlap = 1,
                                     .options = {.pairing = shapes[i].pairing}}};
        const kf_gemv_division *d = &l.division;
        const int fits = kf_gemv_divide(&l, &t, &m, count_clusters, NULL);
        assert_int_equal(fits, shapes[i].steps != 0);
        if (!fits) continue;
        assert_int_equal(d->ahead, shapes[i].ahead);
        assert_int_equal(d->cluster, shapes[i].cluster);
        assert_int_equal(d->steps, shapes[i].steps);
        assert_int_equal(l.grid.per_sm, 1);
        assert_true(l.grid.shared_bytes <= m.most_shared);
    }
}

/* Shared memory of a block, which has two tiles of 16 rows of 4096: of q4_k on an sm_89 98 KiB hold
 * two rings of 36864 bytes, 23 stages of 1088 of one x, and 968 of rest; of 24 to 57 stages, one
 * ring; of more, two steps. Eight columns have room for six stages beside one ring. Pairs on an
 * sm_90 have four tiles, and eight columns of half of 40 stages; of 56, four blocks. */
static void room_beside_a_long_x(void **state)
{
    (void)state;
    static const struct {
        const char *arch, *format;
        uint64_t cols;
        unsigned columns, ahead, cluster, steps;
    } rows[] = {
        {"sm_89", "q4_k", 10240, 1, 2, 1, 1},      {"sm_89", "q4_k", 11776, 1, 2, 1, 1},
        {"sm_89", "q4_k", 12288, 1, 1, 1, 1},      {"sm_89", "q4_k", 14336, 1, 1, 1, 1},
        {"sm_89", "q4_k", 29184, 1, 1, 1, 1},      {"sm_89", "q4_k", 29696, 1, 1, 1, 2},
        {"sm_89", "q4_k", 14336, 2, 1, 1, 1},      {"sm_89", "q4_k", 14336, 4, 1, 1, 3},
        {"sm_89", "q4_k", 14336, 8, 1, 1, 5},      {"sm_89", "q4_k", 4096, 8, 1, 1, 2},
        {"sm_89", "q4_k", 4096, 4, 1, 1, 1},       {"sm_89", "q4_k", 4096, 2, 2, 1, 1},
        {"sm_89", "q4_1", 6144, 1, 2, 1, 1},       {"sm_89", "q4_1", 14336, 1, 1, 1, 1},
        {"sm_89", "q4_1", 14336, 2, 1, 1, 2},      {"sm_89", "q6_k", 14336, 1, 2, 1, 1},
        {"sm_89", "q6_k", 28672, 1, 1, 1, 1},      {"sm_89", "ggml-q8_0", 14336, 1, 1, 1, 1},
        {"sm_89", "ggml-q8_0", 14336, 2, 1, 1, 1}, {"sm_90", "q4_k", 14336, 1, 2, 1, 1},
        {"sm_90", "q4_k", 28672, 2, 2, 2, 1},      {"sm_90", "q4_k", 28672, 4, 2, 2, 1},
        {"sm_90", "q4_k", 20480, 8, 1, 2, 1},      {"sm_90", "q4_k", 28672, 8, 2, 4, 1},
        {"sm_89", "nvfp4", 14336, 1, 2, 1, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const kerf_format *f = kerf_format_find(rows[i].format);
        const kf_gemv_machine m = kf_gemv_machine_of(rows[i].arch, 132, 1000);
        const kf_gemv_tiling t = kf_gemv_tiling_of(kf_spec_of(f));
        kf_gemv_launch l = {.task = {.cols = rows[i].cols,
                                     .columns = rows[i].columns,
                                     .weight_bytes = 1 << 25,
                                     .tiles = 256,
                                     .together = 1}};
        const kf_gemv_division *d = &l.division;
        assert_int_equal(kf_gemv_divide(&l, &t, &m, count_blocks, NULL), 1);
        if (d->ahead != rows[i].ahead || d->cluster != rows[i].cluster || d->steps != rows[i].steps)
            fail_msg("%s %s %u x %u: %u units, %u blocks, %u steps", rows[i].arch, rows[i].format,
                     (unsigned)rows[i].cols, rows[i].columns, d->ahead, d->cluster, d->steps);
        assert_true(l.grid.shared_bytes <= m.most_shared);
        assert_int_equal(d->x_at, 8 * d->ahead * t.stage_unit);
        assert_true(d->before_x <= d->ahead);
        assert_true(d->block_stages * d->cluster * d->steps >= d->stages);
    }
}

/* On an sm_89 every block of q4_k finds room, with one column however many rows a block has; eight
 * of 61 tiles leave none for their sums. */
static void room_beside_many_sums(void **state)
{
    (void)state;
    const kf_gemv_machine m = kf_gemv_machine_of("sm_89", 132, 1000);
    const kf_gemv_tiling t = kf_gemv_tiling_of(kf_spec_of(kerf_format_find("q4_k")));
    for (unsigned columns = 1; columns <= 8; columns *= 2) {
        kf_gemv_launch l = {
            .task = {.cols = 4096, .columns = columns, .tiles = 8016, .together = 1}};
        const int fits = kf_gemv_divide(&l, &t, &m, count_blocks, NULL);
        assert_int_equal(fits, columns < 8);
        if (fits) assert_int_equal(l.division.steps, 1);
    }
}

/* A plan may be made as a card with less shared memory has it. */
static void less_shared_memory(void **state)
{
    (void)state;
    static const struct {
        unsigned kib, ahead, steps; /* steps 0: no room */
    } rows[] = {{0, 2, 1},  {1, 0, 0},  {32, 0, 0},  {64, 1, 2},
                {96, 1, 1}, {98, 1, 1}, {128, 2, 1}, {1024, 2, 1}};
    const kf_gemv_machine m = kf_gemv_machine_of("sm_90", 132, 4800);
    const kf_gemv_tiling t = kf_gemv_tiling_of(kf_spec_of(kerf_format_find("q4_k")));
    for (size_t i = 0; i < 2 * (sizeof rows / sizeof *rows); i++) {
        const unsigned most = rows[i / 2].kib * 1024;
        kf_gemv_launch l = {
            .task = {.cols = 14336,
                     .columns = 1,
                     .tiles = 256,
                     .together = 1,
                     .overlap = i % 2,
                     .options = {.pairing = KF_GEMV_PAIR_NEVER, .most_shared = most}}};
        const int fits = kf_gemv_divide(&l, &t, &m, count_blocks, NULL);
        assert_int_equal(fits, rows[i / 2].steps > 0);
        assert_int_equal(l.grid.most_bytes, m.most_shared);
        if (!fits) continue;
        assert_int_equal(l.division.ahead, rows[i / 2].ahead);
        assert_int_equal(l.division.steps, rows[i / 2].steps);
        assert_true(l.grid.shared_bytes <= (most ? most : m.most_shared));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_of_blocks),           cmocka_unit_test(eight_columns_of_blocks),
        cmocka_unit_test(sixteen_columns_of_blocks), cmocka_unit_test(room_beside_a_long_x),
        cmocka_unit_test(room_beside_many_sums),     cmocka_unit_test(less_shared_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
