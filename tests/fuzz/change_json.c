/* change_json.c - changes of one value in a JSON text. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "fuzz.h"

static const char *const words[] = {
    "",
    "kerf",
    "modelopt",
    "compressed-tensors",
    "gptq",
    "gptq_v2",
    "bitsandbytes",
    "fp8",
    "mxfp4",
    "awq",
    "quant_method",
    "quantization_config",
    "config_groups",
    "format",
    "formats",
    "group_size",
    "num_bits",
    "bits",
    "ignore",
    "modules_to_not_convert",
    "weight_map",
    "dtype",
    "shape",
    "data_offsets",
    "__metadata__",
    "layout",
    "tensors",
    "version",
    "schema",
    "symmetric",
    "strategy",
    "desc_act",
    "sym",
    "pack-quantized",
    "nvfp4-pack-quantized",
    "naive-quantized",
    "float-quantized",
    "int-quantized",
    "group",
    "tensor_group",
    "channel",
    "float",
    "int",
    "BF16",
    "F32",
    "F16",
    "U8",
    "I32",
    "I64",
    "F8_E4M3",
    "F8_E8M0",
    "nvfp4",
    "nvfp4:4/6",
    "int4-g128:search",
    "nf4",
    "int8",
    "model.safetensors",
    "model-00001-of-00002.safetensors",
    "../model.safetensors",
    "model.layers.0.mlp.down_proj.weight",
    "*",
    "re:.*",
    "a\n\x01",
    "llama",
    "deepseek_v3",
    "qwen3_moe",
    "gpt_oss",
    "num_hidden_layers",
    "hidden_size",
    "num_experts",
    "kv_lora_rank",
    "rope_scaling",
    "layer_types",
    "results",
    "fits",
    "rules",
    "default",
    "t2",
    "bpw",
    "us",
    "n",
    "k",
    "batch",
};

static json_t *odd_number(fuzz_random *r)
{
    static const json_int_t whole[] = {0,         1,         -1,
                                       2,         3,         7,
                                       8,         15,        16,
                                       31,        32,        33,
                                       63,        64,        127,
                                       128,       255,       256,
                                       4095,      4096,      65535,
                                       65536,     INT32_MAX, -INT32_MAX,
                                       1LL << 31, 1LL << 32, (1LL << 53) - 1,
                                       1LL << 53, 1LL << 62, INT64_MAX,
                                       INT64_MIN, 10000};
    static const double real[] = {0.0, -0.0, 0.5, 1e-300, 1e308, -1e308, 1e-9, 448.0, 1e18};
    if (fuzz_below(r, 4) > 0)
        return json_integer(whole[fuzz_below(r, sizeof whole / sizeof *whole)]);
    return json_real(real[fuzz_below(r, sizeof real / sizeof *real)]);
}

static const char *odd_word(fuzz_random *r)
{
    return words[fuzz_below(r, sizeof words / sizeof *words)];
}

static json_t *odd_value(fuzz_random *r)
{
    switch (fuzz_below(r, 9)) {
    case 0: return json_null();
    case 1: return json_true();
    case 2: return json_false();
    case 3: return json_array();
    case 4: return json_object();
    case 5: return json_string(odd_word(r));
    default: return odd_number(r);
    }
}

/* Of a value that is there: near it, of its kind, or something else. */
static json_t *other_value(fuzz_random *r, json_t *old)
{
    if (json_is_integer(old) && fuzz_below(r, 3) > 0) {
        static const unsigned steps[] = {1, 8, 64};
        const uint64_t v = (uint64_t)json_integer_value(old);
        const unsigned step = steps[fuzz_below(r, 3)];
        switch (fuzz_below(r, 4)) {
        case 0: return json_integer((json_int_t)(v + step));
        case 1: return json_integer((json_int_t)(v - step));
        case 2: return json_integer((json_int_t)(v * 2));
        default: return json_integer((json_int_t)(v / 2));
        }
    }
    if (json_is_string(old)) {
        const char *text = json_string_value(old);
        const size_t n = json_string_length(old);
        if (n > 1 && (text[0] == '{' || text[0] == '[') && fuzz_below(r, 8) > 0) { /* JSON in it */
            fuzz_bytes b = fuzz_change_json(r, (const uint8_t *)text, n);
            json_t *changed = json_stringn((const char *)b.p, b.n);
            free(b.p);
            if (changed) return changed;
        }
        if (fuzz_below(r, 2)) return json_string(odd_word(r));
        if (fuzz_below(r, 2)) { /* a tail of it, or it with a tail */
            char longer[512];
            const size_t k = n < 400 ? n : 400;
            const size_t cut = fuzz_below(r, (unsigned)k + 1);
            memcpy(longer, text, cut);
            const char *more = fuzz_below(r, 2) ? odd_word(r) : "";
            const size_t m = strlen(more);
            memcpy(longer + cut, more, m);
            json_t *changed = json_stringn(longer, cut + m);
            if (changed) return changed;
        }
    }
    return odd_value(r);
}

