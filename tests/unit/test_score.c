/* test_score.c - the figures of a score: by hand on small tensors, and on a million Gaussian
 * weights, where the error of every format is known. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <kerf/advisor.h>
#include <kerf/encode_matrix.h>
#include <kerf/loss.h>

/* --- tools --------------------------------------------------------------------------------- */

/* 64 mixed bits of a counter. */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* The i-th of a sequence of standard normal numbers (Box and Muller). */
static float gaussian(uint64_t i)
{
    double u = ((double)(mix(2 * i) >> 11) + 1) * 0x1p-53;
    double v = (double)(mix(2 * i + 1) >> 11) * 0x1p-53;
    return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

typedef struct encoded {
    kerf_geometry geometry;
    kerf_span plane[KERF_PLANES];
} encoded;

static encoded encode(const char *name, const kerf_shape *shape, const float *src)
{
    encoded e;
    kerf_codec codec;
    assert_int_equal(kerf_codec_find(name, &codec, NULL), KERF_OK);
    assert_int_equal(kerf_geometry_init(&e.geometry, codec.format, shape, NULL), KERF_OK);
    for (int p = 0; p < KERF_PLANES; p++) {
        e.plane[p].n = (size_t)e.geometry.plane[p].bytes;
        e.plane[p].p = calloc(e.plane[p].n + 1, 1);
        assert_non_null(e.plane[p].p);
    }
    const kerf_geometry *g = &e.geometry;
    const kerf_cspan source = {src, (size_t)g->elements * sizeof *src};
    assert_int_equal(
        kerf_encode_matrix(g, codec.encoder, source, KERF_F32, e.plane, NULL, NULL, NULL), KERF_OK);
    return e;
}

static void release(encoded *e)
{
    for (int p = 0; p < KERF_PLANES; p++) free(e->plane[p].p);
}

/* Scores in calls of `step` bands on `threads` threads. */
static kerf_score score(const encoded *e, const float *src, const kerf_scorer_options *opt,
                        uint64_t step, int threads)
{
    const kerf_geometry *g = &e->geometry;
    const kerf_exec exec = {.threads = threads};
    kerf_scorer *s = NULL;
    kerf_score out;
    assert_int_equal(kerf_scorer_open(g, opt, &s, NULL), KERF_OK);
    for (uint64_t b0 = 0; b0 < g->bands; b0 += step) {
        uint64_t b1 = g->bands - b0 < step ? g->bands : b0 + step;
        kerf_extent x = kerf_band_elements(g, b0, b1);
        kerf_cspan source = {src + x.offset, (size_t)x.count * sizeof *src};
        kerf_cspan planes[KERF_PLANES];
        for (int p = 0; p < KERF_PLANES; p++) {
            kerf_extent bytes = kerf_band_bytes(g, (kerf_plane_id)p, b0, b1);
            planes[p] =
                (kerf_cspan){(const char *)e->plane[p].p + bytes.offset, (size_t)bytes.count};
        }
        assert_int_equal(kerf_scorer_add(s, b0, b1, planes, source, KERF_F32, &exec, NULL),
                         KERF_OK);
    }
    assert_int_equal(kerf_scorer_finish(s, &out, NULL), KERF_OK);
    kerf_scorer_close(s);
    return out;
}

static void assert_near(double value, double expected, double tolerance)
{
    if (!(fabs(value - expected) <= tolerance * fabs(expected))) {
        fail_msg("%.6e is not %.6e within %g %%", value, expected, 100 * tolerance);
    }
}

/* --- by hand ------------------------------------------------------------------------------- */

/* int8-tensor with amax 127 has the scale 1, so the decoded values are the rounded ones. */
static void figures_of_four_elements(void **state)
{
    (void)state;
    static const float w[4] = {127.0f, 10.25f, -3.5f, 0.25f};
    static const float importance[2] = {1.0f, 3.0f};
    static const kerf_shape shape = {2, {2, 2}};
    const kerf_scorer_options opt = {.importance = importance};
    encoded e = encode("int8-tensor", &shape, w);
    kerf_score s = score(&e, w, &opt, 1, 1);
    release(&e);
    /* decoded: 127, 10, -4, 0; errors 0, -0.25, -0.5, -0.25 */
    const double signal = 127.0 * 127.0 + 10.25 * 10.25 + 3.5 * 3.5 + 0.25 * 0.25;
    assert_int_equal(s.elements, 4);
    assert_int_equal(s.bytes, 4 + 4);
    assert_int_equal(s.nonfinite, 0);
    assert_int_equal(s.clipped, 0);
    assert_near(s.signal, signal, 1e-15);
    assert_near(s.noise, 0.0625 + 0.25 + 0.0625, 1e-15);
    assert_near(s.cross, -0.25 * 10.25 + 0.5 * 3.5 - 0.25 * 0.25, 1e-15);
    assert_near(s.max_error, 0.5, 0);
    assert_near(kerf_score_bias(&s), (-0.25 * 10.25 + 0.5 * 3.5 - 0.25 * 0.25) / signal, 1e-15);
    assert_near(kerf_score_bpw(&s), 16, 0);
    assert_near(kerf_score_t2(&s), 0.375 / signal, 1e-15);
    const double weighted = 127.0 * 127.0 + 3 * 10.25 * 10.25 + 3.5 * 3.5 + 3 * 0.25 * 0.25;
    assert_near(kerf_score_weighted_t2(&s), (3 * 0.0625 + 0.25 + 3 * 0.0625) / weighted, 1e-15);
}

/* By NaN, or by numbers whose sums overflow, every figure that weighs would be no number. */
static void importance_is_a_number(void **state)
{
    (void)state;
    static const float w[64] = {1, 2}, wrong[] = {NAN, -1, -INFINITY, INFINITY, 3e38f};
    static const kerf_shape shape = {2, {2, 32}};
    float importance[32];
    const kerf_scorer_options opt = {.importance = importance};
    encoded e = encode("nvfp4", &shape, w);
    const kerf_geometry *g = &e.geometry;
    const kerf_cspan src = {w, sizeof w};
    kerf_cspan planes[KERF_PLANES];
    kerf_error err;
    kerf_loss loss;
    kerf_score bands;
    for (int p = 0; p < KERF_PLANES; p++) planes[p] = (kerf_cspan){e.plane[p].p, e.plane[p].n};
    for (size_t i = 0; i < 32; i++) importance[i] = i % 2 ? 1e30f : 0;
    for (size_t i = 0; i <= sizeof wrong / sizeof *wrong; i++) {
        const int is_wrong = i < sizeof wrong / sizeof *wrong;
        const kerf_status wanted = is_wrong ? KERF_E_ARG : KERF_OK;
        kerf_scorer *s = NULL;
        importance[31] = is_wrong ? wrong[i] : 1;
        assert_int_equal(
            kerf_find_loss(g, 0, g->bands, planes, src, KERF_F32, importance, NULL, &loss, &err),
            wanted);
        if (is_wrong) assert_non_null(strstr(err.text, "importance 31 is"));
        assert_int_equal(
            kerf_score_bands(g, 0, g->bands, planes, src, KERF_F32, importance, NULL, &bands, &err),
            wanted);
        assert_int_equal(kerf_scorer_open(g, &opt, &s, NULL), KERF_OK);
        assert_int_equal(kerf_scorer_add(s, 0, g->bands, planes, src, KERF_F32, NULL, NULL),
                         wanted);
        kerf_scorer_close(s);
    }
    release(&e);
}

/* zstd itself takes the nearest level that it has, whose figure would stand under another number.
 */
static void levels_exist(void **state)
{
    (void)state;
    static const int wrong[] = {-1, -131072, 23, 1000};
    static const float w[64] = {1, 2};
    static const kerf_shape shape = {2, {2, 32}};
    encoded e = encode("nvfp4", &shape, w);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const kerf_scorer_options opt = {.zstd_level = wrong[i]};
        kerf_scorer *s = NULL;
        kerf_error err = {0};
        assert_int_equal(kerf_scorer_open(&e.geometry, &opt, &s, &err), KERF_E_ARG);
        assert_non_null(strstr(err.text, "1 to 22 exist"));
        assert_null(s);
    }
    release(&e);
}

