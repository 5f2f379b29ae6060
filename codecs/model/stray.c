/* stray.c - knows parts of quantized weights by name and type, and says why they are no weight. */
#include "model/stray.h"

#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "layout/config_file.h"
#include "layout/state.h"
#include "layout/weights.h"

/* Endings of parts; what else must be there, for a name that others use too. */
static const struct {
    const char *end, *beside;
} parts[] = {
    {".weight_scale", NULL},
    {".weight_scale_2", NULL},
    {".weight_global_scale", NULL},
    {".weight_packed", NULL},
    {".weight_zero_point", NULL},
    {".weight_scale_inv", NULL},
    {".weight_g_idx", NULL},
    {".qweight", NULL},
    {".qzeros", NULL},
    {".g_idx", ".qweight"},
    {".scales", ".qweight"},
    {".SCB", ".weight"},
    {".weight.absmax", NULL},
    {".weight.quant_map", NULL},
    {".weight.nested_absmax", NULL},
    {".weight.nested_quant_map", NULL},
    {"_weight_qdata", NULL},
    {"_weight_scale", "_weight_qdata"},
    {"_proj_scales", "_proj_blocks"},
    {"_scale_inv", NULL},
    {"_proj_scale", "_proj"},
    {"_proj_weight_scale", "_proj"},
    {".blocks", ".scales"}, /* gpt-oss as its makers have it, not as transformers does */
    {".scales", ".blocks"},
};

static const char *const codes[] = {".weight", ".weight_packed", ".qweight", "_proj_blocks",
                                    "._weight_qdata"};

/* Codes where a matrix of a layer should be, whatever they are called: schemes that kerf does not
 * read have names of their own. Tables of integers beside routers and embeddings are none. */
static int is_in_place_of_matrix(const kerf_weight *w)
{
    const kerf_place *p = &w->place;
    return w->shape.rank >= 2 && p->layer >= 0 &&
           (p->role == KERF_ROLE_OTHER || !kerf_place_keeps(p));
}

/* bitsandbytes packs codes into a type that training frameworks can cut (bnb_4bit_quant_storage);
 * which numbers these are stands beside them. */
static int is_packed(const kerf_checkpoint *c, const kerf_weight *w)
{
    static const char *const states[] = {KF_STATE_SUFFIX, ".quant_state.bitsandbytes__fp4"};
    char name[KERF_MAX_NAME_BYTES + 64];
    int found = 0;
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        snprintf(name, sizeof name, "%.1024s%s", w->name, states[i]);
        found |= kerf_reader_find(c->reader, name) != NULL;
    }
    return found;
}

static int has_codes(const kerf_weight *w)
{
    static const kerf_dtype types[] = {
        KERF_U8,          KERF_I8,      KERF_I16,     KERF_U16,     KERF_I32,
        KERF_U32,         KERF_F8_E4M3, KERF_F8_E5M2, KERF_F8_E8M0, KERF_F8_E4M3FNUZ,
        KERF_F8_E5M2FNUZ, KERF_F4,      KERF_F6_E2M3, KERF_F6_E3M2};
    int is_type = 0, is_name = is_in_place_of_matrix(w);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) is_type |= w->dtype == types[i];
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        is_name |= kf_has_suffix(w->name, codes[i]);
    return is_type && is_name;
}

static int is_part(const kerf_checkpoint *c, const kerf_weight *w, size_t i)
{
    char name[KERF_MAX_NAME_BYTES + 32];
    if (!kf_has_suffix(w->name, parts[i].end)) return 0;
    if (!parts[i].beside) return 1;
    size_t n = strlen(w->name) - strlen(parts[i].end);
    snprintf(name, sizeof name, "%.*s%s", (int)n, w->name, parts[i].beside);
    return kerf_reader_find(c->reader, name) != NULL;
}

int kf_is_stray(const kerf_checkpoint *c, const kerf_weight *w)
{
    /* A GGUF file says of each tensor what it is. */
    if (w->codec.format || kerf_reader_is_gguf(c->reader)) return 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (is_part(c, w, i)) return 1;
    }
    return has_codes(w) || is_packed(c, w);
}

/* Scales that stand beside codes under a name that no layout has, where one lacks some; NULL: none.
 */
