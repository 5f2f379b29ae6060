/* config_modelopt.c - what the loaders of Model-Optimizer's checkpoints are told. */
#include <string.h>
#include <strings.h>

#include "layout/config_cache.h"
#include "layout/config_table.h"

/* Algorithms that want the scale of each layer's inputs, and the scheme that has the same tensors
 * without it. FP8 has none. */
static const struct {
    const char *algorithm, *scheme;
} with_inputs[] = {{"NVFP4", "W4A16_NVFP4"},
                   {"W8A8_SQ_PER_CHANNEL", "W8A16"},
                   {"FP8", "FP8"},
                   {"NVFP4_AWQ", "W4A16_NVFP4"}}; /* read, not written: the first one is */
#define WITH_INPUTS (sizeof with_inputs / sizeof *with_inputs)

int kf_modelopt_needs_inputs(const char *scheme)
{
    size_t i = 0;
    while (i < WITH_INPUTS && strcmp(with_inputs[i].algorithm, scheme) != 0) i++;
    return i < WITH_INPUTS;
}

/* What vLLM dispatches on for each layer of a mixture. Others, by the row or by tiles, it takes for
 * layers that are not quantized, without a word. */
int kf_modelopt_mixed(const kerf_format *f)
{
    return f->id == KERF_FORMAT_NVFP4 || f->id == KERF_FORMAT_MXFP8_E4M3 ||
           f->id == KERF_FORMAT_FP8_E4M3;
}

static const char *algorithm_of(const kf_configured *q, const kerf_format *f)
{
    const char *name = kf_stored_find(q->layout, f)->scheme;
    for (size_t i = 0; i < WITH_INPUTS && kf_config_has_inputs(q, f); i++)
        if (strcmp(name, with_inputs[i].scheme) == 0) name = with_inputs[i].algorithm;
    return name;
}

static int modelopt_algorithm(KF_VALUE_ARGS)
{
    (void)k;
    return kf_give(out, json_string(q->formats > 1 ? "MIXED_PRECISION" : algorithm_of(q, f)));
}

/* Names in any case, as loaders compare them, with the scale of inputs or without. */
static int is_scheme(const char *name, const char *scheme)
{
    for (size_t i = 0; i < WITH_INPUTS; i++)
        if (strcmp(scheme, with_inputs[i].scheme) == 0 &&
            strcasecmp(name, with_inputs[i].algorithm) == 0)
            return 1;
    return strcasecmp(name, scheme) == 0;
}

static int modelopt_agrees(const json_t *there, const json_t *ours, const kf_configured *q,
                           const kerf_format *f)
{
    const char *name = json_string_value(there);
    (void)ours;
    if (!name || strcasecmp(name, "MIXED_PRECISION") == 0) return 1;
    return is_scheme(name, kf_stored_find(q->layout, f)->scheme);
}

/* --- mixtures ------------------------------------------------------------------------------- */

static json_t *layer_of(const kf_configured *q, const kerf_format *f)
{
    json_t *layer = json_pack("{s:s}", "quant_algo", algorithm_of(q, f));
    if (!layer || f->geometry != KERF_GROUP_BLOCK ||
        kf_set(layer, "group_size", json_integer((json_int_t)f->group)))
        return layer;
    json_decref(layer);
    return NULL;
}

/* The algorithm of each layer; of a checkpoint with one format nothing. */
static int modelopt_layers(KF_VALUE_ARGS)
{
    json_t *all, *name;
    size_t n;
    int ok;
    (void)k;
    (void)f;
    if (q->formats == 1) return kf_leave_out(out);
    all = json_object();
    ok = all != NULL;
    for (size_t i = 0; ok && i < q->formats; i++) {
        json_t *layers = kf_modules_of(q, q->format[i]);
        ok = layers != NULL;
        json_array_foreach(layers, n, name)
        {
            ok = ok && kf_set(all, json_string_value(name), layer_of(q, q->format[i]));
        }
        json_decref(layers);
    }
    if (ok) return kf_give(out, all);
    json_decref(all);
    return kf_give(out, NULL);
}