static void zeros_lose_nothing(void **state)
{
    (void)state;
    static const float w[64] = {0};
    static const kerf_shape shape = {2, {2, 32}};
    encoded e = encode("nvfp4", &shape, w);
    kerf_score s = score(&e, w, NULL, 2, 1);
    release(&e);
    assert_true(kerf_score_t2(&s) == 0 && kerf_score_bias(&s) == 0 && s.max_error == 0);
    assert_true(isnan(kerf_score_weighted_t2(&s)));
}

/* A scale of NaN makes elements that are counted and leave the sums alone. */
static void nonfinite_is_counted(void **state)
{
    (void)state;
    float w[64];
    static const kerf_shape shape = {2, {2, 32}};
    for (size_t i = 0; i < 64; i++) w[i] = gaussian(i);
    encoded e = encode("mxfp4", &shape, w);
    ((unsigned char *)e.plane[KERF_PLANE_SCALES].p)[1] = 0xff;
    kerf_score s = score(&e, w, NULL, 2, 1);
    release(&e);
    double signal = 0;
    for (size_t i = 0; i < 32; i++) signal += (double)w[i] * (double)w[i];
    assert_int_equal(s.nonfinite, 32);
    assert_near(s.signal, signal, 1e-14);
    assert_true(isfinite(s.noise));
}

