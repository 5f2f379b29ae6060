/* test_gemv_outline.c - how products are divided on a GPU, and what is counted of it, against
 * figures worked out by hand for 132 multiprocessors of an H200. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "format/format.h"
#include "plan/gemv_outline.h"

static kf_gemv_machine h200(void)
{
    return kf_gemv_machine_of("sm_90", 132, 4800);
}

static kf_gemv_outline outline(const char *format, uint64_t rows, uint64_t cols, unsigned columns)
{
    kf_gemv_outline o;
    const kf_gemv_machine m = h200();
    const kerf_format *f = kerf_format_find(format);
    assert_non_null(f);
    assert_int_equal(kf_gemv_outline_of(f, rows, cols, columns, &m, &o), KERF_OK);
    return o;
}

static void machines_by_architecture(void **state)
{
    (void)state;
    assert_int_equal(h200().most_shared, 232448 - 1024);
    assert_int_equal(h200().has_clusters, 1);
    assert_int_equal(kf_gemv_machine_of("sm_89", 142, 864).most_shared, 101376 - 1024);
    assert_int_equal(kf_gemv_machine_of("sm_120", 170, 1792).has_clusters, 0);
    assert_int_equal(kf_gemv_machine_of("gfx942", 304, 5300).multiprocessors, 0);
    assert_int_equal(kf_gemv_machine_of("", 132, 0).multiprocessors, 0);
    assert_int_equal(kf_gemv_machine_of("sm_90", 0, 4800).multiprocessors, 0);
}

/* Rows end with a stage of 512 codes of 4 bits, 256 of 6 or 8, 128 of 16, or within one; then
 * scales are copied four bytes at a time, where their rows begin at multiples of four. */
static void ends_of_rows(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        kf_gemv_end at[3]; /* k = 4096, 4352, 4224 */
    } rows[] = {
        {"nvfp4", {KF_GEMV_END_WHOLE, KF_GEMV_END_X, KF_GEMV_END_X}},
        {"mxfp4", {KF_GEMV_END_WHOLE, KF_GEMV_END_X, KF_GEMV_END_X}},
        {"int4-g128", {KF_GEMV_END_WHOLE, KF_GEMV_END_X, KF_GEMV_END_SCALES}},
        {"int8", {KF_GEMV_END_WHOLE, KF_GEMV_END_WHOLE, KF_GEMV_END_X}},
        {"fp8-e4m3", {KF_GEMV_END_WHOLE, KF_GEMV_END_WHOLE, KF_GEMV_END_X}},
        {"mxfp8-e4m3", {KF_GEMV_END_WHOLE, KF_GEMV_END_WHOLE, KF_GEMV_END_X}},
        {"mxfp6-e2m3", {KF_GEMV_END_WHOLE, KF_GEMV_END_WHOLE, KF_GEMV_END_X}},
        {"fp16", {KF_GEMV_END_WHOLE, KF_GEMV_END_WHOLE, KF_GEMV_END_WHOLE}},
        {"bf16", {KF_GEMV_END_WHOLE, KF_GEMV_END_WHOLE, KF_GEMV_END_WHOLE}},
        {"ggml-q8_0", {KF_GEMV_END_WHOLE, KF_GEMV_END_WHOLE, KF_GEMV_END_X}},
        {"ggml-q4_0", {KF_GEMV_END_WHOLE, KF_GEMV_END_X, KF_GEMV_END_X}}, /* 4352: 8.5 stages    */
        {"q4_k", {KF_GEMV_END_WHOLE, KF_GEMV_END_X, KF_GEMV_END_ANY}},    /* 4224: half a block  */
        {"q6_k", {KF_GEMV_END_WHOLE, KF_GEMV_END_X, KF_GEMV_END_ANY}},    /* 17 x 210 is not 16 n */
    };
    static const uint64_t k[3] = {4096, 4352, 4224};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (size_t j = 0; j < 3; j++) {
            const kerf_format *f = kerf_format_find(rows[i].format);
            if (f->geometry == KERF_GROUP_SUPER && k[j] % 256) continue; /* no such rows */
            kf_gemv_outline o = outline(rows[i].format, 4096, k[j], 1);
            if (o.end != rows[i].at[j])
                fail_msg("%s, k = %u: %d", rows[i].format, (unsigned)k[j], (int)o.end);
        }
    }
    assert_int_equal(outline("int8", 4096, 4100, 1).end, KF_GEMV_END_ANY); /* not of 16 bytes */
}

