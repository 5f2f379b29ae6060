/* activations.c - a table of what loaders do.
 *
 * Sources: vLLM, CompressedTensorsConfig._get_scheme_from_parts, ModelOptQuantConfigBase, Fp8Config
 * (per_token_group_quant_fp8 by 128 where weights have tiles); compressed-tensors,
 * QuantizationArgs.
 */
#include "layout/activations.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "layout/config_table.h"
#include "layout/layout_table.h"

/* Layers of `weights` multiply by inputs in `fixed`, by a stored scale whose codes reach so far, or
 * in `dynamic`, scale by scale of `group` numbers. KERF_FORMAT_NONE: they do not. */
static const struct {
    kf_layout_id layout;
    kerf_format_id weights, fixed;
    double reach;
    kerf_format_id dynamic;
    unsigned group;
} table[] = {
    {KF_LAYOUT_MODELOPT, KERF_FORMAT_NVFP4, KERF_FORMAT_NVFP4, 6 * 448, 0, 0},
    {KF_LAYOUT_MODELOPT, KERF_FORMAT_FP8_E4M3, KERF_FORMAT_FP8_E4M3, 448, 0, 0},
    {KF_LAYOUT_MODELOPT, KERF_FORMAT_FP8_E4M3_ROW, 0, 0, KERF_FORMAT_FP8_E4M3_ROW, 0},
    {KF_LAYOUT_MODELOPT, KERF_FORMAT_FP8_E4M3_TILE, 0, 0, KERF_FORMAT_FP8_E4M3_ROW, 128},
    {KF_LAYOUT_MODELOPT, KERF_FORMAT_MXFP8_E4M3, 0, 0, KERF_FORMAT_MXFP8_E4M3, 0},
    {KF_LAYOUT_COMPRESSED_TENSORS, KERF_FORMAT_NVFP4, KERF_FORMAT_NVFP4, 6 * 448, 0, 0},
    {KF_LAYOUT_COMPRESSED_TENSORS, KERF_FORMAT_FP8_E4M3, KERF_FORMAT_FP8_E4M3, 448,
     KERF_FORMAT_FP8_E4M3_ROW, 0},
    {KF_LAYOUT_COMPRESSED_TENSORS, KERF_FORMAT_FP8_E4M3_ROW, 0, 0, KERF_FORMAT_FP8_E4M3_ROW, 0},
    {KF_LAYOUT_COMPRESSED_TENSORS, KERF_FORMAT_FP8_E4M3_TILE, 0, 0, KERF_FORMAT_FP8_E4M3_ROW, 128},
    {KF_LAYOUT_COMPRESSED_TENSORS, KERF_FORMAT_INT8, KERF_FORMAT_INT8_TENSOR, 127, KERF_FORMAT_INT8,
     0},
    {KF_LAYOUT_COMPRESSED_TENSORS, KERF_FORMAT_MXFP8_E4M3, 0, 0, KERF_FORMAT_MXFP8_E4M3, 0},
    {KF_LAYOUT_COMPRESSED_TENSORS, KERF_FORMAT_MXFP4, 0, 0, KERF_FORMAT_MXFP4, 0},
    {KF_LAYOUT_DEEPSEEK, KERF_FORMAT_FP8_E4M3_TILE, 0, 0, KERF_FORMAT_FP8_E4M3_ROW, 128},
};
#define ROWS (sizeof table / sizeof *table)

static size_t find_row(const kerf_layout *l, const kerf_format *f)
{
    size_t i = 0;
    while (i < ROWS && (&kf_layouts[table[i].layout] != l || table[i].weights != f->id)) i++;
    return i;
}

static int is_ct(const kerf_layout *l)
{
    return l == &kf_layouts[KF_LAYOUT_COMPRESSED_TENSORS];
}

/* The number beside the weight that its inputs are divided by; 0: there is none. */
static kerf_status read_scale(const kerf_layout *l, const kerf_reader *r, const kerf_weight *w,
                              double *out, kerf_error *err)
{
    int is_inverse = 0, is_vector;
    const char *end = kerf_layout_input(l, w->codec.format, &is_inverse, &is_vector);
    const size_t cut = kf_has_suffix(w->name, ".weight") ? strlen(".weight") : 0;
    char name[KERF_MAX_NAME_BYTES + 32];
    float x;
    *out = 0;
    snprintf(name, sizeof name, "%.*s.%s", (int)(strlen(w->name) - cut), w->name,
             end ? end : "input_scale");
    const kerf_tensor *t = kerf_reader_find(r, name);
    if (!t || t->dtype != KERF_F32 || t->bytes != sizeof x) return KERF_OK;
    KF_TRY(kerf_reader_read(r, t, 0, &x, sizeof x, err));
    if (x > 0 && isfinite(x)) *out = is_inverse ? 1 / (double)x : (double)x;
    return KERF_OK;
}

kerf_status kf_activations_find(const kerf_layout *l, const json_t *q, const kerf_reader *r,
                                const kerf_weight *w, kf_activations *out, kerf_error *err)
{
    double scale = 0;
    *out = (kf_activations){NULL, 0, 0};
    if (!w->codec.format || w->place.role == KERF_ROLE_EMBEDDING) return KERF_OK;
    const size_t i = find_row(l, w->codec.format);
    if (i == ROWS) return KERF_OK;
    const json_t *inputs = is_ct(l) ? kf_ct_inputs_of(q, l, w->codec.format) : NULL;
    if (is_ct(l) && !inputs) return KERF_OK;
    const int is_dynamic = !table[i].fixed || json_is_true(json_object_get(inputs, "dynamic"));
    if (!is_dynamic) KF_TRY(read_scale(l, r, w, &scale, err));
    if (!is_dynamic && scale == 0) return KERF_OK;
    const kerf_format_id id = is_dynamic ? table[i].dynamic : table[i].fixed;
    if (!id) return KERF_OK;
    *out = (kf_activations){kf_format_of(id), is_dynamic ? table[i].group : 0,
                            (float)(scale * table[i].reach)};
    return KERF_OK;
}
