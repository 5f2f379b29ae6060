/* test_calibrate.c - calibrations: what is read of a folder that a test has written, what a run
 * over a few rows of the small model finds, and that another run finds the same; and evaluations.
 */
#include <kerf/calibrate.h>
#include <kerf/eval.h>
#include <kerf/importance.h>
#include <kerf/recipe.h>
#include <kerf/tokens.h>

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "rounds.h"
#include "test_output.h"

#define MODEL KERF_TEST_DATA "/tiny-llama"

/* --- reading ------------------------------------------------------------------------------- */

enum { K = 2, MOST = 8 };

typedef struct given {
    const char *name;
    kerf_shape shape;
    const float *value;
} given;

static void write_given(const char *path, const given *g, size_t count, const char *schema)
{
    kerf_entry e[MOST] = {{0}};
    kerf_writer *w;
    kerf_error err;
    const kerf_key_value about[] = {{"kerf.schema", schema}, {"kerf.source", "00000000000000ff"},
                                    {"kerf.tokens", "12"},   {"kerf.text", "1"},
                                    {"kerf.alpha", "loss"},  {"kerf.gram_of", "{\"b\": \"a\"}"}};
    const kerf_key_value *const metadata[] = {about};
    const size_t keys = sizeof about / sizeof *about;
    const kerf_writer_options opt = {.overwrite = 1, .metadata = metadata, .metadata_count = &keys};
    for (size_t i = 0; i < count; i++) e[i] = (kerf_entry){g[i].name, KERF_F32, g[i].shape, 0};
    must(kerf_writer_create(path, e, count, &opt, &w, &err), &err);
    for (size_t i = 0; i < count; i++)
        must(kerf_writer_write(w, i, 0, g[i].value, entry_bytes(&e[i]), &err), &err);
    must(kerf_writer_commit(w, &err), &err);
}

static kerf_weight weight_of(const char *name, kerf_shape shape)
{
    kerf_weight w = {.name = name, .shape = shape, .dtype = KERF_BF16};
    kerf_place_find("qwen3_moe", name, &shape, &w.place);
    return w;
}

static const float square[4] = {4, 1, 1, 9}, alpha[2] = {0.5f, 0.25f};

static void test_reader(void **state)
{
    const float stack[4] = {1, 2, 3, 4}, stack_alpha[2] = {6, 2}, counts[2] = {1, 3}, top = 7;
    const given g[] = {{"a.gram", {2, {K, K}}, square},
                       {"a.alpha", {1, {2}}, alpha},
                       {"a.amax", {1, {1}}, &top},
                       {"m.experts", {2, {2, K}}, stack},
                       {"m.experts.count", {1, {2}}, counts},
                       {"m.experts.alpha", {1, {2}}, stack_alpha}};
    kerf_calibration *c;
    kerf_alpha_value got;
    kerf_gram gram;
    kerf_importance h;
    kerf_error err;
    double mean;
    float amax;
    const char *path = in_folder(state, "cal.safetensors");
    write_given(path, g, 6, "kerf.calibration/1");
    must(kerf_calibration_open(path, &c, &err), &err);
    const kerf_calibration_about about = kerf_calibration_describe(c);
    assert_int_equal(about.source, 255);
    assert_int_equal(about.tokens, 12);
    assert_int_equal(about.by_kl, 0);
    assert_int_equal(about.alphas, 2);
    kerf_weight w = weight_of("b", (kerf_shape){2, {3, K}});
    must(kerf_calibration_gram(c, &w, &gram, &err), &err); /* that of a */
    assert_memory_equal(gram.value, square, sizeof square);
    kerf_gram_free(&gram);
    must(kerf_calibration_gram_mean(c, &w, &mean, &err), &err);
    assert_true(mean == 6.5); /* of 4 and 9 */
    must(kerf_calibration_alpha(c, &w, &got, &err), &err);
    assert_true(isnan(got.value));
    w.name = "a";
    must(kerf_calibration_alpha(c, &w, &got, &err), &err);
    assert_true(got.value == 0.5 && got.error == 0.25);
    must(kerf_calibration_amax(c, &w, &amax, &err), &err);
    assert_true(amax == 7);
    w = weight_of("m.experts.1.up_proj.weight", (kerf_shape){2, {3, K}});
    w.whole = "m.experts";
    must(kerf_calibration_alpha(c, &w, &got, &err), &err);
    assert_true(got.value == 3 && got.error == 1); /* half of the stack */
    must(kerf_importance_read(kerf_calibration_imatrix(c), &w, 0, &h, &err), &err);
    assert_true(h.count == K && h.value[0] == 3 && h.value[1] == 4);
    kerf_importance_free(&h);
    w = weight_of("m.experts", (kerf_shape){3, {2, 3, K}});
    must(kerf_importance_read(kerf_calibration_imatrix(c), &w, 1, &h, &err), &err);
    assert_true(h.value[0] == 2.5f && h.value[1] == 3.5f); /* by the tokens of each */
    kerf_importance_free(&h);
    kerf_calibration_close(c);
}

