/* state.c - bitsandbytes' JSON of a 4-bit weight:
 *
 *   {"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [N, K],
 *    "nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.01}
 *
 * on one line; the second one only when the scales are quantized too. The offset is the double of
 * a float, with digits enough to give it back. */
#include "layout/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/plain_numbers.h"
#include "file/json/json_read.h"

#define MAX_STATE_BYTES 4096u

static const struct {
    const char *name;
    kerf_dtype dtype;
} dtypes[] = {{"bfloat16", KERF_BF16}, {"float16", KERF_F16}, {"float32", KERF_F32}};

static int take_shape(const json_t *list, kerf_shape *out)
{
    size_t i;
    const json_t *dim;
    *out = (kerf_shape){0};
    if (!json_is_array(list) || json_array_size(list) > KERF_MAX_RANK) return 0;
    json_array_foreach(list, i, dim)
    {
        json_int_t n = json_is_integer(dim) ? json_integer_value(dim) : -1;
        if (n < 0 || n > (json_int_t)1 << 53) return 0;
        out->dim[out->rank++] = (uint64_t)n;
    }
    return 1;
}

static int take_state(const json_t *j, kf_state *out)
{
    const char *type = json_string_value(json_object_get(j, "quant_type"));
    const char *dtype = json_string_value(json_object_get(j, "dtype"));
    const json_t *block = json_object_get(j, "blocksize");
    const json_t *nested = json_object_get(j, "nested_blocksize");
    const json_t *offset = json_object_get(j, "nested_offset");
    *out = (kf_state){.nested = nested != NULL};
    for (size_t i = 0; dtype && i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(dtypes[i].name, dtype) == 0) out->dtype = dtypes[i].dtype;
    if (!type || strcmp(type, "nf4") != 0 || !out->dtype || !json_is_integer(block)) return 0;
    out->block = (uint64_t)json_integer_value(block);
    if (out->nested && (json_integer_value(nested) != 256 || !json_is_number(offset))) return 0;
    out->offset = (float)json_number_value(offset);
    return take_shape(json_object_get(j, "shape"), &out->shape);
}

kerf_status kf_state_read(const kerf_reader *r, const kerf_tensor *t, kf_state *out, int *is_state,
                          kerf_error *err)
{
    char text[MAX_STATE_BYTES];
    kerf_error why = {0}; /* also of what is no state */
    json_t *j;
    *is_state = 0;
    if (t->dtype != KERF_U8 || t->bytes > sizeof text) return KERF_OK;
    KF_TRY(kerf_reader_read(r, t, 0, text, (size_t)t->bytes, err));
    const kerf_status s = kf_json_parse(t->name, text, (size_t)t->bytes, KF_JSON_STRICT, &j, &why);
    if (s == KERF_E_DATA) return KERF_OK;
    if (s != KERF_OK) {
        if (err) *err = why;
        return s;
    }
    *is_state = take_state(j, out);
    json_decref(j);
    return KERF_OK;
}

void kf_state_write(const kerf_weight *w, float offset, char out[KF_STATE_BYTES])
{
    const kerf_format *f = w->codec.format;
    const char *dtype = dtypes[0].name;
    char nested[112] = "";
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (dtypes[i].dtype == w->dtype) dtype = dtypes[i].name;
    if (f->second == KERF_SECOND_NESTED)
        kf_print(nested, sizeof nested,
                 ", \"nested_blocksize\": 256, \"nested_dtype\": \"float32\", "
                 "\"nested_offset\": %.9g",
                 (double)offset);
    memset(out, ' ', KF_STATE_BYTES);
    int n = snprintf(out, KF_STATE_BYTES,
                     "{\"quant_type\": \"nf4\", \"blocksize\": %u, \"dtype\": \"%s\", \"shape\": "
                     "[%" PRIu64 ", %" PRIu64 "]%s}",
                     f->group, dtype, w->shape.dim[0], w->shape.dim[1], nested);
    if (n > 0 && n < KF_STATE_BYTES) out[n] = ' ';
}
