/* config_ct.c - what compressed-tensors' loaders are told in config.json. */
#include <string.h>

#include "layout/config_cache.h"
#include "layout/config_table.h"

static int ct_strategy(KF_VALUE_ARGS)
{
    (void)k;
    (void)q;
    return kf_give(out, json_string(f->second == KERF_SECOND_TENSOR    ? "tensor_group"
                                    : f->geometry == KERF_GROUP_TENSOR ? "tensor"
                                    : f->geometry == KERF_GROUP_ROW    ? "channel"
                                    : f->geometry == KERF_GROUP_TILE   ? "block"
                                                                       : "group"));
}

static int ct_scale_dtype(KF_VALUE_ARGS)
{
    (void)k;
    (void)q;
    if (f->scale == KERF_SCALE_E8M0) return kf_give(out, json_string("torch.uint8"));
    if (f->scale == KERF_SCALE_E4M3) return kf_give(out, json_string("torch.float8_e4m3fn"));
    return kf_leave_out(out);
}

static const kf_config_key ct_weights[] = {
    {"num_bits", kf_say_bits, NULL, kf_is_same},
    {"type", kf_say_type, NULL, kf_is_same},
    {"symmetric", kf_say_symmetric, NULL, kf_is_same},
    {"strategy", ct_strategy, NULL, NULL},
    {"dynamic", kf_say_literal, "false", NULL},
    {"group_size", kf_say_group, NULL, kf_is_same},
    {"block_structure", kf_say_tile, NULL, NULL},
    {"scale_dtype", ct_scale_dtype, NULL, NULL},
    {NULL, NULL, NULL, NULL},
};

/* 8-bit schemes multiply in 8 kf_say_bits, with activations that are quantized as they come: one
 * scale for each token, or for each block of it that meets one of the weights. Integers in words,
 * 4-bit floats and what is called naive are weights only. */
static json_t *ct_inputs(const kf_configured *q, const kf_stored *s, const kerf_format *f)
{
    const int has_inputs = kf_config_has_inputs(q, f);
    if (!has_inputs && (f->bits != 8 || strcmp(s->scheme, "pack-quantized") == 0 ||
                        strcmp(s->scheme, "naive-quantized") == 0))
        return json_null();
    json_t *j = kf_config_object(ct_weights, q, f);
    int ok = j != NULL;
    if (ok && has_inputs) { /* of NVFP4, the scales of blocks are found as they come */
        if (f->id == KERF_FORMAT_NVFP4) ok = kf_set(j, "dynamic", json_string("local"));
    } else if (ok) {
        int by_group = f->geometry == KERF_GROUP_TILE || f->geometry == KERF_GROUP_BLOCK;
        json_object_del(j, "block_structure");
        ok = kf_set(j, "dynamic", json_true()) &&
             kf_set(j, "strategy", json_string(by_group ? "group" : "token")) &&
             (!by_group || kf_set(j, "group_size", json_integer((json_int_t)f->group)));
    }
    if (ok) return j;
    json_decref(j);
    return NULL;
}

/* One format is that of every linear layer. To vLLM the output head is none, and found by its name.
 */
static json_t *ct_targets(const kf_configured *q, const kerf_format *f)
{
    const int is_one = q->formats == 1;
    json_t *list = is_one ? json_pack("[s]", "Linear") : kf_modules_of(q, f);
    int ok = list != NULL;
    for (size_t i = 0; ok && i < q->count; i++) {
        const kerf_weight *w = &q->weights[i];
        if (w->codec.format != f) continue;
        if (!is_one)
            ok = kf_name_first_expert(w, list);
        else if (w->place.role == KERF_ROLE_HEAD)
            ok = json_array_append_new(list, kf_module_name(w)) == 0;
    }
    if (ok) return list;
    json_decref(list);
    return NULL;
}

