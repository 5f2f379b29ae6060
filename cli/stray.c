/* stray.c - knows parts of quantized weights by name and type, and says why they are no weight. */
#include "stray.h"

#include <string.h>

static const char *const parts[] = {
    ".weight_scale",
    ".weight_scale_2",
    ".weight_global_scale",
    ".weight_packed",
    ".weight_zero_point",
    ".weight_scale_inv",
    ".weight_g_idx",
    ".qweight",
    ".qzeros",
    ".scales",
    ".g_idx",
    ".SCB",
    "_weight_qdata",
    "_weight_scale",
};

static const char *const codes[] = {".weight", ".weight_packed", ".qweight", "_proj_blocks"};

static int ends_in(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (ends_with(name, list[i])) return 1;
    }
    return 0;
}

static int is_code_type(kerf_dtype t)
{
    return t == KERF_U8 || t == KERF_I8 || t == KERF_I32 || t == KERF_F8_E4M3 ||
           t == KERF_F8_E5M2 || t == KERF_F4;
}

static int has_codes(const kerf_weight *w)
{
    return is_code_type(w->dtype) && ends_in(w->name, codes, sizeof codes / sizeof *codes);
}

int is_stray(const kerf_weight *w)
{
    if (w->codec.format) return 0;
    int is_scale = w->dtype == KERF_U8 && ends_with(w->name, "_proj_scales");
    return is_scale || has_codes(w) || ends_in(w->name, parts, sizeof parts / sizeof *parts);
}

char *stray_reason(const checkpoint *c, const kerf_weight *w, char *out, size_t size)
{
    char why[256];
    if (ends_with(w->name, "_weight_qdata")) {
        snprintf(out, size,
                 "is a tensor of torchao, whose arrangement depends on its version: not read; save "
                 "the model in plain types or with compressed-tensors");
    } else if (has_codes(w) && kerf_tensor_doubt(c->reader, w->plane[0], why, sizeof why)) {
        snprintf(out, size, "holds codes, but no layout has them so: %.220s", why);
    } else {
        snprintf(out, size,
                 "belongs to a quantized weight, but not all of its tensors are there as a layout "
                 "has them: one is missing, too many, or of another type or shape");
    }
    return out;
}

kerf_status refuse_strays(const checkpoint *c, kerf_error *err)
{
    const kerf_weight *found = NULL;
    char why[320];
    for (size_t i = 0; i < kerf_weights_count(c->weights); i++) {
        const kerf_weight *w = kerf_weights_at(c->weights, i);
        if (is_stray(w) && (!found || (has_codes(w) && !has_codes(found)))) found = w;
    }
    if (!found) return KERF_OK;
    return fail(err, KERF_E_NOSUP, "%.150s: %s", found->name,
                stray_reason(c, found, why, sizeof why));
}
