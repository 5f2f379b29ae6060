/* gguf_model.c - config.json as keys of a GGUF file. The tokenizer's are in gguf_tokenizer.c. */
#include "layout/gguf_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "file/gguf/gguf_put.h"
#include "layout/config_file.h"
#include "layout/gguf_names.h"
#include "layout/gguf_rope.h"
#include "layout/gguf_tokenizer.h"
#include "roles/facts.h"

/* Whole numbers: the key behind "<architecture>.", and where config.json has it. */
static const struct {
    const char *key, *from;
    int required;
} numbers[] = {
    {"vocab_size", "vocab_size", 1},
    {"context_length", "max_position_embeddings", 1},
    {"embedding_length", "hidden_size", 1},
    {"block_count", "num_hidden_layers", 1},
    {"feed_forward_length", "intermediate_size", 1},
    {"attention.head_count", "num_attention_heads", 1},
    {"attention.head_count_kv", "num_key_value_heads|num_attention_heads", 1},
    {"expert_count", "num_experts|num_local_experts", 0},
    {"expert_used_count", "num_experts_per_tok", 0},
    {"expert_feed_forward_length", "moe_intermediate_size", 0},
};

typedef struct keys {
    kf_text *text;
    uint32_t count;
    const char *architecture;
} keys;

static void add_number(keys *k, const char *key, uint64_t value)
{
    char name[96];
    snprintf(name, sizeof name, "%s.%s", k->architecture, key);
    kf_gguf_put_u32(k->text, name, (uint32_t)value);
    k->count++;
}

static void add_float(keys *k, const char *key, double value)
{
    char name[96];
    const float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    snprintf(name, sizeof name, "%s.%s", k->architecture, key);
    kf_gguf_put_key(k->text, name, KF_GGUF_F32);
    kf_gguf_put(k->text, bits, 4);
    k->count++;
}

static void add_string(keys *k, const char *key, const char *value)
{
    kf_gguf_put_key(k->text, key, KF_GGUF_STRING);
    kf_gguf_put_string(k->text, value);
    k->count++;
}

static double real(const json_t *config, const char *key, double other)
{
    const json_t *v = json_object_get(config, key);
    return json_is_number(v) ? json_number_value(v) : other;
}

/* What llama.cpp computes in every model of these architectures, whatever config.json says: a file
 * would be of another model. Sources: llm_build_llama, llm_build_qwen2, _qwen3 and _qwen3moe. */
static kerf_status check_graph(const json_t *config, kerf_error *err)
{
    const char *act = json_string_value(json_object_get(config, "hidden_act"));
    const json_t *rope = json_object_get(config, "rope_parameters");
    const double turned =
        real(rope, "partial_rotary_factor", real(config, "partial_rotary_factor", 1));
    const char *what = NULL;
    if (act && strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0)
        what = "an activation (hidden_act) that is not silu";
    else if (turned < 1 || turned > 1)
        what = "rotary positions in a part of each head (partial_rotary_factor)";
    else if (json_is_false(json_object_get(config, "norm_topk_prob")))
        what = "weights of experts that are not normalized (norm_topk_prob)";
    if (!what) return KERF_OK;
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                   "config.json has %s, which llama.cpp does not compute in models of this type: a "
                   "GGUF file would be of another model",
                   what);
}

static kerf_status check_config(const json_t *config, const kf_gguf_model *m, kerf_error *err)
{
    char list[128];
    if (!m) {
        const char *type = json_string_value(json_object_get(config, "model_type"));
        return kf_fail(
            err, KERF_E_NOSUP, KF_NOWHERE,
            "a GGUF file needs the keys and the names of its model, which kerf knows for "
            "model_type %s, and %s%.80s: convert it with llama.cpp's convert_hf_to_gguf.py, and "
            "run kerf on the result",
            kf_gguf_model_list(list, sizeof list),
            type ? "this is " : "there is no config.json that says which this is",
            type ? type : "");
    }
    return check_graph(config, err);
}