/* Tiles of 16 rows go to twice as many blocks as there are multiprocessors where each of a block's
 * eight warps then has two units or more, else to as many; warps share a block's tiles times
 * stages, which count twice where two blocks share a multiprocessor; a round makes 16384 numbers of
 * x ready. */
static void work_of_the_busiest_warp(void **state)
{
    (void)state;
    static const struct {
        uint64_t n, k;
        unsigned per_sm, resident;
        double inputs, rounds, stages;
    } rows[] = {
        {1024, 1024, 1, 3, 1024, 1, 1},       /* 64 blocks have a tile of 4 stages each           */
        {2112, 4096, 1, 3, 4096, 1, 2},       /* 132 blocks have a tile of 16 stages              */
        {2128, 4096, 2, 3, 4096, 1, 4},       /* one tile more: 133 of 264 blocks have one        */
        {4096, 4095, 1, 3, 4096, 1, 0},       /* not of 16 bytes: not filled                     */
        {4096, 4096, 2, 3, 4096, 1, 4},       /* 256 have one of 16 stages, so two a warp         */
        {4096, 3840, 1, 3, 3840, 1, 4},       /* of 15 stages: too few, 132 blocks of two tiles  */
        {28000, 3072, 2, 3, 3072, 1, 22},     /* 1750 tiles, 7 to a block; 12 stages             */
        {28672, 4096, 2, 3, 4096, 1, 28},     /* 1792 tiles, 7 to a block; 16 stages             */
        {8192, 8192, 2, 2, 8192, 1, 16},      /* x leaves room for two; 2 tiles of 32 stages     */
        {1600, 1100 * 16, 1, 2, 17664, 2, 9}, /* 68.75 stages are 69                             */
        {1024, 1100 * 16, 1, 2, 8960, 1, 5},  /* 64 tiles: pairs have one each, of 35 stages     */
        {8192, 27648, 1, 2, 13824, 1, 54},    /* no room for two: pairs, 8 tiles of 54 stages    */
        {7168, 16384, 1, 2, 8192, 1, 28},     /* x of 32 KiB: one; a pair has 7 of 64 stages     */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        kf_gemv_outline o = outline("fp8-e4m3", rows[i].n, rows[i].k, 1);
        if (rows[i].stages == 0) {
            assert_int_equal(o.end, KF_GEMV_END_ANY);
            continue;
        }
        if (o.per_sm != rows[i].per_sm || o.resident != rows[i].resident ||
            o.inputs != rows[i].inputs || o.rounds != rows[i].rounds || o.stages != rows[i].stages)
            fail_msg("%ux%u: %u %u %g %g %g", (unsigned)rows[i].n, (unsigned)rows[i].k, o.per_sm,
                     o.resident, o.inputs, o.rounds, o.stages);
    }
}

static int count_blocks(void *ctx, const kf_gemv_launch *l)
{
    (void)ctx;
    return (int)l->grid.blocks;
}

/* A task of one matrix, divided for an H200. */
static kf_gemv_launch divided(const kerf_format *f, uint32_t rows, kf_gemv_task task)
{
    const kf_gemv_machine m = h200();
    const kf_gemv_tiling t = kf_gemv_tiling_of(kf_spec_of(f));
    kf_gemv_launch l = {.task = task};
    l.task.tiles = rows / KF_GEMV_TILE;
    l.task.together = 1;
    assert_int_equal(kf_gemv_divide(&l, &t, &m, count_blocks, NULL), 1);
    return l;
}

