/* test_model.c - parameters of published models to the last one, and what follows from them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "near.h"

#include <kerf/model.h>

static kerf_model open_model(const char *name)
{
    char path[512];
    kerf_model m;
    kerf_error err = {0};
    snprintf(path, sizeof path, "%s/configs/%s.json", KERF_TEST_DATA, name);
    if (kerf_model_open(path, &m, &err) != KERF_OK) fail_msg("%s", err.text);
    return m;
}

static const kerf_format *format(const char *name)
{
    const kerf_format *f = kerf_format_find(name);
    assert_non_null(f);
    return f;
}

/* Elements of all tensors of the published checkpoints. */
static void parameters_as_published(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double count;
    } rows[] = {
        {"llama-2-7b", 6738415616},     {"llama-2-70b", 68976648192},
        {"llama-3.1-8b", 8030261248},   {"llama-3.1-70b", 70553706496},
        {"llama-3.2-1b", 1235814400},   {"mistral-7b-v0.1", 7241732096},
        {"mixtral-8x7b", 46702792704},  {"qwen2.5-7b", 7615616512},
        {"qwen3-8b", 8190735360},       {"qwen3-32b", 32762123264},
        {"qwen3-30b-a3b", 30532122624}, {"qwen3-235b-a22b", 235093634560},
        {"deepseek-v3", 671026419200},  {"gpt-oss-20b", 20914757184},
        {"gpt-oss-120b", 116829156672}, {"gemma-2b", 2506172416},
        {"gemma-7b", 8537680896},       {"gemma-2-9b", 9241705984},
        {"gemma-3-1b", 999885952},      {"gemma-3-4b", 3880263168},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        kerf_model m = open_model(rows[i].name);
        double count = kerf_model_parameters(&m);
        if (count != rows[i].count) {
            fail_msg("%s: %.0f parameters, published %.0f", rows[i].name, count, rows[i].count);
        }
    }
}

static void what_a_token_costs(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double active_g, kv, attention; /* 10^9 weights; elements; operations per context token */
    } rows[] = {
        {"llama-3.1-8b", 7.505, 65536, 524288},  {"llama-3.1-70b", 69.50, 163840, 2621440},
        {"qwen3-8b", 7.568, 73728, 589824},      {"qwen3-32b", 31.98, 131072, 2097152},
        {"qwen3-30b-a3b", 3.042, 49152, 786432}, {"qwen3-235b-a22b", 21.57, 96256, 3080192},
        {"deepseek-v3", 36.6, 35136, 16990208},  {"gpt-oss-20b", 3.61, 24576, 393216},
        {"gpt-oss-120b", 5.13, 36864, 589824},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        kerf_model m = open_model(rows[i].name);
        double off = i == 6 ? 0.05 : 0.006;
        assert_near(kerf_model_active(&m) * 1e-9, rows[i].active_g, off);
        assert_near(kerf_model_kv_elements(&m), rows[i].kv, 0);
        assert_near(kerf_model_attention_flops(&m, 1), rows[i].attention, 0);
    }
    kerf_model v3 = open_model("deepseek-v3");
    assert_near(kerf_model_attention_flops(&v3, 0), 4997120, 0);
    /* Against the cache in bf16 and fp8: near the ridge of an H200, not bound by bandwidth. */
    double bytes;
    assert_int_equal(kerf_model_kv_bytes(&v3, NULL, &bytes, NULL), KERF_OK);
    assert_near(16990208 / bytes, 242, 0.5);
    assert_int_equal(kerf_model_kv_bytes(&v3, format("fp8-e4m3"), &bytes, NULL), KERF_OK);
    assert_near(16990208 / bytes, 484, 1);
}

static double crossover(const char *name, const char *weights, const char *kv, double batch)
{
    kerf_model m = open_model(name);
    kerf_formats f = {.linear = format(weights), .head = format(weights), .kv = format(kv)};
    double context;
    assert_int_equal(kerf_model_crossover(&m, &f, batch, &context, NULL), KERF_OK);
    return context;
}

