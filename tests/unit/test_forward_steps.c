/* test_forward_steps.c - single steps of the forward pass beside their definitions, where the tiny
 * models of test_forward.c do not go: rows of several blocks of queries, windows that begin in a
 * block behind the first, sinks above all scores, gates at their clamp, experts of equal scores,
 * positions on either side of the context that a model was trained with, and which layers a
 * configuration means. */
#include <math.h>

#include <jansson.h>

#include <kerf/forward.h>

#include "cpu/product_choice.h"
#include "forward/decoder_config.h"
#include "forward/steps_plain.h"
#include "forward_config.h"
#include "forward_model.h"
#include "near.h"
#include "put_numbers.h"
#include "test_output.h"

#include "test_folder.h"

/* --- positions ----------------------------------------------------------------------------- */

/* Heads of 64; `own` is what else its config.json has. */
#define MODEL(type, own)                                                             \
    "{\"model_type\": \"" type "\", \"vocab_size\": 1000, \"hidden_size\": 256, "    \
    "\"num_attention_heads\": 4, \"intermediate_size\": 512, \"num_hidden_layers\":" \
    " 6, " own "}"
#define YARN(own)                                                            \
    MODEL("llama", "\"max_position_embeddings\": 524288, \"rope_scaling\": " \
                   "{\"rope_type\": \"yarn\", \"factor\": 4.0, " own "}")

/* Angles and factor as transformers 5 has them, modeling_rope_utils.py. */
static const struct {
    const char *config;
    uint64_t length;
    double frequency[5]; /* of pairs 0, 12, 18, 24, 31 */
    double factor;
} ropes[] = {
    {YARN("\"original_max_position_embeddings\": 4096"),
     100,
     {1, 0.027973994612693787, 0.003027991857379675, 0.0002500000118743628, 3.333803761051968e-05},
     1.138629436111989},
    /* the pairs end before the ramp does */
    {YARN("\"original_max_position_embeddings\": 131072"),
     100,
     {1, 0.03162277489900589, 0.005623413249850273, 0.0008846154087223113, 6.411160575225949e-05},
     1.138629436111989},
    {YARN("\"original_max_position_embeddings\": 4096, \"truncate\": false, "
          "\"attention_factor\": 1.25"),
     100,
     {1, 0.028613608330488205, 0.002986734500154853, 0.0002500000118743628, 3.333803761051968e-05},
     1.25},
};

static void test_yarn(void **state)
{
    static const int pair[] = {0, 12, 18, 24, 31};
    (void)state;
    for (size_t i = 0; i < sizeof ropes / sizeof *ropes; i++) {
        kf_config c;
        float frequency[32];
        double factor;
        read_config(ropes[i].config, &c);
        kf_rope_frequencies(&c.rope[0], ropes[i].length, frequency, &factor);
        for (size_t k = 0; k < 5; k++)
            assert_near((double)frequency[pair[k]], ropes[i].frequency[k],
                        1e-6 * ropes[i].frequency[k]);
        assert_near(factor, ropes[i].factor, 1e-12);
        kf_config_free(&c);
    }
}

/* A context as it was trained, and one token more: other factors of pairs, another base. */
static void test_beyond_the_context(void **state)
{
    kf_config c;
    float at[4], beyond[4];
    double factor;
    (void)state;
#define HEADS_OF_8 "\"head_dim\": 8, \"num_key_value_heads\": 4, \"max_position_embeddings\": 128, "
    read_config(MODEL("phi3", HEADS_OF_8 "\"original_max_position_embeddings\": 32, "
                                         "\"rope_scaling\": {\"type\": \"longrope\", "
                                         "\"short_factor\": [1.5, 1.5, 1.5, 1.5], "
                                         "\"long_factor\": [3, 3, 3, 3]}"),
                &c);
    kf_rope_frequencies(&c.rope[0], 32, at, &factor);
    assert_near(factor, sqrt(1 + log(4.0) / log(32.0)), 1e-12);
    kf_rope_frequencies(&c.rope[0], 33, beyond, &factor);
    for (int i = 0; i < 4; i++) {
        assert_near((double)at[i], pow(1e4, -i / 4.0) / 1.5, 1e-6);
        assert_near((double)beyond[i], pow(1e4, -i / 4.0) / 3, 1e-6);
    }
    kf_config_free(&c);

    read_config(MODEL("llama", HEADS_OF_8 "\"rope_scaling\": {\"rope_type\": \"dynamic\", "
                                          "\"factor\": 2.0}"),
                &c);
    kf_rope_frequencies(&c.rope[0], 128, at, &factor);
    kf_rope_frequencies(&c.rope[0], 256, beyond, &factor);
    const double base = 1e4 * pow(2.0 * 2 - 1, 8.0 / 6);
    for (int i = 0; i < 4; i++) {
        assert_near((double)at[i], pow(1e4, -i / 4.0), 1e-6);
        assert_near((double)beyond[i], pow(base, -i / 4.0), 1e-6);
    }
    kf_config_free(&c);
}

