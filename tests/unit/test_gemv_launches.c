/* test_gemv_launches.c - what launches products of GGUF's blocks become on a GPU, and that what is
 * predicted of them counts just these. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <kerf/predict.h>

#include "format/format.h"
#include "near.h"
#include "plan/gemv_launches.h"
#include "plan/gemv_outline.h"

static const char *const types[] = {"ggml-q8_0", "ggml-q4_0", "ggml-mxfp4", "ggml-nvfp4", "q4_1",
                                    "q5_0",      "q5_1",      "iq4_nl",     "q2_k",       "q3_k",
                                    "q4_k",      "q5_k",      "q6_k",       "iq4_xs"};

enum { TYPES = sizeof types / sizeof *types };

static kf_gemv_machine machine(size_t i)
{
    static const struct {
        const char *arch;
        unsigned multiprocessors;
        double gbps;
    } of[] = {{"sm_90", 132, 3352}, {"sm_90", 132, 4814}, {"sm_89", 142, 864}};
    return kf_gemv_machine_of(of[i].arch, of[i].multiprocessors, of[i].gbps);
}

/* What a device would have been asked. Of an H100's 132 multiprocessors four have no part in
 * clusters of four or eight. */
typedef struct questions {
    uint32_t columns[64];
    size_t count;
} questions;

static int answer(void *ctx, const kf_gemv_launch *l)
{
    questions *q = ctx;
    if (q->count < 64) q->columns[q->count++] = l->task.columns;
    return (int)(l->division.cluster > 2 ? 128 / l->division.cluster : l->grid.blocks);
}

/* A product as a plan divides it; its columns are those of a launch. */
static kf_gemv_launch divided(const char *format, uint64_t rows, uint64_t cols, unsigned columns,
                              const kf_gemv_machine *m, questions *q)
{
    const kerf_format *f = kerf_format_find(format);
    assert_non_null(f);
    kerf_geometry g;
    assert_int_equal(kerf_geometry_init(&g, f, &(kerf_shape){2, {rows, cols}}, NULL), KERF_OK);
    const kf_gemv_tiling t = kf_gemv_tiling_of(kf_spec_of(f));
    kf_gemv_launch l = {.task = {.cols = cols,
                                 .weight_bytes = g.bytes,
                                 .tiles = (uint32_t)(rows / KF_GEMV_TILE),
                                 .columns = columns,
                                 .together = 1,
                                 .overlap = m->has_clusters}};
    assert_int_equal(kf_gemv_divide_product(&l, &t, m, answer, q), 1);
    return l;
}

static kf_gemv_outline outlined(const char *format, uint64_t rows, uint64_t cols, unsigned columns,
                                const kf_gemv_machine *m)
{
    kf_gemv_outline o;
    assert_int_equal(kf_gemv_outline_of(kerf_format_find(format), rows, cols, columns, m, &o),
                     KERF_OK);
    return o;
}

/* Units of the warp that has most, one step after the other, as the kernel cuts them: each of eight
 * warps has what lies between its share and the next one's. */
static unsigned busiest(const kf_gemv_launch *l)
{
    const kf_gemv_division *d = &l->division;
    const uint32_t all = (d->stages + d->cluster - 1) / d->cluster;
    unsigned sum = 0;
    for (uint32_t step = 0; step < d->steps; step++) {
        const uint32_t stages = all / d->steps + (step < all % d->steps);
        const uint32_t units = l->share.most * stages;
        unsigned most = 0;
        for (uint32_t w = 0; w < KF_GEMV_WARPS; w++) {
            const uint32_t own = units * (w + 1) / KF_GEMV_WARPS - units * w / KF_GEMV_WARPS;
            most = own > most ? own : most;
        }
        sum += most;
    }
    return sum;
}