static void context_at_which_the_cache_weighs_as_much(void **state)
{
    (void)state;
    assert_near(crossover("llama-3.1-8b", "bf16", "bf16", 1), 114512, 0);
    assert_near(crossover("llama-3.1-8b", "fp8-e4m3", "fp8-e4m3", 1), 114512, 0.1);
    assert_near(crossover("llama-3.1-8b", "fp8-e4m3", "nvfp4", 1), 203577, 1);
    assert_near(crossover("llama-3.1-8b", "nvfp4", "fp8-e4m3", 1), 64413, 0.1);
    assert_near(crossover("llama-3.1-8b", "bf16", "bf16", 64), 1789, 0.5);
    assert_near(crossover("llama-2-70b", "bf16", "bf16", 1), 419392, 0);
    assert_near(crossover("llama-2-70b", "fp8-e4m3", "nvfp4", 1), 745586, 1);
    assert_near(crossover("llama-3.1-70b", "nvfp4", "fp8-e4m3", 1), 238615, 1);
    assert_near(crossover("qwen3-8b", "nvfp4", "fp8-e4m3", 1), 57740, 1);
    assert_near(crossover("deepseek-v3", "bf16", "bf16", 1), 1.04e6, 3e3);
}

static void cache_in_kib(void **state)
{
    (void)state;
    static const struct {
        const char *name, *format;
        double kib;
    } rows[] = {{"llama-3.1-8b", "bf16", 128},   {"llama-3.1-8b", "fp8-e4m3", 64},
                {"llama-3.1-8b", "nvfp4", 36},   {"llama-3.1-70b", "nvfp4", 90},
                {"qwen3-8b", "nvfp4", 40.5},     {"qwen3-235b-a22b", "nvfp4", 52.875},
                {"deepseek-v3", "bf16", 68.625}, {"deepseek-v3", "fp8-e4m3", 34.3125},
                {"gpt-oss-20b", "bf16", 48},     {"gpt-oss-120b", "bf16", 72}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        kerf_model m = open_model(rows[i].name);
        double bytes;
        assert_int_equal(kerf_model_kv_bytes(&m, format(rows[i].format), &bytes, NULL), KERF_OK);
        assert_near(bytes / 1024, rows[i].kib, 1e-9);
    }
}

static double read_gb(const char *name, kerf_formats f, double batch)
{
    kerf_model m = open_model(name);
    double bytes;
    assert_int_equal(kerf_model_read_bytes(&m, &f, batch, &bytes, NULL), KERF_OK);
    return bytes * 1e-9;
}

static void bytes_of_a_step(void **state)
{
    (void)state;
    kerf_formats bf16 = {0}, fp4 = {.linear = format("nvfp4"), .head = format("nvfp4")};
    kerf_formats shipped = {.experts = format("mxfp4")};
    assert_near(read_gb("llama-3.1-8b", bf16, 1), 15.01, 0.005);
    assert_near(read_gb("llama-3.1-8b", fp4, 1), 4.22, 0.005);
    assert_near(read_gb("llama-3.1-70b", bf16, 1), 139.0, 0.05);
    assert_near(read_gb("llama-3.1-70b", fp4, 1), 39.1, 0.05);
    assert_near(read_gb("qwen3-30b-a3b", bf16, 1), 6.08, 0.005);
    assert_near(read_gb("gpt-oss-20b", shipped, 1), 3.71, 0.01);
    assert_near(read_gb("gpt-oss-120b", shipped, 1), 5.00, 0.01);
    /* The head: 7 % of what is read in bf16, 21 % when only the rest is in NVFP4. */
    fp4.head = NULL;
    assert_near(1.0507 / read_gb("llama-3.1-8b", bf16, 1), 0.070, 0.0005);
    assert_near(1.0507 / read_gb("llama-3.1-8b", fp4, 1), 0.21, 0.003);
}

static void experts_that_are_read(void **state)
{
    (void)state;
    assert_near(kerf_expected_experts(128, 8, 1), 8, 1e-9);
    assert_near(kerf_expected_experts(128, 8, 8), 51.6, 0.05);
    assert_near(kerf_expected_experts(128, 8, 32), 112, 0.3);
    assert_near(kerf_expected_experts(8, 8, 1), 8, 1e-9);
    assert_near(kerf_expected_experts(256, 8, 1e6), 256, 1e-6);
}

static void what_runs_between_products(void **state)
{
    (void)state;
    assert_near(kerf_elementwise_intensity("rmsnorm"), 1.25, 0);
    assert_near(kerf_elementwise_intensity("softmax"), 1.25, 0);
    assert_near(kerf_elementwise_intensity("residual"), 1.0 / 6, 1e-9);
    assert_near(kerf_elementwise_intensity("rope"), 1.5, 0);
    assert_near(kerf_elementwise_intensity("silu_mul"), 4.0 / 6, 1e-9);
    assert_near(kerf_elementwise_intensity("none"), 0, 0);
}

static kerf_step step_of(const char *name, const char *machine, kerf_formats f, kerf_phase phase)
{
    kerf_model m = open_model(name);
    kerf_step s;
    kerf_error err = {0};
    if (kerf_model_plan(&m, kerf_hardware_find(machine), &f, &phase, &s, &err) != KERF_OK) {
        fail_msg("%s", err.text);
    }
    return s;
}