/* --- which layers -------------------------------------------------------------------------- */

/* One letter for each layer: of those that satisfy what the test asks. */
static void need_layers(const char *config, const char *wanted, int (*is)(const kf_layer_kind *k))
{
    kf_config c;
    read_config(config, &c);
    for (uint64_t i = 0; i < c.layers; i++)
        if (is(&c.kind[i]) != (wanted[i] == 'x'))
            fail_msg("%s: layer %d is not as in %s", config, (int)i, wanted);
    assert_int_equal(strlen(wanted), c.layers);
    kf_config_free(&c);
}

static int has_window(const kf_layer_kind *k)
{
    return k->window == 100;
}

static int has_experts(const kf_layer_kind *k)
{
    return (k->has & KF_HAS_EXPERTS) != 0;
}

static int has_positions(const kf_layer_kind *k)
{
    return k->rope >= 0;
}

static void test_layers(void **state)
{
#define WINDOW "\"use_sliding_window\": true, \"sliding_window\": 100"
#define EXPERTS "\"num_experts\": 8, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 64"
    (void)state;
    need_layers(MODEL("qwen2", WINDOW ", \"max_window_layers\": 4"), "....xx", has_window);
    need_layers(MODEL("qwen2", "\"use_sliding_window\": false, \"sliding_window\": 100"), "......",
                has_window);
    need_layers(MODEL("gemma2", "\"sliding_window\": 100"), "x.x.x.", has_window);
    need_layers(MODEL("gemma3_text", "\"sliding_window\": 100, \"sliding_window_pattern\": 3"),
                "xx.xx.", has_window);
    need_layers(MODEL("smollm3", "\"no_rope_layer_interval\": 3"), "xx.xx.", has_positions);
    need_layers(MODEL("smollm3", "\"max_position_embeddings\": 128"), "xxx.xx", has_positions);
    need_layers(MODEL("qwen3_moe", EXPERTS ", \"decoder_sparse_step\": 2"), ".x.x.x", has_experts);
    need_layers(
        MODEL("qwen3_moe", EXPERTS ", \"decoder_sparse_step\": 2, \"mlp_only_layers\": [3]"),
        ".x...x", has_experts);
}

/* --- attention ----------------------------------------------------------------------------- */

enum { ROWS = 2, LENGTH = 150, HEADS = 4, KEYS = 2, DIM = 8, VALUE = 12 };

static float q[ROWS * LENGTH * HEADS * DIM], k[ROWS * LENGTH * KEYS * DIM];
static float v[ROWS * LENGTH * KEYS * VALUE], mixed[ROWS * LENGTH * HEADS * VALUE];

static double score_of(const kf_attention *a, uint64_t query, uint64_t key, uint64_t head)
{
    double dot = 0;
    for (uint64_t i = 0; i < DIM; i++)
        dot += (double)q[(query * HEADS + head) * DIM + i] *
               (double)k[(key * KEYS + head / (HEADS / KEYS)) * DIM + i];
    dot *= (double)a->scale;
    return a->cap > 0 ? (double)a->cap * tanh(dot / (double)a->cap) : dot;
}

/* What token t of a row has of a value, by the definition. */
static double attended(const kf_attention *a, uint64_t row, uint64_t t, uint64_t head, uint64_t i)
{
    const uint64_t first = a->window && t + 1 > a->window ? t + 1 - a->window : 0;
    double top = a->sinks ? (double)a->sinks[head] : -INFINITY, sum = 0, all = 0;
    for (uint64_t j = first; j <= t; j++)
        top = fmax(top, score_of(a, row * LENGTH + t, row * LENGTH + j, head));
    for (uint64_t j = first; j <= t; j++) {
        const double x = exp(score_of(a, row * LENGTH + t, row * LENGTH + j, head) - top);
        all += x;
        sum += x * (double)v[((row * LENGTH + j) * KEYS + head / (HEADS / KEYS)) * VALUE + i];
    }
    if (a->sinks) all += exp((double)a->sinks[head] - top);
    return sum / all;
}