/* A recipe may ask for one calibration, once or with columns gone over again. */
static void test_moments_of_a_recipe(void **state)
{
    const given g[] = {{"a.gram", {2, {K, K}}, square}};
    const char *path = in_folder(state, "asked.safetensors");
    kerf_calibration *c;
    kerf_moments once, again, got;
    kerf_recipe *r = NULL;
    kerf_error err;
    char text[300];
    write_given(path, g, 1, "kerf.calibration/1");
    must(kerf_calibration_open(path, &c, &err), &err);
    must(kerf_calibration_moments(c, &once, &err), &err);
    again = once;
    kerf_moments_again(&again);
    must(kerf_recipe_moments(NULL, c, 0, &got, &err), &err);
    assert_true(got.contents == once.contents && !got.again);
    must(kerf_recipe_moments(NULL, c, 1, &got, &err), &err);
    assert_true(got.contents == again.contents && got.again);
    const uint64_t asked[] = {once.contents, again.contents, once.contents ^ 1};
    for (size_t i = 0; i < 3; i++) {
        const int n = snprintf(text, sizeof text,
                               "{\"schema\": \"kerf.recipe/1\", \"rules\": [{\"tensors\": [\"*\"], "
                               "\"codec\": \"nvfp4\"}], \"feedback\": \"%016llx\"}",
                               (unsigned long long)asked[i]);
        must(kerf_recipe_parse(text, (size_t)n, "recipe", &r, &err), &err);
        const kerf_status s = kerf_recipe_moments(r, c, 0, &got, &err);
        assert_int_equal(s, i < 2 ? KERF_OK : KERF_E_DATA);
        if (i < 2) assert_true(got.contents == asked[i]);
        /* again, though it was made with once */
        assert_int_equal(kerf_recipe_moments(r, c, 1, &got, &err), i == 1 ? KERF_OK : KERF_E_DATA);
        kerf_recipe_close(r);
    }
    kerf_calibration_close(c);
}

/* Several threads read it: every number is in its place, and of two that are no numbers the first
 * is named. */
static void test_large(void **state)
{
    enum { N = 1500 };
    const char *path = in_folder(state, "large.safetensors");
    float *g = malloc(sizeof(float) * N * N);
    kerf_calibration *c;
    kerf_gram gram;
    kerf_error err;
    kerf_weight w = weight_of("a", (kerf_shape){2, {3, N}});
    assert_non_null(g);
    for (size_t i = 0; i < (size_t)N * N; i++) g[i] = (float)i;
    const given all[] = {{"a.gram", {2, {N, N}}, g}};
    for (int bad = 0; bad < 2; bad++) {
        if (bad) g[1100000] = g[2200000] = NAN;
        write_given(path, all, 1, "kerf.calibration/1");
        must(kerf_calibration_open(path, &c, &err), &err);
        const kerf_status s = kerf_calibration_gram(c, &w, &gram, &err);
        assert_int_equal(s, bad ? KERF_E_DATA : KERF_OK);
        if (bad)
            assert_non_null(strstr(err.text, "a.gram: value 1100000 is not finite"));
        else
            assert_memory_equal(gram.value, g, sizeof(float) * N * N);
        assert_true(!bad == !!gram.value);
        kerf_gram_free(&gram);
        kerf_calibration_close(c);
    }
    free(g);
}