/* --- one of the values, counted through the whole tree ---------------------------------------- */

typedef struct place {
    json_t *parent; /* NULL: the whole */
    char key[512];  /* in an object */
    size_t index;   /* in an array  */
} place;

/* Finds the value number *left in the tree under v. */
static int find(json_t *v, unsigned *left, place *out)
{
    const char *key;
    json_t *child;
    size_t i;
    json_object_foreach(v, key, child)
    {
        if (strlen(key) < sizeof out->key) {
            if (*left == 0) {
                out->parent = v;
                memcpy(out->key, key, strlen(key) + 1);
                return 1;
            }
            --*left;
        }
        if (find(child, left, out)) return 1;
    }
    json_array_foreach(v, i, child)
    {
        if (*left == 0) {
            *out = (place){.parent = v, .index = i};
            return 1;
        }
        --*left;
        if (find(child, left, out)) return 1;
    }
    return 0;
}

static unsigned count(json_t *v)
{
    const char *key;
    json_t *child;
    size_t i;
    unsigned n = 0;
    json_object_foreach(v, key, child) n += (strlen(key) < 512) + count(child);
    json_array_foreach(v, i, child) n += 1 + count(child);
    return n;
}

static json_t *get(const place *p)
{
    return json_is_object(p->parent) ? json_object_get(p->parent, p->key)
                                     : json_array_get(p->parent, p->index);
}

static void set(const place *p, json_t *v)
{
    if (!v) return;
    if (json_is_object(p->parent))
        json_object_set_new_nocheck(p->parent, p->key, v);
    else
        json_array_set_new(p->parent, p->index, v);
}

static void drop(const place *p)
{
    if (json_is_object(p->parent))
        json_object_del(p->parent, p->key);
    else
        json_array_remove(p->parent, p->index);
}

/* Under another name, or once more. */
static void add_beside(fuzz_random *r, const place *p, json_t *v)
{
    if (json_is_array(p->parent)) {
        json_array_append_new(p->parent, v);
        return;
    }
    char key[1200];
    const char *dot = strrchr(p->key, '.');
    static const char *const tails[] = {".weight_scale",   ".weight_packed",
                                        ".weight_scale_2", ".qweight",
                                        ".qzeros",         ".scales",
                                        ".g_idx",          ".weight",
                                        ".input_scale",    ".weight_scale_inv",
                                        ".weight.absmax",  "_blocks",
                                        "_scales",         ".weight_zero_point",
                                        ".weight_shape",   ".bias"};
    if (dot && fuzz_below(r, 2))
        snprintf(key, sizeof key, "%.*s%s", (int)(dot - p->key), p->key, tails[fuzz_below(r, 16)]);
    else
        snprintf(key, sizeof key, "%s", odd_word(r));
    json_object_set_new_nocheck(p->parent, key, v);
}

static void change_tree(fuzz_random *r, json_t *whole)
{
    place p = {0}, q = {0};
    const unsigned n = count(whole);
    unsigned at = fuzz_below(r, n), other = fuzz_below(r, n);
    if (n == 0 || !find(whole, &at, &p)) {
        if (json_is_object(whole)) json_object_set_new_nocheck(whole, odd_word(r), odd_value(r));
        if (json_is_array(whole)) json_array_append_new(whole, odd_value(r));
        return;
    }
    json_t *v = json_deep_copy(get(&p));
    switch (fuzz_below(r, 9)) {
    case 0: drop(&p); break;
    case 1: add_beside(r, &p, json_deep_copy(v)); break;
    case 2: /* renamed */
        drop(&p);
        add_beside(r, &p, json_deep_copy(v));
        break;
    case 3: /* the value of another place */
        if (find(whole, &other, &q)) set(&p, json_deep_copy(get(&q)));
        break;
    case 4: /* one level deeper */ set(&p, json_pack("[O]", v)); break;
    default: set(&p, other_value(r, v)); break;
    }
    json_decref(v);
}

fuzz_bytes fuzz_change_json(fuzz_random *r, const uint8_t *p, size_t n)
{
    json_t *whole = fuzz_below(r, 16) ? json_loadb((const char *)p, n, JSON_ALLOW_NUL, NULL) : NULL;
    if (!whole) return fuzz_change_bytes(r, p, n);
    for (unsigned i = 1 + fuzz_below(r, 3); i > 0; i--) change_tree(r, whole);
    char *text = json_dumps(whole, JSON_COMPACT);
    json_decref(whole);
    if (!text) return fuzz_change_bytes(r, p, n);
    fuzz_bytes b = fuzz_copy(text, strlen(text));
    free(text);
    return b;
}
