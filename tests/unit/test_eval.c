/* test_eval.c - the figures of an evaluation beside their definitions, worked out here from states
 * and logits; and a model that says NaN passes no limit. */
#include <math.h>

#include <jansson.h>

#include <kerf/eval.h>

#include "forward_model.h"
#include "near.h"
#include "test_output.h"

#include "test_folder.h"

enum { ROWS = 9, LENGTH = 40, TOKENS = ROWS * LENGTH, HIDDEN = 64, VOCAB = 160, LAYERS = 3 };
enum { SAID = ROWS * (LENGTH - 1) };

static kerf_checkpoint *model;
static uint32_t token[TOKENS];
static const kerf_tokens tokens = {token, ROWS, LENGTH};

/* --- what is compared ---------------------------------------------------------------------- */

/* Candidate 0 has other numbers in its second layer, candidate 1 one that is none in its last. */
static kerf_status change(void *ctx, size_t candidate, uint64_t layer, const kerf_layer_weight *w,
                          kerf_error *err)
{
    (void)ctx, (void)err;
    if (candidate == 0 && layer == 1)
        for (uint64_t i = 0; i < w->rows * w->cols; i++) w->data[i] *= i % 3 ? 1.2f : 0.9f;
    if (candidate == 1 && layer == 2) w->data[0] = NAN;
    return KERF_OK;
}

typedef struct run {
    float state[LAYERS][TOKENS * HIDDEN];
    float logits[TOKENS * VOCAB];
} run;

static kerf_status take(void *ctx, uint64_t row, uint64_t position, uint64_t n, float *logits,
                        kerf_error *err)
{
    run *r = ctx;
    (void)err;
    memcpy(r->logits + (row * LENGTH + position) * VOCAB, logits, n * VOCAB * sizeof *logits);
    return KERF_OK;
}

static run *run_model(int is_changed)
{
    const kerf_layer_weight *w;
    kerf_decoder *d;
    kerf_layer *l;
    kerf_error err = {0};
    static float hidden[TOKENS * HIDDEN];
    run *r = calloc(1, sizeof *r);
    assert_non_null(r);
    must(kerf_decoder_open(model, NULL, &d, &err), &err);
    const kerf_decoder_info *about = kerf_decoder_about(d);
    assert_true(about->hidden == HIDDEN && about->vocab == VOCAB && about->layers == LAYERS);
    must(kerf_decoder_embed(d, &tokens, hidden, &err), &err);
    for (uint64_t i = 0; i < LAYERS; i++) {
        must(kerf_decoder_layer_load(d, i, &l, &err), &err);
        for (size_t k = 0; is_changed && (w = kerf_layer_weight_at(l, k)) != NULL; k++)
            must(change(NULL, 0, i, w, &err), &err);
        must(kerf_layer_run(l, &tokens, hidden, NULL, NULL, &err), &err);
        kerf_layer_free(l);
        memcpy(r->state[i], hidden, sizeof hidden);
    }
    must(kerf_decoder_logits(d, &tokens, hidden, NULL, take, r, NULL, &err), &err);
    kerf_decoder_close(d);
    return r;
}

/* --- figures by their definitions ----------------------------------------------------------- */

static void find_logs(const float *logits, double out[VOCAB])
{
    double top = -INFINITY, sum = 0;
    for (int i = 0; i < VOCAB; i++) top = fmax(top, (double)logits[i]);
    for (int i = 0; i < VOCAB; i++) sum += exp((double)logits[i] - top);
    for (int i = 0; i < VOCAB; i++) out[i] = (double)logits[i] - top - log(sum);
}

