/* gguf_config.c - the keys of a GGUF file under the names of config.json, so that one reader takes
 * both. */
#include <stdlib.h>
#include <string.h>

#include "file/gguf/gguf.h"
#include "forward/decoder_config.h"

static const struct {
    const char *key, *name; /* behind "ARCHITECTURE." */
} names[] = {
    {"block_count", "num_hidden_layers"},
    {"embedding_length", "hidden_size"},
    {"feed_forward_length", "intermediate_size"},
    {"context_length", "max_position_embeddings"},
    {"vocab_size", "vocab_size"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_key_value_heads"},
    {"attention.key_length", "head_dim"},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
    {"rope.freq_base", "rope_theta"},
    {"rope.dimension_count", "rope_dimensions"},
    {"expert_count", "num_experts"},
    {"expert_used_count", "num_experts_per_tok"},
    {"expert_feed_forward_length", "moe_intermediate_size"},
};

/* Keys that change the result, and that nothing here looks at. */
static const char *const foreign[] = {"rope.scaling.type", "attention.sliding_window",
                                      "attention.scale", "rope.scaling.factor"};

static json_t *value_of(const kf_gguf *g, const kf_gguf_key *k)
{
    static const unsigned bytes[KF_GGUF_VALUES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    const uint64_t raw = kf_gguf_get(g->bytes + k->value, bytes[k->type]);
    if (k->type == KF_GGUF_F32) {
        const uint32_t bits = (uint32_t)raw;
        float x;
        memcpy(&x, &bits, sizeof x);
        return json_real((double)x);
    }
    if (k->type == KF_GGUF_STRING || k->type == KF_GGUF_ARRAY || k->type == KF_GGUF_F64)
        return NULL;
    return json_integer((json_int_t)raw);
}

static kerf_status take_keys(const kf_gguf *g, const char *architecture, json_t *o, kerf_error *err)
{
    const size_t n = strlen(architecture);
    for (size_t i = 0; i < g->keys; i++) {
        const char *name = g->key[i].name;
        if (strncmp(name, architecture, n) != 0 || name[n] != '.') continue;
        for (size_t k = 0; k < sizeof foreign / sizeof *foreign; k++)
            if (strcmp(name + n + 1, foreign[k]) == 0)
                return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                               "GGUF key %.80s: not computed from GGUF files; the safetensors "
                               "files of the model can be",
                               name);
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            if (strcmp(name + n + 1, names[k].key) == 0)
                json_object_set_new(o, names[k].name, value_of(g, &g->key[i]));
    }
    /* of the tokens there is a list, whose length is that of the embedding */
    for (size_t i = 0; i < g->count; i++)
        if (strcmp(g->tensor[i].name, "token_embd.weight") == 0 && g->tensor[i].shape.rank == 2 &&
            !json_object_get(o, "vocab_size"))
            json_object_set_new(o, "vocab_size",
                                json_integer((json_int_t)g->tensor[i].shape.dim[0]));
    json_object_set_new(o, "norm_topk_prob", json_true());
    return KERF_OK;
}

kerf_status kf_gguf_config(const kerf_reader *r, json_t **out, const char **architecture,
                           kerf_error *err)
{
    const char *packed = kerf_reader_metadata(r, 0, KF_GGUF_CARRIED);
    *architecture = kerf_reader_metadata(r, 0, "general.architecture");
    if (!packed || !*architecture)
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "a GGUF file without general.architecture");
    uint8_t *bytes;
    size_t n;
    kf_gguf g;
    KF_TRY(kf_gguf_unpack(packed, &bytes, &n, err));
    KF_TRY(kf_gguf_parse("GGUF header", bytes, n, &g, err));
    *out = json_object();
    kerf_status s = *out ? take_keys(&g, *architecture, *out, err)
                         : kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for keys");
    kf_gguf_free(&g);
    if (s != KERF_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return s;
}