/* Beside the table of a code book and scales of fp32 no block of the next launch has room, and half
 * of a ring waits for x however short the run is; beside scales of fp16 one has. So it is where
 * blocks share no rows. */
static void room_for_the_next_launch(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        unsigned before_x;
        int has_room;
    } rows[] = {{"nf4", 1, 0}, {"nf4-f16", 2, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        kf_gemv_launch l = divided(kerf_format_find(rows[i].format), 4096,
                                   (kf_gemv_task){.cols = 4096,
                                                  .weight_bytes = 4096 * 4096 / 2,
                                                  .columns = 1,
                                                  .overlap = 1,
                                                  .options = {.pairing = KF_GEMV_PAIR_NEVER}});
        assert_int_equal(l.grid.per_sm, 1);
        assert_int_equal(l.division.before_x, rows[i].before_x);
        assert_int_equal(l.grid.solo_bytes != 0, rows[i].has_room);
    }
}

/* In a chain two blocks share a multiprocessor by what their warps have to do, and some of a ring
 * is left until x is known, from 8 bits on by the second of them only, if the first has more to do
 * than a ring full; where x is there from the start, they do from 70 MB on, and all is. */
static void blocks_of_a_multiprocessor(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        uint32_t n, k;
        unsigned chain, chain_before_x, plain;
        unsigned full; /* blocks of a chain that fetch all of their ring before x */
    } rows[] = {
        {"fp8-e4m3", 4096, 4096, 2, 1, 1, 0},   {"mxfp6-e2m3", 4096, 4096, 1, 1, 1, 0},
        {"mxfp6-e2m3", 8192, 8192, 2, 1, 1, 0}, {"nvfp4", 4096, 4096, 1, 2, 1, 0},
        {"nvfp4", 5120, 5120, 1, 1, 1, 0},      {"nvfp4", 4096, 14336, 1, 1, 1, 0},
        {"nvfp4", 8192, 8192, 2, 1, 1, 0},      {"nvfp4", 28672, 8192, 2, 1, 2, 0},
        {"fp16", 7168, 16384, 1, 1, 2, 0},      {"mxfp6-e2m3", 7168, 16384, 2, 1, 2, 0},
        {"nvfp4", 7168, 16384, 2, 1, 1, 0},     {"int8", 1024, 1024, 1, 2, 1, 0},
        {"fp8-e4m3", 8192, 8192, 2, 1, 1, 132}, {"fp16", 4096, 4096, 2, 1, 1, 132},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const kerf_format *f = kerf_format_find(rows[i].format);
        for (int overlap = 0; overlap < 2; overlap++) {
            uint64_t bytes = (uint64_t)rows[i].n * rows[i].k * f->bits / 8;
            kf_gemv_launch l = divided(
                f, rows[i].n,
                (kf_gemv_task){
                    .cols = rows[i].k, .weight_bytes = bytes, .columns = 1, .overlap = overlap});
            const kf_gemv_grid *g = &l.grid;
            if (g->per_sm != (overlap ? rows[i].chain : rows[i].plain) ||
                l.division.before_x != (overlap ? rows[i].chain_before_x : 0))
                fail_msg("%s %ux%u, %d: %u blocks, %u units before x", f->name, rows[i].n,
                         rows[i].k, overlap, g->per_sm, l.division.before_x);
            assert_int_equal(l.division.full_blocks, overlap ? rows[i].full : 0);
            assert_int_equal(g->blocks, 132 * g->per_sm);
            /* Of 228 KiB, with 1 KiB for the system: not two, but one beside one that needs no
             * more than it must. */
            assert_int_equal(g->solo_bytes != 0, overlap && g->per_sm == 1);
            if (g->solo_bytes == 0) continue;
            assert_true(2 * (g->solo_bytes + 1024) > 228 * 1024);
            assert_true(g->solo_bytes + g->shared_bytes + 2 * (1024 + 512) <= 228 * 1024);
        }
    }
}