static void test_what_is_none(void **state)
{
    const float bad[4] = {1, NAN, 1, 1};
    const given g[] = {{"a.gram", {2, {K, K}}, bad}, {"a.alpha", {1, {2}}, alpha}};
    kerf_calibration *c;
    kerf_gram gram;
    kerf_error err;
    const char *path = in_folder(state, "bad.safetensors");
    write_given(path, g, 2, "other/1");
    assert_int_equal(kerf_calibration_open(path, &c, &err), KERF_E_DATA);
    assert_non_null(strstr(err.text, "kerf calibrate"));
    write_given(path, g, 2, "kerf.calibration/1");
    must(kerf_calibration_open(path, &c, &err), &err);
    kerf_weight w = weight_of("a", (kerf_shape){2, {3, K}});
    assert_int_equal(kerf_calibration_gram(c, &w, &gram, &err), KERF_E_DATA);
    w.shape.dim[1] = 3;
    assert_int_equal(kerf_calibration_gram(c, &w, &gram, &err), KERF_E_DATA);
    assert_non_null(strstr(err.text, "no square of 3"));
    kerf_calibration_close(c);
}

/* --- the small model ----------------------------------------------------------------------- */

typedef struct small {
    kerf_checkpoint *model;
    kerf_token_list list;
    kerf_tokens tokens;
} small;

static small open_small(uint64_t rows, uint64_t length)
{
    small s;
    kerf_error err;
    must(kerf_checkpoint_open(MODEL, &s.model, &err), &err);
    must(kerf_tokens_read(MODEL "/eval.u16", 2048, &s.list, &err), &err);
    s.tokens = (kerf_tokens){s.list.token, rows, length > 8 ? length / STEP(3) : length};
    return s;
}

static void close_small(small *s)
{
    kerf_token_list_free(&s->list);
    kerf_checkpoint_close(s->model);
}

static int planned;

static void count_plan(void *ctx, const kerf_calibrate_plan *p)
{
    (void)ctx;
    planned++;
    assert_true(p->layers == 4 && p->weights == 28 && p->groups == 16 && p->seconds > 0);
    assert_true(p->memory_bytes > 1000000 && p->file_bytes > 100000);
}

static void calibrate(const small *s, const char *path, kerf_alpha_by by, int threads,
                      kerf_calibration **out)
{
    kerf_error err;
    const kerf_exec exec = {.threads = threads};
    const kerf_calibrate_request r = {.tokens = s->tokens,
                                      .gram = 1,
                                      .alpha = by,
                                      .draws = 2,
                                      .path = path,
                                      .planned = count_plan};
    must(kerf_calibrate(s->model, &r, &exec, NULL, &err), &err);
    must(kerf_calibration_open(path, out, &err), &err);
}

static void compare(const kerf_calibration *a, const kerf_calibration *b)
{
    const kerf_reader *x = kerf_checkpoint_reader(kerf_calibration_imatrix(a)),
                      *y = kerf_checkpoint_reader(kerf_calibration_imatrix(b));
    kerf_error err;
    assert_int_equal(kerf_reader_count(x), kerf_reader_count(y));
    for (size_t i = 0; i < kerf_reader_count(x); i++) {
        const kerf_tensor *t = kerf_reader_at(x, i), *u = kerf_reader_find(y, t->name);
        char *p = malloc((size_t)t->bytes), *q = malloc((size_t)t->bytes);
        assert_true(p && q && u);
        must(kerf_reader_read(x, t, 0, p, (size_t)t->bytes, &err), &err);
        must(kerf_reader_read(y, u, 0, q, (size_t)t->bytes, &err), &err);
        if (memcmp(p, q, (size_t)t->bytes) != 0) fail_msg("%s differs", t->name);
        free(p);
        free(q);
    }
}

