/* config_table.c - what the loaders of each layout are told in config.json.
 *
 * Keys are those that every loader of the layout accepts and no more: some of them refuse a file
 * with a key that they do not know.
 *
 * kerf quantizes weights. Where a scheme also quantizes activations it is one that does so as they
 * come, so that nothing has to be calibrated; or somebody did that, and the scale of each layer's
 * inputs is among the tensors.
 *
 * Sources: those of layout_table.c. */
#include "layout/config_table.h"

#include <stdlib.h>
#include <string.h>

#include "file/json/text.h"

/* --- deepseek, gpt-oss ---------------------------------------------------------------------- */

static const kf_config_key deepseek_keys[] = {
    {"quant_method", kf_say_literal, "\"fp8\"", NULL},
    {"fmt", kf_say_literal, "\"e4m3\"", NULL},
    {"activation_scheme", kf_say_literal, "\"dynamic\"", NULL},
    {"weight_block_size", kf_say_tile, NULL, kf_is_same},
    {"modules_to_not_convert", kf_say_kept, NULL, NULL},
    {NULL, NULL, NULL, NULL},
};

static const kf_config_key gpt_oss_keys[] = {
    {"quant_method", kf_say_literal, "\"mxfp4\"", NULL},
    {"modules_to_not_convert", kf_say_kept, NULL, NULL},
    {NULL, NULL, NULL, NULL},
};

/* --- bitsandbytes --------------------------------------------------------------------------- */

static int in_8_bits(KF_VALUE_ARGS)
{
    (void)k;
    (void)q;
    return kf_give(out, json_boolean(f->element == KERF_ELEM_S8));
}

static int in_4_bits(KF_VALUE_ARGS)
{
    (void)k;
    (void)q;
    return kf_give(out, json_boolean(f->element != KERF_ELEM_S8));
}

static int bnb_type(KF_VALUE_ARGS)
{
    (void)k;
    (void)q; /* fp4: as if not given */
    return kf_give(out, json_string(f->element == KERF_ELEM_S8 ? "fp4" : "nf4"));
}

static int bnb_nested(KF_VALUE_ARGS)
{
    (void)k;
    (void)q;
    return kf_give(out, json_boolean(f->second == KERF_SECOND_NESTED));
}

static int bnb_compute(KF_VALUE_ARGS)
{
    (void)k;
    (void)q;
    return kf_give(out, json_string(f->element == KERF_ELEM_S8 ? "float32" : "bfloat16"));
}

static const kf_config_key bitsandbytes_keys[] = {
    {"quant_method", kf_say_literal, "\"bitsandbytes\"", NULL},
    {"load_in_4bit", in_4_bits, NULL, NULL},
    {"load_in_8bit", in_8_bits, NULL, kf_is_same},
    {"bnb_4bit_quant_type", bnb_type, NULL, NULL},
    {"bnb_4bit_use_double_quant", bnb_nested, NULL, NULL},
    {"bnb_4bit_compute_dtype", bnb_compute, NULL, NULL},
    {"bnb_4bit_quant_storage", kf_say_literal, "\"uint8\"", NULL},
    {"llm_int8_threshold", kf_say_literal, "6.0", NULL},
    {"llm_int8_skip_modules", kf_say_kept, NULL, NULL},
    {"llm_int8_has_fp16_weight", kf_say_literal, "false", NULL},
    {"llm_int8_enable_fp32_cpu_offload", kf_say_literal, "false", NULL},
    {NULL, NULL, NULL, NULL},
};

/* --- gptq, awq ------------------------------------------------------------------------------ */

/* "-:" and a regular expression for the module: not quantized. */
static int gptq_exceptions(KF_VALUE_ARGS)
{
    json_t *all = json_object(), *list = NULL, *name;
    size_t i;
    int ok = all && kf_say_kept(k, q, f, &list) && kf_name_kept_experts(q, 1, list);
    json_array_foreach(list, i, name)
    {
        kf_text t = {0};
        kf_text_add(&t, "-:^");
        for (const char *c = json_string_value(name); *c; c++)
            kf_text_add(&t, strchr(".^$*+?()[]{}|\\", *c) ? "\\%c" : "%c", *c);
        kf_text_add(&t, "$");
        ok = ok && !t.failed && kf_set(all, t.p, json_object());
        free(t.p);
    }
    json_decref(list);
    if (ok) return kf_give(out, all);
    json_decref(all);
    return kf_give(out, NULL);
}