/* Layers that are not listed, or under the name of what they are fused to, are not looked at. */
static int modelopt_layers_agree(const json_t *there, const json_t *ours, const kf_configured *q,
                                 const kerf_format *f)
{
    json_t *layers = kf_modules_of(q, f), *name;
    size_t n;
    int agrees = 1;
    (void)ours;
    json_array_foreach(layers, n, name)
    {
        const json_t *layer = json_object_get(there, json_string_value(name));
        const char *algorithm = json_string_value(json_object_get(layer, "quant_algo"));
        if (algorithm && !is_scheme(algorithm, kf_stored_find(q->layout, f)->scheme)) agrees = 0;
    }
    json_decref(layers);
    return agrees;
}

/* Loaders take it for all layers: nothing in a mixture. */
static int modelopt_group_size(KF_VALUE_ARGS)
{
    return q->formats > 1 ? kf_leave_out(out) : kf_say_group(k, q, f, out);
}

const char *kf_modelopt_input(const json_t *q, const kerf_format *f, const char **key)
{
    (void)f; /* in a mixture each layer has an algorithm of its own */
    const char *name = json_string_value(json_object_get(q, "quant_algo"));
    *key = "quant_algo";
    for (size_t i = 0; name && i < WITH_INPUTS; i++)
        if (strcasecmp(name, with_inputs[i].algorithm) == 0) return "input_scale";
    return NULL;
}

json_t *kf_modelopt_producer(void)
{
    return json_pack("{s:s, s:s}", "name", "modelopt", "version", "kerf " KERF_VERSION_TEXT);
}

static int modelopt_producer(KF_VALUE_ARGS)
{
    (void)k;
    (void)q;
    (void)f;
    return kf_give(out, kf_modelopt_producer());
}

static const kf_config_key modelopt_weights[] = {
    {"dynamic", kf_say_literal, "false", NULL},
    {"num_bits", kf_say_bits, NULL, NULL},
    {"type", kf_say_type, NULL, NULL},
    {"group_size", kf_say_group, NULL, NULL},
    {NULL, NULL, NULL, NULL},
};

static json_t *modelopt_group(const kf_configured *q, const kerf_format *f)
{
    json_t *weights = kf_config_object(modelopt_weights, q, f);
    json_t *targets = q->formats == 1 ? json_pack("[s]", "Linear") : kf_modules_of(q, f);
    json_t *group =
        weights && targets ? json_pack("{s:O, s:O}", "weights", weights, "targets", targets) : NULL;
    int ok = group != NULL;
    if (ok && kf_config_has_inputs(q, f))
        ok = json_object_set(group, "input_activations", weights) == 0;
    json_decref(weights);
    json_decref(targets);
    if (ok) return group;
    json_decref(group);
    return NULL;
}

static int modelopt_groups(KF_VALUE_ARGS)
{
    (void)k;
    (void)f;
    return kf_give(out, kf_config_groups(q, modelopt_group));
}

const kf_config_key kf_modelopt_keys[] = {
    {"quant_method", kf_say_literal, "\"modelopt\"", NULL},
    {"quant_algo", modelopt_algorithm, NULL, modelopt_agrees},
    {"config_groups", modelopt_groups, NULL, NULL},
    {"ignore", kf_say_kept, NULL, NULL},
    {"kv_cache_scheme", kf_say_cache_scheme, NULL, NULL},
    {"producer", modelopt_producer, NULL, NULL},
    {"group_size", modelopt_group_size, NULL, kf_is_same},
    {"quantized_layers", modelopt_layers, NULL, modelopt_layers_agree},
    {NULL, NULL, NULL, NULL},
};

/* Older loaders insist on all of these, and on the name of the producer beside them. */
const kf_config_key kf_modelopt_old_keys[] = {
    {"quant_algo", modelopt_algorithm, NULL, modelopt_agrees},
    {"kv_cache_quant_algo", kf_say_cache_algorithm, NULL, NULL},
    {"group_size", modelopt_group_size, NULL, kf_is_same},
    {"quantized_layers", modelopt_layers, NULL, modelopt_layers_agree},
    {"exclude_modules", kf_say_kept, NULL, NULL},
    {NULL, NULL, NULL, NULL},
};