static void sums_do_not_depend_on_threads(void **state)
{
    (void)state;
    enum { N = 96 * 1000 };
    static float w[N];
    static const kerf_shape shape = {2, {96, 1000}};
    for (size_t i = 0; i < N; i++) w[i] = gaussian(i);
    encoded e = encode("int4-g64-asym", &shape, w);
    const kerf_scorer_options opt = {.zstd_level = 1};
    kerf_score one = score(&e, w, &opt, 96, 1), seven = score(&e, w, &opt, 96, 7);
    kerf_score cut = score(&e, w, &opt, 5, 3);
    release(&e);
    assert_memory_equal(&one, &seven, sizeof one);
    assert_near(cut.noise, one.noise, 1e-13);
    assert_int_equal(cut.clipped, one.clipped);
    assert_true(one.zstd_bytes > 0 && one.zstd_bytes <= one.code_bytes + 64);
}

/* Runs by themselves, merged in order, are a call for all bands; so is a scorer that begins anew.
 */
static void runs_add_up_to_a_call(void **state)
{
    (void)state;
    enum { ROWS_OF = 150, COLUMNS_OF = 1000 };
    static float w[ROWS_OF * COLUMNS_OF];
    static const kerf_shape shape = {2, {ROWS_OF, COLUMNS_OF}};
    for (size_t i = 0; i < ROWS_OF * COLUMNS_OF; i++) w[i] = gaussian(i);
    encoded e = encode("int4-g64-asym", &shape, w);
    const kerf_geometry *g = &e.geometry;
    const kerf_scorer_options opt = {.zstd_level = 1};
    const kerf_exec exec = {.threads = 2};
    const kerf_score whole = score(&e, w, &opt, ROWS_OF, 1), none = {0};
    const uint64_t run = kerf_score_run(g);
    assert_true(run > 1 && run < ROWS_OF / 2 && ROWS_OF % run != 0);
    kerf_scorer *s = NULL;
    kerf_score out;
    assert_int_equal(kerf_scorer_open(g, &opt, &s, NULL), KERF_OK);
    for (int again = 0; again < 2; again++) {
        kerf_score sum = {0}, part;
        if (again) assert_int_equal(kerf_scorer_reopen(s, g, &opt, NULL), KERF_OK);
        for (uint64_t b0 = 0; b0 < g->bands; b0 += run) {
            const uint64_t b1 = g->bands - b0 < run ? g->bands : b0 + run;
            const kerf_extent x = kerf_band_elements(g, b0, b1);
            const kerf_cspan src = {w + x.offset, (size_t)x.count * sizeof *w};
            kerf_cspan planes[KERF_PLANES];
            for (int p = 0; p < KERF_PLANES; p++) {
                const kerf_extent bytes = kerf_band_bytes(g, (kerf_plane_id)p, b0, b1);
                const char *plane = e.plane[p].p;
                planes[p] = (kerf_cspan){plane + bytes.offset, (size_t)bytes.count};
            }
            assert_int_equal(
                kerf_score_bands(g, b0, b1, planes, src, KERF_F32, NULL, &exec, &part, NULL),
                KERF_OK);
            kerf_score_merge(&sum, &part);
            assert_int_equal(
                kerf_scorer_merge(s, b1 == g->bands ? &sum : &none, planes[KERF_PLANE_CODES], NULL),
                KERF_OK);
        }
        assert_int_equal(kerf_scorer_finish(s, &out, NULL), KERF_OK);
        assert_memory_equal(&out, &whole, sizeof out);
    }
    kerf_scorer_close(s);
    release(&e);
}

/* An outlier of one expert is found wherever it stands in the stack, whether its matrices are
 * scored in one call or each by itself. */