/* -1: a row is a group. */
static int group_size_or_row(KF_VALUE_ARGS)
{
    if (f->geometry != KERF_GROUP_ROW) return kf_say_group(k, q, f, out);
    return kf_give(out, json_integer(-1));
}

static int gptq_version(KF_VALUE_ARGS)
{
    (void)k;
    (void)f;
    const int is_first = q->layout == &kf_layouts[KF_LAYOUT_GPTQ];
    return kf_give(out, json_string(is_first ? "gptq" : "gptq_v2"));
}

static int has_head(KF_VALUE_ARGS)
{
    int found = 0;
    (void)k;
    (void)f;
    for (size_t i = 0; i < q->count; i++)
        found |= q->weights[i].codec.format && q->weights[i].place.role == KERF_ROLE_HEAD;
    return kf_give(out, json_boolean(found));
}

static const kf_config_key gptq_keys[] = {
    {"quant_method", kf_say_literal, "\"gptq\"", NULL},
    {"checkpoint_format", gptq_version, NULL, NULL},
    {"bits", kf_say_bits, NULL, kf_is_same},
    {"group_size", group_size_or_row, NULL, kf_is_same},
    {"desc_act", kf_say_literal, "false", NULL},
    {"sym", kf_say_symmetric, NULL, kf_is_same},
    {"lm_head", has_head, NULL, NULL},
    {"pack_dtype", kf_say_literal, "\"int32\"", NULL},
    {"dynamic", gptq_exceptions, NULL, NULL},
    {"meta", kf_say_literal, "{\"quantizer\": [\"kerf:" KERF_VERSION_TEXT "\"]}", NULL},
    {NULL, NULL, NULL, NULL},
};

static const kf_config_key awq_keys[] = {
    {"bits", kf_say_bits, NULL, kf_is_same},
    {"group_size", group_size_or_row, NULL, kf_is_same},
    {NULL, NULL, NULL, NULL},
};

/* --- the table ------------------------------------------------------------------------------ */

/* clang-format off */
#define CONFIG(keys) {"config.json", "quantization_config", keys, 0}
#define CHECKED(keys) {"config.json", "quantization_config", keys, 1}

const kf_config_rules kf_config_table[KF_LAYOUTS] = {
    [KF_LAYOUT_KERF]               = {.mixes = 1},
    [KF_LAYOUT_GGUF]               = {.mixes = 1},
    [KF_LAYOUT_MODELOPT]           = {.file = {CONFIG(kf_modelopt_keys), {"hf_quant_config.json", "quantization", kf_modelopt_old_keys, 0}},
                                      .mixes = 1, .mixed = kf_modelopt_mixed, .input = kf_modelopt_input},
    [KF_LAYOUT_COMPRESSED_TENSORS] = {.file = {CONFIG(kf_ct_keys)}, .mixes = 1, .input = kf_ct_input},
    [KF_LAYOUT_CT_NAIVE]           = {.file = {CONFIG(kf_ct_keys)}, .mixes = 1, .input = kf_ct_input},
    [KF_LAYOUT_DEEPSEEK]           = {.file = {CONFIG(deepseek_keys)}},
    [KF_LAYOUT_BITSANDBYTES]       = {.file = {CONFIG(bitsandbytes_keys)}},
    [KF_LAYOUT_GPTQ]               = {.file = {CONFIG(gptq_keys), {"quantize_config.json", NULL, gptq_keys, 0}}},
    [KF_LAYOUT_GPTQ_V2]            = {.file = {CONFIG(gptq_keys), {"quantize_config.json", NULL, gptq_keys, 0}}},
    [KF_LAYOUT_GPT_OSS]            = {.file = {CONFIG(gpt_oss_keys)}},
    [KF_LAYOUT_AWQ]                = {.file = {CHECKED(awq_keys)}},
    [KF_LAYOUT_TORCHAO]            = {.file = {CHECKED(NULL)}},
    [KF_LAYOUT_FP8_STACKS]         = {.mixes = 1},
    [KF_LAYOUT_CT_STACKS]          = {.mixes = 1},
    [KF_LAYOUT_CT_WORDS]           = {.mixes = 1},
};
/* clang-format on */
