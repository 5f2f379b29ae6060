/* decoder_config.c - reads config.json. A model whose configuration asks for something that is not
 * computed here is refused, with the name of the key: computed without it, every figure of that
 * model would be wrong. */
#include "forward/decoder_config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file/json/config_defaults.h"

#define MOST (UINT64_C(1) << 22)

kerf_status kf_config_size(const json_t *o, const char *key, uint64_t absent, uint64_t *out,
                           kerf_error *err)
{
    const json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v)) {
        *out = absent;
        if (absent) return KERF_OK;
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "config.json: no \"%s\"", key);
    }
    const json_int_t n = json_integer_value(v);
    if (n < 1 || (uint64_t)n > MOST)
        return kf_fail(err, n > 0 ? KERF_E_LIMIT : KERF_E_DATA, KF_NOWHERE,
                       "config.json: \"%s\" must be a number of 1 to %u", key, (unsigned)MOST);
    *out = (uint64_t)n;
    return KERF_OK;
}

double kf_config_real(const json_t *o, const char *key, double absent)
{
    const json_t *v = json_object_get(o, key);
    if (json_is_string(v) || json_is_boolean(v)) return (double)NAN; /* which is out of any range */
    return json_is_number(v) ? json_number_value(v) : absent;
}

/* The first of these keys that has a whole number above 0; else 0. */
static uint64_t any_size(const json_t *o, const char *const *keys)
{
    for (; *keys; keys++) {
        const json_int_t n = json_integer_value(json_object_get(o, *keys));
        if (n > 0 && (uint64_t)n <= MOST) return (uint64_t)n;
    }
    return 0;
}

static int is_true(const json_t *o, const char *key)
{
    return json_is_true(json_object_get(o, key));
}

static kerf_status read_activation(const json_t *o, kf_config *c, kerf_error *err)
{
    static const struct {
        const char *name;
        kf_activation is;
    } known[] = {{"silu", KF_ACT_SILU},
                 {"swish", KF_ACT_SILU},
                 {"gelu_pytorch_tanh", KF_ACT_GELU_TANH},
                 {"gelu_new", KF_ACT_GELU_TANH},
                 {"gelu", KF_ACT_GELU}};
    const char *name = json_string_value(json_object_get(o, "hidden_activation"));
    if (!name) name = json_string_value(json_object_get(o, "hidden_act"));
    if (!name) name = c->family->has & KF_HAS_UNIT_NORMS ? "gelu_pytorch_tanh" : "silu";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) {
            c->activation = known[i].is;
            return KERF_OK;
        }
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                   "config.json: activation \"%.40s\" is not computed: silu and gelu are", name);
}

static kerf_status read_latent(const json_t *o, kf_config *c, kerf_error *err)
{
    KF_TRY(kf_config_size(o, "kv_lora_rank", 0, &c->kv_rank, err));
    KF_TRY(kf_config_size(o, "qk_nope_head_dim", 0, &c->nope_dim, err));
    KF_TRY(kf_config_size(o, "qk_rope_head_dim", 0, &c->rope_dim, err));
    KF_TRY(kf_config_size(o, "v_head_dim", 0, &c->value_dim, err));
    const json_t *rank = json_object_get(o, "q_lora_rank");
    if (rank && !json_is_null(rank)) KF_TRY(kf_config_size(o, "q_lora_rank", 0, &c->q_rank, err));
    c->head_dim = c->nope_dim + c->rope_dim;
    c->kv_heads = c->heads;
    return KERF_OK;
}