static void outliers_of_stacks_are_found(void **state)
{
    (void)state;
    enum { EXPERTS = 4, ROWS_OF = 32, COLUMNS_OF = 256, N = EXPERTS * ROWS_OF * COLUMNS_OF };
    static const char *const codecs[] = {"int8-tensor", "int8-tensor-asym", "fp8-e4m3", "nvfp4"};
    static const kerf_shape shape = {3, {EXPERTS, ROWS_OF, COLUMNS_OF}};
    static float w[N];
    for (size_t c = 0; c < 4; c++) {
        for (size_t expert = 0; expert < EXPERTS; expert++) {
            for (size_t i = 0; i < N; i++) w[i] = 0.02f * gaussian(i);
            w[expert * ROWS_OF * COLUMNS_OF + 3 * COLUMNS_OF + 7] = 5000;
            encoded e = encode(codecs[c], &shape, w);
            const uint64_t bands = e.geometry.bands;
            const kerf_score whole = score(&e, w, NULL, bands, 2),
                             each = score(&e, w, NULL, bands / EXPERTS, 1);
            release(&e);
            assert_true(kerf_score_t2(&whole) < 1e-5);
            assert_true(kerf_score_rest_t2(&whole) > (c < 2 ? 0.2 : 0.005));
            assert_near(whole.rest_signal, each.rest_signal, 1e-12);
            assert_near(whole.rest_noise, each.rest_noise, 1e-12);
            assert_int_equal(whole.zeroed, each.zeroed);
            assert_int_equal(whole.lost_blocks, each.lost_blocks);
            if (c < 2) assert_int_equal(whole.lost_blocks, ROWS_OF * COLUMNS_OF / 128);
        }
    }
}

/* In 32 x 64 elements one alone is at most 45 times the root of the mean square. */
static void outliers_of_small_matrices_are_found(void **state)
{
    (void)state;
    enum { N = 32 * 64 };
    static const kerf_shape shape = {2, {32, 64}};
    static float w[N];
    for (int outlier = 0; outlier < 2; outlier++) {
        for (size_t i = 0; i < N; i++) w[i] = 0.02f * gaussian(i);
        if (outlier) w[77] = 5000;
        encoded e = encode("int8-tensor", &shape, w);
        const kerf_score s = score(&e, w, NULL, e.geometry.bands, 1);
        release(&e);
        assert_true(kerf_score_t2(&s) < 1e-3);
        assert_true(outlier ? kerf_score_rest_t2(&s) == 1 : s.rest_signal == s.signal);
        assert_int_equal(s.zeroed, outlier ? N - 1 : 0);
    }
}

/* One value takes the range of a matrix: all others become zeros. In one block there is a second
 * one, less far above the rest and large enough to be kept: what it carries hides nothing of what
 * the block has lost besides. */
static void lost_blocks_have_outliers(void **state)
{
    enum { HIGH = 32, WIDE = 256 };
    static float w[HIGH * WIDE];
    static const kerf_shape shape = {2, {HIGH, WIDE}};
    (void)state;
    for (size_t i = 0; i < HIGH * WIDE; i++) w[i] = (float)(i % 7) / 8 + 0.2f;
    w[0] = 12700;          /* a scale of 100 */
    w[3 * WIDE + 5] = 100; /* below a 64th of it, and one step */
    encoded e = encode("int8-tensor", &shape, w);
    const kerf_score s = score(&e, w, NULL, HIGH, 1);
    release(&e);
    assert_int_equal(s.lost_blocks, HIGH * WIDE / 128);
    assert_int_equal(s.zeroed, HIGH * WIDE - 2);
    assert_near(s.rest_signal - s.rest_noise, 100.0 * 100.0, 1e-6);
}