/* Gram matrices have the mean squares on their diagonals and are symmetric; alphas are what errors
 * cost, so they are above 0 by KL; imatrix for llama.cpp has the same numbers. */
static void check_weights(const small *s, const kerf_calibration *c, const kerf_checkpoint *gguf)
{
    const kerf_weights *all = kerf_checkpoint_weights(s->model);
    kerf_error err;
    size_t seen = 0;
    for (size_t i = 0; i < kerf_weights_count(all); i++) {
        const kerf_weight *w = kerf_weights_at(all, i);
        kerf_importance h, other;
        kerf_gram g;
        kerf_alpha_value a;
        must(kerf_importance_read(kerf_calibration_imatrix(c), w, 0, &h, &err), &err);
        if (h.count == 0) continue;
        seen++;
        must(kerf_importance_read(gguf, w, 0, &other, &err), &err);
        must(kerf_calibration_gram(c, w, &g, &err), &err);
        must(kerf_calibration_alpha(c, w, &a, &err), &err);
        assert_true(a.value > 0 && a.error < a.value);
        assert_int_equal(g.columns, h.count);
        assert_int_equal(other.count, h.count);
        for (uint64_t k = 0; k < h.count; k++) {
            assert_true(fabsf(g.value[k * h.count + k] - h.value[k]) <= 1e-5f * h.value[k]);
            assert_true(g.value[k] == g.value[k * h.count]);
            assert_true(fabsf(other.value[k] - h.value[k]) <= 1e-6f * h.value[k]);
        }
        kerf_importance_free(&h);
        kerf_importance_free(&other);
        kerf_gram_free(&g);
    }
    assert_int_equal(seen, 28);
}

static void test_calibrate(void **state)
{
    small s = open_small(4, 24);
    kerf_calibration *one, *three;
    kerf_checkpoint *gguf;
    kerf_error err;
    const char *path = in_folder(state, "imatrix.gguf");
    planned = 0;
    calibrate(&s, in_folder(state, "one"), KERF_ALPHA_BY_KL, 1, &one);
    calibrate(&s, in_folder(state, "three"), KERF_ALPHA_BY_KL, 3, &three);
    assert_int_equal(planned, 2);
    compare(one, three);
    must(kerf_calibration_check(one, s.model, &err), &err);
    must(kerf_imatrix_write(kerf_calibration_imatrix(one), s.model, 4, s.tokens.length, path, 0,
                            &err),
         &err);
    must(kerf_checkpoint_open(path, &gguf, &err), &err);
    check_weights(&s, one, gguf);
    kerf_checkpoint_close(gguf);
    kerf_calibration_close(one);
    kerf_calibration_close(three);
    close_small(&s);
}

/* --- a run that was broken off -------------------------------------------------------------- */

typedef struct stopping {
    _Atomic int left; /* several threads ask at once */
    uint64_t found;
} stopping;

static int stop(void *ctx)
{
    return atomic_fetch_sub(&((stopping *)ctx)->left, 1) <= 0;
}

static void look(void *ctx, const kerf_event *e)
{
    if (e->kind == KERF_EVENT_RESUME) ((stopping *)ctx)->found = e->done;
}

static void test_resume(void **state)
{
    small s = open_small(2, 16);
    kerf_calibration *whole, *resumed;
    kerf_error err;
    const kerf_exec exec = {.threads = 2};
    stopping at = {.left = 60};
    const kerf_job job = {.tell = look, .cancel = stop, .ctx = &at};
    const char *path = in_folder(state, "resumed");
    const kerf_calibrate_request r = {
        .tokens = s.tokens, .gram = 1, .draws = 2, .path = path, .resume = 1};
    calibrate(&s, in_folder(state, "whole"), KERF_ALPHA_BY_KL, 2, &whole);
    assert_int_equal(kerf_calibrate(s.model, &r, &exec, &job, &err), KERF_E_CANCELED);
    at.left = 1 << 30;
    must(kerf_calibrate(s.model, &r, &exec, &job, &err), &err);
    assert_true(at.found > 0);
    must(kerf_calibration_open(path, &resumed, &err), &err);
    compare(whole, resumed);
    kerf_calibration_close(whole);
    kerf_calibration_close(resumed);
    close_small(&s);
}