static void compare_outline(const char *format, const uint64_t shape[2], unsigned columns,
                            const kf_gemv_machine *m)
{
    questions q = {.count = 0};
    const kf_gemv_launch l = divided(format, shape[0], shape[1], columns, m, &q);
    const kf_gemv_outline o = outlined(format, shape[0], shape[1], columns, m);
    const kf_gemv_division *d = &l.division;
    const unsigned at_once = l.task.columns, launches = (columns + at_once - 1) / at_once;
    const unsigned warp = busiest(&l);
    double inputs = 0;
    for (unsigned i = 0; i < launches; i++) {
        unsigned n = kf_gemv_few(i + 1 < launches ? at_once : columns - i * at_once);
        if (d->cluster > 2 && n < KF_GEMV_EIGHT) n = KF_GEMV_EIGHT;
        inputs += (double)d->block_stages * l.division.steps * n;
    }
    inputs *= kf_gemv_tiling_of(kf_spec_of(kerf_format_find(format))).stage_codes;
    assert_int_equal(d->is_few, 1);
    assert_int_equal(q.columns[q.count - 1], at_once); /* what runs was asked for last */
    if (o.end >= KF_GEMV_END_ANY || o.launches != launches || o.per_sm != l.grid.per_sm ||
        o.team != d->cluster || o.before_x != d->before_x || o.ahead != d->ahead ||
        o.steps != d->steps || o.units != warp || o.inputs != inputs ||
        o.stages != (double)launches * warp * l.grid.per_sm || o.resident < o.per_sm ||
        (at_once > KF_GEMV_FEW && o.resident != 1))
        fail_msg("%s %ux%u, %u columns: %u of %u launches, end %d, %u units for %u, inputs %g for "
                 "%g, stages %g",
                 format, (unsigned)shape[0], (unsigned)shape[1], columns, o.launches, launches,
                 (int)o.end, o.units, warp, o.inputs, inputs, o.stages);
}

/* Every type, every kernel, shapes of models, three cards: never "an element at a time", and the
 * counts of the launches that a plan has. */
static void an_outline_counts_launches(void **state)
{
    (void)state;
    static const uint64_t shapes[][2] = {
        {4096, 4096}, {14336, 4096}, {4096, 14336}, {28672, 8192}, {8192, 28672}};
    static const unsigned columns[] = {1, 2, 4, 8, 9, 16};
    for (size_t m = 0; m < 3; m++) {
        const kf_gemv_machine on = machine(m);
        for (size_t t = 0; t < TYPES; t++)
            for (size_t s = 0; s < 5; s++)
                for (size_t c = 0; c < 6; c++)
                    compare_outline(types[t], shapes[s], columns[c], &on);
    }
}

/* By hand. q4_k has stages of 512 codes, eight warps, 132 multiprocessors of an H100.
 *
 *   4096 x 14336   28 stages, 256 tiles. Eight columns in pairs: 66 of these have 4 tiles, a block
 * 14 stages, a warp 7 units; x of 7168 inputs is 896 octets of a column, 512 a round. 16, and nine,
 * in 32 teams of four: 8 tiles, 7 stages, 448 octets, 256 a round 28672 x 8192   56 tiles of 4
 * stages in teams of four: a warp has 28 units, x is a round 8192 x 28672   16 columns in one
 * launch would be six steps, so they are two of eight in teams of four: 16 tiles, 14 stages, 28
 * units; 896 octets of a column, 512 a round. Nine are eight, and one by the kernel and the
 * division of eight and on an sm_89 with 142, 2 tiles a block: 4096 x 14336   four columns in steps
 * of 10, 9 and 9 stages: 3, 3 and 3 units; 640 octets */
