/* llama_load.c - config.json and weights of a checkpoint folder. What the forward pass does not
 * know (biases, scaled rotary embeddings, other activations) is refused by name, so that a wrong
 * perplexity cannot come from a model that was only nearly understood. */
#include "llama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <kerf/layouts.h>

#include "base/base.h"

#define MAX_DIM (1u << 20)

/* --- config.json --------------------------------------------------------------------------- */

/* A positive number of at most MAX_DIM; `absent` when the key is missing, 0 = it must be there. */
static kerf_status read_size(const json_t *root, const char *key, unsigned absent, unsigned *out,
                             kerf_error *err)
{
    const json_t *value = json_object_get(root, key);
    json_int_t n = value ? json_integer_value(value) : (json_int_t)absent;
    if (n < 1 || n > MAX_DIM)
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "config.json: \"%s\" must be 1 to %u", key,
                       MAX_DIM);
    *out = (unsigned)n;
    return KERF_OK;
}

static kerf_status refuse_unknown(const json_t *root, kerf_error *err)
{
    const char *act = json_string_value(json_object_get(root, "hidden_act"));
    if (act && strcmp(act, "silu") != 0)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "config.json: \"hidden_act\" %s, not silu",
                       act);
    static const char *const flag[] = {"attention_bias", "mlp_bias"};
    for (size_t i = 0; i < sizeof flag / sizeof *flag; i++)
        if (json_is_true(json_object_get(root, flag[i])))
            return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "config.json: \"%s\" is set", flag[i]);
    const json_t *scaling = json_object_get(root, "rope_scaling");
    if (scaling && !json_is_null(scaling))
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "config.json: \"rope_scaling\" is set");
    return KERF_OK;
}

static kerf_status parse_config(const json_t *root, llama_config *c, kerf_error *err)
{
    KF_TRY(refuse_unknown(root, err));
    KF_TRY(read_size(root, "hidden_size", 0, &c->hidden_size, err));
    KF_TRY(read_size(root, "intermediate_size", 0, &c->intermediate_size, err));
    KF_TRY(read_size(root, "vocab_size", 0, &c->vocab_size, err));
    KF_TRY(read_size(root, "num_hidden_layers", 0, &c->num_hidden_layers, err));
    KF_TRY(read_size(root, "num_attention_heads", 0, &c->num_attention_heads, err));
    KF_TRY(read_size(root, "num_key_value_heads", c->num_attention_heads, &c->num_key_value_heads,
                     err));
    KF_TRY(read_size(root, "head_dim", c->hidden_size / c->num_attention_heads, &c->head_dim, err));
    if (c->num_attention_heads % c->num_key_value_heads != 0 || c->head_dim % 2 != 0)
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "config.json: %u heads of %u over %u kv heads",
                       c->num_attention_heads, c->head_dim, c->num_key_value_heads);
    const json_t *theta = json_object_get(root, "rope_theta");
    c->rope_theta = theta ? json_number_value(theta) : 10000.0;
    c->rms_norm_eps = json_number_value(json_object_get(root, "rms_norm_eps"));
    if (!(c->rope_theta > 1.0) || !(c->rms_norm_eps > 0.0))
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "config.json: \"rope_theta\" or \"rms_norm_eps\" out of range");
    c->tie_word_embeddings = json_is_true(json_object_get(root, "tie_word_embeddings"));
    return KERF_OK;
}

static kerf_status load_config(const char *folder, llama_config *c, kerf_error *err)
{
    char path[4096];
    json_error_t fault;
    if (snprintf(path, sizeof path, "%s/config.json", folder) >= (int)sizeof path)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "%s: path too long", folder);
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &fault);
    if (!root) return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%s: %s", path, fault.text);
    kerf_status s = parse_config(root, c, err);
    json_decref(root);
    return s;
}

/* --- weights ------------------------------------------------------------------------------- */

