/* test_score_gram.c - errors weighed by a Gram matrix: against the plain double sum, also where
 * some rows stand for all; and in the scores of a model, the same bits for any team. */
#include <kerf/score.h>

#include <math.h>
#include <stdlib.h>

#include "score/score_gram.h"
#include "test_output.h"

#define MODEL KERF_TEST_DATA "/tiny-llama"
#define NAME "model.layers.0.mlp.down_proj.weight"

enum { ROWS = 150, COLUMNS = 292 };

static uint64_t state64 = 7;

static float next(void)
{
    state64 = state64 * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(state64 >> 40) / (1 << 23) - 1);
}

/* Mean of x x^T of inputs that have much in common. */
static float *make_gram(size_t n)
{
    enum { TOKENS = 12 };
    float *g = calloc(n * n, sizeof *g), *x = calloc(TOKENS * n, sizeof *x);
    assert_non_null(g);
    assert_non_null(x);
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t k = 0; k < n; k++) x[t * n + k] = 0.7f + next();
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++) {
            double sum = 0;
            for (size_t t = 0; t < TOKENS; t++) sum += (double)x[t * n + i] * (double)x[t * n + k];
            g[i * n + k] = (float)(sum / TOKENS);
        }
    free(x);
    return g;
}

static double weigh(const float *gram, const float *d, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++) sum += (double)gram[i * n + k] * (double)d[i] * (double)d[k];
    return sum;
}

typedef struct encoded {
    kerf_geometry g;
    float *w, *v;
    kerf_span plane[KERF_PLANES];
    kerf_cspan planes[KERF_PLANES];
} encoded;

static void encode(encoded *e, const char *name)
{
    const kerf_shape shape = {2, {ROWS, COLUMNS}};
    const size_t n = (size_t)ROWS * COLUMNS;
    const kerf_exec one = {.threads = 1};
    kerf_codec c;
    kerf_error err;
    must(kerf_codec_find(name, &c, &err), &err);
    must(kerf_geometry_init(&e->g, c.format, &shape, &err), &err);
    e->w = malloc(n * sizeof *e->w);
    e->v = malloc(n * sizeof *e->v);
    for (size_t i = 0; i < n; i++) e->w[i] = next();
    for (int k = 0; k < KERF_PLANES; k++) {
        e->plane[k] = (kerf_span){malloc(e->g.plane[k].bytes + 1), (size_t)e->g.plane[k].bytes};
        e->planes[k] = (kerf_cspan){e->plane[k].p, e->plane[k].n};
    }
    must(kerf_encode(&e->g, c.encoder, NULL, 0, e->g.bands, (kerf_cspan){e->w, n * 4}, KERF_F32,
                     e->plane, &one, &err),
         &err);
    must(kerf_decode(&e->g, 0, e->g.bands, e->planes, (kerf_span){e->v, n * 4}, KERF_F32, &one,
                     &err),
         &err);
}

static void free_encoded(encoded *e)
{
    free(e->w);
    free(e->v);
    for (int k = 0; k < KERF_PLANES; k++) free(e->plane[k].p);
}

static void test_sums(void **state)
{
    static const char *const of[] = {"int8", "int4-row"};
    float *gram = make_gram(COLUMNS), h[COLUMNS], d[COLUMNS];
    (void)state;
    for (size_t k = 0; k < COLUMNS; k++) h[k] = gram[k * COLUMNS + k];
    for (size_t i = 0; i < 2; i++) {
        encoded e = {.w = NULL};
        encode(&e, of[i]);
        double noise = 0, signal = 0, plain = 0;
        for (size_t r = 0; r < ROWS; r++) {
            for (size_t k = 0; k < COLUMNS; k++) {
                d[k] = e.v[r * COLUMNS + k] - e.w[r * COLUMNS + k];
                plain += (double)h[k] * (double)d[k] * (double)d[k];
            }
            noise += weigh(gram, d, COLUMNS);
            signal += weigh(gram, e.w + r * COLUMNS, COLUMNS);
        }
        const kf_rest_job job = {
            &e.g, 0, e.g.bands, e.planes, {e.w, sizeof *e.w * ROWS * COLUMNS}, KERF_F32};
        const kf_gram_weights all = {gram, h, COLUMNS, 1, 0},
                              part = {gram, h, COLUMNS, 0, (uint64_t)32 * COLUMNS * COLUMNS};
        kf_gram_sums got = {0}, sampled = {0};
        kerf_error err;
        must(kf_gram_score(&job, &all, &got, &err), &err);
        assert_true(fabs(got.noise / noise - 1) < 1e-5);
        assert_true(fabs(got.signal / signal - 1) < 1e-5);
        assert_true(fabs(got.plain_noise / plain - 1) < 1e-12);
        /* 64 rows at least: every third of ten blocks, of which the last is short */
        must(kf_gram_score(&job, &part, &sampled, &err), &err);
        assert_true(sampled.noise > 0.2 * noise && sampled.noise < 0.6 * noise);
        kerf_score s = {.weighted_noise = plain, .weighted_signal = 1};
        kf_gram_apply(&sampled, &s);
        assert_true(fabs(s.weighted_noise / noise - 1) < 0.25);
        s.weighted_noise = plain;
        kf_gram_apply(&got, &s);
        assert_true(fabs(s.weighted_noise / noise - 1) < 1e-5);
        free_encoded(&e);
    }
    free(gram);
}

