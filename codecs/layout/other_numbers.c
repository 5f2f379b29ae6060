/* other_numbers.c - what says that the numbers of quantized weights are others than their codes and
 * scales stand for: weights that were rotated, with inputs that are rotated while the model runs;
 * scales that divide; scales in the order of a kernel's tiles and codes whose halves are swapped,
 * as ComfyUI has them under the names of Model-Optimizer.
 *
 * Sources: compressed-tensors, transform/transform_args.py (is_online) and vLLM,
 * compressed_tensors/transform/linear.py; GPTQModel, quantization/config.py (FP8Config);
 * comfy-kitchen, tensor/nvfp4.py, mxfp8.py, int8.py, and ComfyUI, comfy/utils.py
 * (convert_old_quants). */
#include "layout/other_numbers.h"

#include <kerf/words.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "file/json/json_read.h"
#include "layout/config_file.h"

#define MAX_MARK_BYTES 4096u

static const char rotates[] =
    "is of a model whose inputs are rotated while it runs (transform_config of config.json). Its "
    "weights are rotated too, and kerf does not turn them back: take the release in BF16";

static const char divides[] =
    "has scales that divide (weight_scale_semantics of config.json is \"inverse\"), as GPTQModel "
    "writes FP8, under a name of scales that multiply: save it dequantized by GPTQModel";

static const char rounds[] =
    "the model makes its weights ternary while it runs (quantization_config of config.json: "
    "bitnet, "
    "online). In another format they are no longer rounded so, and the model is another one";

static int is_text(const json_t *q, const char *key, const char *text)
{
    const char *value = json_string_value(json_object_get(q, key));
    return value && strcmp(value, text) == 0;
}

/* A transform of inputs or outputs of layers. Those of weights alone cancel each other, and so do
 * those of queries and keys. */
static int rotates_inputs(const json_t *quantization)
{
    const json_t *groups =
        json_object_get(json_object_get(quantization, "transform_config"), "config_groups");
    const char *name;
    json_t *scheme, *apply;
    size_t i;
    json_object_foreach((json_t *)groups, name, scheme)
        json_array_foreach(json_object_get(scheme, "apply"), i, apply)
    {
        const char *at = json_string_value(json_object_get(apply, "location"));
        if (at && (strcmp(at, "input") == 0 || strcmp(at, "output") == 0)) return 1;
    }
    return 0;
}

static kerf_status ask_config(const kerf_reader *r, kf_other_numbers *o, kerf_error *err)
{
    json_t *config;
    KF_TRY(kf_config_load_sound(r, "config.json", &config, err));
    const json_t *q = kf_config_quantization(config, NULL);
    if (rotates_inputs(q))
        o->all = rotates;
    else if (is_text(q, "weight_scale_semantics", "inverse"))
        o->all = divides;
    if (is_text(q, "quant_method", "bitnet") && is_text(q, "quantization_mode", "online"))
        o->dense = rounds;
    json_decref(config);
    return KERF_OK;
}

/* {"format_version": "1.0", "layers": {"blocks.0.mlp": {"format": "nvfp4"}}} of each file. */
static kerf_status ask_metadata(const kerf_reader *r, kf_other_numbers *o, kerf_error *err)
{
    static const char key[] = "_quantization_metadata";
    for (size_t i = 0; i < kerf_reader_shard_count(r); i++) {
        const char *text = kerf_reader_is_gguf(r) ? NULL : kerf_reader_metadata(r, i, key);
        kerf_error why = {0}; /* also of nothing that ComfyUI reads */
        json_t *j;
        if (!text) continue;
        kerf_status s = kf_json_parse(key, text, strlen(text), KF_JSON_PYTHON, &j, &why);
        if (s == KERF_E_DATA) continue;
        if (s != KERF_OK) {
            if (err) *err = why;
            return s;
        }
        json_t *layers = json_object_get(j, "layers");
        if (json_is_object(layers) && !o->layers)
            o->layers = json_incref(layers);
        else if (json_is_object(layers) && json_object_update(o->layers, layers) != 0)
            s = kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for %s", key);
        json_decref(j);
        KF_TRY(s);
    }
    return KERF_OK;
}

kerf_status kf_other_numbers_open(const kerf_reader *r, kf_other_numbers *out, kerf_error *err)
{
    *out = (kf_other_numbers){0};
    kerf_status s = ask_config(r, out, err);
    if (s == KERF_OK) s = ask_metadata(r, out, err);
    if (s != KERF_OK) kf_other_numbers_close(out);
    return s;
}

void kf_other_numbers_close(kf_other_numbers *o)
{
    json_decref(o->layers);
    o->layers = NULL;
}

/* {"format": "int8_tensorwise", "convrot": true, "convrot_groupsize": 256}: the forms that are what
 * others have by these names, and none that was rotated. */
static void judge_comfy(const json_t *mark, char *out, size_t size)
{
    static const char *const plain[] = {"float8_e4m3fn", "float8_e5m2", "int8_tensorwise"};
    char format[48] = "none";
    const char *name = json_string_value(json_object_get(mark, "format"));
    int is_plain = 0;
    for (size_t i = 0; name && i < sizeof plain / sizeof *plain; i++)
        is_plain |= strcmp(plain[i], name) == 0;
    const json_t *rotated = json_object_get(mark, "convrot");
    if (is_plain && (!rotated || json_is_false(rotated) || json_is_null(rotated))) return;
    if (name) kerf_text_printable(name, format, sizeof format);
    snprintf(out, size,
             "is in ComfyUI's \"%s\"%s, whose %s under the names of others, which kerf does not "
             "read: take the model's release in BF16 or FP8",
             format, is_plain ? " with convrot" : "",
             is_plain ? "weights are rotated" : "codes and scales lie in an order of its own");
}

static kerf_status ask_mark(const kerf_reader *r, const kerf_tensor *t, char *out, size_t size,
                            kerf_error *err)
{
    char text[MAX_MARK_BYTES];
    kerf_error why = {0}; /* also of a mark that is no JSON */
    json_t *mark = NULL;
    if (t->dtype != KERF_U8 || t->bytes > sizeof text) return KERF_OK;
    KF_TRY(kerf_reader_read(r, t, 0, text, (size_t)t->bytes, err));
    const kerf_status s =
        kf_json_parse(t->name, text, (size_t)t->bytes, KF_JSON_PYTHON, &mark, &why);
    if (s != KERF_OK && s != KERF_E_DATA) {
        if (err) *err = why;
        return s;
    }
    judge_comfy(mark, out, size);
    json_decref(mark);
    return KERF_OK;
}

kerf_status kf_other_numbers_ask(const kf_other_numbers *o, const kerf_reader *r, const char *part,
                                 char *out, size_t size, kerf_error *err)
{
    char name[KERF_MAX_NAME_BYTES + 32];
    const char *dot = strrchr(part, '.');
    const json_t *layer;
    out[0] = 0;
    if (o->all) {
        snprintf(out, size, "%s", o->all);
        return KERF_OK;
    }
    if (!dot || dot - part > KERF_MAX_NAME_BYTES) return KERF_OK;
    const int n = (int)(dot - part);
    snprintf(name, sizeof name, "%.*s", n, part);
    if ((layer = json_object_get(o->layers, name)) != NULL) judge_comfy(layer, out, size);
    if (out[0]) return KERF_OK;
    snprintf(name, sizeof name, "%.*s.comfy_quant", n, part);
    const kerf_tensor *mark = kerf_reader_find(r, name);
    return mark ? ask_mark(r, mark, out, size, err) : KERF_OK;
}