typedef struct source {
    const kerf_reader *reader;
    const kerf_weights *weights;
    llama *model;
} source;

static const char *dense_format_name(kerf_dtype t)
{
    switch (t) {
    case KERF_F32: return "fp32";
    case KERF_F16: return "fp16";
    case KERF_BF16: return "bf16";
    default: return NULL;
    }
}

/* A dense weight is one whose format has a codes plane alone. */
static kerf_status weight_geometry(const kerf_weight *w, kerf_geometry *g, kerf_error *err)
{
    if (w->codec.format) {
        *g = w->geometry;
        return KERF_OK;
    }
    const char *name = dense_format_name(w->dtype);
    if (!name)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "tensor \"%s\": cannot compute with %s",
                       w->name, kerf_dtype_name(w->dtype));
    return kerf_geometry_init(g, kerf_format_find(name), &w->shape, err);
}

static kerf_status decode_weight(const kerf_reader *r, const kerf_weight *w, float *dst,
                                 kerf_error *err)
{
    kerf_geometry g;
    kerf_cspan src[KERF_PLANES] = {{0}};
    void *bytes[KERF_PLANES] = {0};
    KF_TRY(weight_geometry(w, &g, err));
    kerf_status s = KERF_OK;
    for (int p = 0; p < KERF_PLANES && s == KERF_OK; p++) {
        const kerf_tensor *plane = w->plane[p];
        if (!plane) continue;
        bytes[p] = kf_alloc(plane->bytes ? plane->bytes : 1, 1);
        s = bytes[p] ? kerf_reader_read(r, plane, 0, bytes[p], (size_t)plane->bytes, err)
                     : kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "tensor \"%s\": no memory", w->name);
        src[p] = (kerf_cspan){bytes[p], (size_t)plane->bytes};
    }
    if (s == KERF_OK) {
        kerf_span out = {dst, (size_t)g.elements * sizeof(float)};
        s = kerf_decode(&g, 0, g.bands, src, out, KERF_F32, NULL, err);
    }
    for (int p = 0; p < KERF_PLANES; p++) free(bytes[p]);
    return s;
}

/* The float32 values of weight `name`, which must be [outputs][inputs], or [inputs] when outputs
 * is 0. malloc'd. */
static kerf_status load_floats(const source *from, const char *name, size_t outputs, size_t inputs,
                               float **out, kerf_error *err)
{
    const kerf_weight *w = kerf_weights_find(from->weights, name);
    if (!w) return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "tensor \"%s\" is missing", name);
    int as_expected =
        outputs ? w->shape.rank == 2 && w->shape.dim[0] == outputs && w->shape.dim[1] == inputs
                : w->shape.rank == 1 && w->shape.dim[0] == inputs;
    if (!as_expected)
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "tensor \"%s\": config.json wants %zu x %zu",
                       name, outputs ? outputs : 1, inputs);
    float *values = kf_alloc((outputs ? outputs : 1) * inputs, sizeof *values);
    if (!values) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "tensor \"%s\": no memory", name);
    kerf_status s = decode_weight(from->reader, w, values, err);
    if (s != KERF_OK) {
        free(values);
        return s;
    }
    from->model->quantized += w->codec.format != NULL;
    *out = values;
    return KERF_OK;
}

static kerf_status pack_matrix(matrix *m, size_t outputs, size_t inputs, const float *values,
                               kerf_error *err)
{
    *m = (matrix){outputs, inputs, kf_alloc(matrix_floats(outputs, inputs), sizeof(float))};
    if (!m->panels) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for the weights");
    matrix_pack(m, values, inputs, 1);
    return KERF_OK;
}

static kerf_status load_matrix(const source *from, const char *name, matrix *m, size_t outputs,
                               size_t inputs, kerf_error *err)
{
    float *values = NULL;
    KF_TRY(load_floats(from, name, outputs, inputs, &values, err));
    kerf_status s = pack_matrix(m, outputs, inputs, values, err);
    free(values);
    return s;
}

