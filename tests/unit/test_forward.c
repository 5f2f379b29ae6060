/* test_forward.c - the forward pass against logits of transformers, for a tiny model of every
 * family whose numbers come from a formula (tests/interop/forward.py --golden); the same bits for
 * every number of threads and every kind of vector; and configurations that lie. */
#include <math.h>

#include <jansson.h>

#include <kerf/forward.h>

#include "cpu/product_choice.h"
#include "cpu/product_ops.h"
#include "forward/decoder_config.h"
#include "forward_config.h"
#include "forward_model.h"
#include "test_output.h"

#include "test_folder.h"

#define SHOWN 16 /* logits that are stored */

static json_t *golden;
static uint32_t token[64];
static uint64_t length;

/* --- models -------------------------------------------------------------------------------- */

static void write_config(void **state, const json_t *config)
{
    assert_int_equal(json_dump_file(config, in_folder(state, "config.json"), 0), 0);
}

static void write_model(void **state, const json_t *config, const json_t *tensors)
{
    kerf_error err = {0};
    must(write_formula_model((const char *)*state, config, tensors, &err), &err);
}

/* --- runs ---------------------------------------------------------------------------------- */

typedef struct seen {
    float last[SHOWN]; /* logits of the last position of row 0 */
    uint64_t hash, inputs, caches;
    uint64_t length;
} seen;

static kerf_status take(void *ctx, uint64_t row, uint64_t position, uint64_t n, float *logits,
                        kerf_error *err)
{
    seen *s = ctx;
    (void)err;
    const uint64_t vocab = 160;
    s->hash = s->hash * 31 + kerf_hash(logits, n * vocab * sizeof *logits);
    if (row == 0 && position + n == s->length)
        memcpy(s->last, logits + (n - 1) * vocab, sizeof s->last);
    return KERF_OK;
}

static kerf_status take_input(void *ctx, const kerf_layer_weight *w, const float *x, uint64_t n,
                              kerf_error *err)
{
    seen *s = ctx;
    (void)err;
    assert_true(n > 0 && isfinite(x[n * w->cols - 1]));
    s->inputs++;
    return KERF_OK;
}

static kerf_status take_cache(void *ctx, uint64_t layer, float *k, float *v, uint64_t n,
                              kerf_error *err)
{
    seen *s = ctx;
    (void)err;
    assert_true(isfinite(k[0]) && isfinite(v[0]) && n > 0 && layer < 64);
    s->caches++;
    return KERF_OK;
}

static kerf_status run(void **state, int threads, uint64_t rows, seen *s, kerf_error *err)
{
    kerf_checkpoint *c = NULL;
    kerf_decoder *d = NULL;
    const kerf_exec exec = {.threads = threads};
    const kerf_watch watch = {.input = take_input, .cache = take_cache, .ctx = s};
    uint32_t all[192];
    for (uint64_t i = 0; i < rows * length; i++) all[i] = token[i % length];
    const kerf_tokens t = {all, rows, length};
    *s = (seen){.length = length};
    float *hidden = NULL;
    kerf_status status = kerf_checkpoint_open((const char *)*state, &c, err);
    if (status == KERF_OK) status = kerf_decoder_open(c, &exec, &d, err);
    if (status == KERF_OK) {
        hidden = malloc(rows * length * kerf_decoder_about(d)->hidden * sizeof *hidden);
        assert_non_null(hidden);
        status = kerf_decoder_embed(d, &t, hidden, err);
    }
    for (uint64_t i = 0; status == KERF_OK && i < kerf_decoder_about(d)->layers; i++) {
        kerf_layer *l = NULL;
        status = kerf_decoder_layer_load(d, i, &l, err);
        if (status == KERF_OK) status = kerf_layer_run(l, &t, hidden, &watch, NULL, err);
        kerf_layer_free(l);
    }
    if (status == KERF_OK) status = kerf_decoder_logits(d, &t, hidden, NULL, take, s, NULL, err);
    free(hidden);
    kerf_decoder_close(d);
    kerf_checkpoint_close(c);
    return status;
}

/* --- against transformers ------------------------------------------------------------------ */

