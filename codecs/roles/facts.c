/* facts.c - reads what config.json says of a model as a whole. Families call the same size by many
 * names, and nest the language model in an object of its own when there are towers beside it. */
#include "roles/facts.h"

#include <stdio.h>
#include <string.h>

/* Where the language model is described, from the outside in. */
const char *const kf_language_nests[] = {
    "thinker_config",    "text_config", "llm_config", "language_config",
    "text_model_config", "decoder",     NULL};

/* The innermost description of the language model: that of a Qwen-Omni is nested twice. */
static const json_t *language_of(const json_t *config)
{
    for (int i = 0; kf_language_nests[i]; i++) {
        const json_t *inner = json_object_get(config, kf_language_nests[i]);
        if (json_is_object(inner)) config = inner;
    }
    return config;
}

static uint64_t number_in(const json_t *config, const char *keys)
{
    char key[64];
    for (const char *at = keys; *at;) {
        const size_t n = strcspn(at, "|");
        snprintf(key, sizeof key, "%.*s", (int)n, at);
        const json_t *value = json_object_get(config, key);
        if (json_is_array(value)) value = json_array_get(value, 0); /* of layers, of towers */
        const json_int_t x = json_integer_value(value);
        if (x > 0 && x <= (json_int_t)UINT32_MAX) return (uint64_t)x;
        at += n + (at[n] == '|');
    }
    return 0;
}

uint64_t kf_fact_number(const json_t *config, const char *keys)
{
    const json_t *language = language_of(config);
    const uint64_t x = number_in(language, keys);
    if (x) return x;
    const uint64_t ffn = number_in(json_object_get(language, "ffn_config"), keys);
    return ffn ? ffn : number_in(config, keys);
}

static void take_name(kf_facts *f, const json_t *value)
{
    const char *name = json_string_value(value);
    if (!name) return;
    if (!f->type[0]) snprintf(f->type, sizeof f->type, "%s", name);
    if (!f->family) f->family = kf_family_find(name);
}

void kf_facts_read(const json_t *config, const char *architecture, kf_facts *f)
{
    *f = (kf_facts){.is_described = config != NULL || architecture != NULL};
    if (architecture) {
        snprintf(f->type, sizeof f->type, "%s", architecture);
        f->family = kf_family_find(architecture);
    }
    if (!config) return;
    const json_t *language = language_of(config);
    const json_t *names[] = {config, language};
    for (size_t i = 0; i < 2; i++) take_name(f, json_object_get(names[i], "model_type"));
    for (size_t i = 0; i < 2; i++)
        take_name(f, json_array_get(json_object_get(names[i], "architectures"), 0));
    take_name(f, json_object_get(config, "_class_name"));
    f->hidden =
        kf_fact_number(config, "hidden_size|n_embd|d_model|dim|model_dim|word_embed_proj_dim");
    f->vocab = kf_fact_number(config, "vocab_size|padded_vocab_size|n_vocab");
    f->experts =
        kf_fact_number(config, "num_experts|num_local_experts|n_routed_experts|moe_num_experts|"
                               "num_routed_experts|moe_num_primary_experts");
    f->inner = kf_fact_number(config, "intermediate_size|n_inner|ffn_dim|d_ff|ffn_hidden_size|"
                                      "encoder_ffn_dim|hidden_dim");
    f->expert_inner =
        kf_fact_number(config, "moe_intermediate_size|expert_hidden_size|ffn_hidden_size|"
                               "moe_ffn_hidden_size|intermediate_size");
    f->layers = kf_fact_number(config, "num_hidden_layers|n_layer|num_layers|n_layers");
    f->encodes = language != config && json_is_object(json_object_get(config, "encoder_config"));
    f->has_mtp =
        kf_fact_number(config, "num_nextn_predict_layers|mtp_num_hidden_layers|num_mtp_layers|"
                               "num_mtp_modules|n_predict") > 0;
}