static void launches_by_hand(void **state)
{
    (void)state;
    static const struct {
        size_t machine;
        unsigned rows, cols, columns, launches, steps, ahead, units;
        double inputs, rounds, stages;
    } rows[] = {
        {0, 4096, 14336, 8, 1, 1, 2, 7, 8 * 7168, 2, 7},
        {0, 4096, 14336, 16, 1, 1, 2, 7, 16 * 3584, 2, 7},
        {0, 4096, 14336, 9, 1, 1, 2, 7, 16 * 3584, 2, 7},
        {0, 28672, 8192, 16, 1, 1, 1, 28, 16 * 2048, 1, 28},
        {0, 8192, 28672, 16, 2, 1, 2, 28, 16 * 7168, 4, 56},
        {0, 8192, 28672, 9, 2, 1, 2, 28, 16 * 7168, 4, 56},
        {2, 4096, 14336, 4, 1, 3, 1, 9, 4 * 3 * 5120, 3, 9},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const kf_gemv_machine m = machine(rows[i].machine);
        const kf_gemv_outline o = outlined("q4_k", rows[i].rows, rows[i].cols, rows[i].columns, &m);
        if (o.launches != rows[i].launches || o.steps != rows[i].steps ||
            o.ahead != rows[i].ahead || o.units != rows[i].units || o.inputs != rows[i].inputs ||
            o.rounds != rows[i].rounds || o.stages != rows[i].stages)
            fail_msg("%ux%u, %u: %u launches, %u steps, %u ahead, %u units, %g %g %g", rows[i].rows,
                     rows[i].cols, rows[i].columns, o.launches, o.steps, o.ahead, o.units, o.inputs,
                     o.rounds, o.stages);
    }
}

/* A row of blocks ends with a unit where it has whole units and whole copies of 16 bytes: q6_k has
 * both every 2048 inputs, q4_k every 512. */
static void ends_of_blocks(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        unsigned whole; /* inputs */
    } rows[TYPES] = {{"ggml-q8_0", 256},  {"ggml-q4_0", 512}, {"ggml-mxfp4", 512},
                     {"ggml-nvfp4", 512}, {"q4_1", 512},      {"q5_0", 256},
                     {"q5_1", 256},       {"iq4_nl", 512},    {"q2_k", 1024},
                     {"q3_k", 2048},      {"q4_k", 512},      {"q5_k", 256},
                     {"q6_k", 2048},      {"iq4_xs", 512}};
    const kf_gemv_machine m = machine(1);
    for (size_t i = 0; i < TYPES; i++)
        for (unsigned k = 256; k <= 8192; k += 256) {
            const int is_whole = outlined(rows[i].format, 4096, k, 1, &m).end == KF_GEMV_END_WHOLE;
            if (is_whole != (k % rows[i].whole == 0)) fail_msg("%s, k = %u", rows[i].format, k);
        }
}

/* The device is asked of each kernel, and one that does not answer ends it. */
static int refuse(void *ctx, const kf_gemv_launch *l)
{
    (void)l;
    ++*(int *)ctx;
    return -1;
}

static int has_none_of_eight(void *ctx, const kf_gemv_launch *l)
{
    (void)ctx;
    return l->task.columns > KF_GEMV_FEW ? 0 : 1;
}

static void devices_are_asked(void **state)
{
    (void)state;
    const kf_gemv_machine m = machine(0);
    const kf_gemv_tiling t = kf_gemv_tiling_of(kf_spec_of(kerf_format_find("q4_k")));
    const kf_gemv_task task = {
        .cols = 4096, .weight_bytes = 1 << 23, .tiles = 256, .columns = 11, .together = 1};
    kf_gemv_launch l = {.task = task};
    int asked = 0;
    assert_int_equal(kf_gemv_divide_product(&l, &t, &m, refuse, &asked), -1);
    assert_int_equal(asked, 1);
    l = (kf_gemv_launch){.task = task};
    assert_int_equal(kf_gemv_divide_product(&l, &t, &m, has_none_of_eight, NULL), 1);
    assert_int_equal(l.task.columns, 4); /* 4, 4 and 3 */
    questions q = {.count = 0};
    (void)divided("q4_k", 8192, 28672, 11, &m, &q);
    assert_int_equal(q.columns[q.count - 2], 3); /* the last launch, then those before it */
    assert_int_equal(q.columns[q.count - 1], 8);
}

/* One multiprocessor has no pairs, however long x is; a description of a machine may say so. */
static void one_multiprocessor(void **state)
{
    (void)state;
    const kf_gemv_machine m = kf_gemv_machine_of("sm_90", 1, 4814);
    for (size_t t = 0; t < TYPES; t++) {
        const kf_gemv_outline o = outlined(types[t], 256, 28672, 8, &m);
        assert_int_equal(o.team, 1);
        assert_true(o.end < KF_GEMV_END_ANY && o.steps > 1);
    }
}

