/* model.c - reads config.json of a language model into kerf_model: layers, shapes, experts, caches.
 * Shapes come from the file; one row per family of models (model_families.c) says in what that
 * family differs from a plain Llama. */
#include <kerf/model.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <kerf/checkpoint.h>

#include "file/json/config_defaults.h"
#include "file/json/json_read.h"
#include "model/layer_kinds.h"
#include "model/model_families.h"

typedef struct reader {
    const char *path;
    const json_t *doc, *outer; /* the language model's, and the whole file */
    json_t *whole;             /* doc with its defaults; NULL: doc is the whole file            */
    const kf_model_family *family;
    kerf_model *model;
    uint64_t mlp_layers, moe_layers, mixer_layers; /* of a pattern; ALL_LAYERS: there is none   */
    uint64_t mlp_width;                            /* of block_configs; 0: there are none       */
    const char *fused[KERF_MAX_PARTS]; /* of each part: what it is merged into; NULL: nothing */
    kerf_error *err;
} reader;

#define ALL_LAYERS UINT64_MAX

#define BAD(r, ...) kf_fail((r)->err, KERF_E_DATA, KF_NOWHERE, __VA_ARGS__)

/* --- values -------------------------------------------------------------------------------- */

/* MPT and DBRX have these of a part in an object of its own. */
static const json_t *find_key(const json_t *doc, const char *key)
{
    static const char *const inner[] = {"attn_config", "ffn_config"};
    const json_t *v = json_object_get(doc, key);
    for (size_t i = 0; i < sizeof inner / sizeof *inner && (!v || json_is_null(v)); i++)
        v = json_object_get(json_object_get(doc, inner[i]), key);
    return json_is_null(v) ? NULL : v;
}

/* The value of the first of some keys (a bar between two) that is there and not null. */
static const json_t *first_of(const reader *r, const char *keys)
{
    char key[64];
    for (const char *at = keys; *at;) {
        const size_t n = strcspn(at, "|");
        snprintf(key, sizeof key, "%.*s", (int)n, at);
        const json_t *v = find_key(r->doc, key);
        if (v) return v;
        at += n + (at[n] == '|');
    }
    return NULL;
}

static const json_t *value_of(const reader *r, const char *keys)
{
    const json_t *v = first_of(r, keys);
    return v ? v : first_of(r, kf_model_synonyms(keys));
}

/* Of a list with one value for each layer: the one that all have, or what they have on average. */
static json_int_t of_layers(const reader *r, const json_t *list)
{
    uint64_t sum = 0;
    const size_t n = json_array_size(list);
    for (size_t i = 0; i < n; i++) {
        const json_int_t x = json_integer_value(json_array_get(list, i));
        if (x < 1 || x > (json_int_t)UINT32_MAX) return 0;
        if (i && x != json_integer_value(json_array_get(list, 0))) r->model->estimated = 1;
        sum += (uint64_t)x;
    }
    return n ? (json_int_t)((sum + n / 2) / n) : 0;
}

/* A whole number of at most 2^32; absent or null: `missing`, and an error when that is 0. */
static kerf_status number(const reader *r, const char *key, uint64_t missing, uint64_t *out)
{
    const json_t *v = value_of(r, key);
    *out = missing;
    if ((!v || json_is_null(v)) && missing) return KERF_OK;
    if (!v) return BAD(r, "%.200s: no %s", r->path, key);
    const int is_list = json_is_array(v);
    json_int_t x = is_list ? of_layers(r, v) : json_integer_value(v);
    if ((!is_list && !json_is_integer(v)) || x < 1 || x > (json_int_t)UINT32_MAX) {
        return BAD(r, "%.200s: %s must be a whole number above 0", r->path, key);
    }
    *out = (uint64_t)x;
    return KERF_OK;
}

/* The same where 0, null and absence all mean none. */
static uint64_t number_or_none(const reader *r, const char *key)
{
    const json_t *v = value_of(r, key);
    const json_int_t x = json_is_array(v) ? of_layers(r, v) : json_integer_value(v);
    return x > 0 && x <= (json_int_t)UINT32_MAX ? (uint64_t)x : 0;
}

static int flag(const reader *r, const char *key, int missing)
{
    const json_t *v = json_object_get(r->doc, key);
    return json_is_boolean(v) ? json_is_true(v) : missing;
}

/* Bytes of a part's name that say whose it is: "expert " of "expert gate_proj". */
static size_t owner_bytes(const char *name)
{
    const char *space = strrchr(name, ' ');
    return space ? (size_t)(space + 1 - name) : 0;
}