static kerf_status add_rope(keys *k, const json_t *config, kerf_error *err)
{
    char name[96];
    kf_rope rope;
    KF_TRY(kf_gguf_rope_read(config, &rope, err));
    add_number(k, "rope.dimension_count", 2 * rope.pairs);
    add_float(k, "rope.freq_base", rope.base);
    if (!rope.name) return KERF_OK;
    snprintf(name, sizeof name, "%s.rope.scaling.type", k->architecture);
    add_string(k, name, rope.name);
    add_float(k, "rope.scaling.factor", rope.factor);
    if (rope.kind == KF_ROPE_YARN)
        add_number(k, "rope.scaling.original_context_length", rope.original);
    return KERF_OK;
}

static kerf_status add_config(keys *k, const json_t *config, kerf_error *err)
{
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const uint64_t v = kf_fact_number(config, numbers[i].from);
        if (v == 0 && !numbers[i].required) continue;
        if (v == 0 || v > UINT32_MAX)
            return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "config.json: no %s", numbers[i].from);
        add_number(k, numbers[i].key, v);
    }
    const uint64_t heads = kf_fact_number(config, "num_attention_heads");
    uint64_t width = kf_fact_number(config, "head_dim");
    if (width == 0) width = kf_fact_number(config, "hidden_size") / heads;
    add_number(k, "attention.key_length", width);
    add_number(k, "attention.value_length", width);
    add_float(k, "attention.layer_norm_rms_epsilon", real(config, "rms_norm_eps", 1e-6));
    return add_rope(k, config, err);
}

/* llama.cpp takes an embedding with a row for each token of the list, which has vocab_size. */
static kerf_status check_rows(const kerf_reader *r, const json_t *config, kerf_error *err)
{
    const kerf_tensor *t = kerf_reader_find(r, "model.embed_tokens.weight");
    const uint64_t vocab = kf_fact_number(config, "vocab_size");
    if (!t || !kerf_dtype_is_float(t->dtype) || t->shape.rank != 2 || !vocab ||
        t->shape.dim[0] == vocab)
        return KERF_OK;
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                   "config.json: vocab_size is %" PRIu64
                   ", but model.embed_tokens.weight has %" PRIu64
                   " rows: loaders refuse one with the other",
                   vocab, t->shape.dim[0]);
}

static kerf_status make_header(const kerf_reader *r, const json_t *config, const char *name,
                               kf_text *t, kerf_error *err)
{
    const kf_gguf_model *m = kf_gguf_model_find(config);
    KF_TRY(check_config(config, m, err));
    KF_TRY(check_rows(r, config, err));
    keys k = {.text = t, .architecture = m->architecture};
    kf_text_add_bytes(t, "GGUF", 4);
    kf_gguf_put(t, 3, 4);
    kf_gguf_put(t, 0, 8);
    const size_t counted = t->n;
    kf_gguf_put(t, 0, 8); /* keys, once they are counted */
    add_string(&k, "general.architecture", m->architecture);
    add_string(&k, "general.type", "model");
    add_string(&k, "general.name", name);
    KF_TRY(add_config(&k, config, err));
    KF_TRY(kf_gguf_tokenizer_keys(r, config, t, &k.count, err));
    if (t->failed) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for the header");
    for (unsigned i = 0; i < 4; i++) t->p[counted + i] = (char)(k.count >> 8 * i);
    return KERF_OK;
}

kerf_status kf_gguf_model_header(const kerf_reader *r, const char *name, char **out,
                                 kerf_error *err)
{
    json_t *config = NULL;
    kf_text t = {0};
    *out = NULL;
    kerf_status s = kf_config_load(r, "config.json", &config, err);
    if (s == KERF_OK) s = make_header(r, config, name, &t, err);
    if (s == KERF_OK) *out = kf_alloc(kf_gguf_packed_bytes(t.n), 1);
    if (*out) kf_gguf_pack((const uint8_t *)t.p, t.n, *out);
    if (s == KERF_OK && !*out)
        s = kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for the header");
    free(t.p);
    json_decref(config);
    return s;
}
