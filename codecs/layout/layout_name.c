/* layout_name.c - what a person types becomes a layout, or an answer that says which there are. */
#include <kerf/words.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "layout/layout_table.h"

/* Names that others have for one layout: a package, its tool, its short form. */
static const struct {
    const char *name;
    int layout;
} twins[] = {
    {"ct", KF_LAYOUT_COMPRESSED_TENSORS},
    {"llm-compressor", KF_LAYOUT_COMPRESSED_TENSORS},
    {"ct-naive", KF_LAYOUT_CT_NAIVE},
    {"model-optimizer", KF_LAYOUT_MODELOPT},
    {"nvidia-modelopt", KF_LAYOUT_MODELOPT},
    {"bnb", KF_LAYOUT_BITSANDBYTES},
    {"llama.cpp", KF_LAYOUT_GGUF},
    {"autogptq", KF_LAYOUT_GPTQ},
    {"gptqmodel", KF_LAYOUT_GPTQ},
    {"autoawq", KF_LAYOUT_AWQ},
    {"ao", KF_LAYOUT_TORCHAO},
    {"gptoss", KF_LAYOUT_GPT_OSS},
    {"deepseek-v3", KF_LAYOUT_DEEPSEEK},
    {"fp8-block", KF_LAYOUT_DEEPSEEK},
};

/* Programs that load checkpoints, which are no layouts. */
static const struct {
    const char *name, *loads;
} runtimes[] = {
    {"vllm", "compressed-tensors, modelopt, deepseek, gptq and gpt-oss"},
    {"sglang", "compressed-tensors, modelopt, deepseek, gptq and gpt-oss"},
    {"tensorrt-llm", "modelopt"},
    {"trtllm", "modelopt"},
    {"transformers", "compressed-tensors, bitsandbytes, deepseek, gptq and gpt-oss"},
    {"ollama", "gguf"},
};

#define COUNT(list) (sizeof(list) / sizeof *(list))

kerf_status kerf_layout_get(const char *text, const kerf_layout **out, kerf_error *err)
{
    char list[240] = "";
    *out = NULL;
    for (size_t i = 0; i < KF_LAYOUTS; i++)
        if (kerf_names_match(text, kf_layouts[i].name)) *out = &kf_layouts[i];
    for (size_t i = 0; !*out && i < COUNT(twins); i++)
        if (kerf_names_match(text, twins[i].name)) *out = &kf_layouts[twins[i].layout];
    if (*out) return KERF_OK;
    for (size_t i = 0; i < COUNT(runtimes); i++)
        if (kerf_names_match(text, runtimes[i].name))
            return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                           "%.40s is a program, no layout; it loads %s", text, runtimes[i].loads);
    for (size_t i = 0; i < KF_LAYOUTS; i++) {
        const size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", kf_layouts[i].name);
    }
    return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "unknown layout %.40s; expected one of %s", text,
                   list);
}
