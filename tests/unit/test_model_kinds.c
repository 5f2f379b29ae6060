/* test_model_kinds.c - models whose layers are of several kinds, or whose config.json has other
 * names: how many weights kerf reads from the sizes, within what a page about the model rounds
 * away. */
#include "test_output.h"

#include <kerf/model.h>

static kerf_model model_of(void **state, const char *json)
{
    const char *path = in_folder(state, "config.json");
    kerf_model m;
    kerf_error err;
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(json, f) >= 0);
    assert_int_equal(fclose(f), 0);
    must(kerf_model_open(path, &m, &err), &err);
    return m;
}

#define HYBRID                                                                                   \
    "\"num_attention_heads\":8,\"num_key_value_heads\":2,\"head_dim\":64,\"intermediate_size\":" \
    "2048"

static void weights_as_published(void **state)
{
    static const struct {
        const char *json;
        double weights, active; /* in millions; active 0: all */
    } all[] = {
        /* Hunyuan-A13B: lists with a value for each layer */
        {"{\"model_type\":\"hunyuan_v1_moe\",\"hidden_size\":4096,\"intermediate_size\":3072,"
         "\"num_hidden_layers\":4,\"num_attention_heads\":32,\"num_key_value_heads\":8,"
         "\"num_experts\":64,\"moe_topk\":[8,8,8,8],\"num_shared_expert\":[1,1,1,1],"
         "\"moe_intermediate_size\":[3072,3072,3072,3072],\"vocab_size\":128167}",
         11032, 2053},
        /* Ernie 4.5 A47B: the first layers are dense */
        {"{\"model_type\":\"ernie4_5_moe\",\"hidden_size\":8192,\"intermediate_size\":28672,"
         "\"moe_intermediate_size\":3584,\"num_hidden_layers\":54,\"num_attention_heads\":64,"
         "\"num_key_value_heads\":8,\"moe_num_experts\":64,\"moe_k\":8,\"moe_layer_start_index\":3,"
         "\"vocab_size\":103424}",
         299500, 47100},
        /* LFM2 1.2B: two thirds of the width that stands there */
        {"{\"model_type\":\"lfm2\",\"hidden_size\":2048,\"intermediate_size\":12288,"
         "\"block_auto_adjust_ff_dim\":true,\"block_multiple_of\":256,"
         "\"block_ffn_dim_multiplier\":1.0,\"num_hidden_layers\":16,\"num_attention_heads\":32,"
         "\"num_key_value_heads\":8,\"conv_L_cache\":3,\"layer_types\":[\"conv\",\"conv\",\"full_"
         "attention\"],"
         "\"vocab_size\":65536,\"tie_word_embeddings\":true}",
         1200, 0},
        /* Falcon-H1 0.5B: Mamba beside the attention of every layer */
        {"{\"model_type\":\"falcon_h1\",\"hidden_size\":1024,\"num_hidden_layers\":36," HYBRID
         ",\"mamba_d_ssm\":1536,\"mamba_n_heads\":24,\"mamba_d_head\":64,\"vocab_size\":32784}",
         521, 0},
        /* Mamba-2 2.7B: nothing but states */
        {"{\"model_type\":\"mamba2\",\"hidden_size\":2560,\"num_hidden_layers\":64,"
         "\"num_heads\":80,\"head_dim\":64,\"state_size\":128,\"vocab_size\":50288,"
         "\"tie_word_embeddings\":true}",
         2702, 0},
        /* Zamba2 2.7B: attention and an MLP in nine layers of 54 */
        {"{\"model_type\":\"zamba2\",\"hidden_size\":2560,\"intermediate_size\":10240,"
         "\"num_hidden_layers\":54,\"num_attention_heads\":32,\"num_key_value_heads\":32,"
         "\"attention_head_dim\":80,\"hybrid_layer_ids\":[6,12,18,24,30,36,42,47,51],"
         "\"vocab_size\":32000}",
         3200, 0},
        /* Apertus 8B: no gate */
        {"{\"model_type\":\"apertus\",\"hidden_size\":4096,\"intermediate_size\":21504,"
         "\"num_hidden_layers\":32,\"num_attention_heads\":32,\"num_key_value_heads\":8,"
         "\"vocab_size\":131072}",
         8053, 0},
        {"{\"model_type\":\"bert\",\"hidden_size\":768,\"intermediate_size\":3072,"
         "\"num_hidden_layers\":12,\"num_attention_heads\":12,\"vocab_size\":30522}",
         109, 0},
        /* Falcon 7B: one head of keys for all, whatever num_kv_heads says */
        {"{\"model_type\":\"falcon\",\"hidden_size\":4544,\"multi_query\":true,"
         "\"new_decoder_architecture\":false,\"num_attention_heads\":71,\"num_kv_heads\":71,"
         "\"num_hidden_layers\":32,\"vocab_size\":65024}",
         6922, 0},
        /* DBRX: parts in objects of their own */
        {"{\"model_type\":\"dbrx\",\"d_model\":6144,\"n_heads\":48,\"n_layers\":40,"
         "\"attn_config\":{\"kv_n_heads\":8},\"ffn_config\":{\"ffn_hidden_size\":10752,"
         "\"moe_num_experts\":16,\"moe_top_k\":4},\"vocab_size\":100352}",
         131600, 36000},
        /* Qwen2.5-VL 3B: that the head is the embedding stands outside */
        {"{\"model_type\":\"qwen2_5_vl\",\"tie_word_embeddings\":true,\"text_config\":{"
         "\"model_type\":\"qwen2_5_vl_text\",\"hidden_size\":2048,\"intermediate_size\":11008,"
         "\"num_hidden_layers\":36,\"num_attention_heads\":16,\"num_key_value_heads\":2,"
         "\"vocab_size\":151936}}",
         3086, 0},
        /* a shared expert that is half as wide as the others */
        {"{\"model_type\":\"qwen2_moe\",\"hidden_size\":2048,\"moe_intermediate_size\":1024,"
         "\"num_experts\":8,\"num_experts_per_tok\":1,\"shared_expert_intermediate_size\":512,"
         "\"num_hidden_layers\":40,\"num_attention_heads\":8,\"num_key_value_heads\":1,"
         "\"vocab_size\":1000,\"tie_word_embeddings\":false}",
         2520, 760},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const kerf_model m = model_of(state, all[i].json);
        const double weights = kerf_model_parameters(&m) / 1e6,
                     active = kerf_model_active(&m) / 1e6;
        if (weights < 0.94 * all[i].weights || weights > 1.06 * all[i].weights)
            fail_msg("%s: %.0f million weights, not %.0f", m.type, weights, all[i].weights);
        if (all[i].active > 0 && (active < 0.94 * all[i].active || active > 1.06 * all[i].active))
            fail_msg("%s: %.0f million of a token, not %.0f", m.type, active, all[i].active);
    }
}