static void wrong_calls_are_refused(void **state)
{
    (void)state;
    static const float w[64] = {1};
    static const kerf_shape shape = {2, {2, 32}};
    encoded e = encode("mxfp4", &shape, w);
    kerf_scorer *s = NULL;
    kerf_cspan planes[KERF_PLANES];
    for (int p = 0; p < KERF_PLANES; p++) planes[p] = (kerf_cspan){e.plane[p].p, e.plane[p].n};
    const kerf_cspan whole = {w, sizeof w}, half = {w, sizeof w / 2};
    assert_int_equal(kerf_scorer_open(&e.geometry, NULL, &s, NULL), KERF_OK);
    assert_int_equal(kerf_scorer_add(s, 0, 3, planes, whole, KERF_F32, NULL, NULL), KERF_E_ARG);
    assert_int_equal(kerf_scorer_add(s, 0, 2, planes, half, KERF_F32, NULL, NULL), KERF_E_BUFFER);
    assert_int_equal(kerf_scorer_add(s, 0, 2, planes, whole, KERF_I8, NULL, NULL), KERF_E_NOSUP);
    for (int i = 0; i < 2; i++) { /* bands twice, or out of turn; the tensor, and one after it */
        assert_int_equal(kerf_scorer_add(s, 1, 2, planes, half, KERF_F32, NULL, NULL), KERF_E_ARG);
        assert_int_equal(kerf_scorer_add(s, 0, 1, planes, half, KERF_F32, NULL, NULL), KERF_OK);
        assert_int_equal(kerf_scorer_add(s, 0, 1, planes, half, KERF_F32, NULL, NULL), KERF_E_ARG);
        assert_int_equal(kerf_scorer_add(s, 1, 2, planes, half, KERF_F32, NULL, NULL), KERF_OK);
        assert_int_equal(kerf_scorer_reopen(s, &e.geometry, NULL, NULL), KERF_OK);
    }
    kerf_scorer_close(s);
    release(&e);
}

/* --- a million Gaussian weights ------------------------------------------------------------ */

enum { ROWS = 256, COLUMNS = 4096 };
static float bell[ROWS * COLUMNS];

/* Published t2 of Gaussian weights. Formats with power-of-two scales depend on where the deviation
 * lies between two powers of two; 0.02, usual for trained weights, is what the figures were made
 * with: there "ceil" is the smallest power of two that does not clip, and mxfp6 uses floor. */
#define DEVIATION 0.02f

static const struct {
    const char *codec;
    double t2;
} published[] = {
    {"bf16", 2.75e-6},
    {"int8", 7.5e-5},
    {"fp8-e4m3", 7.02e-4},
    {"fp8-e4m3-row", 7.02e-4},
    {"fp8-e5m2-row", 2.77e-3},
    {"mxfp8-e4m3:floor", 8.60e-4},
    {"mxfp8-e4m3:rceil", 7.02e-4},
    {"mxfp6-e2m3:floor", 7.85e-4},
    {"mxfp6-e3m2:floor", 2.90e-3},
    {"nvfp4:amax", 9.04e-3},
    {"nvfp4:4/6", 7.56e-3},
    {"nvfp4:sweep", 6.59e-3},
    {"nf4", 8.46e-3},
    {"nf4-dq", 8.46e-3},
    {"mxfp4:floor", 1.30e-2},
    {"mxfp4:rceil", 1.40e-2},
    {"mxfp4:search", 1.24e-2},
    {"int4-g128", 1.38e-2},
    {"int4-g128-asym", 1.01e-2},
    {"int4-g32", 9.43e-3},
    {"int4-g32-asym", 6.53e-3},
};

static int fill_bell(void **state)
{
    (void)state;
    for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++) bell[i] = DEVIATION * gaussian(i);
    return 0;
}

static void gaussian_error_is_as_published(void **state)
{
    (void)state;
    static const kerf_shape shape = {2, {ROWS, COLUMNS}};
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        encoded e = encode(published[i].codec, &shape, bell);
        kerf_score s = score(&e, bell, NULL, e.geometry.bands, 0);
        release(&e);
        print_message("%-18s t2 %.3e, published %.3e, %+.2f %%\n", published[i].codec,
                      kerf_score_t2(&s), published[i].t2,
                      100 * (kerf_score_t2(&s) / published[i].t2 - 1));
        assert_near(kerf_score_t2(&s), published[i].t2, 0.02);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_of_four_elements),
        cmocka_unit_test(importance_is_a_number),
        cmocka_unit_test(levels_exist),
        cmocka_unit_test(zeros_lose_nothing),
        cmocka_unit_test(nonfinite_is_counted),
        cmocka_unit_test(sums_do_not_depend_on_threads),
        cmocka_unit_test(runs_add_up_to_a_call),
        cmocka_unit_test(outliers_of_stacks_are_found),
        cmocka_unit_test(outliers_of_small_matrices_are_found),
        cmocka_unit_test(lost_blocks_have_outliers),
        cmocka_unit_test(wrong_calls_are_refused),
        cmocka_unit_test_setup(gaussian_error_is_as_published, fill_bell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