/* Up to four columns of x are a block's too, as long as they leave clusters behind: with 8 bits up
 * to 32 KiB of four, with fewer up to 112. Three count as four, and a round is of 16 loads by each
 * thread. */
static void few_columns(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        unsigned n, k, columns, per_sm;
        double inputs, rounds, stages;
    } rows[] = {
        {"fp8-e4m3", 4096, 4096, 2, 2, 4096 * 2, 1, 4},
        {"fp8-e4m3", 4096, 4096, 3, 1, 4096 * 4, 1, 4},     /* units take longer: one block      */
        {"fp8-e4m3", 8192, 8192, 4, 2, 4096 * 4, 1, 16},    /* 64 KiB: two pairs have half each  */
        {"fp8-e4m3", 4096, 14336, 4, 2, 7 * 256 * 4, 1, 9}, /* 112 KiB: 29 clusters of 8 blocks  */
        {"nvfp4", 4096, 14336, 4, 1, 7168 * 4, 1, 7},       /* of 4 bits: a pair, 4 of 14 stages */
        {"nvfp4", 7168, 16384, 4, 1, 8192 * 4, 1, 14},      /* a pair has 7 tiles of 32 stages   */
        {"nvfp4", 7168, 16384, 2, 2, 8192 * 2, 1, 16},      /* two pairs: 4 tiles of 32 stages   */
        {"nvfp4", 8192, 16384, 4, 1, 8192 * 4, 1, 16},      /* 128 KiB: a pair has 8 tiles       */
        {"nvfp4", 8192, 32768, 4, 2, 8 * 256 * 4, 2, 36},   /* 256 KiB: clusters of 8, twice     */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        kf_gemv_outline o = outline(rows[i].format, rows[i].n, rows[i].k, rows[i].columns);
        if (o.per_sm != rows[i].per_sm || o.inputs != rows[i].inputs ||
            o.rounds != rows[i].rounds || o.stages != rows[i].stages)
            fail_msg("%s %ux%u, %u: %u %g %g %g", rows[i].format, rows[i].n, rows[i].k,
                     rows[i].columns, o.per_sm, o.inputs, o.rounds, o.stages);
    }
}

/* Of more columns a warp keeps 256 inputs each, a block has up to 8 warps, a cluster up to 8
 * blocks; then rows are gone over again. Of clusters of three and more one has no room beside
 * another kernel's. */
static void slices_of_inputs(void **state)
{
    (void)state;
    static const struct {
        unsigned n, k, columns, per_sm, resident;
        double inputs, rounds, stages;
    } rows[] = {
        {4096, 2048, 16, 1, 2, 8 * 256 * 16, 1, 2},  /* 8 slices: a block; 256 tiles for 132    */
        {4096, 4096, 16, 1, 2, 8 * 256 * 16, 1, 4},  /* 16 slices: 66 clusters of 2             */
        {4096, 4096, 5, 1, 3, 8 * 256 * 5, 1, 4},    /* the same, with sums of half the size    */
        {14336, 4096, 8, 2, 2, 8 * 256 * 8, 1, 7},   /* larger: two blocks, 131 clusters        */
        {9728, 2560, 8, 2, 2, 5 * 256 * 8, 1, 5},    /* 10 slices: two blocks have 10 warps     */
        {4096, 5120, 16, 2, 2, 7 * 256 * 16, 1, 4},  /* 20 slices: 78 clusters of 3             */
        {4096, 11008, 8, 2, 2, 8 * 256 * 8, 1, 7},   /* 43 slices: 38 clusters of 6             */
        {4096, 16384, 16, 2, 2, 8 * 256 * 16, 1, 9}, /* 64 slices: 29 clusters of 8             */
        {5120, 17408, 8, 2, 2, 7 * 256 * 8, 2, 14},  /* 68 slices: 46 clusters of 5, two passes */
        {1024, 28672, 16, 2, 2, 7 * 256 * 16, 2, 6}, /* 112 slices: 29 clusters of 8, 2 passes  */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        kf_gemv_outline o = outline("fp8-e4m3", rows[i].n, rows[i].k, rows[i].columns);
        if (o.per_sm != rows[i].per_sm || o.resident != rows[i].resident ||
            o.inputs != rows[i].inputs || o.rounds != rows[i].rounds || o.stages != rows[i].stages)
            fail_msg("%ux%u: %u %u %g %g %g", rows[i].n, rows[i].k, o.per_sm, o.resident, o.inputs,
                     o.rounds, o.stages);
    }
}