static void compare(const char *name, const float *ours, const json_t *theirs)
{
    double sum = 0, worst = 0;
    for (size_t i = 0; i < SHOWN; i++) {
        const double x = json_real_value(json_array_get(theirs, i));
        const double gap = fabs((double)ours[i] - x);
        sum += x * x;
        worst = gap > worst || isnan(gap) ? gap : worst;
    }
    const double rms = sqrt(sum / SHOWN);
    if (!(worst <= 2e-4 * rms)) fail_msg("%s: %g of an rms of %g", name, worst, rms);
}

static void test_families(void **state)
{
    size_t i;
    const json_t *one;
    json_array_foreach(json_object_get(golden, "cases"), i, one)
    {
        seen a, b;
        kerf_error err;
        const char *name = json_string_value(json_object_get(one, "case"));
        write_model(state, json_object_get(one, "config"), json_object_get(one, "tensors"));
        must(run(state, 1, 2, &a, &err), &err);
        compare(name, a.last, json_object_get(one, "logits"));
        must(run(state, 3, 2, &b, &err), &err);
        if (a.hash != b.hash) fail_msg("%s: other bits with other threads", name);
        assert_true(a.inputs > 0 && a.inputs == b.inputs && a.caches > 0);
    }
}

/* --- products ------------------------------------------------------------------------------ */

static void test_products(void **state)
{
    enum { X = 29, OUT = 83, IN = 517 };
    static float x[X * IN], w[OUT * IN], turned[IN * OUT], a[X * OUT], b[X * OUT];
    static float scratch[KF_PRODUCT_SCRATCH];
    (void)state;
    by_formula("x", x, X * IN);
    by_formula("w", w, OUT * IN);
    for (size_t o = 0; o < OUT; o++)
        for (size_t k = 0; k < IN; k++) turned[k * OUT + o] = w[o * IN + k];
    const kf_rows from = {x, X, IN, IN}, to = {a, X, OUT, OUT}, other = {b, X, OUT, OUT};
    kf_product_plain(to, from, (kf_factor){w, OUT, IN, IN, 1}, scratch);
    float chain = 0;
    for (size_t k = 0; k < IN; k++) chain = fmaf(x[7 * IN + k], w[5 * IN + k], chain);
    assert_true(a[7 * OUT + 5] == chain);
    kf_product *const fast = kf_product_find();
    fast(other, from, (kf_factor){w, OUT, IN, IN, 1}, scratch);
    assert_memory_equal(a, b, sizeof a);
    fast(other, from, (kf_factor){turned, OUT, IN, 1, OUT}, scratch);
    assert_memory_equal(a, b, sizeof a);
    memset(b, 0, sizeof b);
    must(kf_product_on(fast, 2, other, from, (kf_factor){w, OUT, IN, IN, 1}, NULL), NULL);
    assert_memory_equal(a, b, sizeof a);
}

/* --- configurations that leave out --------------------------------------------------------- */

/* An object inside a config.json has only what differs from the defaults of its class: the same
 * model as with all of it. */