static kerf_status read_sizes(const json_t *o, kf_config *c, kerf_error *err)
{
    KF_TRY(kf_config_size(o, "hidden_size", 0, &c->hidden, err));
    KF_TRY(kf_config_size(o, "vocab_size", 0, &c->vocab, err));
    KF_TRY(kf_config_size(o, "num_hidden_layers", 0, &c->layers, err));
    KF_TRY(kf_config_size(o, "num_attention_heads", 0, &c->heads, err));
    KF_TRY(kf_config_size(o, "num_key_value_heads", c->heads, &c->kv_heads, err));
    KF_TRY(kf_config_size(o, "intermediate_size", MOST, &c->inner, err));
    c->context = any_size(o, (const char *const[]){"max_position_embeddings", NULL});
    const uint64_t part = c->hidden / c->heads;
    if (c->family->has & KF_HAS_LATENT)
        KF_TRY(read_latent(o, c, err));
    else {
        KF_TRY(kf_config_size(o, "head_dim", part, &c->head_dim, err));
        c->value_dim = c->head_dim;
        c->rope_dim = c->head_dim;
    }
    const json_t *turned = json_object_get(o, "rope_dimensions"); /* of a GGUF file */
    if (c->is_gguf && turned && json_integer_value(turned) != (json_int_t)c->head_dim)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "GGUF key rope.dimension_count: heads that are rotated in part are not "
                       "computed from GGUF files; the safetensors files of the model can be");
    if (c->heads % c->kv_heads != 0 || c->head_dim == 0)
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "config.json: %llu attention heads of %llu over %llu key heads",
                       (unsigned long long)c->heads, (unsigned long long)c->head_dim,
                       (unsigned long long)c->kv_heads);
    return KERF_OK;
}

/* --- experts ------------------------------------------------------------------------------- */

static kerf_status read_experts(const json_t *o, kf_config *c, kerf_error *err)
{
    static const char *const counts[] = {"num_experts", "num_local_experts", "n_routed_experts",
                                         NULL};
    c->experts = any_size(o, counts);
    if (c->experts == 0) return KERF_OK;
    KF_TRY(kf_config_size(o, "num_experts_per_tok", 0, &c->used, err));
    KF_TRY(kf_config_size(o, "moe_intermediate_size", c->inner, &c->expert_inner, err));
    const uint64_t shared = any_size(o, (const char *const[]){"n_shared_experts", NULL});
    c->shared_inner = shared * c->expert_inner;
    c->groups = c->groups_used = 1;
    const char *method = json_string_value(json_object_get(o, "topk_method"));
    if (!(c->family->has & KF_HAS_GROUPED_MAX) || (method && strcmp(method, "greedy") != 0)) {
        KF_TRY(kf_config_size(o, "n_group", 1, &c->groups, err));
        KF_TRY(kf_config_size(o, "topk_group", c->groups, &c->groups_used, err));
    }
    c->route_scale = kf_config_real(o, "routed_scaling_factor", 1.0);
    c->normalize = is_true(o, "norm_topk_prob") || c->family->router == KF_ROUTER_SHARES;
    if (c->family->router == KF_ROUTER_WHOLE) c->normalize = 0;
    const uint64_t each = c->experts / c->groups;
    if (c->experts % c->groups || c->groups_used > c->groups || c->used > each * c->groups_used ||
        (c->groups > 1 && each < 2))
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "config.json: %llu of %llu experts in %llu of %llu groups",
                       (unsigned long long)c->used, (unsigned long long)c->experts,
                       (unsigned long long)c->groups_used, (unsigned long long)c->groups);
    return KERF_OK;
}

/* Which layers have experts: decoder_sparse_step and mlp_only_layers of the Qwens,
 * first_k_dense_replace of DeepSeek. */
static int is_sparse(const json_t *o, const kf_config *c, uint64_t i)
{
    if (c->experts == 0) return 0;
    const json_t *dense = json_object_get(o, "mlp_only_layers");
    for (size_t k = 0; k < json_array_size(dense); k++)
        if (json_integer_value(json_array_get(dense, k)) == (json_int_t)i) return 0;
    const json_int_t step = json_integer_value(json_object_get(o, "decoder_sparse_step"));
    if (step > 1 && (i + 1) % (uint64_t)step != 0) return 0;
    const json_int_t first = json_integer_value(json_object_get(o, "first_k_dense_replace"));
    return first <= 0 || i >= (uint64_t)first;
}

/* --- layers -------------------------------------------------------------------------------- */

