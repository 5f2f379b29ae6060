/* test_calibrate_sums.c - what a calibration says of inputs and of the cache, beside sums over a
 * run of the model that is made here: tokens of several panels, and experts that no token reaches.
 */
#include <jansson.h>
#include <math.h>

#include <kerf/calibrate.h>

#include "near.h"
#include "put_numbers.h"
#include "test_output.h"

#include "forward_model.h"
#include "test_folder.h"

enum { ROWS = 60, LENGTH = 40, HIDDEN = 64, LAYERS = 3 }; /* more than KERF_PANEL_TOKENS */

#define EXPERT "model.layers.1.mlp.experts.%d.gate_proj.weight"

static uint32_t token[ROWS * LENGTH];
static const kerf_tokens tokens = {token, ROWS, LENGTH};

typedef struct sums {
    double square[HIDDEN], seen; /* of the inputs of expert 0 of layer 1 */
    float largest[LAYERS][2];    /* of keys, of values */
    uint64_t keys, values;
} sums;

static kerf_status take_input(void *ctx, const kerf_layer_weight *w, const float *x, uint64_t n,
                              kerf_error *err)
{
    sums *s = ctx;
    char name[80];
    (void)err;
    snprintf(name, sizeof name, EXPERT, 0);
    if (strcmp(w->name, name) != 0) return KERF_OK;
    s->seen += (double)n;
    for (uint64_t i = 0; i < n * HIDDEN; i++) s->square[i % HIDDEN] += (double)x[i] * (double)x[i];
    return KERF_OK;
}

static kerf_status take_cache(void *ctx, uint64_t layer, float *k, float *v, uint64_t n,
                              kerf_error *err)
{
    sums *s = ctx;
    (void)err;
    for (uint64_t i = 0; i < n * s->keys; i++)
        s->largest[layer][0] = fmaxf(s->largest[layer][0], fabsf(k[i]));
    for (uint64_t i = 0; i < n * s->values; i++)
        s->largest[layer][1] = fmaxf(s->largest[layer][1], fabsf(v[i]));
    return KERF_OK;
}

static void run_model(const kerf_checkpoint *c, sums *s)
{
    static float hidden[ROWS * LENGTH * HIDDEN];
    kerf_decoder *d;
    kerf_layer *l;
    kerf_error err = {0};
    const kerf_watch watch = {.input = take_input, .cache = take_cache, .ctx = s};
    must(kerf_decoder_open(c, NULL, &d, &err), &err);
    const kerf_decoder_info *about = kerf_decoder_about(d);
    assert_true(about->hidden == HIDDEN && about->layers == LAYERS);
    s->keys = about->key_columns;
    s->values = about->value_columns;
    must(kerf_decoder_embed(d, &tokens, hidden, &err), &err);
    for (uint64_t i = 0; i < LAYERS; i++) {
        must(kerf_decoder_layer_load(d, i, &l, &err), &err);
        must(kerf_layer_run(l, &tokens, hidden, &watch, NULL, &err), &err);
        kerf_layer_free(l);
    }
    kerf_decoder_close(d);
}

static void read_floats(const kerf_reader *r, const char *name, float *out, size_t n)
{
    const kerf_tensor *t = kerf_reader_find(r, name);
    if (!t || t->bytes != n * sizeof *out) fail_msg("%s: not %zu numbers", name, n);
    must(kerf_reader_read(r, t, 0, out, n * sizeof *out, NULL), NULL);
}

static void test_sums(void **state)
{
    json_t *golden = json_load_file(KERF_TEST_DATA "/forward/golden.json", 0, NULL);
    size_t i;
    const json_t *one, *model = NULL;
    kerf_checkpoint *c;
    kerf_reader *r;
    sums s = {.seen = 0};
    float mean[HIDDEN], largest[2];
    char name[80], path[4200];
    kerf_error err = {0};
    json_array_foreach(json_object_get(golden, "cases"), i,
                       one) if (strcmp(json_string_value(json_object_get(one, "case")),
                                       "qwen3-moe") == 0) model = one;
    assert_non_null(model);
    must(write_formula_model((const char *)*state, json_object_get(model, "config"),
                             json_object_get(model, "tensors"), &err),
         &err);
    formula_tokens(golden, token, ROWS * LENGTH);
    json_decref(golden);
    put_numbers(in_folder(state, "model.safetensors"), "mlp.gate.weight", (const float[]){0}, 1);
    must(kerf_checkpoint_open((const char *)*state, &c, &err), &err);
    snprintf(path, sizeof path, "%s", in_folder(state, "calibrated"));
    const kerf_calibrate_request request = {
        .tokens = tokens, .alpha = KERF_ALPHA_BY_NONE, .path = path};
    must(kerf_calibrate(c, &request, NULL, NULL, &err), &err);
    run_model(c, &s);
    must(kerf_reader_open(path, &r, &err), &err);
    assert_true(s.seen == ROWS * LENGTH && s.seen > KERF_PANEL_TOKENS);
    snprintf(name, sizeof name, EXPERT, 0);
    read_floats(r, name, mean, HIDDEN);
    for (i = 0; i < HIDDEN; i++)
        assert_near((double)mean[i], s.square[i] / s.seen, 1e-6 * s.square[i] / s.seen);
    snprintf(name, sizeof name, EXPERT, 7); /* nothing is known of them: all columns are alike */
    read_floats(r, name, mean, HIDDEN);
    for (i = 0; i < HIDDEN; i++) assert_true(mean[i] == 1);
    for (int layer = 0; layer < LAYERS; layer++) {
        snprintf(name, sizeof name, "model.layers.%d.k_amax", layer);
        read_floats(r, name, &largest[0], 1);
        snprintf(name, sizeof name, "model.layers.%d.v_amax", layer);
        read_floats(r, name, &largest[1], 1);
        assert_memory_equal(largest, s.largest[layer], sizeof largest);
    }
    kerf_reader_close(r);
    kerf_checkpoint_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums)};
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