static void test_sparse(void **state)
{
#define GEMMA3                                                                                   \
    "\"model_type\": \"gemma3_text\", \"hidden_size\": 128, \"intermediate_size\": 256, "        \
    "\"num_hidden_layers\": 7, \"rope_scaling\": {\"factor\": 8.0, \"rope_type\": \"linear\"}, " \
    "\"sliding_window\": 1024"
    kf_config sparse, whole;
    (void)state;
    read_config("{\"model_type\": \"gemma3\", \"text_config\": {" GEMMA3 "}}", &sparse);
    read_config(
        "{" GEMMA3 ", \"vocab_size\": 262208, \"num_attention_heads\": 8, "
        "\"num_key_value_heads\": 4, \"head_dim\": 256, \"rms_norm_eps\": 1e-6, "
        "\"query_pre_attn_scalar\": 256, \"max_position_embeddings\": 131072, "
        "\"rope_theta\": 1e6, \"rope_local_base_freq\": 1e4, \"tie_word_embeddings\": true, "
        "\"hidden_activation\": \"gelu_pytorch_tanh\", \"sliding_window_pattern\": 6}",
        &whole);
    assert_int_equal(sparse.vocab, 262208);
    assert_true(sparse.heads == 8 && sparse.kv_heads == 4 && sparse.head_dim == 256);
    assert_true(sparse.rope[0].theta == 1e6 && sparse.rope[0].factor == 8.0);
    assert_true(sparse.score_scale == 1.0 / 16.0);
    for (uint64_t i = 0; i < 7; i++) {
        assert_int_equal(sparse.kind[i].window, i == 5 ? 0 : 1024);
        assert_memory_equal(&sparse.kind[i], &whole.kind[i], sizeof *sparse.kind);
    }
    free(sparse.kind);
    free(whole.kind);
    sparse.kind = whole.kind = NULL; /* no padding differs: both begin as zeros */
    assert_memory_equal(&sparse, &whole, sizeof sparse);

    /* What it says counts; null is no default. LLaVA's Llama says little, PaliGemma 2's Gemma has
     * caps that it does not name. */
    read_config("{\"model_type\": \"llava\", \"text_config\": {\"model_type\": \"llama\", "
                "\"vocab_size\": 32064, \"max_position_embeddings\": 4096}}",
                &sparse);
    assert_true(sparse.vocab == 32064 && sparse.hidden == 4096 && sparse.layers == 32);
    assert_true(sparse.kv_heads == 32 && sparse.inner == 11008 && sparse.context == 4096);
    kf_config_free(&sparse);
    read_config("{\"model_type\": \"paligemma\", \"text_config\": {\"model_type\": \"gemma2\", "
                "\"sliding_window\": null, \"final_logit_softcapping\": null}}",
                &sparse);
    assert_true(sparse.score_cap == 50.0 && sparse.logit_cap == 0.0 && sparse.kind[0].window == 0);
    kf_config_free(&sparse);

    /* A whole file is no such object. */
    kerf_error err = {0};
    json_t *root = json_loads("{" GEMMA3 "}", 0, NULL);
    assert_int_equal(kf_config_read(root, NULL, 1000, &sparse, &err), KERF_E_DATA);
    assert_non_null(strstr(err.text, "no \"vocab_size\""));
    kf_config_free(&sparse);
    json_decref(root);
}

/* --- configurations that lie --------------------------------------------------------------- */

static const struct {
    const char *model, *key, *value; /* what config.json has there; NULL: no such key */
    kerf_status status;
    const char *says;
} lies[] = {
    {"llama2", "model_type", "\"mamba\"", KERF_E_NOSUP, "known are: llama"},
    {"llama2", "num_attention_heads", "0", KERF_E_DATA, "num_attention_heads"},
    {"llama2", "num_attention_heads", "-4", KERF_E_DATA, "num_attention_heads"},
    {"llama2", "num_key_value_heads", "3", KERF_E_DATA, "key heads"},
    {"llama2", "num_hidden_layers", "4000000", KERF_E_DATA, "layers"},
    {"llama2", "num_hidden_layers", "4", KERF_E_DATA, "layer 3: no tensor"},
    {"llama2", "hidden_size", "99999999999", KERF_E_LIMIT, "hidden_size"},
    {"llama2", "hidden_size", "128", KERF_E_DATA, "config.json makes it"},
    {"llama2", "head_dim", "\"sixteen\"", KERF_E_DATA, "head_dim"},
    {"llama2", "head_dim", "4194304", KERF_E_DATA, "config.json makes it"},
    {"llama2", "vocab_size", NULL, KERF_E_DATA, "vocab_size"},
    {"llama2", "rms_norm_eps", "-1", KERF_E_DATA, "rms_norm_eps"},
    {"llama2", "rms_norm_eps", "\"1e-5\"", KERF_E_DATA, "rms_norm_eps"},
    {"llama2", "rope_parameters", "{\"rope_theta\":\"x\"}", KERF_E_DATA, "rope_theta"},
    {"llama2", "rope_parameters", "{\"rope_type\":\"yarn\",\"factor\":\"4\"}", KERF_E_DATA,
     "factor"},
    {"gemma2", "attn_logit_softcapping", "true", KERF_E_DATA, "factor"},
    {"llama2", "hidden_act", "\"relu\"", KERF_E_NOSUP, "relu"},
    {"llama2", "attention_bias", "true", KERF_E_DATA, "bias"},
    {"llama2", "rope_parameters", "{\"rope_type\":\"spiral\"}", KERF_E_NOSUP, "spiral"},
    {"llama2", "rope_parameters", "{\"rope_type\":\"longrope\",\"short_factor\":[1]}", KERF_E_DATA,
     "short_factor"},
    {"llama2", "rope_parameters", "{\"rope_type\":\"yarn\",\"factor\":0}", KERF_E_DATA, "factor"},
    {"llama2", "rope_parameters", "{\"rope_theta\":0}", KERF_E_DATA, "rope_theta"},
    {"qwen3", "model_type", "\"llama\"", KERF_E_NOSUP, "does not use it"},
    {"gemma2", "layer_types", "[\"full_attention\"]", KERF_E_DATA, "layer_types"},
    {"gemma2", "layer_types", "[\"linear_attention\",1,2]", KERF_E_NOSUP, "layer type"},
    {"mixtral", "num_experts_per_tok", "5", KERF_E_DATA, "experts"},
    {"mixtral", "num_local_experts", "4000000", KERF_E_DATA, "experts"},
    {"mixtral", "num_local_experts", "3", KERF_E_DATA, "experts"},
    {"deepseek-v3", "n_group", "3", KERF_E_DATA, "groups"},
    {"deepseek-v3", "kv_lora_rank", "0", KERF_E_DATA, "kv_lora_rank"},
    {"deepseek-v3", "q_lora_rank", "null", KERF_E_NOSUP, "does not use it"},
    {"deepseek-v3", "first_k_dense_replace", "0", KERF_E_NOSUP, "does not use it"},
    {"gpt-oss", "sliding_window", "-8", KERF_E_DATA, "sliding_window"},
};

