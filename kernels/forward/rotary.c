/* rotary.c - how far each pair of a head is rotated per position. The scalings are those of
 * transformers 5, modeling_rope_utils.py; frequencies are rounded to float32 as there, because
 * models were trained with them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "forward/decoder_config.h"

static const struct {
    const char *name;
    kf_rope_kind kind;
} kinds[] = {{"default", KF_ROPE_DEFAULT},   {"linear", KF_ROPE_LINEAR},
             {"dynamic", KF_ROPE_DYNAMIC},   {"yarn", KF_ROPE_YARN},
             {"longrope", KF_ROPE_LONGROPE}, {"su", KF_ROPE_LONGROPE},
             {"llama3", KF_ROPE_LLAMA3}};

static kerf_status read_factors(const json_t *o, const char *key, uint64_t count, float **out,
                                kerf_error *err)
{
    const json_t *list = json_object_get(o, key);
    if (json_array_size(list) != count)
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "config.json: \"%s\" has %zu numbers, not %llu", key, json_array_size(list),
                       (unsigned long long)count);
    KF_TRY(kf_allocate(out, count, sizeof **out, err));
    for (size_t i = 0; i < count; i++) {
        (*out)[i] = (float)json_number_value(json_array_get(list, i));
        if (!((*out)[i] > 0.0f))
            return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "config.json: \"%s\" has a 0", key);
    }
    return KERF_OK;
}

static kerf_status read_kind(const json_t *scaling, kf_rope *r, kerf_error *err)
{
    const json_t *type = json_object_get(scaling, "rope_type");
    const char *name = json_string_value(type ? type : json_object_get(scaling, "type"));
    if (!name) return KERF_OK;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, name) == 0) {
            r->kind = kinds[i].kind;
            return KERF_OK;
        }
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                   "config.json: rope type \"%.40s\" is not computed: default, linear, dynamic, "
                   "yarn, longrope and llama3 are",
                   name);
}

/* One set of parameters: `scaling` says what it scales by, `o` holds what stands beside it. */
static kerf_status read_rope(const json_t *o, const json_t *scaling, double theta,
                             const kf_config *c, kf_rope *r, kerf_error *err)
{
    r->theta = kf_config_real(scaling, "rope_theta", theta);
    double partial = kf_config_real(o, "partial_rotary_factor", 1.0);
    partial = kf_config_real(scaling, "partial_rotary_factor", partial);
    if (!(r->theta > 1.0) || !(partial > 0.0 && partial <= 1.0) || !isfinite(r->theta))
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "config.json: \"rope_theta\" or \"partial_rotary_factor\" is out of range");
    r->dims = (uint64_t)((double)c->rope_dim * partial);
    if (r->dims < 2 || r->dims % 2)
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "config.json: %llu numbers of a head rotate",
                       (unsigned long long)r->dims);
    KF_TRY(read_kind(scaling, r, err));
    r->context = c->context ? (double)c->context : 2048.0;
    r->original = kf_config_real(scaling, "original_max_position_embeddings", 0.0);
    if (r->original <= 0)
        r->original = kf_config_real(o, "original_max_position_embeddings", r->context);
    const double own =
        r->kind == KF_ROPE_YARN || r->kind == KF_ROPE_LONGROPE ? r->context / r->original : 1.0;
    r->factor = kf_config_real(scaling, "factor", own);
    r->low_freq = kf_config_real(scaling, "low_freq_factor", 1.0);
    r->high_freq = kf_config_real(scaling, "high_freq_factor", 4.0);
    r->beta_fast = kf_config_real(scaling, "beta_fast", 32.0);
    r->beta_slow = kf_config_real(scaling, "beta_slow", 1.0);
    r->attention_factor = kf_config_real(scaling, "attention_factor", 0.0);
    r->mscale = kf_config_real(scaling, "mscale", 0.0);
    r->mscale_all = kf_config_real(scaling, "mscale_all_dim", 0.0);
    r->truncate = !json_is_false(json_object_get(scaling, "truncate"));
    if (!(r->factor > 0.0) || !(r->original >= 1.0) || !(r->beta_fast > 0.0) ||
        !(r->beta_slow > 0.0) || !(r->low_freq > 0.0) || !(r->high_freq > r->low_freq) ||
        !isfinite(r->factor + r->beta_fast + r->beta_slow + r->mscale + r->mscale_all +
                  r->attention_factor))
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "config.json: a factor of the rotary positions is out of range");
    if (r->kind != KF_ROPE_LONGROPE) return KERF_OK;
    KF_TRY(read_factors(scaling, "short_factor", r->dims / 2, &r->short_factor, err));
    return read_factors(scaling, "long_factor", r->dims / 2, &r->long_factor, err);
}