/* The number of the products that part i runs together with. */
static int fused_number(const reader *r, size_t i)
{
    const kerf_part *part = r->model->part;
    const size_t owner = owner_bytes(part[i].name);
    for (size_t k = 0; r->fused[i] && k < i; k++) {
        if (r->fused[k] && strcmp(r->fused[k], r->fused[i]) == 0 &&
            owner_bytes(part[k].name) == owner && memcmp(part[k].name, part[i].name, owner) == 0)
            return part[k].fused;
    }
    return r->fused[i] ? (int)i + 1 : 0;
}

/* piece: which matrix of its layer it is, when runtimes merge it with others (groups.def). */
static void add(reader *r, const char *name, kerf_part_kind kind, uint64_t n, uint64_t k,
                uint64_t copies, uint64_t experts, kerf_piece piece)
{
    kerf_model *m = r->model;
    const size_t i = m->parts;
    if (i == KERF_MAX_PARTS || copies == 0) return;
    r->fused[i] = kerf_piece_fused(piece);
    m->part[m->parts++] = (kerf_part){name, kind, n, k, copies, experts, 0};
    m->part[i].fused = fused_number(r, i);
}

static void add_vector(reader *r, const char *name, uint64_t n, uint64_t copies)
{
    add(r, name, KERF_PART_VECTOR, n, 1, copies, 1, KERF_PIECE_NONE);
}

/* --- attention ----------------------------------------------------------------------------- */

static void add_attention(reader *r)
{
    kerf_model *m = r->model;
    const uint64_t own = number_or_none(r, "v_head_dim"), L = m->attention_layers;
    int bias = flag(r, "attention_bias", r->family->qkv_bias);
    int output_bias = bias && (r->family->expert_bias || strcmp(m->type, "llama") == 0);
    m->qk_dim = m->head_dim;
    m->v_dim = own ? own : m->head_dim;
    const uint64_t q = m->heads * m->qk_dim, k = m->kv_heads * m->qk_dim,
                   v = m->kv_heads * m->v_dim;
    add(r, "q_proj", KERF_PART_LINEAR, q, m->hidden, L, 1, KERF_PIECE_Q);
    add(r, "k_proj", KERF_PART_LINEAR, k, m->hidden, L, 1, KERF_PIECE_K);
    add(r, "v_proj", KERF_PART_LINEAR, v, m->hidden, L, 1, KERF_PIECE_V);
    add(r, "o_proj", KERF_PART_LINEAR, m->hidden, m->heads * m->v_dim, L, 1, KERF_PIECE_NONE);
    if (bias) add_vector(r, "qkv biases", q + k + v, L);
    if (output_bias) add_vector(r, "o bias", m->hidden, L);
    if (r->family->qk_norm) add_vector(r, "q and k norms", 2 * m->head_dim, L);
    if (r->family->expert_bias) add_vector(r, "sinks", m->heads, L);
}

/* Mamba and linear attention: a matrix into the layer and one out of it, of about these sizes. */
static void add_mixers(reader *r)
{
    kerf_model *m = r->model;
    const uint64_t keys =
        number_or_none(r, "linear_num_key_heads") * number_or_none(r, "linear_key_head_dim");
    const uint64_t values =
        number_or_none(r, "linear_num_value_heads") * number_or_none(r, "linear_value_head_dim");
    const int is_short = number_or_none(r, "conv_L_cache") > 0; /* LFM2: one with two gates */
    uint64_t inner = number_or_none(r, "mamba_num_heads") * number_or_none(r, "mamba_head_dim");
    if (!inner) inner = is_short ? m->hidden : values ? values : 2 * m->hidden;
    const uint64_t others = is_short ? 3 * inner : 2 * inner + inner / 8;
    add(r, "mixer in_proj", KERF_PART_LINEAR, keys ? 2 * keys + 2 * values : others, m->hidden,
        r->mixer_layers, 1, KERF_PIECE_NONE);
    add(r, "mixer out_proj", KERF_PART_LINEAR, m->hidden, inner, r->mixer_layers, 1,
        KERF_PIECE_NONE);
}

/* Mamba alone: no layer has heads, and none a feed-forward part. */
static int has_states_alone(const reader *r)
{
    return first_of(r, "state_size") && !first_of(r, "num_attention_heads");
}

