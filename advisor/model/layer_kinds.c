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

/* Of the first `layers` layers, those that have entry i of a list of `size`. */
static uint64_t times(uint64_t layers, size_t size, size_t i)
{
    return layers / size + (i < layers % size);
}

/* Layers whose text in a list holds one of these words (a bar between two). */
static uint64_t count_words(const json_t *list, const char *words, uint64_t layers)
{
    uint64_t n = 0;
    const size_t size = json_array_size(list);
    for (size_t i = 0; i < size; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        for (const char *at = words; text && *at;) {
            char word[32];
            const size_t bytes = strcspn(at, "|");
            memcpy(word, at, bytes);
            word[bytes] = 0;
            at += bytes + (at[bytes] == '|');
            if (!strstr(text, word)) continue;
            n += times(layers, size, i);
            break;
        }
    }
    return n;
}

/* Layers whose whole number in a list is 0, or is not. */
static uint64_t count_zeros(const json_t *list, int is_zero, uint64_t layers)
{
    uint64_t n = 0;
    const size_t size = json_array_size(list);
    for (size_t i = 0; i < size; i++)
        if ((json_integer_value(json_array_get(list, i)) == 0) == is_zero)
            n += times(layers, size, i);
    return n;
}

/* Of the layers, one in `every`: that of this place in each of them, without a place the last. */
static uint64_t count_period(const json_t *doc, const char *place, uint64_t every, uint64_t layers)
{
    const json_t *v = json_object_get(doc, place);
    const json_int_t x = json_is_integer(v) ? json_integer_value(v) : (json_int_t)every - 1;
    return x >= 0 && (uint64_t)x < layers ? (layers - 1 - (uint64_t)x) / every + 1 : 0;
}

static const json_t *find_list(const json_t *doc, const char *key)
{
    const json_t *list = json_object_get(doc, key);
    return json_array_size(list) ? list : NULL;
}

uint64_t kf_layers_without_attention(const json_t *doc, uint64_t layers)
{
    static const char *const texts[] = {"block_types", "layer_types", "layers_block_type"};
    const json_t *list;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const uint64_t n =
            count_words(find_list(doc, texts[i]), "linear|mamba|conv|recurrent", layers);
        if (n) return n;
    }
    if ((list = find_list(doc, "attn_type_list")) != NULL) /* MiniMax: 1 is attention */
        return count_zeros(list, 1, layers);
    if ((list = find_list(doc, "attn_layer_indices")) != NULL) /* Bamba */
        return layers - at_most(json_array_size(list), layers);
    if ((list = find_list(json_object_get(doc, "linear_attn_config"), "kda_layers")) != NULL)
        return at_most(json_array_size(list), layers);        /* Kimi Linear */
    const uint64_t period = number(doc, "attn_layer_period"); /* Jamba */
    if (period > 1) return layers - count_period(doc, "attn_layer_offset", period, layers);
    const uint64_t step = number(doc, "mamba_step"); /* PLaMo 2: the one in the middle */
    if (step > 1 && !json_is_false(json_object_get(doc, "mamba_enabled")))
        return layers - (layers > step / 2 ? (layers - 1 - step / 2) / step + 1 : 0);
    const uint64_t every = number(doc, "full_attention_interval");
    return every > 1 ? layers - layers / every : 0;
}

/* --- windows -------------------------------------------------------------------------------- */

/* Llama-4: layers without rotary embedding see all, the others a chunk. */
static uint64_t layers_chunked(const json_t *doc, uint64_t layers)
{
    const json_t *rotary = find_list(doc, "no_rope_layers");
    const uint64_t every = number(doc, "no_rope_layer_interval");
    if (rotary) return count_zeros(rotary, 0, layers);
    return layers - layers / (every ? every : 4);
}

/* The first of some numbers that is there. */
static uint64_t first_number(const json_t *doc, const char *const *keys, size_t count)
{
    uint64_t n = 0;
    for (size_t i = 0; n == 0 && i < count; i++) n = number(doc, keys[i]);
    return n;
}

/* A period, or letters of which L is local: "LLLG". */
static uint64_t layers_patterned(const json_t *doc, uint64_t layers, unsigned usual)
{
    static const char *const periods[] = {"sliding_window_pattern", "_sliding_window_pattern",
                                          "layer_switch", "global_attn_every_n_layers"};
    const char *letters = json_string_value(json_object_get(doc, "sliding_window_pattern"));
    const uint64_t every = first_number(doc, periods, sizeof periods / sizeof *periods);
    const size_t size = letters ? strlen(letters) : 0;
    uint64_t n = 0;
    for (size_t i = 0; i < size; i++)
        if (letters[i] == 'L') n += times(layers, size, i);
    if (size) return n;
    if (every) return layers - layers / every;
    return usual == 0 ? 0 : usual == 1 ? layers : layers - layers / usual;
}