static int likeliest(const double *x)
{
    int best = 0;
    for (int i = 1; i < VOCAB; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

typedef struct figures {
    double loss[2], kl, flips, largest[5]; /* the largest first */
} figures;

static figures find_figures(const run *a, const run *b)
{
    figures f = {.largest = {-1, -1, -1, -1, -1}};
    for (int at = 0; at < TOKENS; at++) {
        double p[VOCAB], q[VOCAB], kl = 0;
        if (at % LENGTH == LENGTH - 1) continue; /* nothing follows the last of a row */
        find_logs(a->logits + at * VOCAB, p);
        find_logs(b->logits + at * VOCAB, q);
        for (int i = 0; i < VOCAB; i++) kl += exp(p[i]) * (p[i] - q[i]);
        f.loss[0] -= p[token[at + 1]] / SAID;
        f.loss[1] -= q[token[at + 1]] / SAID;
        f.kl += kl / SAID;
        f.flips += (likeliest(p) != likeliest(q)) / (double)SAID;
        for (int i = 0; i < 5; i++)
            if (kl > f.largest[i]) {
                const double next = f.largest[i];
                f.largest[i] = kl;
                kl = next;
            }
    }
    return f;
}

static double drift_of(const run *a, const run *b, int layer)
{
    double difference = 0, size = 0;
    for (int i = 0; i < TOKENS * HIDDEN; i++) {
        const double x = (double)a->state[layer][i], d = (double)b->state[layer][i] - x;
        difference += d * d;
        size += x * x;
    }
    return sqrt(difference / size);
}

static kerf_evaluation *evaluate(size_t candidates, const kerf_eval_limits *limits)
{
    kerf_evaluation *e;
    kerf_error err = {0};
    const kerf_checkpoint *const candidate[] = {model, model};
    const kerf_eval_request r = {.source = model,
                                 .candidate = candidate,
                                 .candidates = candidates,
                                 .tokens = tokens,
                                 .limits = limits,
                                 .change = change};
    must(kerf_eval(&r, NULL, NULL, &e, &err), &err);
    return e;
}

static void test_figures(void **state)
{
    kerf_evaluation *e = evaluate(1, NULL);
    const kerf_eval_model *m = &e->model[1];
    run *a = run_model(0), *b = run_model(1);
    const figures f = find_figures(a, b);
    (void)state;
    assert_int_equal(e->predictions, SAID);
    assert_near(e->model[0].loss, f.loss[0], 1e-5);
    assert_near(m->loss, f.loss[1], 1e-5);
    assert_near(m->perplexity, exp(f.loss[1]), 1e-4 * exp(f.loss[1]));
    assert_near(m->figure[KERF_EVAL_PERPLEXITY_RISE], exp(f.loss[1] - f.loss[0]) - 1, 1e-5);
    assert_true(f.kl > 1e-4 && f.largest[4] < 0.99 * f.largest[0]);
    assert_near(m->figure[KERF_EVAL_KL], f.kl, 1e-3 * f.kl);
    assert_near(m->kl_most, f.largest[0], 1e-3 * f.largest[0]);
    assert_near(m->figure[KERF_EVAL_KL_P99], f.largest[SAID / 100], 1e-3 * f.largest[3]);
    assert_near(m->figure[KERF_EVAL_FLIPS], f.flips, 1.5 / SAID); /* two that are all but equal */
    assert_true(f.flips > 0 && m->kl_low < m->figure[KERF_EVAL_KL]);
    assert_true(m->kl_high > m->figure[KERF_EVAL_KL] && m->kl_high < m->kl_most);
    assert_true(m->drift[0] == 0 && drift_of(a, b, 0) == 0);
    for (int i = 1; i < LAYERS; i++) {
        const double own = drift_of(a, b, i);
        assert_near(m->drift[i], own, 1e-6 * own);
        assert_true(own > 1e-3);
    }
    free(a);
    free(b);
    kerf_evaluation_close(e);
}

/* NaN is below no limit, however wide, and hides no other model's figures. */
static void test_nan(void **state)
{
    const kerf_eval_limits wide = {{1e3, 1e3, 1e3, 1e3}};
    kerf_evaluation *e = evaluate(2, &wide);
    (void)state;
    assert_false(e->passed);
    assert_int_equal(e->model[1].over, 0);
    assert_true(isnan(e->model[2].figure[KERF_EVAL_KL]));
    assert_true(e->model[2].over >> KERF_EVAL_KL & 1);
    assert_true(e->model[2].over >> KERF_EVAL_PERPLEXITY_RISE & 1);
    kerf_evaluation_close(e);
}

static int open_model(void **state)
{
    kerf_error err = {0};
    json_t *golden = json_load_file(KERF_TEST_DATA "/forward/golden.json", 0, NULL);
    const json_t *one = json_array_get(json_object_get(golden, "cases"), 0);
    if (make_test_folder(state) != 0) return -1;
    formula_tokens(golden, token, TOKENS);
    kerf_status s = write_formula_model((const char *)*state, json_object_get(one, "config"),
                                        json_object_get(one, "tensors"), &err);
    if (s == KERF_OK) s = kerf_checkpoint_open((const char *)*state, &model, &err);
    json_decref(golden);
    return s == KERF_OK ? 0 : -1;
}

static int close_model(void **state)
{
    kerf_checkpoint_close(model);
    return remove_test_folder(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_nan),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