/* 0: the file has no block_configs. */
static int read_blocks(reader *r)
{
    kerf_model *m = r->model;
    kf_searched b;
    if (!kf_layers_searched(r->doc, m->hidden, m->heads, &b)) return 0;
    m->attention_layers = b.attention;
    if (b.attention) m->kv_heads = (b.kv_heads + b.attention / 2) / b.attention;
    r->mlp_layers = b.mlp;
    if (b.mlp) r->mlp_width = (b.width + b.mlp / 2) / b.mlp;
    m->estimated |= b.is_uneven;
    add(r, "linear in place of a part", KERF_PART_LINEAR, m->hidden, m->hidden, b.linear, 1,
        KERF_PIECE_NONE);
    return 1;
}

/* How many layers have attention, and what the others are. */
static void read_layers(reader *r)
{
    kerf_model *m = r->model;
    const char *letters = json_string_value(json_object_get(r->doc, "hybrid_override_pattern"));
    uint64_t count[128] = {0};
    m->attention_layers = m->layers;
    r->mlp_layers = ALL_LAYERS;
    if (read_blocks(r)) return;
    for (const char *c = letters; c && *c; c++) count[*c & 127]++;
    if (letters && *letters) {
        /* a pattern may be shorter than the model: its shares count */
        const uint64_t n = strlen(letters), L = m->layers;
        m->attention_layers = count['*'] * L / n;
        r->mlp_layers = count['-'] * L / n;
        r->moe_layers = count['E'] * L / n;
        r->mixer_layers = count['M'] * L / n;
        return;
    }
    const size_t hybrids = json_array_size(json_object_get(r->doc, "hybrid_layer_ids"));
    if (hybrids || has_states_alone(r)) { /* Zamba: some have attention and an MLP besides */
        r->mixer_layers = m->layers;
        r->mlp_layers = m->attention_layers = kf_min_u64(hybrids, m->layers);
        return;
    }
    if (number_or_none(r, "mamba_d_ssm")) { /* Falcon-H1: beside the attention of each layer */
        r->mixer_layers = m->layers;
        return;
    }
    r->mixer_layers = kf_layers_without_attention(r->doc, m->layers);
    m->attention_layers -= r->mixer_layers;
}

/* DeepSeek's latent attention: one compressed vector per token is cached for all heads. */
static kerf_status add_latent_attention(reader *r)
{
    kerf_model *m = r->model;
    uint64_t nope, rank = number_or_none(r, "q_lora_rank");
    const uint64_t L = m->attention_layers;
    KF_TRY(number(r, "kv_lora_rank", 0, &m->latent));
    KF_TRY(number(r, "qk_nope_head_dim", 0, &nope));
    KF_TRY(number(r, "qk_rope_head_dim", 0, &m->rope_dim));
    KF_TRY(number(r, "v_head_dim", 0, &m->v_dim));
    m->qk_dim = nope + m->rope_dim;
    if (rank) {
        add(r, "q_a_proj", KERF_PART_LINEAR, rank, m->hidden, L, 1, KERF_PIECE_Q_A);
        add_vector(r, "q_a norm", rank, L);
    }
    add(r, "kv_a_proj", KERF_PART_LINEAR, m->latent + m->rope_dim, m->hidden, L, 1,
        KERF_PIECE_KV_A);
    add_vector(r, "kv_a norm", m->latent, L);
    add(r, rank ? "q_b_proj" : "q_proj", KERF_PART_LINEAR, m->heads * m->qk_dim,
        rank ? rank : m->hidden, L, 1, KERF_PIECE_NONE);
    add(r, "kv_b_proj", KERF_PART_LINEAR, m->heads * (nope + m->v_dim), m->latent, L, 1,
        KERF_PIECE_NONE);
    add(r, "o_proj", KERF_PART_LINEAR, m->hidden, m->heads * m->v_dim, L, 1, KERF_PIECE_NONE);
    return KERF_OK;
}

/* --- feed-forward -------------------------------------------------------------------------- */

/* The width of Llama-4's dense layers, whose intermediate_size is that of its experts. */
static uint64_t llama4_width(const reader *r)
{
    return number_or_none(r, "intermediate_size_mlp");
}

/* LFM2's, of which two thirds are meant, in whole steps. */
static uint64_t adjusted_width(const reader *r, uint64_t width)
{
    const uint64_t step = number_or_none(r, "block_multiple_of");
    const double by = json_number_value(json_object_get(r->doc, "block_ffn_dim_multiplier"));
    if (!flag(r, "block_auto_adjust_ff_dim", 0)) return width;
    width = 2 * width / 3;
    if (by > 0 && by < 16) width = (uint64_t)(by * (double)width);
    return step ? (width + step - 1) / step * step : width;
}