/* GPT-Neo: [[["global", "local"], 12]], kinds that follow each other so many times. */
static uint64_t layers_local(const json_t *runs, uint64_t layers)
{
    uint64_t n = 0;
    for (size_t i = 0; i < json_array_size(runs); i++) {
        const json_t *kinds = json_array_get(json_array_get(runs, i), 0);
        const json_int_t again = json_integer_value(json_array_get(json_array_get(runs, i), 1));
        if (again < 1 || again > (json_int_t)UINT32_MAX) continue;
        const uint64_t all = at_most((uint64_t)again * json_array_size(kinds), layers);
        n += count_words(kinds, "local", all);
        layers -= all;
    }
    return n;
}

/* usual: of so many layers all but one have a window where the file does not say which; 1: all; 0:
 * none. *window 0: none has. */
static uint64_t count_windowed(const json_t *doc, uint64_t layers, unsigned usual, uint64_t *window)
{
    static const char *const names[] = {"sliding_window", "sliding_window_size",
                                        "interleaved_sliding_window"};
    const uint64_t chunk = number(doc, "attention_chunk_size");
    const uint64_t from = number(doc, "max_window_layers");
    const json_t *types = find_list(doc, "layer_types");
    const json_t *bits = find_list(doc, "hybrid_layer_pattern"); /* MiMo: 1 has a window */
    const json_t *runs = find_list(doc, "attention_types");
    const json_t *is_used = json_object_get(doc, "use_sliding_window");
    *window = first_number(doc, names, sizeof names / sizeof *names);
    if (json_is_false(is_used)) *window = 0;
    if (*window && types) return count_words(types, "sliding", layers);
    if (*window && bits) return count_zeros(bits, 0, layers);
    if (*window && json_is_true(is_used) && json_object_get(doc, "max_window_layers"))
        return from < layers ? layers - from : 0;
    if (*window) return layers_patterned(doc, layers, usual);
    if (runs && (*window = number(doc, "window_size")) != 0) return layers_local(runs, layers);
    if ((*window = number(doc, "attention_window_size")) != 0) { /* RecurrentGemma, PLaMo 2 */
        const uint64_t all = layers - at_most(kf_layers_without_attention(doc, layers), layers);
        return all - at_most(json_array_size(json_object_get(doc, "full_attention_idx")), all);
    }
    *window = chunk;
    if (!chunk) return 0;
    return types ? count_words(types, "chunked", layers) : layers_chunked(doc, layers);
}

static uint64_t count_borrowing(const json_t *doc, uint64_t layers, unsigned usual,
                                uint64_t *windowed)
{
    uint64_t window, n = at_most(number(doc, "num_kv_shared_layers"), layers); /* the last */
    const uint64_t factor = number(doc, "cla_share_factor");
    *windowed = 0;
    if (n) {
        *windowed = count_windowed(doc, layers, usual, &window) -
                    count_windowed(doc, layers - n, usual, &window);
        return n;
    }
    if (json_is_true(json_object_get(doc, "use_cla")) &&
        factor > 1) /* Hunyuan: the first of each */
        return layers - (layers + factor - 1) / factor;
    return at_most(json_array_size(json_object_get(doc, "cross_attention_layers")), layers);
}

void kf_layers_caches(const json_t *doc, unsigned usual, kerf_model *m)
{
    m->window_layers = count_windowed(doc, m->layers, usual, &m->window);
    if (m->window_layers == 0) m->window = 0;
    m->borrowing_layers =
        at_most(count_borrowing(doc, m->layers, usual, &m->borrowing_windows), m->attention_layers);
}

/* --- experts -------------------------------------------------------------------------------- */

uint64_t kf_layers_sparse(const json_t *doc, uint64_t layers, uint64_t first)
{
    static const char *const steps[] = {"interleave_moe_layer_step", "expert_layer_period",
                                        "decoder_sparse_step", "moe_layer_freq"};
    const json_t *list = find_list(doc, "moe_layer_freq"); /* 1 has experts */
    if (list) return at_most(count_zeros(list, 0, layers), layers);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const uint64_t every = number(doc, steps[i]);
        if (every > 1) return count_period(doc, "expert_layer_offset", every, layers - first);
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