/* Nine columns and more of large matrices in 4 bits, where the tensor core works beside the warps:
 * K is divided by the blocks of a cluster, and within them so that tiles come out even. */
static void wide_steps(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        unsigned n, k, columns;
        double inputs, rounds, stages; /* of a block; steps; units of a warp */
    } rows[] = {
        {"nvfp4", 8192, 8192, 16, 16 * 256 * 16, 1, 8},      /* 8 tiles, 2 groups to each: K / 4 */
        {"nvfp4", 8192, 8192, 9, 16 * 256 * 9, 1, 8},        /* the same for nine                */
        {"int4-g128", 14336, 4096, 16, 8 * 256 * 16, 1, 8},  /* 14 of 16 tiles                   */
        {"nvfp4", 28672, 8192, 16, 16 * 256 * 16, 2, 28.48}, /* 28 tiles: 16, and three groups'  */
        {"nvfp4", 8192, 8192, 8, 8 * 256 * 8, 1, 9},         /* fewer: the other kernel          */
        {"nvfp4", 3072, 2048, 16, 8 * 256 * 16, 1, 2},       /* and small ones                   */
        {"nvfp4", 6144, 2048, 16, 8 * 256 * 16, 1, 3},       /* and where that takes less        */
        {"nvfp4", 4096, 11008, 16, 11 * 256 * 16, 1, 8.58},  /* 9 tiles: three groups'           */
        {"fp8-e4m3", 8192, 8192, 16, 8 * 256 * 16, 1, 9},    /* and 8 bits                       */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        kf_gemv_outline o = outline(rows[i].format, rows[i].n, rows[i].k, rows[i].columns);
        if (o.inputs != rows[i].inputs || o.rounds != rows[i].rounds ||
            fabs(o.stages - rows[i].stages) > 1e-9)
            fail_msg("%s %ux%u, %u: %g %g %g", rows[i].format, rows[i].n, rows[i].k,
                     rows[i].columns, o.inputs, o.rounds, o.stages);
    }
    kf_gemv_machine blackwell = kf_gemv_machine_of("sm_100", 148, 8000);
    kf_gemv_outline o;
    assert_int_equal(kf_gemv_outline_of(kerf_format_find("nvfp4"), 8192, 8192, 16, &blackwell, &o),
                     KERF_OK);
    assert_true(o.inputs == 8 * 256 * 16); /* the instruction is sm_90a's alone */
}

/* Two blocks share rows where whole tiles leave some multiprocessors with much less to do, and
 * where x leaves no room for two on one of them. */
