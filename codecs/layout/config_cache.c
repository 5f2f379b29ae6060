/* config_cache.c - what is said of the KV cache: kv_cache_scheme in compressed-tensors' and
 * Model-Optimizer's config.json, kv_cache_quant_algo in hf_quant_config.json.
 *
 * Sources: vLLM, CompressedTensorsKVCacheMethod (an FP8 cache with a scale for each tensor) and
 * ModelOptQuantConfigBase.from_config; Model-Optimizer, convert_hf_quant_config_format. Scales are
 * X.self_attn.k_scale for the one, X.self_attn.k_proj.k_scale for the other, and vLLM and SGLang
 * take either name for both (maybe_remap_kv_scale_name). */
#include "layout/config_cache.h"

#include <stdio.h>
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

/* A loader finds the scales of an attention under its own name, beside the weight that makes keys.
 */
const char *kf_cache_tail(const char *weight)
{
    static const char *const tails[] = {".k_proj.weight", ".qkv_proj.weight"};
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++)
        if (kf_has_suffix(weight, tails[i])) return tails[i];
    return NULL;
}

const kerf_tensor *kf_cache_scale_find(const kerf_reader *r, const char *weight, int which)
{
    static const char *const ends[2][3] = {{"k_scale", "k_proj.k_scale", "k_proj.output_scale"},
                                           {"v_scale", "v_proj.v_scale", "v_proj.output_scale"}};
    const char *tail = kf_cache_tail(weight);
    const kerf_tensor *t = NULL;
    for (int i = 0; i < 3 && tail && !t; i++) {
        char name[KERF_MAX_NAME_BYTES + 32];
        snprintf(name, sizeof name, "%.*s.%s", (int)(strlen(weight) - strlen(tail)), weight,
                 ends[which][i]);
        t = kerf_reader_find(r, name);
    }
    return t;
}

const char *kf_cache_scale_end(const kerf_layout *l, int which, int *is_vector)
{
    *is_vector = is_ct(l);
    if (is_ct(l)) return which ? "v_scale" : "k_scale";
    return is_modelopt(l) ? which ? "v_proj.v_scale" : "k_proj.k_scale" : NULL;
}

/* What compressed-tensors called them at first; no other loader knows these names. */
static int is_older_scale(const char *name)
{
    return kf_has_suffix(name, ".k_proj.output_scale") ||
           kf_has_suffix(name, ".v_proj.output_scale");
}

int kf_is_cache_scale(const char *name)
{
    return is_scale(name) || is_older_scale(name);
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

static int are_made(const kerf_reader *r, const kerf_weight *weights, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_scale(weights[i].name) &&
            kerf_reader_find(r, weights[i].plane[0]->name) != weights[i].plane[0])
            return 1;
    return 0;
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

/* What files say of a cache: `named` in hf_quant_config.json. */
typedef struct words {
    json_t *config, *older; /* owned */
    json_t *said, *named;   /* in these; NULL: nothing */
} words;

static void close_words(words *w)
{
    json_decref(w->config);
    json_decref(w->older);
}

static kerf_status read_words(const kerf_reader *r, const kerf_layout *from, words *w,
                              kerf_error *err)
{
    KF_TRY(kf_config_load_sound(r, "config.json", &w->config, err));
    if (is_modelopt(from)) KF_TRY(kf_config_load_sound(r, "hf_quant_config.json", &w->older, err));
    const json_t *q = kf_config_quantization(w->config, NULL);
    w->named = member(json_object_get(w->older, "quantization"), "kv_cache_quant_algo");
    w->said = member(q, "kv_cache_scheme");
    if (!w->said) w->said = member(q, "kv_cache_quant_algo");
    if (!w->said) w->said = w->named;
    return KERF_OK;
}

kerf_status kf_cache_is_fp8(const kerf_reader *r, int *out, kerf_error *err)
{
    const kerf_layout *from;
    words w = {0};
    *out = 0;
    if (!kerf_reader_is_folder(r)) return KERF_OK;
    KF_TRY(kerf_layout_configured(r, &from, err));
    if (!is_ct(from) && !is_modelopt(from)) return KERF_OK;
    const kerf_status s = read_words(r, from, &w, err);
    *out = s == KERF_OK && w.said && is_fp8(w.said);
    close_words(&w);
    return s;
}

/* said NULL: an FP8 cache, which nothing was said of. */
static int say_to_ct(kf_cache *c, json_t *said)
{
    if (said && is_ct(c->from))
        c->scheme = json_deep_copy(said);
    else
        c->scheme = json_pack("{s:i, s:s, s:b, s:s, s:b}", "num_bits", 8, "type", "float",
                              "symmetric", 1, "strategy", "tensor", "dynamic", 0);
    return c->scheme != NULL;
}

/* `named`: what the source's hf_quant_config.json says. Theirs stays as it is where it is one. */
static int say_to_modelopt(kf_cache *c, json_t *said, json_t *named)
{
    const char *name = said ? algorithm_of(said) : "FP8";
    if (said && is_modelopt(c->from) && (json_is_object(said) || !is_fp8(said)))
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

static kerf_status say_made(kf_cache *c, const kerf_layout *to, kerf_error *err)
{
    const int said = is_ct(to) ? say_to_ct(c, NULL) : say_to_modelopt(c, NULL, NULL);
    if (said) return KERF_OK;
    kf_cache_close(c);
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for kv_cache_scheme");
}

kerf_status kf_cache_open(const kerf_reader *r, const kerf_layout *to, const kerf_weight *weights,
                          size_t count, kf_cache *out, kerf_error *err)
{
    words w = {0};
    *out = (kf_cache){0};
    if (!kerf_reader_is_folder(r)) return KERF_OK;
    if (are_made(r, weights, count)) return say_made(out, to, err);
    KF_TRY(kerf_layout_configured(r, &out->from, err));
    if ((!is_ct(out->from) && !is_modelopt(out->from)) || are_left_out(r, weights, count))
        return KERF_OK;
    kerf_status s = read_words(r, out->from, &w, err);
    out->is_there = w.said != NULL;
    if (s == KERF_OK && w.said && !say(out, r, to, w.said, w.named))
        s = kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for kv_cache_scheme");
    close_words(&w);
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
