/* config_file.c - the JSON files beside a model: config.json and others of its folder, and which
 * layout they name. */
#include "layout/config_file.h"

#include <kerf/words.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "file/disk/io.h"
#include "file/json/json_read.h"
#include "layout/layout_table.h"
#include "roles/facts.h"

kerf_status kf_config_load(const kerf_reader *r, const char *name, json_t **out, kerf_error *err)
{
    kerf_error own = {.text = ""}; /* which tells whether the file is there */
    char *path = kf_path_join(kerf_reader_folder(r), name);
    *out = NULL;
    if (!path) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for %s", name);
    kerf_status s = kf_json_read(path, KF_JSON_MAX_CONFIG_BYTES, KF_JSON_PYTHON, out, &own);
    if (kf_json_is_absent(path, s, &own))
        s = KERF_OK;
    else if (s != KERF_OK && err)
        *err = own;
    free(path);
    return s;
}

kerf_status kf_config_check_read(const kerf_reader *r, kerf_error *err)
{
    json_t *config;
    if (!kerf_reader_is_folder(r)) return KERF_OK;
    KF_TRY(kf_config_load(r, "config.json", &config, err));
    json_decref(config);
    return KERF_OK;
}

/* From the outside in: what is further out counts. */
static void find_quantization(const json_t *config, const char *nest, unsigned depth,
                              const json_t **found, const char **second)
{
    const json_t *q = json_object_get(config, "quantization_config");
    if (json_is_object(q)) {
        if (!*found)
            *found = q;
        else if (!*second && !json_equal(q, *found))
            *second = nest;
    }
    for (int i = 0; depth > 0 && kf_language_nests[i]; i++) {
        const char *name = kf_language_nests[i];
        find_quantization(json_object_get(config, name), name, depth - 1, found, second);
    }
}

const json_t *kf_config_quantization(const json_t *config, const char **second)
{
    const json_t *found = NULL;
    const char *other = NULL;
    find_quantization(config, NULL, 2, &found, &other); /* a thinker_config has a text_config */
    if (second) *second = other;
    return found;
}

/* The layout that a quantization_config names; NULL: none that kerf knows. Most methods are called
 * like the layout. */
static const kerf_layout *find_method(const json_t *q)
{
    static const struct {
        const char *method, *key, *value; /* value: what the key must be; NULL: no such condition */
        kf_layout_id layout;
    } methods[] = {
        {"gptq", "checkpoint_format", "gptq_v2", KF_LAYOUT_GPTQ_V2},
        {"gptq", "checkpoint_format", "gptq", KF_LAYOUT_GPTQ},
        {"gptq", "format", "gptq_v2", KF_LAYOUT_GPTQ_V2}, /* GPTQModel has both */
        {"compressed-tensors", "format", "naive-quantized", KF_LAYOUT_CT_NAIVE},
        {"fp8", NULL, NULL, KF_LAYOUT_DEEPSEEK},
        {"modelopt_fp4", NULL, NULL, KF_LAYOUT_MODELOPT},
        {"modelopt_mxfp8", NULL, NULL, KF_LAYOUT_MODELOPT},
        {"mxfp4", NULL, NULL, KF_LAYOUT_GPT_OSS},
        {"gptq_v2", NULL, NULL, KF_LAYOUT_GPTQ_V2},
        {"naive-quantized", NULL, NULL, KF_LAYOUT_CT_NAIVE},
    };
    const char *method = json_string_value(json_object_get(q, "quant_method"));
    if (!method) return NULL;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (strcmp(method, methods[i].method) != 0) continue;
        const char *key = methods[i].key;
        const char *value = key ? json_string_value(json_object_get(q, key)) : NULL;
        if (!key || (value && strcmp(value, methods[i].value) == 0))
            return &kf_layouts[methods[i].layout];
    }
    return kerf_layout_find(method);
}

kerf_status kf_config_load_sound(const kerf_reader *r, const char *name, json_t **out,
                                 kerf_error *err)
{
    kerf_error why = {0}; /* also of a file that says nothing, which is no failure */
    const kerf_status s = kf_config_load(r, name, out, &why);
    if (s == KERF_OK || s == KERF_E_DATA) return KERF_OK;
    if (err) *err = why;
    return s;
}

/* Older exports of Model-Optimizer say all in a file of their own. */
kerf_status kerf_layout_configured(const kerf_reader *r, const kerf_layout **out, kerf_error *err)
{
    json_t *config, *older = NULL;
    *out = NULL;
    KF_TRY(kf_config_load_sound(r, "config.json", &config, err));
    const json_t *q = kf_config_quantization(config, NULL);
    const kerf_layout *found = find_method(q);
    kerf_status s = q ? KERF_OK : kf_config_load_sound(r, "hf_quant_config.json", &older, err);
    if (json_object_get(json_object_get(older, "quantization"), "quant_algo"))
        found = &kf_layouts[KF_LAYOUT_MODELOPT];
    if (s == KERF_OK) *out = found;
    json_decref(config);
    json_decref(older);
    return s;
}

int kf_config_foreign(const kerf_reader *r, char *method, size_t size)
{
    json_t *config;
    if (kf_config_load_sound(r, "config.json", &config, NULL) != KERF_OK) return 0;
    const json_t *q = kf_config_quantization(config, NULL);
    const char *name = json_string_value(json_object_get(q, "quant_method"));
    const int is_foreign = name && name[0] && !find_method(q);
    if (is_foreign) kerf_text_printable(name, method, size);
    json_decref(config);
    return is_foreign;
}