static kerf_status add_dense(reader *r, uint64_t layers)
{
    uint64_t width, H = r->model->hidden;
    if (layers == 0) return KERF_OK;
    KF_TRY(number(r, "intermediate_size", r->family->estimated ? 4 * H : 0, &width));
    if (r->mlp_width) width = r->mlp_width;
    if (llama4_width(r)) width = llama4_width(r);
    width = adjusted_width(r, width);
    if (!r->family->plain)
        add(r, "gate_proj", KERF_PART_LINEAR, width, H, layers, 1, KERF_PIECE_GATE);
    add(r, "up_proj", KERF_PART_LINEAR, width, H, layers, 1, KERF_PIECE_UP);
    add(r, "down_proj", KERF_PART_LINEAR, H, width, layers, 1, KERF_PIECE_NONE);
    return KERF_OK;
}

static kerf_status add_experts(reader *r)
{
    kerf_model *m = r->model;
    uint64_t width, E = m->experts, L = m->moe_layers, H = m->hidden;
    uint64_t shared = number_or_none(r, "n_shared_experts");
    const uint64_t shared_width = number_or_none(r, "shared_expert_intermediate_size");
    KF_TRY(number(r, r->family->width, r->family->estimated ? H : 0, &width));
    if (!shared && (shared_width || strncmp(m->type, "llama4", 6) == 0)) shared = 1;
    shared *= shared_width ? shared_width : width; /* of all together, from here on */
    add(r, "router", KERF_PART_ROUTER, E, H, L, 1, KERF_PIECE_NONE);
    if (r->family->latent) add_vector(r, "router correction", E, L);
    if (!r->family->plain)
        add(r, "expert gate_proj", KERF_PART_EXPERT, width, H, L, E, KERF_PIECE_GATE);
    add(r, "expert up_proj", KERF_PART_EXPERT, width, H, L, E, KERF_PIECE_UP);
    add(r, "expert down_proj", KERF_PART_EXPERT, H, width, L, E, KERF_PIECE_NONE);
    if (r->family->expert_bias) {
        add(r, "expert biases", KERF_PART_VECTOR, 2 * width + H, 1, L, E, KERF_PIECE_NONE);
        add_vector(r, "router bias", E, L);
    }
    if (shared) {
        add(r, "shared gate_proj", KERF_PART_LINEAR, shared, H, L, 1, KERF_PIECE_GATE);
        add(r, "shared up_proj", KERF_PART_LINEAR, shared, H, L, 1, KERF_PIECE_UP);
        add(r, "shared down_proj", KERF_PART_LINEAR, H, shared, L, 1, KERF_PIECE_NONE);
    }
    return KERF_OK;
}

/* Layers that are each one thing, as the letters of a pattern say. */
static kerf_status add_patterned(reader *r)
{
    kerf_model *m = r->model;
    KF_TRY(add_dense(r, r->mlp_layers));
    m->moe_layers = r->moe_layers;
    if (!m->moe_layers) return KERF_OK;
    KF_TRY(number(r, r->family->experts, 0, &m->experts));
    KF_TRY(number(r, "num_experts_per_tok", kf_min_u64(8, m->experts), &m->experts_active));
    return add_experts(r);
}

static kerf_status add_feed_forward(reader *r)
{
    kerf_model *m = r->model;
    if (r->mlp_layers != ALL_LAYERS) return add_patterned(r);
    if (!r->family->experts || !number_or_none(r, r->family->experts)) {
        if (!r->family->experts || r->family->estimated) return add_dense(r, m->layers);
    }
    uint64_t dense = number_or_none(r, "first_k_dense_replace");
    dense =
        kf_min_u64(dense, m->layers) + json_array_size(json_object_get(r->doc, "mlp_only_layers"));
    const uint64_t sparse = dense > m->layers ? 0 : kf_layers_sparse(r->doc, m->layers, dense);
    if (dense > m->layers || (sparse < m->layers - dense && dense)) {
        return kf_fail(r->err, KERF_E_NOSUP, KF_NOWHERE,
                       "%.200s: this mixture of dense and sparse layers is not known", r->path);
    }
    KF_TRY(number(r, r->family->experts, 0, &m->experts));
    KF_TRY(number(r, "num_experts_per_tok", r->family->estimated ? 1 : 0, &m->experts_active));
    if (m->experts_active > m->experts) {
        return BAD(r, "%.200s: num_experts_per_tok is larger than %s", r->path, r->family->experts);
    }
    m->moe_layers = sparse;
    KF_TRY(add_dense(r, m->layers - sparse));
    return add_experts(r);
}