static const char *find_unnamed(const kerf_checkpoint *c, const kerf_weight *w, const char *why)
{
    const char *dot = strrchr(w->name, '.');
    const size_t n = dot ? (size_t)(dot + 1 - w->name) : 0;
    if (n == 0 || !kf_has_suffix(why, " is missing")) return NULL;
    for (size_t i = 0; i < kerf_reader_count(c->reader); i++) {
        const char *name = kerf_reader_at(c->reader, i)->name;
        if (strncmp(name, w->name, n) != 0 || strchr(name + n, '.')) continue;
        if (strstr(name + n, "scale") && !strstr(name + n, "input") && !strstr(name + n, "act"))
            return name + n;
    }
    return NULL;
}

/* 1: the checkpoint says that its numbers are others; why goes to out. */
static int has_other_numbers(const kerf_checkpoint *c, const kerf_weight *w, char *out, size_t size)
{
    return kf_other_numbers_ask(&c->weights->other, c->reader, w->name, out, size, NULL) ==
               KERF_OK &&
           out[0];
}

char *kf_stray_reason(const kerf_checkpoint *c, const kerf_weight *w, char *out, size_t size)
{
    char why[256], method[32];
    if (has_other_numbers(c, w, out, size)) return out;
    if (kf_config_foreign(c->reader, method, sizeof method)) {
        snprintf(
            out, size,
            "belongs to a model that is quantized with \"%s\", as config.json says, which kerf "
            "does not read: take its release in BF16, or save it dequantized by the library "
            "that made it",
            method);
    } else if (has_codes(w) && kerf_tensor_doubt(c->reader, w->plane[0], why, sizeof why)) {
        const char *other = find_unnamed(c, w, why);
        snprintf(out, size, "holds codes, but no layout has them so: %.220s%s%.40s%s", why,
                 other ? "; what stands there is called " : "", other ? other : "",
                 other ? ", which kerf has no rule for" : "");
    } else if (is_packed(c, w)) {
        snprintf(out, size,
                 "holds codes of bitsandbytes in words of %s (bnb_4bit_quant_storage), which kerf "
                 "reads in U8 alone: save it dequantized, or with a quant_storage of uint8",
                 kerf_dtype_name(w->dtype));
    } else if (kf_has_suffix(w->name, "_weight_qdata")) {
        snprintf(out, size,
                 "is a tensor of torchao, of a class that kerf does not read (it reads Int8Tensor "
                 "and Float8Tensor): save the model in plain types or with compressed-tensors");
    } else if (w->dtype == KERF_U32 && kf_has_suffix(w->name, ".weight")) {
        snprintf(out, size,
                 "holds words where a matrix of a layer should be: those of MLX are decoded where "
                 ".scales and .biases stand beside them and \"quantization\" of config.json has "
                 "their bits and group_size; else mlx_lm.convert -d makes BF16 of them");
    } else if (has_codes(w)) {
        snprintf(out, size,
                 "holds numbers of type %s where a matrix of a layer should be, and no layout has "
                 "such a name: take the model's release in BF16",
                 kerf_dtype_name(w->dtype));
    } else {
        snprintf(out, size,
                 "belongs to a quantized weight, but not all of its tensors are there as a layout "
                 "has them: one is missing, too many, or of another type or shape");
    }
    return out;
}

/* Dense weights that a model rounds while it runs are no model without that. */
static kerf_status refuse_rounded(const kerf_checkpoint *c, kerf_error *err)
{
    kf_other_numbers other;
    if (kerf_reader_is_gguf(c->reader)) return KERF_OK;
    KF_TRY(kf_other_numbers_open(c->reader, &other, err));
    const char *why = other.dense;
    kf_other_numbers_close(&other);
    return why ? kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "%.300s: %s", c->path, why) : KERF_OK;
}

kerf_status kf_refuse_strays(const kerf_checkpoint *c, kerf_error *err)
{
    const kerf_weight *found = NULL;
    int has_found_codes = 0;
    char why[320];
    for (size_t i = 0; i < kerf_weights_count(c->weights); i++) {
        const kerf_weight *w = kerf_weights_at(c->weights, i);
        const int is_codes = has_codes(w) || is_packed(c, w);
        if (kf_is_stray(c, w) && (!found || (is_codes && !has_found_codes))) {
            found = w;
            has_found_codes = is_codes;
        }
    }
    if (!found) return refuse_rounded(c, err);
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "%.150s: %s", found->name,
                   kf_stray_reason(c, found, why, sizeof why));
}