/* --- a model ---------------------------------------------------------------------------------- */

static kerf_calibration *write_calibration(void **state, const char *file, const float *gram,
                                           uint64_t n)
{
    const kerf_entry e[2] = {{NAME, KERF_F32, {1, {n}}, 0},
                             {NAME ".gram", KERF_F32, {2, {n, n}}, 0}};
    const kerf_key_value about[] = {{"kerf.schema", "kerf.calibration/1"},
                                    {"kerf.source", "ff"},
                                    {"kerf.tokens", "12"},
                                    {"kerf.text", "1"},
                                    {"kerf.alpha", "loss"},
                                    {"kerf.gram_of", "{}"}};
    const kerf_key_value *const metadata[] = {about};
    const size_t keys = sizeof about / sizeof *about;
    const kerf_writer_options opt = {.metadata = metadata, .metadata_count = &keys};
    const char *path = in_folder(state, file);
    float *h = malloc(n * sizeof *h);
    kerf_calibration *c;
    kerf_writer *w;
    kerf_error err;
    for (uint64_t k = 0; k < n; k++) h[k] = gram[k * n + k];
    must(kerf_writer_create(path, e, 2, &opt, &w, &err), &err);
    must(kerf_writer_write(w, 0, 0, h, n * sizeof *h, &err), &err);
    must(kerf_writer_write(w, 1, 0, gram, n * n * sizeof *gram, &err), &err);
    must(kerf_writer_commit(w, &err), &err);
    must(kerf_calibration_open(path, &c, &err), &err);
    free(h);
    return c;
}

static void test_model(void **state)
{
    static const char *const only[] = {NAME};
    static const char *const names[] = {"nvfp4", "nf4", "int4-g32"};
    kerf_checkpoint *c;
    kerf_codec codec[3];
    kerf_error err = {0};
    must(kerf_checkpoint_open(MODEL, &c, &err), &err);
    const uint64_t n = kerf_weights_find(kerf_checkpoint_weights(c), NAME)->shape.dim[1];
    float *gram = make_gram((size_t)n);
    kerf_calibration *cal = write_calibration(state, "cal.safetensors", gram, n);
    for (size_t i = 0; i < 3; i++) must(kerf_codec_find(names[i], &codec[i], &err), &err);
    const kerf_select select = {.only = only, .onlys = 1};
    kerf_score_request request = {
        .select = &select, .codec = codec, .codecs = 3, .imatrix = kerf_calibration_imatrix(cal)};
    const kerf_exec one = {.threads = 1}, three = {.threads = 3}, two[2] = {one, {.threads = 2}};
    const kerf_team teams[] = {{&one, 1}, {&three, 1}, {two, 2}};
    kerf_scores *plain, *s[3];
    must(kerf_score_checkpoint(c, &request, NULL, NULL, &plain, &err), &err);
    request.calibration = cal;
    for (size_t i = 0; i < 3; i++)
        must(kerf_score_checkpoint(c, &request, &teams[i], NULL, &s[i], &err), &err);
    for (size_t i = 1; i < 3; i++)
        assert_memory_equal(s[0]->score, s[i]->score, 3 * sizeof(kerf_score));
    for (size_t i = 0; i < 3; i++) {
        assert_true(s[0]->score[i].noise == plain->score[i].noise);
        const double r = s[0]->score[i].weighted_noise / plain->score[i].weighted_noise;
        assert_true(r > 0.2 && r < 5 && r != 1); /* errors of columns have little in common */
    }
    for (size_t i = 0; i < 3; i++) kerf_scores_close(s[i]);
    for (uint64_t i = 0; i < n * n; i++) /* without what columns have in common nothing changes */
        if (i / n != i % n) gram[i] = 0;
    kerf_calibration *diagonal = write_calibration(state, "diagonal.safetensors", gram, n);
    request.calibration = diagonal;
    must(kerf_score_checkpoint(c, &request, NULL, NULL, &s[0], &err), &err);
    for (size_t i = 0; i < 3; i++)
        assert_true(fabs(s[0]->score[i].weighted_noise / plain->score[i].weighted_noise - 1) <
                    1e-6);
    kerf_scores_close(s[0]);
    kerf_scores_close(plain);
    kerf_calibration_close(diagonal);
    kerf_calibration_close(cal);
    kerf_checkpoint_close(c);
    free(gram);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums), cmocka_unit_test(test_model)};
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