static kerf_status load_layer(const source *from, unsigned index, llama_layer *l, kerf_error *err)
{
    const llama_config *c = &from->model->config;
    size_t hidden = c->hidden_size, inner = c->intermediate_size;
    size_t q = (size_t)c->num_attention_heads * c->head_dim;
    size_t kv = (size_t)c->num_key_value_heads * c->head_dim;
    const struct {
        const char *name;
        matrix *m;
        size_t outputs, inputs;
    } weight[] = {
        {"self_attn.q_proj", &l->q, q, hidden},     {"self_attn.k_proj", &l->k, kv, hidden},
        {"self_attn.v_proj", &l->v, kv, hidden},    {"self_attn.o_proj", &l->o, hidden, q},
        {"mlp.gate_proj", &l->gate, inner, hidden}, {"mlp.up_proj", &l->up, inner, hidden},
        {"mlp.down_proj", &l->down, hidden, inner},
    };
    char name[128];
    for (size_t i = 0; i < sizeof weight / sizeof *weight; i++) {
        snprintf(name, sizeof name, "model.layers.%u.%s.weight", index, weight[i].name);
        KF_TRY(load_matrix(from, name, weight[i].m, weight[i].outputs, weight[i].inputs, err));
    }
    snprintf(name, sizeof name, "model.layers.%u.input_layernorm.weight", index);
    KF_TRY(load_floats(from, name, 0, hidden, &l->input_norm, err));
    snprintf(name, sizeof name, "model.layers.%u.post_attention_layernorm.weight", index);
    return load_floats(from, name, 0, hidden, &l->post_attention_norm, err);
}

static kerf_status load_model(const source *from, kerf_error *err)
{
    llama *m = from->model;
    size_t hidden = m->config.hidden_size, vocab = m->config.vocab_size;
    m->layer = kf_alloc_zero(m->config.num_hidden_layers, sizeof *m->layer);
    if (!m->layer) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for the layers");
    for (unsigned i = 0; i < m->config.num_hidden_layers; i++)
        KF_TRY(load_layer(from, i, &m->layer[i], err));
    KF_TRY(load_floats(from, "model.norm.weight", 0, hidden, &m->norm, err));
    KF_TRY(load_floats(from, "model.embed_tokens.weight", vocab, hidden, &m->embedding, err));
    if (m->config.tie_word_embeddings)
        return pack_matrix(&m->lm_head, vocab, hidden, m->embedding, err);
    return load_matrix(from, "lm_head.weight", &m->lm_head, vocab, hidden, err);
}

kerf_status llama_open(const char *folder, llama *m, kerf_error *err)
{
    kerf_reader *reader = NULL;
    kerf_weights *weights = NULL;
    memset(m, 0, sizeof *m);
    KF_TRY(load_config(folder, &m->config, err));
    kerf_status s = kerf_reader_open(folder, &reader, err);
    if (s == KERF_OK) s = kerf_weights_open(reader, &weights, err);
    if (s == KERF_OK) s = load_model(&(source){reader, weights, m}, err);
    kerf_weights_close(weights);
    kerf_reader_close(reader);
    if (s != KERF_OK) llama_close(m);
    return s;
}

void llama_close(llama *m)
{
    for (unsigned i = 0; m->layer && i < m->config.num_hidden_layers; i++) {
        llama_layer *l = &m->layer[i];
        matrix *all[] = {&l->q, &l->k, &l->v, &l->o, &l->gate, &l->up, &l->down};
        for (size_t j = 0; j < sizeof all / sizeof *all; j++) free(all[j]->panels);
        free(l->input_norm);
        free(l->post_attention_norm);
    }
    free(m->layer);
    free(m->embedding);
    free(m->norm);
    free(m->lm_head.panels);
    memset(m, 0, sizeof *m);
}