static void pairs_of_blocks(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        unsigned n, k, chain, plain; /* columns up to which there are pairs, as bits 1, 2 and 4 */
    } rows[] = {
        {"nvfp4", 7168, 16384, 7, 7},    /* 4 tiles where 3.4 would be even, a pair 7: 9.8 MB   */
        {"fp8-e4m3", 7168, 16384, 3, 3}, /* 17.5 MB; of four columns x of a pair is 2 x 64 KiB  */
        {"nvfp4", 28672, 8192, 4, 4},    /* 14 of 13.6, and 28; two blocks have no room for four */
        {"nvfp4", 4096, 4096, 0, 0},     /* 2 and 4                                             */
        {"nvfp4", 9216, 4096, 0, 0},     /* 2.4 MB                                              */
        {"nvfp4", 5120, 5120, 4, 7},     /* 3 of 2.4, and 5: 3.0 MB                             */
        {"nvfp4", 5120, 8192, 6, 7},     /* 4.9 MB                                              */
        {"nvfp4", 5120, 13824, 6, 7},    /* 8.2 MB                                              */
        {"nf4", 5120, 8192, 0, 7},       /* a table                                             */
        {"fp8-e4m3", 5120, 5120, 4, 4},  /* 5.4 MB; four columns of all of x are too long       */
        {"fp8-e4m3", 6400, 8192, 7, 7},  /* 4 of 3.03, and 7: 8.7 MB                            */
        {"nvfp4", 65536, 3584, 0, 0},    /* 7 stages                                            */
        {"fp8-e4m3", 1024, 4096, 7, 7},  /* 64 tiles: more than half have nothing; 4.3 MB       */
        {"nvfp4", 1024, 4096, 0, 0},     /* 2.4 MB                                              */
        {"nvfp4", 1024, 8192, 7, 7},     /* 4.9 MB                                              */
        {"nvfp4", 2048, 16384, 6, 6},    /* 128 tiles: even; 64 KiB of two columns are too long */
    };
    static const unsigned columns[] = {1, 2, 4};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const kerf_format *f = kerf_format_find(rows[i].format);
        unsigned seen[2] = {0, 0};
        kerf_geometry g;
        assert_int_equal(kerf_geometry_init(&g, f, &(kerf_shape){2, {rows[i].n, rows[i].k}}, NULL),
                         KERF_OK);
        for (unsigned way = 0; way < 6; way++) {
            kf_gemv_launch l = divided(f, rows[i].n,
                                       (kf_gemv_task){.cols = rows[i].k,
                                                      .weight_bytes = g.bytes,
                                                      .columns = columns[way / 2],
                                                      .overlap = way % 2 == 0});
            if (!l.division.is_few || l.division.cluster == 1) continue;
            seen[way % 2] |= columns[way / 2];
            assert_int_equal(l.division.cluster, 2);
            assert_int_equal(l.grid.blocks, 132 * l.grid.per_sm);
            unsigned teams = l.grid.blocks / 2;
            assert_int_equal(l.share.most, (l.share.tiles + teams - 1) / teams);
            assert_int_equal(outline(rows[i].format, rows[i].n, rows[i].k, columns[way / 2]).team,
                             1 + rows[i].chain / columns[way / 2] % 2);
        }
        if (seen[0] != rows[i].chain || seen[1] != rows[i].plain)
            fail_msg("%s %ux%u: %u %u", f->name, rows[i].n, rows[i].k, seen[0], seen[1]);
    }
}

static unsigned cluster_of(uint32_t rows, uint64_t cols, unsigned columns, kf_gemv_pairing p)
{
    return divided(kerf_format_find("nvfp4"), rows,
                   (kf_gemv_task){.cols = cols,
                                  .weight_bytes = rows * cols / 2,
                                  .columns = columns,
                                  .options = {.pairing = p}})
        .division.cluster;
}

/* A plan's options decide, and that plan's alone; without clusters there is nothing to decide. */
static void pairs_on_demand(void **state)
{
    (void)state;
    assert_int_equal(cluster_of(4096, 4096, 1, KF_GEMV_PAIR_ALWAYS), 2);
    assert_int_equal(cluster_of(4096, 4096, 1, KF_GEMV_PAIR_BY_GAIN), 1);
    assert_int_equal(cluster_of(4096, 512, 1, KF_GEMV_PAIR_ALWAYS), 1); /* one stage */
    assert_int_equal(cluster_of(7168, 16384, 1, KF_GEMV_PAIR_BY_GAIN), 2);
    assert_int_equal(cluster_of(7168, 16384, 1, KF_GEMV_PAIR_NEVER), 1);
    const kf_gemv_machine without = kf_gemv_machine_of("sm_89", 142, 864);
    const kf_gemv_tiling t = kf_gemv_tiling_of(kf_spec_of(kerf_format_find("nvfp4")));
    kf_gemv_launch l = {.task = {.cols = 4096,
                                 .weight_bytes = 4096 * 4096 / 2,
                                 .tiles = 256,
                                 .columns = 1,
                                 .together = 1,
                                 .options = {.pairing = KF_GEMV_PAIR_ALWAYS}}};
    assert_int_equal(kf_gemv_divide(&l, &t, &without, count_blocks, NULL), 1);
    assert_int_equal(l.division.cluster, 1);
}

