/* gguf_rope.c - rotary positions that are scaled: two kinds are keys, and that of Llama 3.1 is a
 * tensor of divisors.
 *
 * Source: llama.cpp, convert_hf_to_gguf.py (LlamaModel.generate_extra_tensors, and rope_scaling of
 * LlamaModel and Qwen2Model). Powers are found without a library, so that the bytes are the same on
 * every machine. */
#include "layout/gguf_rope.h"

#include <string.h>

#include "base/base.h"
#include "roles/facts.h"

#define MOST_PAIRS 4096

/* A number of the scaling, or of config.json itself. */
static double number(const json_t *scaling, const json_t *config, const char *key, double other)
{
    const json_t *v = json_object_get(scaling, key);
    if (!json_is_number(v)) v = json_object_get(config, key);
    return json_is_number(v) ? json_number_value(v) : other;
}

static kerf_status find_kind(const json_t *scaling, kf_rope *out, kerf_error *err)
{
    static const struct {
        const char *type, *name;
        kf_rope_kind kind;
    } kinds[] = {{"default", NULL, KF_ROPE_PLAIN},
                 {"linear", "linear", KF_ROPE_LINEAR},
                 {"yarn", "yarn", KF_ROPE_YARN},
                 {"llama3", NULL, KF_ROPE_LLAMA3}};
    const json_t *type = json_object_get(scaling, "rope_type");
    const char *text = json_string_value(type ? type : json_object_get(scaling, "type"));
    if (!text) return KERF_OK;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].type, text) != 0) continue;
        out->kind = kinds[i].kind;
        out->name = kinds[i].name;
        return KERF_OK;
    }
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                   "config.json: rope_scaling \"%.60s\" is not written as GGUF yet: convert the "
                   "model with llama.cpp's convert_hf_to_gguf.py, and run kerf on the result",
                   text);
}

/* Yarn with numbers that llama.cpp computes by itself is another yarn. */
static kerf_status check_yarn(const json_t *scaling, kerf_error *err)
{
    static const char *const own[] = {"attention_factor", "mscale", "mscale_all_dim"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (json_is_number(json_object_get(scaling, own[i])))
            return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                           "config.json: rope_scaling with %s is not written as GGUF yet: convert "
                           "the model with llama.cpp's convert_hf_to_gguf.py, and run kerf on the "
                           "result",
                           own[i]);
    return KERF_OK;
}

kerf_status kf_gguf_rope_read(const json_t *config, kf_rope *out, kerf_error *err)
{
    const json_t *scaling = json_object_get(config, "rope_scaling");
    if (!json_is_object(scaling)) scaling = json_object_get(config, "rope_parameters");
    *out = (kf_rope){.kind = KF_ROPE_PLAIN};
    KF_TRY(find_kind(scaling, out, err));
    if (out->kind == KF_ROPE_YARN) KF_TRY(check_yarn(scaling, err));
    const uint64_t heads = kf_fact_number(config, "num_attention_heads");
    uint64_t width = kf_fact_number(config, "head_dim");
    if (width == 0 && heads) width = kf_fact_number(config, "hidden_size") / heads;
    const double context = number(NULL, config, "max_position_embeddings", 0);
    const double original = number(scaling, config, "original_max_position_embeddings",
                                   out->kind == KF_ROPE_LLAMA3 ? 8192 : context);
    out->pairs = width / 2;
    out->base = number(json_object_get(config, "rope_parameters"), config, "rope_theta", 10000);
    out->factor = number(scaling, NULL, "factor", out->kind == KF_ROPE_LLAMA3 ? 8 : 0);
    out->low = number(scaling, NULL, "low_freq_factor", 1);
    out->high = number(scaling, NULL, "high_freq_factor", 4);
    out->original = original >= 1 && original < 4e9 ? (uint64_t)original : 0;
    if (out->kind == KF_ROPE_PLAIN) return KERF_OK;
    if (out->factor > 0 && out->low > 0 && out->high > out->low && out->base > 1 && out->original &&
        out->base < 1e30 && out->pairs > 0 && out->pairs <= MOST_PAIRS)
        return KERF_OK;
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                   "config.json: numbers of its rope_scaling are missing or impossible");
}

static double power(double x, uint64_t n)
{
    double out = 1;
    for (; n; n >>= 1, x *= x)
        if (n & 1) out *= x;
    return out;
}

/* The n-th root of base: halved until no double lies between. */
static double root(double base, uint64_t n)
{
    double low = 1, high = base;
    for (;;) {
        const double middle = low + (high - low) / 2;
        if (!(middle > low && middle < high)) return low;
        if (power(middle, n) <= base)
            low = middle;
        else
            high = middle;
    }
}

float kf_rope_divisor(const kf_rope *r, uint64_t pair)
{
    const double two_pi = 6.283185307179586;
    const double length = two_pi * power(root(r->base, r->pairs), pair); /* of a wave */
    const double original = (double)r->original;
    if (length < original / r->high) return 1;
    if (length > original / r->low) return (float)r->factor;
    const double smooth = (original / length - r->low) / (r->high - r->low);
    return (float)(1 / ((1 - smooth) / r->factor + smooth));
}