/* Of q4_k by 16 columns; a launch costs 2 us. */
static kerf_fit fit_of_16(double gbps)
{
    return (kerf_fit){.format = "q4_k",
                      .batch_min = 16,
                      .batch_max = 16,
                      .fixed_us = 2,
                      .bandwidth_gbps = gbps,
                      .source = "s",
                      .date = "d"};
}

static kerf_hardware h100_with(const kerf_fit *fit)
{
    kerf_hardware h = *kerf_hardware_find("h100");
    h.fit = fit;
    h.fits = 1;
    return h;
}

/* A fit charges each launch the constant and all weights; rounds and stages are those of both. */
static void a_fit_charges_each_launch(void **state)
{
    (void)state;
    kerf_fit fit = fit_of_16(1000);
    fit.input_us = 0.001;
    fit.round_us[0] = 0.5;
    fit.stage_us[0] = 0.25;
    const kerf_hardware h = h100_with(&fit);
    const kerf_format *f = kerf_format_find("q4_k");
    double w = 8192 * 28672 * 9 / 16.0, xy = 16 * 2 * (8192 + 28672);
    kerf_matmul m = {.format = f, .n = 8192, .k = 28672, .rows = 16};
    kerf_prediction p;
    assert_int_equal(kerf_predict(&h, &m, &p, NULL), KERF_OK);
    assert_near(p.fixed_us, 2 * 2 + 0.001 * 112 + 0.5 * 4 + 0.25 * 56, 1e-9);
    assert_near(p.memory_us, (2 * w + xy) * 1e-6, 1e-9);
    m = (kerf_matmul){.format = f, .n = 14336, .k = 4096, .rows = 16}; /* one; 7 tiles, 8 stages */
    assert_int_equal(kerf_predict(&h, &m, &p, NULL), KERF_OK);
    w = 14336 * 4096 * 9 / 16.0, xy = 16 * 2 * (14336 + 4096);
    assert_near(p.fixed_us, 2 + 0.001 * 64 + 0.5 * 2 + 0.25 * 7, 1e-9);
    assert_near(p.memory_us, (w + xy) * 1e-6, 1e-9);
}

/* Times of 16 columns by known prices give these back, from products of one launch and of two. */
static void prices_are_found_from_both(void **state)
{
    (void)state;
    static const uint64_t n[] = {1024, 2304, 4096, 8192, 12288, 28672};
    static const uint64_t k[] = {1024, 1280, 2560, 4096, 8192, 14336, 40960, 57344};
    kerf_fit real = fit_of_16(2500);
    real.round_us[0] = 0.5, real.round_us[1] = 0.6;
    real.stage_us[0] = 0.4, real.stage_us[1] = 0.7;
    kerf_timing times[48];
    kerf_fit fit;
    const kerf_hardware h = h100_with(&real);
    const kf_gemv_machine m = machine(0);
    unsigned seen[3] = {0};
    for (size_t i = 0; i < 48; i++) {
        kerf_prediction p;
        times[i].product = (kerf_matmul){
            .format = kerf_format_find("q4_k"), .n = n[i / 8], .k = k[i % 8], .rows = 16};
        assert_int_equal(kerf_predict(&h, &times[i].product, &p, NULL), KERF_OK);
        times[i].us = p.us;
        seen[outlined("q4_k", n[i / 8], k[i % 8], 16, &m).launches]++;
    }
    assert_true(seen[1] > 8 && seen[2] > 8);
    assert_int_equal(kerf_fit_times(&h, times, 48, &fit, NULL), KERF_OK);
    assert_near(fit.fixed_us, 2, 1e-5);
    assert_near(fit.bandwidth_gbps, 2500, 0.1);
    for (int i = 0; i < 2; i++) {
        assert_near(fit.round_us[i], real.round_us[i], 1e-5);
        assert_near(fit.stage_us[i], real.stage_us[i], 1e-5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_outline_counts_launches),
        cmocka_unit_test(launches_by_hand),
        cmocka_unit_test(ends_of_blocks),
        cmocka_unit_test(devices_are_asked),
        cmocka_unit_test(one_multiprocessor),
        cmocka_unit_test(a_fit_charges_each_launch),
        cmocka_unit_test(prices_are_found_from_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