static const kerf_operator *operator_of(const kerf_step *s, const char *name)
{
    for (size_t i = 0; i < s->ops; i++) {
        if (strcmp(s->op[i].name, name) == 0) return &s->op[i];
    }
    fail_msg("no operator %s", name);
    return NULL;
}

static void a_decoding_step(void **state)
{
    (void)state;
    kerf_formats bf16 = {0};
    kerf_step s = step_of("llama-3.1-8b", "h200", bf16, (kerf_phase){1, 4096, 0});
    double matrices = 2 * 7504658432.0, attention = 4096 * 524288.0;
    const kerf_operator *qkv = operator_of(&s, "q_proj+k_proj+v_proj");
    assert_near(qkv->work.weights, 6144 * 4096.0, 0);
    assert_near(qkv->count, 32, 0);
    assert_near(operator_of(&s, "gate_proj+up_proj")->work.weights, 28672 * 4096.0, 0);
    const kerf_operator *over = operator_of(&s, "attention");
    assert_near(over->work.flops * over->count, attention, 0);
    /* Products, attention and the small change between them. */
    assert_near(s.flops, matrices + attention, 0.001 * matrices);
    assert_near(s.bytes, matrices + 4096 * 131072.0, 0.002 * matrices);
    /* Memory-bound: 15.5 GB at no more than 4545 GB/s. */
    assert_true(s.time.low_us > 15.5e9 / 4545e3 && s.time.high_us < 4 * s.time.low_us);
    assert_near(s.tokens_per_s[1], 1e6 / s.time.low_us, 1e-6);
    assert_true(s.tokens_per_s[1] < 295 && s.tokens_per_s[0] > 70);
    /* Fewer bytes: faster, but not by the ratio of the bytes, for the fixed times remain. */
    kerf_formats fp4 = {.linear = format("nvfp4"), .head = format("nvfp4")};
    kerf_step q = step_of("llama-3.1-8b", "h200", fp4, (kerf_phase){1, 4096, 0});
    assert_true(s.bytes / q.bytes > 3.1);
    assert_true(s.time.us / q.time.us > 1.5 && s.time.us / q.time.us < 3.1);
}

static void a_prefill(void **state)
{
    (void)state;
    kerf_formats bf16 = {0};
    kerf_step s = step_of("llama-3.1-8b", "h200", bf16, (kerf_phase){1, 4096, 1});
    const kerf_operator *over = operator_of(&s, "attention"), *head = operator_of(&s, "lm_head");
    assert_near(head->work.flops, 2.0 * 4096 * 128256, 0); /* logits of the last token alone */
    assert_near(over->work.flops * 32, 524288.0 * 4096 * 4096 / 2, 0);
    /* Fused attention, q and o in full and a quarter of k and v: S / (1 + r) = 3277 were it not
     * causal. */
    assert_near(2 * over->work.flops / kerf_work_bytes(&over->work), 3277, 0.5);
    assert_int_equal(over->time.bound, KERF_BOUND_MATH);
    assert_int_equal(operator_of(&s, "down_proj")->time.bound, KERF_BOUND_MATH);
    assert_int_equal(head->time.bound, KERF_BOUND_MEMORY);
}

/* The products of a DeepSeek-R1 layer in NVFP4 on a B200: none is compute-bound at one row, and
 * the experts are most of the bytes. */
static void a_layer_of_deepseek(void **state)
{
    (void)state;
    const kerf_format *fp4 = format("nvfp4");
    kerf_formats f = {.linear = fp4, .activations = fp4};
    kerf_step s = step_of("deepseek-v3", "b200", f, (kerf_phase){1, 4096, 0});
    double experts = 0, bytes = 0;
    for (size_t i = 0; i < s.ops; i++) {
        const kerf_operator *op = &s.op[i];
        if (op->work.weights == 0) continue;
        bytes += op->count * op->work.weight_bytes;
        if (strncmp(op->name, "expert", 6) == 0) experts += op->count * op->work.weight_bytes;
        assert_true(op->time.intensity < op->time.ridge);
        assert_int_equal(op->time.bound == KERF_BOUND_MATH, 0);
    }
    assert_true(experts > 0.5 * bytes);
    assert_near(operator_of(&s, "expert gate_proj+expert up_proj")->work.weights, 8 * 4096 * 7168.0,
                1e-3);
    assert_near(operator_of(&s, "q_b_proj")->work.weights, 24576 * 1536.0, 0);
    assert_near(operator_of(&s, "q_a_proj+kv_a_proj")->work.weights, 2112 * 7168.0, 0);
    const kerf_operator *latent = operator_of(&s, "attention on latents");
    assert_near(latent->work.flops * latent->count, 16990208.0 * 4096, 0);
    /* All 37 G weights are there once. */
    double weights = 0;
    for (size_t i = 0; i < s.ops; i++) weights += s.op[i].count * s.op[i].work.weights;
    kerf_model m = open_model("deepseek-v3");
    assert_near(weights, kerf_model_active(&m), 2e6); /* but for norms */
}