static kf_rows rows_of(float *p, size_t columns)
{
    return (kf_rows){p, (size_t)ROWS * LENGTH, columns, columns};
}

static void test_attention(void **state)
{
    static const float sinks[HEADS] = {-1, 0.5f, 3,
                                       200}; /* the last leaves nothing to the others */
    static const uint64_t windows[] = {0, 1, 9, 64, 65, 100, 1000};
    kf_stepper s = {.steps = &kf_steps_plain, .threads = 2, .product = kf_product_find()};
    (void)state;
    by_formula("q", q, sizeof q / sizeof *q);
    by_formula("k", k, sizeof k / sizeof *k);
    by_formula("v", v, sizeof v / sizeof *v);
    for (size_t n = 0; n < 4 * sizeof windows / sizeof *windows; n++) {
        const kf_attention a = {.q = rows_of(q, HEADS * DIM),
                                .k = rows_of(k, KEYS * DIM),
                                .v = rows_of(v, KEYS * VALUE),
                                .mixed = rows_of(mixed, HEADS * VALUE),
                                .rows = ROWS,
                                .length = LENGTH,
                                .heads = HEADS,
                                .kv_heads = KEYS,
                                .dim = DIM,
                                .value = VALUE,
                                .window = windows[n / 4],
                                .scale = 20,
                                .cap = n & 1 ? 2.0f : 0,
                                .sinks = n & 2 ? sinks : NULL};
        kerf_error err = {0};
        memset(mixed, 0xff, sizeof mixed);
        must(kf_attend_plain(&s, &a, &err), &err);
        for (uint64_t at = 0; at < ROWS * LENGTH * HEADS; at++) {
            const uint64_t token = at / HEADS, head = at % HEADS, i = at % VALUE;
            const double wanted = attended(&a, token / LENGTH, token % LENGTH, head, i);
            const double gap = fabs((double)mixed[at * VALUE + i] - wanted);
            if (!(gap <= 2e-6))
                fail_msg("window %d, cap %g, sinks %d: token %d, head %d: off by %g", (int)a.window,
                         (double)a.cap, a.sinks != NULL, (int)token, (int)head, gap);
        }
    }
}

/* --- gates --------------------------------------------------------------------------------- */

/* The gate of gpt-oss, within its clamp and on all sides beyond it. */
static void test_clamped(void **state)
{
    static const float x[] = {-90, -8, -7, -1, 0, 0.5f, 6.9f, 7, 7.5f, 30};
    enum { N = sizeof x / sizeof *x };
    float gate[N * N], up[N * N];
    kf_stepper s = {.steps = &kf_steps_plain, .threads = 1};
    (void)state;
    for (size_t i = 0; i < N * N; i++) {
        gate[i] = x[i / N];
        up[i] = x[i % N];
    }
    const kf_gating g = {
        {gate, N, N, N}, {up, N, N, N}, KF_GATE_CLAMPED, .limit = 7, .alpha = 1.702f};
    must(kf_steps_plain.gate(&s, &g, NULL), NULL);
    for (size_t i = 0; i < N * N; i++) {
        const double a = fmin((double)x[i / N], 7), b = fmax(fmin((double)x[i % N], 7), -7);
        const double wanted = (b + 1) * a / (1 + exp(-1.702 * a));
        if (!(fabs((double)gate[i] - wanted) <= 1e-6 * fabs(wanted) + 1e-30))
            fail_msg("gate %g, up %g: %g, not %g", (double)x[i / N], (double)x[i % N],
                     (double)gate[i], wanted);
    }
}

/* --- experts of equal scores --------------------------------------------------------------- */

static kerf_status take_input(void *ctx, const kerf_layer_weight *w, const float *x, uint64_t n,
                              kerf_error *err)
{
    uint64_t *seen = ctx;
    (void)x, (void)err;
    const char *expert = strstr(w->name, ".experts.");
    if (expert) seen[expert[9] - '0'] += n;
    return KERF_OK;
}

