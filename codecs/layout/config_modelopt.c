/* config_modelopt.c - what the loaders of Model-Optimizer's checkpoints are told. */
#include <string.h>
#include <strings.h>

#include "layout/config_table.h"

/* Algorithms that want the scale of each layer's inputs, and the scheme that has the same tensors
 * without it. FP8 has none. */
static const struct {
    const char *algorithm, *scheme;
} with_inputs[] = {{"NVFP4", "W4A16_NVFP4"}, {"W8A8_SQ_PER_CHANNEL", "W8A16"}, {"FP8", "FP8"}};
#define WITH_INPUTS (sizeof with_inputs / sizeof *with_inputs)

int kf_modelopt_needs_inputs(const char *scheme)
{
    size_t i = 0;
    while (i < WITH_INPUTS && strcmp(with_inputs[i].algorithm, scheme) != 0) i++;
    return i < WITH_INPUTS;
}

static int modelopt_algorithm(KF_VALUE_ARGS)
{
    const char *name = kf_stored_find(q->layout, f)->scheme;
    (void)k;
    for (size_t i = 0; i < WITH_INPUTS && kf_config_has_inputs(q, f); i++)
        if (strcmp(name, with_inputs[i].scheme) == 0) name = with_inputs[i].algorithm;
    return kf_give(out, json_string(name));
}

/* Names in any case, as loaders compare them, with the scale of inputs or without. */
static int modelopt_agrees(const json_t *there, const json_t *ours, const kf_configured *q,
                           const kerf_format *f)
{
    const char *name = json_string_value(there), *scheme = kf_stored_find(q->layout, f)->scheme;
    (void)ours;
    if (!name || strcasecmp(name, "MIXED_PRECISION") == 0) return 1;
    for (size_t i = 0; i < WITH_INPUTS; i++)
        if (strcmp(scheme, with_inputs[i].scheme) == 0 &&
            strcasecmp(name, with_inputs[i].algorithm) == 0)
            return 1;
    return strcasecmp(name, scheme) == 0;
}

const char *kf_modelopt_input(const json_t *q, const char **key)
{
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

static int modelopt_groups(KF_VALUE_ARGS)
{
    json_t *weights = kf_config_object(modelopt_weights, q, f);
    json_t *group =
        weights ? json_pack("{s:O, s:[s]}", "weights", weights, "targets", "Linear") : NULL;
    int ok = group != NULL;
    (void)k;
    if (ok && kf_config_has_inputs(q, f))
        ok = json_object_set(group, "input_activations", weights) == 0;
    json_decref(weights);
    if (ok) return kf_give(out, json_pack("{s:o}", "group_0", group));
    json_decref(group);
    return kf_give(out, NULL);
}

const kf_config_key kf_modelopt_keys[] = {
    {"quant_method", kf_say_literal, "\"modelopt\"", NULL},
    {"quant_algo", modelopt_algorithm, NULL, modelopt_agrees},
    {"config_groups", modelopt_groups, NULL, NULL},
    {"ignore", kf_say_kept, NULL, NULL},
    {"producer", modelopt_producer, NULL, NULL},
    {"group_size", kf_say_group, NULL, kf_is_same},
    {NULL, NULL, NULL, NULL},
};

/* Older loaders insist on all of these, and on the name of the producer beside them. */
const kf_config_key kf_modelopt_old_keys[] = {
    {"quant_algo", modelopt_algorithm, NULL, modelopt_agrees},
    {"kv_cache_quant_algo", kf_say_literal, "null", NULL},
    {"group_size", kf_say_group, NULL, kf_is_same},
    {"exclude_modules", kf_say_kept, NULL, NULL},
    {NULL, NULL, NULL, NULL},
};
