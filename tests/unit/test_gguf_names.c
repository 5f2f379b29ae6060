/* test_gguf_names.c - what tensors of Hugging Face are called in GGUF files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "layout/gguf_names.h"

static void test_names(void **state)
{
    static const struct {
        const char *from, *to;
        kf_gguf_kind kind;
        uint64_t expert;
    } want[] = {
        {"model.embed_tokens.weight", "token_embd.weight", KF_GGUF_PLAIN, 0},
        {"model.norm.weight", "output_norm.weight", KF_GGUF_PLAIN, 0},
        {"lm_head.weight", "output.weight", KF_GGUF_PLAIN, 0},
        {"model.layers.0.self_attn.q_proj.weight", "blk.0.attn_q.weight", KF_GGUF_Q, 0},
        {"model.layers.31.self_attn.k_proj.bias", "blk.31.attn_k.bias", KF_GGUF_K, 0},
        {"model.layers.3.self_attn.q_norm.weight", "blk.3.attn_q_norm.weight", KF_GGUF_PLAIN, 0},
        {"model.layers.3.mlp.gate.weight", "blk.3.ffn_gate_inp.weight", KF_GGUF_PLAIN, 0},
        {"model.layers.3.mlp.gate_proj.weight", "blk.3.ffn_gate.weight", KF_GGUF_PLAIN, 0},
        {"model.layers.3.mlp.experts.17.down_proj.weight", "blk.3.ffn_down_exps.weight",
         KF_GGUF_EXPERT, 17},
        {"model.layers.3.self_attn.rotary_emb.inv_freq", NULL, KF_GGUF_NO_USE, 0},
        {"model.layers.3.self_attn.qkv_proj.weight", NULL, KF_GGUF_UNKNOWN, 0},
        {"model.layers.x.mlp.up_proj.weight", NULL, KF_GGUF_UNKNOWN, 0},
        {"model.layers.3.mlp.experts.a.up_proj.weight", NULL, KF_GGUF_UNKNOWN, 0},
        {"transformer.h.0.attn.c_attn.weight", NULL, KF_GGUF_UNKNOWN, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        char name[KF_GGUF_NAME_ROOM];
        uint64_t expert = 0;
        assert_int_equal(kf_gguf_name_of(want[i].from, name, &expert), want[i].kind);
        if (want[i].to) assert_string_equal(name, want[i].to);
        assert_int_equal(expert, want[i].expert);
    }
}

static void test_models(void **state)
{
    char list[128];
    (void)state;
    json_t *config = json_pack("{s:s}", "model_type", "qwen3_moe");
    assert_string_equal(kf_gguf_model_find(config)->architecture, "qwen3moe");
    assert_int_equal(kf_gguf_model_find(config)->interleaves, 0);
    json_object_set_new(config, "model_type", json_string("llama"));
    assert_int_equal(kf_gguf_model_find(config)->interleaves, 1);
    json_object_set_new(config, "model_type", json_string("gpt2"));
    assert_null(kf_gguf_model_find(config));
    assert_null(kf_gguf_model_find(NULL));
    json_decref(config);
    assert_string_equal(kf_gguf_model_list(list, sizeof list),
                        "llama, mistral, qwen2, qwen3, qwen3_moe");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