/* With nine columns and more, also of small matrices, and on one cluster. */
static void wide_on_demand(void **state)
{
    (void)state;
    kf_gemv_task task = {
        .cols = 4096, .weight_bytes = 4096 * 300 / 2, .columns = 16, .options = {.always_wide = 1}};
    kf_gemv_launch l = divided(kerf_format_find("nvfp4"), 304, task);
    assert_true(l.division.k_groups > 0);
    assert_int_equal(l.grid.blocks, l.division.cluster);
    task.options.always_wide = 0;
    assert_int_equal(divided(kerf_format_find("nvfp4"), 304, task).division.k_groups, 0);
}

/* A slice of nf4-dq has four scales, and 256 scales, whatever rows they are of, have one of the
 * second level: rows of 45 or 18 scales go in groups of four columns by the kernel for few. */
static void slices_of_two_levels(void **state)
{
    (void)state;
    static const struct {
        uint64_t k;
        unsigned columns, launches;
    } rows[] = {{2880, 1, 1},  {2880, 4, 1}, {2880, 5, 2},  {2880, 16, 4},
                {1152, 16, 4}, {4096, 8, 1}, {4096, 16, 1}, {3072, 16, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(outline("nf4-dq", 4096, rows[i].k, rows[i].columns).launches,
                         rows[i].launches);
    assert_int_equal(outline("nf4-dq", 4096, 2880, 16).end, KF_GEMV_END_SCALES);
    assert_int_equal(outline("nf4-dq", 4096, 2912, 1).end, KF_GEMV_END_ANY); /* 45.5 groups */
}

static void what_there_is_not(void **state)
{
    (void)state;
    kf_gemv_outline o;
    kf_gemv_machine none = {0}, m = h200();
    const kerf_format *f = kerf_format_find("int8");
    assert_int_equal(kf_gemv_outline_of(f, 64, 64, 1, &none, &o), KERF_E_NOSUP);
    assert_int_equal(kf_gemv_outline_of(f, 64, 64, 17, &m, &o), KERF_E_NOSUP);
    assert_int_equal(kf_gemv_outline_of(f, 64, 64, 0, &m, &o), KERF_E_NOSUP);
    assert_int_equal(kf_gemv_outline_of(f, 0, 64, 1, &m, &o), KERF_E_NOSUP);
    assert_int_equal(kf_gemv_outline_of(f, UINT64_MAX, 64, 1, &m, &o), KERF_E_NOSUP);
    m.multiprocessors = 1; /* no cluster of two has room */
    assert_int_equal(kf_gemv_outline_of(f, 4096, 4096, 16, &m, &o), KERF_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(machines_by_architecture), cmocka_unit_test(ends_of_rows),
        cmocka_unit_test(work_of_the_busiest_warp), cmocka_unit_test(few_columns),
        cmocka_unit_test(slices_of_inputs),         cmocka_unit_test(wide_steps),
        cmocka_unit_test(room_for_the_next_launch), cmocka_unit_test(blocks_of_a_multiprocessor),
        cmocka_unit_test(pairs_of_blocks),          cmocka_unit_test(pairs_on_demand),
        cmocka_unit_test(wide_on_demand),           cmocka_unit_test(what_there_is_not),
        cmocka_unit_test(slices_of_two_levels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