kerf_status kf_rope_read(const json_t *o, kf_config *c, kerf_error *err)
{
    const json_t *scaling = json_object_get(o, "rope_parameters");
    if (!json_is_object(scaling)) scaling = json_object_get(o, "rope_scaling");
    const json_t *whole = json_object_get(scaling, "full_attention");
    const json_t *local = json_object_get(scaling, "sliding_attention");
    const double theta = kf_config_real(o, "rope_theta", c->family->theta);
    KF_TRY(read_rope(o, json_is_object(whole) ? whole : scaling, theta, c, &c->rope[0], err));
    if (c->family->local_theta <= 0) return KERF_OK;
    const double local_theta = kf_config_real(o, "rope_local_base_freq", c->family->local_theta);
    return read_rope(o, json_is_object(local) ? local : NULL, local_theta, c, &c->rope[1], err);
}

/* --- frequencies --------------------------------------------------------------------------- */

static double mscale_of(double factor, double m)
{
    return factor <= 1.0 ? 1.0 : 0.1 * m * log(factor) + 1.0;
}

/* The pair that turns so many times within the original context. */
static double pair_of(const kf_rope *r, double turns)
{
    const double pi = 3.14159265358979323846;
    return (double)r->dims * log(r->original / (turns * 2.0 * pi)) / (2.0 * log(r->theta));
}

static void yarn(const kf_rope *r, float *frequency)
{
    double low = pair_of(r, r->beta_fast), high = pair_of(r, r->beta_slow);
    if (r->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = low > 0.0 ? low : 0.0;
    high = high < (double)r->dims - 1.0 ? high : (double)r->dims - 1.0;
    if (low == high) high += 0.001;
    for (uint64_t i = 0; i < r->dims / 2; i++) {
        double ramp = ((double)i - low) / (high - low);
        ramp = ramp < 0.0 ? 0.0 : ramp > 1.0 ? 1.0 : ramp;
        frequency[i] = (float)((double)frequency[i] * (ramp / r->factor + (1.0 - ramp)));
    }
}

static void llama3(const kf_rope *r, float *frequency)
{
    const double pi = 3.14159265358979323846;
    for (uint64_t i = 0; i < r->dims / 2; i++) {
        const double wave = 2.0 * pi / (double)frequency[i];
        const double smooth = (r->original / wave - r->low_freq) / (r->high_freq - r->low_freq);
        const double part = smooth < 0.0 ? 0.0 : smooth > 1.0 ? 1.0 : smooth;
        frequency[i] = (float)((double)frequency[i] * ((1.0 - part) / r->factor + part));
    }
}

void kf_rope_frequencies(const kf_rope *r, uint64_t length, float *frequency, double *factor)
{
    const double n = (double)length;
    double theta = r->theta;
    *factor = 1.0;
    if (r->kind == KF_ROPE_DYNAMIC && n > r->context) {
        const double d = (double)r->dims;
        theta *= pow(r->factor * n / r->context - (r->factor - 1.0), d > 2.0 ? d / (d - 2.0) : 1.0);
    }
    const float *parts = n > r->original ? r->long_factor : r->short_factor;
    for (uint64_t i = 0; i < r->dims / 2; i++) {
        double f = 1.0 / pow(theta, 2.0 * (double)i / (double)r->dims);
        if (r->kind == KF_ROPE_LINEAR) f /= r->factor;
        if (r->kind == KF_ROPE_LONGROPE) f /= (double)parts[i];
        if (r->parts) f /= (double)r->parts[i];
        frequency[i] = (float)f;
    }
    if (r->kind == KF_ROPE_LLAMA3) llama3(r, frequency);
    if (r->kind == KF_ROPE_YARN) {
        yarn(r, frequency);
        *factor = r->mscale != 0 && r->mscale_all != 0
                      ? mscale_of(r->factor, r->mscale) / mscale_of(r->factor, r->mscale_all)
                      : mscale_of(r->factor, 1.0);
    }
    if (r->kind == KF_ROPE_LONGROPE && r->factor > 1.0 && r->original > 1.0)
        *factor = sqrt(1.0 + log(r->factor) / log(r->original));
    if (r->kind >= KF_ROPE_YARN && r->kind <= KF_ROPE_LONGROPE && r->attention_factor > 0.0)
        *factor = r->attention_factor;
}
