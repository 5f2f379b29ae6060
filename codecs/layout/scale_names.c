/* scale_names.c - what projects call the same scales. */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "layout/recognize.h"

/* Other names of the same scales: DeepSeek's own, ComfyUI's, Mistral's own, TensorRT-LLM's. */
const kerf_tensor *kf_find_alias(const kerf_reader *r, const char *name)
{
    static const struct {
        const char *end, *alias;
    } aliases[] = {
        {".weight_scale_inv", ".scale"},     {".weight_scale_inv", ".weight_scale"},
        {".weight_scale_inv", ".scale_inv"}, {".weight_scale", ".scale_weight"},
        {".weight_scale", ".scale"},         {".weight_scale", ".weight_scale_inv"},
        {".weight_scale", ".qscale_weight"}, {".weight_scale", ".weights_scaling_factor"},
        {"_scale_inv", "_weight_scale_inv"}, {"_scale_inv", ".weight_scale_inv"},
        {"_scale", "_weight_scale"},         {"_scale", ".weight_scale"},
        {"_scale_2", "_weight_scale_2"},     {"_scale_2", ".weight_scale_2"}};
    char other[KERF_MAX_NAME_BYTES + 32];
    const kerf_tensor *t = NULL;
    for (size_t i = 0; !t && i < sizeof aliases / sizeof *aliases; i++) {
        if (!kf_has_suffix(name, aliases[i].end)) continue;
        const size_t n = strlen(name) - strlen(aliases[i].end);
        snprintf(other, sizeof other, "%.*s%s", (int)n, name, aliases[i].alias);
        t = kerf_reader_find(r, other);
    }
    return t;
}