static int is_windowed(const json_t *o, const kf_config *c, uint64_t i)
{
    const kf_decoder_family *f = c->family;
    const char *type = json_string_value(json_array_get(json_object_get(o, "layer_types"), i));
    if (type) return strcmp(type, "sliding_attention") == 0;
    if (f->windowed == 0 || (f->needs_true && !is_true(o, f->needs_true))) return 0;
    const json_t *first = json_object_get(o, "max_window_layers");
    if (f->needs_true && json_is_integer(first)) return (json_int_t)i >= json_integer_value(first);
    const json_t *pattern = json_object_get(o, "sliding_window_pattern");
    const json_int_t every = json_is_integer(pattern) ? json_integer_value(pattern) : f->windowed;
    return every <= 1 || (i + 1) % (uint64_t)every != 0;
}

static int has_positions(const json_t *o, const kf_config *c, uint64_t i)
{
    const json_t *list = json_object_get(o, "no_rope_layers");
    if (i < json_array_size(list)) return json_integer_value(json_array_get(list, i)) != 0;
    if (c->family->nope_every == 0) return 1;
    const json_int_t own = json_integer_value(json_object_get(o, "no_rope_layer_interval"));
    const uint64_t every = own > 0 ? (uint64_t)own : c->family->nope_every;
    return (i + 1) % every != 0;
}

static unsigned bits_of(const json_t *o, const kf_config *c)
{
    unsigned has = c->family->has & ~(unsigned)(KF_HAS_DENSE | KF_HAS_EXPERTS);
    has |= KF_HAS_LAYER;
    if (json_is_false(json_object_get(o, "rope_interleave"))) has &= ~(unsigned)KF_HAS_PAIRS;
    if (c->is_gguf && strcmp(c->family->gguf, "llama") == 0) has |= KF_HAS_PAIRS;
    has |= c->q_rank ? KF_HAS_QUERY_RANK : KF_HAS_WHOLE_QUERY;
    if (is_true(o, "attention_bias") && has & KF_HAS_HEADS) has |= KF_HAS_QKV_BIAS | KF_HAS_O_BIAS;
    if (is_true(o, "mlp_bias")) has |= KF_HAS_MLP_BIAS;
    return has;
}

static kerf_status read_layers(const json_t *o, kf_config *c, kerf_error *err)
{
    const json_t *width = json_object_get(o, "sliding_window");
    uint64_t window = 0;
    const json_t *types = json_object_get(o, "layer_types");
    if (json_is_array(types) && json_array_size(types) != c->layers)
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "config.json: %zu \"layer_types\" of %llu",
                       json_array_size(types), (unsigned long long)c->layers);
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *type = json_string_value(json_array_get(types, i));
        if (!type || (strcmp(type, "full_attention") && strcmp(type, "sliding_attention")))
            return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                           "config.json: layer type \"%.40s\" is not computed", type ? type : "?");
    }
    if (width && !json_is_null(width)) KF_TRY(kf_config_size(o, "sliding_window", 0, &window, err));
    KF_TRY(kf_allocate(&c->kind, c->layers, sizeof *c->kind, err));
    const unsigned has = bits_of(o, c);
    int dense = 0;
    for (uint64_t i = 0; i < c->layers; i++) {
        kf_layer_kind *k = &c->kind[i];
        const int sparse = is_sparse(o, c, i);
        k->has = has | (sparse ? KF_HAS_EXPERTS : KF_HAS_DENSE);
        if (!sparse) k->has &= ~(unsigned)(KF_HAS_CORRECTION | KF_HAS_ROUTER_BIAS);
        if (sparse && c->shared_inner) k->has |= KF_HAS_SHARED;
        dense |= !sparse;
        if (window && is_windowed(o, c, i)) k->window = window;
        k->rope = has_positions(o, c, i) ? k->window && c->rope[1].dims != 0 : -1;
    }
    if (dense && c->inner == MOST) return kf_config_size(o, "intermediate_size", 0, &c->inner, err);
    return KERF_OK;
}

/* --- factors ------------------------------------------------------------------------------- */

