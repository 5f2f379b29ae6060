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
         "\"num_key_value_heads\":8,\"layer_types\":[\"conv\",\"conv\",\"full_attention\"],"
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
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_as_published),
        cmocka_unit_test(what_is_cached),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