static void test_refusals(void **state)
{
    small s = open_small(2, 8);
    kerf_error err;
    kerf_calibrate_request r = {.tokens = s.tokens, .path = in_folder(state, "no")};
    assert_int_equal(kerf_calibrate(s.model, &r, NULL, NULL, &err), KERF_E_ARG);
    assert_non_null(strstr(err.text, "2 rows cannot be divided among 4 draws"));
    r.draws = 65;
    assert_int_equal(kerf_calibrate(s.model, &r, NULL, NULL, &err), KERF_E_ARG);
    r.draws = 2;
    r.tokens.length = 1;
    assert_int_equal(kerf_calibrate(s.model, &r, NULL, NULL, &err), KERF_E_ARG);
    close_small(&s);
}

/* --- evaluations --------------------------------------------------------------------------- */

static int count_asked(void *ctx)
{
    atomic_fetch_add((atomic_int *)ctx, 1);
    return 0;
}

/* Whether to go on is asked for each weight that is read, not only for layers. */
static void test_eval_asks(void **state)
{
    small s = open_small(1, 2);
    kerf_evaluation *e;
    kerf_error err;
    atomic_int asked = 0;
    (void)state;
    const kerf_job job = {.cancel = count_asked, .ctx = &asked};
    const kerf_eval_request r = {.source = s.model, .tokens = s.tokens};
    must(kerf_eval(&r, NULL, &job, &e, &err), &err);
    assert_true(asked > (int)kerf_weights_count(kerf_checkpoint_weights(s.model)));
    kerf_evaluation_close(e);
    close_small(&s);
}

/* Against itself nothing is lost; parts of the rows and threads change no bit. */
static void test_eval(void **state)
{
    small s = open_small(4, 32);
    kerf_evaluation *whole, *parts;
    kerf_error err;
    (void)state;
    const kerf_checkpoint *candidate[] = {s.model};
    const kerf_eval_limits none = {{0, 0, 0, 0}};
    const kerf_exec exec = {.threads = 3};
    kerf_eval_request r = {.source = s.model,
                           .candidate = candidate,
                           .candidates = 1,
                           .tokens = s.tokens,
                           .limits = &none};
    must(kerf_eval(&r, NULL, NULL, &whole, &err), &err);
    assert_true(whole->passed && whole->predictions == 4 * (s.tokens.length - 1) &&
                whole->models == 2);
    assert_true(whole->model[1].figure[KERF_EVAL_KL] <= 1e-6);
    assert_true(whole->model[1].figure[KERF_EVAL_FLIPS] == 0 && whole->model[1].drift[3] == 0);
    assert_true(whole->model[0].perplexity > 2 && whole->model[0].perplexity < 100);
    r.state_bytes = 1; /* row by row */
    must(kerf_eval(&r, &exec, NULL, &parts, &err), &err);
    assert_true(parts->model[0].loss == whole->model[0].loss);
    kerf_evaluation_close(parts);
    r.candidates = 0; /* limits on nothing would let everything pass */
    assert_int_equal(kerf_eval(&r, &exec, NULL, &parts, &err), KERF_E_ARG);
    assert_null(parts);
    r.limits = NULL;
    must(kerf_eval(&r, &exec, NULL, &parts, &err), &err);
    assert_true(parts->model[0].loss == whole->model[0].loss && parts->models == 1);
    kerf_evaluation_close(parts);
    kerf_evaluation_close(whole);
    close_small(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moments_of_a_recipe),
        cmocka_unit_test(test_reader),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_what_is_none),
        cmocka_unit_test(test_calibrate),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_eval_asks),
        cmocka_unit_test(test_eval),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