/* What a search left: layers without one part or the other, of several widths, or with one matrix
 * in place of a part. Two thirds of 1.5 times 512 are 512, of 2.6 times 512 they are 887, so 1024.
 */
static void searched_layers(void **state)
{
    static const char *const json =
        "{\"model_type\":\"nemotron-nas\",\"hidden_size\":512,\"intermediate_size\":null,"
        "\"num_hidden_layers\":4,\"num_attention_heads\":8,\"num_key_value_heads\":null,"
        "\"vocab_size\":1000,\"tie_word_embeddings\":false,\"block_configs\":["
        "{\"attention\":{\"n_heads_in_group\":4,\"no_op\":false},\"ffn\":{\"ffn_mult\":1.5}},"
        "{\"attention\":{\"n_heads_in_group\":null,\"no_op\":true},\"ffn\":{\"ffn_mult\":2.6}},"
        "{\"attention\":{\"n_heads_in_group\":null,\"replace_with_linear\":true},"
        "\"ffn\":{\"ffn_mult\":null,\"no_op\":true}},"
        "{\"attention\":{\"n_heads_in_group\":4},\"ffn\":{\"intermediate_size\":768}}]}";
    const kerf_model m = model_of(state, json);
    const double matrices = 2 * (512 * 512 * 2 + 512 * 128 * 2) + 512 * 512 +
                            3 * 512 * (512 + 1024 + 768) + 2 * 512 * 1000;
    assert_int_equal(m.attention_layers, 2);
    assert_int_equal(m.kv_heads, 2);
    assert_true(m.estimated);
    const double found = kerf_model_parameters(&m);
    if (found < matrices || found > matrices + 9 * 512)
        fail_msg("%.0f weights, not %.0f and some norms", found, matrices);
}

/* States take no room for each token. */
static void what_is_cached(void **state)
{
    const kerf_model alone = model_of(state, "{\"model_type\":\"mamba\",\"hidden_size\":2560,"
                                             "\"num_hidden_layers\":64,\"state_size\":16,"
                                             "\"vocab_size\":50280}");
    assert_int_equal(alone.attention_layers, 0);
    const kerf_model both =
        model_of(state, "{\"model_type\":\"falcon_h1\",\"hidden_size\":1024,"
                        "\"num_hidden_layers\":36," HYBRID ",\"mamba_d_ssm\":1536,"
                        "\"vocab_size\":32784}");
    assert_int_equal(both.attention_layers, 36);
    const kerf_model falcon =
        model_of(state, "{\"model_type\":\"falcon\",\"hidden_size\":4544,\"multi_query\":true,"
                        "\"num_attention_heads\":71,\"num_kv_heads\":71,\"num_hidden_layers\":32,"
                        "\"vocab_size\":65024}");
    assert_int_equal(falcon.kv_heads, 1);
    const kerf_model large =
        model_of(state, "{\"model_type\":\"falcon\",\"hidden_size\":8192,\"multi_query\":true,"
                        "\"new_decoder_architecture\":true,\"num_attention_heads\":128,"
                        "\"num_kv_heads\":8,\"num_hidden_layers\":60,\"vocab_size\":65024}");
    assert_int_equal(large.kv_heads, 8);
}

