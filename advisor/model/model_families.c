/* model_families.c - the table of families, and the names that keys of config.json have in some.
 * What a single tensor is: codecs/roles. */
#include "model/model_families.h"

#include <stddef.h>
#include <string.h>

#define SOME_EXPERTS \
    "num_experts|num_local_experts|n_routed_experts|moe_num_experts|num_routed_experts"
#define SOME_WIDTH                                                                               \
    "moe_intermediate_size|expert_hidden_size|moe_ffn_hidden_size|intermediate_size|ffn_hidden_" \
    "size"

/* clang-format off */
static const kf_model_family families[] = {
    {"llama smollm3 granite seed_oss internlm2 baichuan yi helium mllama_text_model",
                     0, 0, 2, 0, NULL,                NULL,                    0, 0, 0, 0, 0},
    {"apertus",      0, 1, 2, 0, NULL,                NULL,                    0, 0, 0, 1, 0},
    {"arcee",        0, 0, 2, 0, NULL,                NULL,                    0, 0, 0, 1, 0},
    {"mistral ministral ministral3 mistral3 phi3",
                     0, 0, 2, 0, NULL,                NULL,                    0, 1, 0, 0, 0},
    {"mixtral phimoe",
                     0, 0, 2, 0, "num_local_experts", "intermediate_size",     0, 1, 0, 0, 0},
    {"qwen2 qwen2_vl qwen2_vl_text qwen2_5_vl qwen2_5_vl_text qwen2_5_omni_text",
                     1, 0, 2, 0, NULL,                NULL,                    0, 0, 0, 0, 0},
    {"qwen3 qwen3_vl qwen3_vl_text",
                     0, 1, 2, 0, NULL,                NULL,                    0, 0, 0, 0, 0},
    {"qwen3_moe qwen3_vl_moe qwen3_vl_moe_text qwen3_omni_moe_text",
                     0, 1, 2, 0, "num_experts",       "moe_intermediate_size", 0, 0, 0, 0, 0},
    {"qwen3_next qwen3_5_moe qwen3_5_moe_text",
                     0, 1, 2, 0, "num_experts",       "moe_intermediate_size", 0, 0, 0, 0, 1},
    {"deepseek_v3 kimi_k2 deepseek_v2",
                     0, 0, 2, 0, "n_routed_experts",  "moe_intermediate_size", 0, 0, 1, 0, 0},
    {"glm4_moe dots1",
                     0, 1, 2, 0, "n_routed_experts",  "moe_intermediate_size", 0, 0, 0, 0, 0},
    {"llama4 llama4_text",
                     0, 0, 2, 0, "num_local_experts", "intermediate_size",     0, 0, 0, 0, 1},
    {"gpt_oss",      1, 0, 2, 0, "num_local_experts", "intermediate_size",     1, 2, 0, 0, 0},
    {"gemma",        0, 0, 2, 1, NULL,                NULL,                    0, 0, 0, 0, 0},
    {"gemma2",       0, 0, 4, 1, NULL,                NULL,                    0, 2, 0, 0, 0},
    {"gemma3_text gemma3",
                     0, 1, 4, 1, NULL,                NULL,                    0, 6, 0, 0, 0},
    {"falcon gpt2 gpt_neo gpt_neox gptj codegen bloom opt mpt gpt_bigcode starcoder2 phi nemotron "
     "persimmon xglm biogpt openai-gpt bert roberta xlm-roberta electra camembert",
                     0, 0, 2, 1, NULL,                NULL,                    0, 1, 0, 1, 1},
    {"chatglm glm glm4",
                     1, 0, 2, 0, NULL,                NULL,                    0, 0, 0, 0, 0},
    {"cohere2 exaone4 olmo3 afmoe",
                     0, 0, 2, 0, SOME_EXPERTS,        SOME_WIDTH,              0, 4, 0, 0, 1},
    {"gemma3n gemma3n_text",
                     0, 0, 2, 0, SOME_EXPERTS,        SOME_WIDTH,              0, 5, 0, 0, 1},
    {"nemotron_h",   0, 0, 1, 0, SOME_EXPERTS,        SOME_WIDTH,              0, 0, 0, 1, 1},
};
static const kf_model_family any_family =
    {"",             0, 0, 2, 0, SOME_EXPERTS,        SOME_WIDTH,              0, 0, 0, 0, 1};
/* clang-format on */

/* Other names of the keys that are asked for. */
static const struct {
    const char *key, *others;
} synonyms[] = {
    {"hidden_size", "n_embd|d_model|dim"},
    {"num_hidden_layers", "n_layer|num_layers|n_layers"},
    {"num_attention_heads", "n_head|n_heads|num_heads"},
    {"num_key_value_heads",
     "multi_query_group_num|num_kv_heads|n_head_kv|kv_n_heads|num_key_value_heads_per_layer"},
    {"intermediate_size", "ffn_hidden_size|n_inner|d_ff|ffn_dim"},
    {"vocab_size", "padded_vocab_size|n_vocab"},
    {"head_dim", "kv_channels|attention_head_dim|d_kv"},
    {"num_experts_per_tok", "moe_top_k|moe_topk|num_experts_per_token|moe_k|top_k"},
    {"n_shared_experts", "num_shared_experts|num_shared_expert|moe_num_shared_experts"},
    {"shared_expert_intermediate_size",
     "shared_intermediate_size|share_expert_dim|moe_shared_expert_intermediate_size"},
    {"first_k_dense_replace", "moe_layer_start_index"},
    {"mamba_num_heads", "mamba_n_heads"},
    {"mamba_head_dim", "mamba_d_head"},
};

const kf_model_family *kf_model_family_find(const char *type)
{
    const size_t n = strlen(type);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        for (const char *at = families[i].types; *at;) {
            const size_t m = strcspn(at, " ");
            if (m == n && memcmp(at, type, n) == 0) return &families[i];
            at += m + (at[m] == ' ');
        }
    }
    return &any_family;
}

const char *kf_model_synonyms(const char *key)
{
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
        if (strcmp(synonyms[i].key, key) == 0) return synonyms[i].others;
    return "";
}