/* --- the whole ----------------------------------------------------------------------------- */

static kerf_status read_model(reader *r)
{
    kerf_model *m = r->model;
    const json_t *own = json_object_get(r->doc, "tie_word_embeddings");
    const json_t *tied = own ? own : json_object_get(r->outer, "tie_word_embeddings");
    m->estimated = r->family->estimated;
    KF_TRY(number(r, "hidden_size", 0, &m->hidden));
    KF_TRY(number(r, "num_hidden_layers", 0, &m->layers));
    KF_TRY(number(r, "vocab_size", 0, &m->vocab));
    KF_TRY(number(r, "num_attention_heads", (uint64_t)has_states_alone(r), &m->heads));
    KF_TRY(number(r, "num_key_value_heads", m->heads, &m->kv_heads));
    KF_TRY(number(r, "head_dim", m->hidden / m->heads ? m->hidden / m->heads : 1, &m->head_dim));
    if (flag(r, "multi_query", 0) && !flag(r, "new_decoder_architecture", 0))
        m->kv_heads = 1; /* whatever num_kv_heads says */
    read_layers(r);
    m->tied = json_is_boolean(tied) ? json_is_true(tied)
                                    : flag(r, "tie_word_embeddings", r->family->tied);
    add(r, "embed_tokens", KERF_PART_EMBEDDING, m->vocab, m->hidden, 1, 1, KERF_PIECE_NONE);
    if (r->family->latent || (m->estimated && number_or_none(r, "kv_lora_rank"))) {
        KF_TRY(add_latent_attention(r));
    } else {
        add_attention(r);
    }
    add_mixers(r);
    KF_TRY(add_feed_forward(r));
    add_vector(r, "norms", m->hidden * (uint64_t)r->family->norms, m->layers);
    add_vector(r, "final norm", m->hidden, 1);
    add(r, "lm_head", KERF_PART_HEAD, m->vocab, m->hidden, 1, 1, KERF_PIECE_NONE);
    kf_layers_caches(r->doc, r->family->windowed, m);
    return KERF_OK;
}

static kerf_status read_config(reader *r)
{
    static const char *const nests[] = {"thinker_config", "text_config", "llm_config",
                                        "language_config"};
    const char *type = json_string_value(json_object_get(r->doc, "model_type"));
    for (size_t i = 0; i < sizeof nests / sizeof *nests; i++) {
        const json_t *inner = json_object_get(r->doc, nests[i]); /* of a model that sees or hears */
        if (!json_is_object(inner)) continue;
        r->doc = inner;
        const char *own = json_string_value(json_object_get(inner, "model_type"));
        if (own) type = own;
    }
    if (!type) return BAD(r, "%.200s: no model_type: is it a config.json?", r->path);
    if (r->doc != r->outer) KF_TRY(kf_config_complete(r->doc, type, &r->whole, r->err));
    if (r->whole) r->doc = r->whole;
    r->family = kf_model_family_find(type);
    snprintf(r->model->type, sizeof r->model->type, "%s", type);
    return read_model(r);
}

kerf_status kerf_model_open(const char *path, kerf_model *out, kerf_error *err)
{
    char name[4096], *snapshot = NULL;
    struct stat st;
    json_t *doc;
    *out = (kerf_model){0};
    if (stat(path, &st) != 0) return kf_fail_no_model(err, errno, path);
    const int folder = S_ISDIR(st.st_mode);
    if (folder) KF_TRY(kerf_hub_snapshot(path, &snapshot, err));
    int n = snprintf(name, sizeof name, "%s%s", snapshot ? snapshot : path,
                     folder ? "/config.json" : "");
    free(snapshot);
    if (n < 0 || n >= (int)sizeof name) {
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "the path is too long");
    }
    KF_TRY(kf_json_read(name, KF_JSON_MAX_CONFIG_BYTES, KF_JSON_PYTHON, &doc, err));
    reader r = {.path = name, .doc = doc, .outer = doc, .model = out, .err = err};
    kerf_status s = read_config(&r);
    json_decref(r.whole);
    json_decref(doc);
    if (s != KERF_OK) *out = (kerf_model){0};
    return s;
}