static kerf_status read_factors(const json_t *o, kf_config *c, kerf_error *err)
{
    c->eps = kf_config_real(o, "rms_norm_eps", 1e-6);
    const double scalar = kf_config_real(o, "query_pre_attn_scalar", (double)c->head_dim);
    c->score_scale = 1.0 / sqrt(c->family->has & KF_HAS_UNIT_NORMS ? scalar : (double)c->head_dim);
    const kf_rope *r = &c->rope[0];
    if (c->family->has & KF_HAS_LATENT && r->kind != KF_ROPE_DEFAULT && r->mscale_all != 0 &&
        r->factor > 1.0) {
        const double m = 0.1 * r->mscale_all * log(r->factor) + 1.0;
        c->score_scale *= m * m;
    }
    c->score_cap = kf_config_real(o, "attn_logit_softcapping", 0.0);
    c->logit_cap = kf_config_real(o, "final_logit_softcapping", 0.0);
    c->input_scale = c->family->has & KF_HAS_SCALED_INPUT ? sqrt((double)c->hidden) : 1.0;
    c->limit = kf_config_real(o, "swiglu_limit", 7.0);
    c->alpha = kf_config_real(o, "swiglu_alpha", 1.702);
    const double all[] = {c->eps,   c->score_scale, 1.0 + c->score_cap,  1.0 + c->logit_cap,
                          c->limit, c->alpha,       1.0 + c->route_scale};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!(all[i] > 0.0) || !isfinite(all[i]))
            return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                           "config.json: a factor or \"rms_norm_eps\" is out of range");
    return read_activation(o, c, err);
}

static kerf_status refuse_family(const char *type, kerf_error *err)
{
    char list[320] = "";
    for (size_t i = 0, n = 0; kerf_decoder_family_at(i) && n < sizeof list; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i ? " " : "",
                              kerf_decoder_family_at(i));
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                   "model_type \"%.60s\" has no forward pass here; known are: %s",
                   type ? type : "?", list);
}

/* o: the language model's object of root, or root itself. */
static kerf_status read_config(const json_t *root, const json_t *o, const char *architecture,
                               uint64_t weights, kf_config *c, kerf_error *err)
{
    const char *type = json_string_value(json_object_get(o, "model_type"));
    if (!type) type = json_string_value(json_object_get(root, "model_type"));
    c->family = kf_decoder_family_find(type, architecture);
    c->is_gguf = architecture != NULL;
    if (!c->family) return refuse_family(architecture ? architecture : type, err);
    KF_TRY(read_sizes(o, c, err));
    if (c->layers > weights)
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "config.json: %llu layers of %llu weights",
                       (unsigned long long)c->layers, (unsigned long long)weights);
    KF_TRY(read_experts(o, c, err));
    KF_TRY(kf_rope_read(o, c, err));
    KF_TRY(read_layers(o, c, err));
    KF_TRY(read_factors(o, c, err));
    const json_t *tied = json_object_get(o, "tie_word_embeddings");
    if (!tied) tied = json_object_get(root, "tie_word_embeddings");
    const int is_tied =
        json_is_boolean(tied) ? json_is_true(tied) : (c->family->has & KF_HAS_TIED) != 0;
    if (!is_tied && !c->is_gguf) c->kind[0].has |= KF_HAS_HEAD;
    return KERF_OK;
}

kerf_status kf_config_read(const json_t *root, const char *architecture, uint64_t weights,
                           kf_config *c, kerf_error *err)
{
    memset(c, 0, sizeof *c);
    const json_t *text = json_object_get(root, "text_config");
    json_t *whole = NULL;
    if (json_is_object(text)) {
        const char *outer = json_string_value(json_object_get(root, "model_type"));
        KF_TRY(kf_config_complete(text, outer, &whole, err));
    }
    const kerf_status s = read_config(root, whole ? whole : root, architecture, weights, c, err);
    json_decref(whole);
    return s;
}

void kf_config_free(kf_config *c)
{
    for (int i = 0; i < 2; i++) {
        free(c->rope[i].short_factor);
        free(c->rope[i].long_factor);
        free(c->rope[i].parts);
    }
    free(c->kind);
    memset(c, 0, sizeof *c);
}