/* A router whose scores are all the same, as saturated sigmoids are: of groups and of experts the
 * first are taken, and as many as ever. Groups are two experts, of four groups two are taken. */
static const struct {
    float correction[8];
    int chosen[2];
} equals[] = {
    {{0}, {0, 1}},
    {{0.3f, 0, 0.2f, 0, 0.2f}, {0, 2}}, /* of the groups of experts 2 and 4 the first one */
    {{0, 0, 0, 0, 0.3f, 0.3f, 0.1f}, {4, 5}},
};

static void run_layers(const char *folder, const json_t *golden, uint64_t seen[8])
{
    kerf_checkpoint *c;
    kerf_decoder *d;
    kerf_layer *l;
    kerf_error err = {0};
    uint32_t token[40];
    float hidden[40 * 64];
    formula_tokens(golden, token, 40);
    const kerf_exec exec = {.threads = 1};
    const kerf_tokens t = {token, 1, 40};
    const kerf_watch watch = {.input = take_input, .ctx = seen};
    must(kerf_checkpoint_open(folder, &c, &err), &err);
    must(kerf_decoder_open(c, &exec, &d, &err), &err);
    assert_int_equal(kerf_decoder_about(d)->hidden, 64);
    must(kerf_decoder_embed(d, &t, hidden, &err), &err);
    for (uint64_t n = 0; n < kerf_decoder_about(d)->layers; n++) {
        must(kerf_decoder_layer_load(d, n, &l, &err), &err);
        must(kerf_layer_run(l, &t, hidden, &watch, NULL, &err), &err);
        kerf_layer_free(l);
    }
    assert_true(isfinite(hidden[39 * 64 + 63]));
    kerf_decoder_close(d);
    kerf_checkpoint_close(c);
}

static void test_equal_scores(void **state)
{
    json_t *golden = json_load_file(KERF_TEST_DATA "/forward/golden.json", 0, NULL);
    const char *path = in_folder(state, "model.safetensors");
    size_t i;
    const json_t *one, *model = NULL;
    kerf_error err = {0};
    json_array_foreach(json_object_get(golden, "cases"), i,
                       one) if (strcmp(json_string_value(json_object_get(one, "case")),
                                       "deepseek-v3") == 0) model = one;
    assert_non_null(model);
    must(write_formula_model((const char *)*state, json_object_get(model, "config"),
                             json_object_get(model, "tensors"), &err),
         &err);
    put_numbers(path, "mlp.gate.weight", (const float[]){0}, 1);
    for (i = 0; i < sizeof equals / sizeof *equals; i++) {
        const int *chosen = equals[i].chosen;
        uint64_t seen[8] = {0}, all = 0;
        put_numbers(path, "e_score_correction_bias", equals[i].correction, 8);
        run_layers((const char *)*state, golden, seen);
        for (int n = 0; n < 8; n++) all += seen[n];
        assert_true(seen[chosen[0]] > 0 && seen[chosen[0]] == seen[chosen[1]]);
        assert_int_equal(all, 2 * seen[chosen[0]]);
    }
    json_decref(golden);
}

/* Where DeepSeek V2 takes the best experts of all, its file may name groups that do not count. */
static void test_no_groups(void **state)
{
#define LATENT                                                                            \
    EXPERTS ", \"kv_lora_rank\": 32, \"qk_nope_head_dim\": 16, \"qk_rope_head_dim\": 8, " \
            "\"v_head_dim\": 16, \"n_group\": 4, \"topk_group\": 2, \"topk_method\": "
    kf_config c;
    (void)state;
    read_config(MODEL("deepseek_v2", LATENT "\"greedy\""), &c);
    assert_true(c.groups == 1 && c.groups_used == 1);
    kf_config_free(&c);
    read_config(MODEL("deepseek_v2", LATENT "\"group_limited_greedy\""), &c);
    assert_true(c.groups == 4 && c.groups_used == 2);
    kf_config_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_yarn),      cmocka_unit_test(test_beyond_the_context),
        cmocka_unit_test(test_layers),    cmocka_unit_test(test_attention),
        cmocka_unit_test(test_clamped),   cmocka_unit_test(test_equal_scores),
        cmocka_unit_test(test_no_groups),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