static void windows_bound_the_context(void **state)
{
    (void)state;
    kerf_formats bf16 = {0};
    kerf_step s = step_of("gpt-oss-20b", "h200", bf16, (kerf_phase){1, 8192, 0});
    const kerf_operator *all = operator_of(&s, "attention");
    const kerf_operator *some = operator_of(&s, "attention in window");
    assert_near(all->count, 12, 0);
    assert_near(some->count, 12, 0);
    assert_near(all->work.flops / some->work.flops, 64, 0);
    assert_near(all->work.flops * 12, 196608.0 * 8192, 0);
    kerf_model m = open_model("gemma-3-1b");
    assert_int_equal(m.window_layers, 22); /* every sixth of 26 sees all */
    assert_int_equal(open_model("mistral-7b-v0.1").window_layers, 32);
    assert_int_equal(open_model("qwen2.5-7b").window_layers, 0);
}

/* --- several GPUs -------------------------------------------------------------------------- */

static void gpus_share_a_model(void **state)
{
    (void)state;
    const kerf_formats fp8 = {.linear = format("fp8-e4m3-row")};
    const kerf_hardware *h100 = kerf_hardware_find("h100");
    const kerf_model whole = open_model("llama-3.1-70b"), experts = open_model("qwen3-30b-a3b");
    kerf_model one;
    kerf_error err = {0};
    kerf_prediction p;
    assert_int_equal(kerf_model_shard(&whole, 4, 0, &one, &err), KERF_OK);
    /* Norms stand on each, all else on one. */
    double norms = (2 * 80 + 1) * 8192.0;
    assert_near(4 * kerf_model_parameters(&one), kerf_model_parameters(&whole) + 3 * norms, 0);
    assert_near(4 * kerf_model_kv_elements(&one), kerf_model_kv_elements(&whole), 0);
    assert_int_equal(kerf_model_shard(&whole, 16, 0, &one, &err), KERF_OK);
    assert_near(8 * kerf_model_kv_elements(&one), kerf_model_kv_elements(&whole), 0);
    for (size_t i = 0; i < one.parts; i++) /* of eight heads for keys each has a whole one */
        if (strcmp(one.part[i].name, "k_proj") == 0 || strcmp(one.part[i].name, "v_proj") == 0)
            assert_int_equal(one.part[i].n, 128);
    assert_int_equal(kerf_model_shard(&whole, 3, 0, &one, &err), KERF_E_ARG);
    assert_non_null(strstr(err.text, "cannot be divided by 3 GPUs"));
    assert_int_equal(kerf_model_shard(&whole, 4, 1, &one, &err), KERF_E_ARG);
    /* A step of two GPUs is faster than that of one, and exchanges twice a layer. */
    kerf_step alone, both;
    const kerf_phase phase = {.batch = 1, .context = 4096};
    assert_int_equal(kerf_model_shard(&whole, 2, 0, &one, &err), KERF_OK);
    assert_int_equal(kerf_model_plan(&whole, h100, &fp8, &phase, &alone, &err), KERF_OK);
    assert_int_equal(kerf_model_plan(&one, h100, &fp8, &phase, &both, &err), KERF_OK);
    assert_true(both.time.us < alone.time.us && both.time.us > alone.time.us / 2);
    assert_near(operator_of(&both, "all-reduce")->count, 160, 0);
    /* Whole experts: as many bytes, tokens travel. */
    assert_int_equal(kerf_model_shard(&experts, 4, 1, &one, &err), KERF_OK);
    assert_int_equal(kerf_model_plan(&one, h100, &fp8, &phase, &both, &err), KERF_OK);
    assert_near(operator_of(&both, "tokens to experts and back")->count, 48, 0);
    /* Of 4 tokens, each GPU sends one to 8 experts, 2048 numbers each time: 3 of 4 to others. */
    const kerf_phase four = {.batch = 4, .context = 4096};
    assert_int_equal(kerf_model_plan(&one, h100, &fp8, &four, &both, &err), KERF_OK);
    kerf_predict_all_reduce(h100, 4, 8 * 2048 * 2, &p);
    assert_near(operator_of(&both, "tokens to experts and back")->time.low_us, p.low_us, 1e-9);
    assert_near(p.low_us, 4 + 2 * 0.75 * 8 * 2048 * 2 / (0.9 * 450e3), 1e-9);
    assert_near(operator_of(&both, "all-reduce")->count, 48, 0);
    /* 1.5 MB of a sum of 1 MB among four, 450 GB/s each way: 3.3 us, and the launch. */
    kerf_predict_all_reduce(h100, 4, 1e6, &p);
    assert_int_equal(p.tier, KERF_TIER_SPEC);
    assert_near(p.low_us, 4 + 1.5e6 / (0.9 * 450e3), 1e-9);
    kerf_predict_all_reduce(h100, 1, 1e6, &p);
    assert_near(p.high_us, 0, 0);
}