static json_t *ct_group(const kf_configured *q, const kerf_format *f)
{
    const kf_stored *s = kf_stored_find(q->layout, f);
    json_t *group = json_object();
    if (group && kf_set(group, "targets", ct_targets(q, f)) &&
        kf_set(group, "weights", kf_config_object(ct_weights, q, f)) &&
        kf_set(group, "input_activations", ct_inputs(q, s, f)) &&
        kf_set(group, "output_activations", json_null()) &&
        (q->formats == 1 || kf_set(group, "format", json_string(s->scheme))))
        return group;
    json_decref(group);
    return NULL;
}

static int ct_groups(KF_VALUE_ARGS)
{
    (void)k;
    (void)f;
    return kf_give(out, kf_config_groups(q, ct_group));
}

/* The first of the groups that is of this format, or NULL. */
static const json_t *group_of(const json_t *groups, const kf_configured *q, const kerf_format *f)
{
    const char *name;
    const json_t *group;
    json_object_foreach((json_t *)groups, name, group)
    {
        const json_t *w = json_object_get(group, "weights");
        if (json_is_object(w) && !kf_config_contradiction(ct_weights, w, q, f)) return group;
    }
    return NULL;
}

/* Whether one of the groups is of this format. */
static int ct_groups_agree(const json_t *there, const json_t *ours, const kf_configured *q,
                           const kerf_format *f)
{
    (void)ours;
    return !json_is_object(there) || group_of(there, q, f);
}

const json_t *kf_ct_inputs_of(const json_t *q, const kerf_layout *l, const kerf_format *f)
{
    const kf_configured of = {.layout = l};
    const json_t *group = group_of(json_object_get(q, "config_groups"), &of, f);
    const json_t *inputs = json_object_get(group, "input_activations");
    return json_is_object(inputs) ? inputs : NULL;
}

static int ct_format(KF_VALUE_ARGS)
{
    const char *format = NULL;
    (void)k;
    (void)f;
    for (size_t i = 0; i < q->formats; i++) {
        const char *scheme = kf_stored_find(q->layout, q->format[i])->scheme;
        format = !format || strcmp(format, scheme) == 0 ? scheme : "mixed-precision";
    }
    return kf_give(out, json_string(format));
}

static int ct_ignored(KF_VALUE_ARGS)
{
    json_t *list = NULL;
    int ok = kf_say_kept(k, q, f, &list) && kf_name_kept_experts(q, 0, list);
    if (ok) return kf_give(out, list);
    json_decref(list);
    return kf_give(out, NULL);
}

/* Of several groups the one that asks for what the format has: of NVFP4 a number to divide by. */
const char *kf_ct_input(const json_t *q, const kerf_format *f, const char **key)
{
    const kerf_layout *l = &kf_layouts[KF_LAYOUT_COMPRESSED_TENSORS];
    int is_inverse, is_vector;
    const char *name, *own = kerf_layout_input(l, f, &is_inverse, &is_vector);
    const json_t *group, *groups = json_object_get(q, "config_groups");
    *key = "input_activations";
    json_object_foreach((json_t *)groups, name, group)
    {
        const json_t *inputs = json_object_get(group, "input_activations");
        const json_t *dynamic = json_object_get(inputs, "dynamic");
        if (!json_is_object(inputs) || json_is_true(dynamic)) continue;
        const char *asked = json_is_string(dynamic) ? "input_global_scale" : "input_scale";
        if (json_object_size(groups) == 1 || (own && strcmp(own, asked) == 0)) return asked;
    }
    return NULL;
}

const kf_config_key kf_ct_keys[] = {
    {"quant_method", kf_say_literal, "\"compressed-tensors\"", NULL},
    {"format", ct_format, NULL, NULL},
    {"quantization_status", kf_say_literal, "\"compressed\"", NULL},
    {"config_groups", ct_groups, NULL, ct_groups_agree},
    {"ignore", ct_ignored, NULL, NULL},
    {"kv_cache_scheme", kf_say_cache_scheme, NULL, NULL},
    {NULL, NULL, NULL, NULL},
};