/* How many numbers the cache of a sequence of 32768 tokens has, counted layer by layer: each idiom
 * that says which layers have a window, and which keep no keys and values themselves. */
#define PLAIN                                                                      \
    "\"hidden_size\":4096,\"intermediate_size\":14336,\"num_attention_heads\":32," \
    "\"num_key_value_heads\":8,\"head_dim\":128,\"vocab_size\":32000,\"num_hidden_layers\":"

static void caches_of_layers(void **state)
{
    static const struct {
        const char *json;
        double whole, windowed, window, width; /* layers; width 0: keys and values, 8 * 256 */
    } all[] = {
        /* Command R7B's own name of the period */
        {"{\"model_type\":\"cohere2\"," PLAIN "32,\"sliding_window\":4096,\"layer_switch\":4}", 8,
         24, 4096, 0},
        {"{\"model_type\":\"olmo3\"," PLAIN "32,\"sliding_window\":4096}", 8, 24, 4096, 0},
        {"{\"model_type\":\"afmoe\"," PLAIN "32,\"sliding_window\":2048,"
         "\"global_attn_every_n_layers\":4,\"num_experts\":8}",
         8, 24, 2048, 0},
        /* letters that do not end with the model */
        {"{\"model_type\":\"exaone4\"," PLAIN "30,\"sliding_window\":4096,"
         "\"sliding_window_pattern\":\"LLLG\"}",
         7, 23, 4096, 0},
        {"{\"model_type\":\"gpt_neo\"," PLAIN "24,\"window_size\":256,"
         "\"attention_types\":[[[\"global\",\"local\"],12]]}",
         12, 12, 256, 0},
        /* the last ten of thirty layers read what others cached, two of them without a window */
        {"{\"model_type\":\"gemma3n\",\"text_config\":{\"model_type\":\"gemma3n_text\"," PLAIN
         "30,\"sliding_window\":512,\"num_kv_shared_layers\":10,\"layer_types\":["
         "\"sliding_attention\",\"sliding_attention\",\"sliding_attention\","
         "\"sliding_attention\",\"full_attention\"]}}",
         4, 16, 512, 0},
        {"{\"model_type\":\"hunyuan_v1_dense\"," PLAIN "31,\"use_cla\":true,"
         "\"cla_share_factor\":2}",
         16, 0, 0, 0},
        /* every fifth layer looks at the image */
        {"{\"model_type\":\"mllama_text_model\"," PLAIN "40,"
         "\"cross_attention_layers\":[3,8,13,18,23,28,33,38]}",
         32, 0, 0, 0},
        /* a period of three in 26 layers: eight attend, all within the window */
        {"{\"model_type\":\"recurrent_gemma\"," PLAIN "26,\"attention_window_size\":2048,"
         "\"block_types\":[\"recurrent\",\"recurrent\",\"attention\"]}",
         0, 8, 2048, 0},
        /* the middle one of each four, and one of eight from the fifth on */
        {"{\"model_type\":\"plamo2\"," PLAIN "31,\"mamba_step\":4}", 8, 0, 0, 0},
        {"{\"model_type\":\"jamba\"," PLAIN "30,\"attn_layer_period\":8,\"attn_layer_offset\":4}",
         4, 0, 0, 0},
        /* values that are narrower than keys */
        {"{\"model_type\":\"mimo_v2_flash\"," PLAIN "16,\"v_head_dim\":64,\"sliding_window\":128,"
         "\"hybrid_layer_pattern\":[0,1,1,1]}",
         4, 12, 128, 8 * 192},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const kerf_model m = model_of(state, all[i].json);
        const double width = all[i].width > 0 ? all[i].width : 8 * 256;
        const double want = 2 * width * (all[i].whole * 32768 + all[i].windowed * all[i].window);
        double bytes = 0;
        kerf_error err;
        must(kerf_model_cache_bytes(&m, NULL, 32768, &bytes, &err), &err);
        if (bytes != want) fail_msg("%s: %.0f bytes, not %.0f", m.type, bytes, want);
        assert_true(kerf_model_kv_elements(&m) == width * (all[i].whole + all[i].windowed));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_as_published),
        cmocka_unit_test(searched_layers),
        cmocka_unit_test(what_is_cached),
        cmocka_unit_test(caches_of_layers),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