static void all_reduce_by_a_fit(void **state)
{
    (void)state;
    kerf_hardware mine = *kerf_hardware_find("h100");
    const kerf_fit fit = {
        .format = KERF_FIT_ALL_REDUCE, .fixed_us = 8, .bandwidth_gbps = 100, .error_p90 = 0.1};
    kerf_prediction p;
    mine.fit = &fit;
    mine.fits = 1;
    kerf_predict_all_reduce(&mine, 2, 1e6, &p);
    assert_int_equal(p.tier, KERF_TIER_FITTED);
    assert_near(p.us, 18, 1e-9);
    assert_near(p.high_us, 19.8, 1e-9);
}

/* --- wrong --------------------------------------------------------------------------------- */

static void wrong_files(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        kerf_status status;
        const char *says;
    } cases[] = {
        {"", KERF_E_DATA, "is empty"},
        {"{\"error\":\"not found\"}", KERF_E_DATA, "an error of a server"},
        {"[]", KERF_E_DATA, "not a JSON object"},
        {"{}", KERF_E_DATA, "no model_type"},
        {"{\"model_type\": \"unheard_of\"}", KERF_E_DATA, "no hidden_size"},
        {"{\"model_type\": \"llama\"}", KERF_E_DATA, "no hidden_size"},
        {"{\"model_type\": \"llama\", \"hidden_size\": -4}", KERF_E_DATA, "hidden_size must be"},
        {"{\"model_type\": \"llama\", \"hidden_size\": 1e3}", KERF_E_DATA, "hidden_size must be"},
        {"{\"model_type\": \"llama\", \"hidden_size\": 99999999999}", KERF_E_DATA, "hidden_size"},
        {"{\"model_type\": \"mixtral\", \"hidden_size\": 64, \"num_hidden_layers\": 1, "
         "\"vocab_size\": 64, \"num_attention_heads\": 1, \"num_local_experts\": 2, "
         "\"num_experts_per_tok\": 3, \"intermediate_size\": 64}",
         KERF_E_DATA, "larger than num_local_experts"},
        {"{\"model_type\": \"qwen3_moe\", \"hidden_size\": 64, \"num_hidden_layers\": 4, "
         "\"vocab_size\": 64, \"num_attention_heads\": 1, \"decoder_sparse_step\": 2, "
         "\"mlp_only_layers\": [0]}",
         KERF_E_NOSUP, "not known"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[] = "/tmp/kerf-model.XXXXXX";
        kerf_model m;
        kerf_error err = {0};
        int fd = mkstemp(path);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, cases[i].text, strlen(cases[i].text)),
                         (ssize_t)strlen(cases[i].text));
        close(fd);
        kerf_status s = kerf_model_open(path, &m, &err);
        unlink(path);
        if (s != cases[i].status || !strstr(err.text, cases[i].says)) {
            fail_msg("case %zu: status %d, '%s' without '%s'", i, (int)s, err.text, cases[i].says);
        }
    }
    kerf_model m;
    assert_int_equal(kerf_model_open("/nonexistent", &m, NULL), KERF_E_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_as_published),
        cmocka_unit_test(what_a_token_costs),
        cmocka_unit_test(context_at_which_the_cache_weighs_as_much),
        cmocka_unit_test(cache_in_kib),
        cmocka_unit_test(bytes_of_a_step),
        cmocka_unit_test(experts_that_are_read),
        cmocka_unit_test(what_runs_between_products),
        cmocka_unit_test(a_decoding_step),
        cmocka_unit_test(a_prefill),
        cmocka_unit_test(a_layer_of_deepseek),
        cmocka_unit_test(windows_bound_the_context),
        cmocka_unit_test(gpus_share_a_model),
        cmocka_unit_test(all_reduce_by_a_fit),
        cmocka_unit_test(wrong_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