static const json_t *case_of(const char *name)
{
    size_t i;
    const json_t *one;
    json_array_foreach(
        json_object_get(golden, "cases"), i,
        one) if (!strcmp(json_string_value(json_object_get(one, "case")), name)) return one;
    fail_msg("no case %s", name);
    return NULL;
}

static void test_lies(void **state)
{
    const char *written = "";
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        const json_t *one = case_of(lies[i].model);
        json_t *config = json_deep_copy(json_object_get(one, "config"));
        seen s;
        kerf_error err = {0};
        if (strcmp(written, lies[i].model) != 0)
            write_model(state, config, json_object_get(one, "tensors"));
        written = lies[i].model;
        if (lies[i].value)
            json_object_set_new(config, lies[i].key,
                                json_loads(lies[i].value, JSON_DECODE_ANY, NULL));
        else
            json_object_del(config, lies[i].key);
        write_config(state, config);
        json_decref(config);
        const kerf_status status = run(state, 1, 1, &s, &err);
        if (status != lies[i].status || !strstr(err.text, lies[i].says))
            fail_msg("%s, %s: %s (%s)", lies[i].model, lies[i].key, kerf_status_name(status),
                     err.text);
        assert_null(strchr(err.text, '\n'));
    }
}

/* A tensor that is not there, or has another shape or type. */
static void test_tensors(void **state)
{
    static const struct {
        const char *drop, *add;
        int dims[3];
        const char *says;
    } made[] = {
        {"model.norm.weight", NULL, {0}, "model.norm.weight"},
        {"model.embed_tokens.weight", NULL, {0}, "embed_tokens"},
        {"lm_head.weight", NULL, {0}, "lm_head"},
        {"model.layers.1.mlp.down_proj.weight", NULL, {0}, "layer 1: no tensor"},
        {"model.layers.2.self_attn.q_proj.weight",
         "model.layers.2.self_attn.q_proj.weight",
         {32, 64},
         "config.json makes it 64 x 64"},
        {"model.layers.0.input_layernorm.weight",
         "model.layers.0.input_layernorm.weight",
         {64, 1},
         "config.json makes it 64"},
        {NULL, "model.layers.0.self_attn.q_norm.weight", {16}, "does not use it"},
        {NULL, "model.extra.weight", {4, 4}, "does not use it"},
    };
    const json_t *one = case_of("llama2");
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        json_t *tensors = json_deep_copy(json_object_get(one, "tensors"));
        seen s;
        kerf_error err = {0};
        if (made[i].drop) json_object_del(tensors, made[i].drop);
        json_t *shape = json_array();
        for (int k = 0; k < 3 && made[i].dims[k]; k++)
            json_array_append_new(shape, json_integer(made[i].dims[k]));
        if (made[i].add) json_object_set(tensors, made[i].add, shape);
        write_model(state, json_object_get(one, "config"), tensors);
        json_decref(shape);
        json_decref(tensors);
        const kerf_status status = run(state, 1, 1, &s, &err);
        if ((status != KERF_E_DATA && status != KERF_E_NOSUP) || !strstr(err.text, made[i].says))
            fail_msg("%zu: %s (%s)", i, kerf_status_name(status), err.text);
    }
}

