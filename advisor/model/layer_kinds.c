/* layer_kinds.c - counts layers of a kind. Lists that are shorter than the model are a period of
 * it.
 *
 * Sources: configuration files of transformers for the families that are named. */
#include "model/layer_kinds.h"

#include <string.h>

/* A whole number above 0 and below 2^32, also when it is written as 4096.0; else 0. */
static uint64_t number(const json_t *doc, const char *key)
{
    const json_t *v = json_object_get(doc, key);
    const double x = json_number_value(v);
    return x >= 1 && x <= UINT32_MAX && x == (double)(uint64_t)x ? (uint64_t)x : 0;
}

static uint64_t at_most(uint64_t count, uint64_t layers)
{
    return count < layers ? count : layers;
}

/* Entries of a list of texts that hold one of these words (a bar between two). */
static uint64_t count_words(const json_t *list, const char *words)
{
    uint64_t n = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));
        for (const char *at = words; text && *at;) {
            char word[32];
            const size_t bytes = strcspn(at, "|");
            memcpy(word, at, bytes);
            word[bytes] = 0;
            at += bytes + (at[bytes] == '|');
            if (!strstr(text, word)) continue;
            n++;
            break;
        }
    }
    return n;
}

/* Entries of a list of whole numbers that are 0, or are not. */
static uint64_t count_zeros(const json_t *list, int is_zero)
{
    uint64_t n = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        n += (json_integer_value(json_array_get(list, i)) == 0) == is_zero;
    return n;
}

static const json_t *find_list(const json_t *doc, const char *key)
{
    const json_t *list = json_object_get(doc, key);
    return json_array_size(list) ? list : NULL;
}

uint64_t kf_layers_without_attention(const json_t *doc, uint64_t layers)
{
    static const char *const texts[] = {"layer_types", "layers_block_type"};
    const json_t *list = find_list(doc, "block_types"); /* RecurrentGemma: a period */
    uint64_t n = count_words(list, "recurrent");
    if (n) return n * layers / json_array_size(list);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        list = find_list(doc, texts[i]);
        n = at_most(count_words(list, "linear|mamba|conv|recurrent"), layers);
        if (n) return n;
    }
    if ((list = find_list(doc, "attn_type_list")) != NULL) /* MiniMax: 1 is attention */
        return at_most(count_zeros(list, 1), layers);
    if ((list = find_list(doc, "attn_layer_indices")) != NULL) /* Bamba */
        return layers - at_most(json_array_size(list), layers);
    if ((list = find_list(json_object_get(doc, "linear_attn_config"), "kda_layers")) != NULL)
        return at_most(json_array_size(list), layers);        /* Kimi Linear */
    const uint64_t period = number(doc, "attn_layer_period"); /* Jamba */
    const uint64_t every = period ? period : number(doc, "full_attention_interval");
    return every > 1 ? layers - layers / every : 0;
}

/* Llama-4: layers without rotary embedding see all, the others a chunk. */
static uint64_t layers_chunked(const json_t *doc, uint64_t layers)
{
    const json_t *rotary = find_list(doc, "no_rope_layers");
    const uint64_t every = number(doc, "no_rope_layer_interval");
    if (rotary) return at_most(count_zeros(rotary, 0), layers);
    return layers - layers / (every ? every : 4);
}

/* A period, or letters of which L is local: "LLLG". */
static uint64_t layers_patterned(const json_t *doc, uint64_t layers, unsigned usual)
{
    const json_t *pattern = json_object_get(doc, "sliding_window_pattern");
    const char *letters = json_string_value(pattern);
    const uint64_t every = number(doc, "sliding_window_pattern");
    uint64_t n = 0;
    for (const char *c = letters; c && *c; c++) n += *c == 'L';
    if (letters && *letters) return n * layers / strlen(letters);
    if (every) return layers - layers / every;
    return usual == 0 ? 0 : usual == 1 ? layers : layers - layers / usual;
}

uint64_t kf_layers_windowed(const json_t *doc, uint64_t layers, unsigned usual, uint64_t *window)
{
    const uint64_t chunk = number(doc, "attention_chunk_size");
    const uint64_t from = number(doc, "max_window_layers");
    const json_t *types = find_list(doc, "layer_types");
    const json_t *bits = find_list(doc, "hybrid_layer_pattern"); /* MiMo: 1 has a window */
    const json_t *is_used = json_object_get(doc, "use_sliding_window");
    *window = number(doc, "sliding_window");
    if (!*window) *window = number(doc, "sliding_window_size");
    if (json_is_false(is_used)) *window = 0;
    if (*window && types) return at_most(count_words(types, "sliding"), layers);
    if (*window && bits) return at_most(count_zeros(bits, 0), layers);
    if (*window && json_is_true(is_used) && json_object_get(doc, "max_window_layers"))
        return from < layers ? layers - from : 0;
    if (*window) return layers_patterned(doc, layers, usual);
    *window = chunk;
    if (!chunk) return 0;
    return types ? at_most(count_words(types, "chunked"), layers) : layers_chunked(doc, layers);
}

uint64_t kf_layers_sparse(const json_t *doc, uint64_t layers, uint64_t first)
{
    static const char *const steps[] = {"interleave_moe_layer_step", "expert_layer_period",
                                        "decoder_sparse_step", "moe_layer_freq"};
    const json_t *list = find_list(doc, "moe_layer_freq"); /* 1 has experts */
    if (list) return at_most(count_zeros(list, 0), layers);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const uint64_t every = number(doc, steps[i]);
        if (every > 1) return (layers - first) / every;
    }
    return layers - first;
}

static int is_set(const json_t *part, const char *key)
{
    return json_is_true(json_object_get(part, key));
}

static void take_attention(const json_t *part, uint64_t heads, kf_searched *out)
{
    const uint64_t in_group = number(part, "n_heads_in_group");
    uint64_t kv = number(part, "num_key_value_heads");
    if (is_set(part, "no_op")) return;
    if (is_set(part, "replace_with_linear")) {
        out->linear++;
        return;
    }
    if (!kv) kv = in_group && in_group <= heads ? heads / in_group : heads;
    out->is_uneven |= out->attention && out->kv_heads != out->attention * kv;
    out->attention++;
    out->kv_heads += kv;
}

/* The multiplier means two thirds of it, in steps of 256. */
static void take_mlp(const json_t *part, uint64_t hidden, kf_searched *out)
{
    const double by = json_number_value(json_object_get(part, "ffn_mult"));
    uint64_t width = number(part, "intermediate_size");
    if (is_set(part, "no_op")) return;
    if (is_set(part, "replace_with_linear")) {
        out->linear++;
        return;
    }
    if (!width && by > 0 && by < 64)
        width = ((uint64_t)(2 * by * (double)hidden / 3) + 255) / 256 * 256;
    if (!width) width = 4 * hidden;
    out->is_uneven |= out->mlp && out->width != out->mlp * width;
    out->mlp++;
    out->width += width;
}

int kf_layers_searched(const json_t *doc, uint64_t hidden, uint64_t heads, kf_searched *out)
{
    const json_t *list = find_list(doc, "block_configs");
    *out = (kf_searched){0};
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *block = json_array_get(list, i);
        take_attention(json_object_get(block, "attention"), heads, out);
        take_mlp(json_object_get(block, "ffn"), hidden, out);
    }
    return list != NULL;
}
