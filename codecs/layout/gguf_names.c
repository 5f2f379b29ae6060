/* gguf_names.c - the two tables: models, and the modules of a layer. */
#include "layout/gguf_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

static const kf_gguf_model models[] = {
    {"llama", "llama", 1, 0}, {"mistral", "llama", 1, 0},      {"qwen2", "qwen2", 0, 0},
    {"qwen3", "qwen3", 0, 0}, {"qwen3_moe", "qwen3moe", 0, 1},
};

/* Modules before and behind the layers, and of a layer behind "model.layers.N."; what follows
 * (.weight, .bias) is kept. */
static const struct {
    const char *from, *to;
    kf_gguf_kind kind;
} outside[] =
    {
        {"model.embed_tokens", "token_embd", KF_GGUF_PLAIN},
        {"model.norm", "output_norm", KF_GGUF_PLAIN},
        {"lm_head", "output", KF_GGUF_PLAIN},
},
  inside[] = {
      {"input_layernorm", "attn_norm", KF_GGUF_PLAIN},
      {"post_attention_layernorm", "ffn_norm", KF_GGUF_PLAIN},
      {"self_attn.q_proj", "attn_q", KF_GGUF_Q},
      {"self_attn.k_proj", "attn_k", KF_GGUF_K},
      {"self_attn.v_proj", "attn_v", KF_GGUF_PLAIN},
      {"self_attn.o_proj", "attn_output", KF_GGUF_PLAIN},
      {"self_attn.q_norm", "attn_q_norm", KF_GGUF_PLAIN},
      {"self_attn.k_norm", "attn_k_norm", KF_GGUF_PLAIN},
      {"self_attn.rotary_emb", "", KF_GGUF_NO_USE},
      {"mlp.gate_proj", "ffn_gate", KF_GGUF_PLAIN},
      {"mlp.up_proj", "ffn_up", KF_GGUF_PLAIN},
      {"mlp.down_proj", "ffn_down", KF_GGUF_PLAIN},
      {"mlp.gate", "ffn_gate_inp", KF_GGUF_PLAIN},
};

/* The modules of one expert, behind "mlp.experts.E.". */
static const struct {
    const char *from, *to;
} experts[] = {{"gate_proj.weight", "ffn_gate_exps.weight"},
               {"up_proj.weight", "ffn_up_exps.weight"},
               {"down_proj.weight", "ffn_down_exps.weight"}};

#define COUNT(x) (sizeof(x) / sizeof *(x))

const kf_gguf_model *kf_gguf_model_find(const json_t *config)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    for (size_t i = 0; type && i < COUNT(models); i++)
        if (strcmp(models[i].type, type) == 0) return &models[i];
    return NULL;
}

char *kf_gguf_model_list(char *out, size_t size)
{
    size_t n = 0;
    out[0] = 0;
    for (size_t i = 0; i < COUNT(models) && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%s", i ? ", " : "", models[i].type);
    return out;
}

/* The digits at *at as a number, and *at behind the dot that follows; -1: there are none. */
static long take_number(const char **at)
{
    char *end;
    if (**at < '0' || **at > '9') return -1;
    const long n = strtol(*at, &end, 10);
    if (*end != '.' || n > 99999) return -1;
    *at = end + 1;
    return n;
}

static const char *after(const char *text, const char *prefix)
{
    const size_t n = strlen(prefix);
    return strncmp(text, prefix, n) == 0 ? text + n : NULL;
}

static kf_gguf_kind name_expert(const char *at, long layer, char *out, uint64_t *expert)
{
    const long e = take_number(&at);
    for (size_t i = 0; e >= 0 && i < COUNT(experts); i++) {
        if (strcmp(at, experts[i].from) != 0) continue;
        snprintf(out, KF_GGUF_NAME_ROOM, "blk.%ld.%s", layer, experts[i].to);
        *expert = (uint64_t)e;
        return KF_GGUF_EXPERT;
    }
    return KF_GGUF_UNKNOWN;
}

kf_gguf_kind kf_gguf_name_of(const char *name, char out[KF_GGUF_NAME_ROOM], uint64_t *expert)
{
    const char *rest, *at = after(name, "model.layers.");
    for (size_t i = 0; i < COUNT(outside); i++) {
        if (!(rest = after(name, outside[i].from)) || *rest != '.') continue;
        snprintf(out, KF_GGUF_NAME_ROOM, "%s%.16s", outside[i].to, rest);
        return outside[i].kind;
    }
    const long layer = at ? take_number(&at) : -1;
    if (layer < 0) return KF_GGUF_UNKNOWN;
    if ((rest = after(at, "mlp.experts.")) != NULL) return name_expert(rest, layer, out, expert);
    for (size_t i = 0; i < COUNT(inside); i++) {
        if (!(rest = after(at, inside[i].from)) || *rest != '.') continue;
        snprintf(out, KF_GGUF_NAME_ROOM, "blk.%ld.%s%.16s", layer, inside[i].to, rest);
        return inside[i].kind;
    }
    return KF_GGUF_UNKNOWN;
}