static void test_tokens(void **state)
{
    const json_t *one = case_of("llama2");
    seen s;
    kerf_error err = {0};
    write_model(state, json_object_get(one, "config"), json_object_get(one, "tensors"));
    const uint32_t kept = token[3];
    token[3] = 160;
    assert_int_equal(run(state, 1, 1, &s, &err), KERF_E_DATA);
    assert_non_null(strstr(err.text, "token 3 is 160"));
    token[3] = kept;
}

static kerf_checkpoint *open_case(void **state, const char *name, kerf_decoder **d)
{
    static const kerf_exec exec = {.threads = 1};
    const json_t *one = case_of(name);
    kerf_checkpoint *c;
    kerf_error err;
    write_model(state, json_object_get(one, "config"), json_object_get(one, "tensors"));
    must(kerf_checkpoint_open((const char *)*state, &c, &err), &err);
    must(kerf_decoder_open(c, &exec, d, &err), &err);
    return c;
}

/* Predictions are held beside the tokens that follow, which the model may not have either. */
static void test_next_tokens(void **state)
{
    kerf_error err;
    kerf_decoder *d;
    kerf_checkpoint *c = open_case(state, "llama2", &d);
    const kerf_said said = {d, (const float[4 * 256]){0}}; /* it has fewer */
    kerf_next_said out[2];
    for (uint32_t next = 159; next; next = next == 159 ? 160 : next == 160 ? UINT32_MAX : 0) {
        const kerf_tokens t = {(const uint32_t[]){1, 2, 3, next}, 2, 2};
        const kerf_status wanted = next == 159 ? KERF_OK : KERF_E_DATA;
        assert_int_equal(kerf_next_tokens(&said, &said, &t, out, NULL, &err), wanted);
    }
    assert_int_equal(err.offset, 3);
    kerf_decoder_close(d);
    kerf_checkpoint_close(c);
}

static int ask(void *ctx)
{
    int *left = ctx;
    return --*left < 0;
}

/* A layer is given up in the middle, and can be loaded when nobody is asked any longer. */
static void test_cancel(void **state)
{
    int left = 1;
    const kerf_job job = {.cancel = ask, .ctx = &left};
    kerf_error err = {0};
    kerf_layer *l = NULL;
    kerf_decoder *d;
    kerf_checkpoint *c = open_case(state, "llama2", &d);
    kerf_decoder_heed(d, &job);
    assert_int_equal(kerf_decoder_layer_load(d, 0, &l, &err), KERF_E_CANCELED);
    assert_true(!l && left == -1);
    kerf_decoder_heed(d, NULL);
    must(kerf_decoder_layer_load(d, 0, &l, &err), &err);
    kerf_layer_free(l);
    kerf_decoder_close(d);
    kerf_checkpoint_close(c);
}

static int open_golden(void **state)
{
    golden = json_load_file(KERF_TEST_DATA "/forward/golden.json", 0, NULL);
    const json_t *tokens = json_object_get(golden, "tokens");
    length = json_array_size(tokens);
    if (length == 0 || length > 64) return -1;
    for (size_t i = 0; i < length; i++)
        token[i] = (uint32_t)json_integer_value(json_array_get(tokens, i));
    return make_test_folder(state);
}

static int close_golden(void **state)
{
    json_decref(golden);
    return remove_test_folder(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),    cmocka_unit_test(test_families),
        cmocka_unit_test(test_sparse),      cmocka_unit_test(test_lies),
        cmocka_unit_test(test_tensors),     cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_next_tokens), cmocka_unit_test(test_cancel),
    };
    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
