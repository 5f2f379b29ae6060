/* config_cache.c - what is said of the KV cache: kv_cache_scheme in compressed-tensors' and
 * Model-Optimizer's config.json, kv_cache_quant_algo in hf_quant_config.json.
 *
 * Sources: vLLM, CompressedTensorsKVCacheMethod (an FP8 cache with a scale for each tensor) and
 * ModelOptQuantConfigBase.from_config; Model-Optimizer, convert_hf_quant_config_format. Scales are
 * X.self_attn.k_scale for the one, X.self_attn.k_proj.k_scale for the other, and vLLM and SGLang
 * take either name for both (maybe_remap_kv_scale_name). */
#include "layout/config_cache.h"

#include <string.h>
#include <strings.h>

#include "base/base.h"
#include "layout/config_file.h"

static int is_modelopt(const kerf_layout *l)
{
    return l == &kf_layouts[KF_LAYOUT_MODELOPT];
}

static int is_ct(const kerf_layout *l)
{
    return l == &kf_layouts[KF_LAYOUT_COMPRESSED_TENSORS] || l == &kf_layouts[KF_LAYOUT_CT_NAIVE];
}

/* --- scales --------------------------------------------------------------------------------- */

static int is_scale(const char *name)
{
    return kf_has_suffix(name, ".k_scale") || kf_has_suffix(name, ".v_scale") ||
           kf_has_suffix(name, ".q_scale"); /* of queries, which meet the keys */
}

/* What compressed-tensors called them at first; no other loader knows these names. */
static int is_older_scale(const char *name)
{
    return kf_has_suffix(name, ".k_proj.output_scale") ||
           kf_has_suffix(name, ".v_proj.output_scale");
}

static size_t count_source(const kerf_reader *r, int (*is)(const char *name))
{
    size_t n = 0;
    for (size_t i = 0; i < kerf_reader_count(r); i++) n += is(kerf_reader_at(r, i)->name) != 0;
    return n;
}

/* Whether the output has none of the source's. */
static int are_left_out(const kerf_reader *r, const kerf_weight *weights, size_t count)
{
    if (count_source(r, is_scale) + count_source(r, is_older_scale) == 0) return 0;
    for (size_t i = 0; i < count; i++)
        if (is_scale(weights[i].name) || is_older_scale(weights[i].name)) return 0;
    return 1;
}

int kf_cache_keeps(const kf_cache *c, const kerf_layout *to, const char *name)
{
    if (c->is_there && !c->scheme) return 0;
    if (is_ct(c->from) && is_ct(to) && is_older_scale(name)) return 1;
    return (is_ct(c->from) || is_modelopt(c->from)) && (is_ct(to) || is_modelopt(to)) &&
           is_scale(name);
}

/* --- words ---------------------------------------------------------------------------------- */

/* Model-Optimizer's name of what a scheme says; NULL: it has none. */
static const char *algorithm_of(const json_t *said)
{
    const char *name = json_string_value(said), *type, *strategy;
    if (name) return name;
    type = json_string_value(json_object_get(said, "type"));
    strategy = json_string_value(json_object_get(said, "strategy"));
    if (!type || strcmp(type, "float") != 0 || json_is_true(json_object_get(said, "dynamic")) ||
        json_is_false(json_object_get(said, "symmetric")))
        return NULL;
    const json_int_t bits = json_integer_value(json_object_get(said, "num_bits"));
    if (bits == 8 && (!strategy || strcmp(strategy, "tensor") == 0)) return "FP8";
    return bits == 4 ? "NVFP4" : NULL;
}

static int is_fp8(const json_t *said)
{
    const char *name = algorithm_of(said);
    return name && strcasecmp(name, "FP8") == 0;
}

/* A member that says something; NULL: none does. */
static json_t *member(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    return json_is_object(value) || json_is_string(value) ? value : NULL;
}

static int say_to_ct(kf_cache *c, json_t *said)
{
    if (is_ct(c->from))
        c->scheme = json_deep_copy(said);
    else
        c->scheme = json_pack("{s:i, s:s, s:b, s:s, s:b}", "num_bits", 8, "type", "float",
                              "symmetric", 1, "strategy", "tensor", "dynamic", 0);
    return c->scheme != NULL;
}

/* `named`: what the source's hf_quant_config.json says. Theirs stays as it is where it is one. */
static int say_to_modelopt(kf_cache *c, json_t *said, json_t *named)
{
    const char *name = algorithm_of(said);
    if (is_modelopt(c->from) && (json_is_object(said) || !is_fp8(said)))
        c->scheme = json_deep_copy(said);
    else
        c->scheme = json_pack("{s:b, s:i, s:s}", "dynamic", 0, "num_bits", 8, "type", "float");
    c->algorithm = named && is_modelopt(c->from) ? json_deep_copy(named)
                   : name                        ? json_string(name)
                                                 : json_null();
    return c->scheme && c->algorithm;
}

/* 0: no memory. */
static int say(kf_cache *c, const kerf_reader *r, const kerf_layout *to, json_t *said,
               json_t *named)
{
    const int is_same = (is_ct(c->from) && is_ct(to)) || (is_modelopt(c->from) && is_modelopt(to));
    if (!is_same && (!is_fp8(said) || count_source(r, is_older_scale))) return 1;
    if (is_ct(to)) return say_to_ct(c, said);
    return is_modelopt(to) ? say_to_modelopt(c, said, named) : 1;
}

kerf_status kf_cache_open(const kerf_reader *r, const kerf_layout *to, const kerf_weight *weights,
                          size_t count, kf_cache *out, kerf_error *err)
{
    json_t *config = NULL, *older = NULL;
    *out = (kf_cache){0};
    if (!kerf_reader_is_folder(r)) return KERF_OK;
    KF_TRY(kerf_layout_configured(r, &out->from, err));
    if ((!is_ct(out->from) && !is_modelopt(out->from)) || are_left_out(r, weights, count))
        return KERF_OK;
    kerf_status s = kf_config_load_sound(r, "config.json", &config, err);
    if (s == KERF_OK && is_modelopt(out->from))
        s = kf_config_load_sound(r, "hf_quant_config.json", &older, err);
    const json_t *q = kf_config_quantization(config, NULL);
    json_t *named = member(json_object_get(older, "quantization"), "kv_cache_quant_algo");
    json_t *said = member(q, "kv_cache_scheme");
    if (!said) said = member(q, "kv_cache_quant_algo");
    if (!said) said = named;
    out->is_there = said != NULL;
    if (s == KERF_OK && said && !say(out, r, to, said, named))
        s = kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for kv_cache_scheme");
    json_decref(config);
    json_decref(older);
    if (s != KERF_OK) kf_cache_close(out);
    return s;
}

void kf_cache_close(kf_cache *c)
{
    json_decref(c->scheme);
    json_decref(c->algorithm);
    *c = (kf_cache){0};
}

int kf_say_cache_scheme(KF_VALUE_ARGS)
{
    (void)k;
    (void)f;
    if (!q->cache || !q->cache->scheme) return kf_leave_out(out);
    return kf_give(out, json_incref(q->cache->scheme));
}

int kf_say_cache_algorithm(KF_VALUE_ARGS)
{
    (void)k;
    (void)f;
    if (!q->cache || !q->cache->algorithm) return kf_give(out, json_null());
    return kf_give(out, json_incref(q->cache->algorithm));
}
