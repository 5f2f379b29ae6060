/* gguf_pieces.c - what SentencePiece trained, from tokenizer.json: merges become scores, for
 * llama.cpp joins those two neighbours whose token has the highest score, the leftmost of equals.
 *
 * Source: llama.cpp, src/llama-vocab.cpp (llm_tokenizer_spm); gguf-py, vocab.py. */
#include "layout/gguf_pieces.h"

#include <stdio.h>
#include <string.h>

#include "base/base.h"

#define SPACE "\xe2\x96\x81" /* what stands for a space */

static const json_t *model_of(const json_t *tokenizer)
{
    return json_object_get(tokenizer, "model");
}

static int is_type(const json_t *p, const char *type)
{
    const char *text = json_string_value(json_object_get(p, "type"));
    return text && strcmp(text, type) == 0;
}

int kf_pieces_are(const json_t *tokenizer)
{
    const json_t *model = model_of(tokenizer);
    const json_t *type = json_object_get(model, "type");
    return (!type || is_type(model, "BPE")) && json_object_get(model, "merges") &&
           json_is_true(json_object_get(model, "byte_fallback"));
}

static int is_text(const json_t *p, const char *key, const char *text)
{
    const char *value = json_string_value(json_object_get(p, key));
    return value && strcmp(value, text) == 0;
}

static int is_normalizer(const json_t *p, int *prefix)
{
    json_t *one;
    size_t i;
    int all = 1;
    if (!p || json_is_null(p)) return 1;
    if (is_type(p, "Prepend")) {
        *prefix = 1;
        return is_text(p, "prepend", SPACE);
    }
    if (is_type(p, "Replace"))
        return is_text(json_object_get(p, "pattern"), "String", " ") &&
               is_text(p, "content", SPACE);
    if (!is_type(p, "Sequence")) return 0;
    json_array_foreach(json_object_get(p, "normalizers"), i, one) all &= is_normalizer(one, prefix);
    return all;
}

static int is_cut(const json_t *p, int *prefix)
{
    if (!p || json_is_null(p)) return 1;
    if (is_type(p, "Split")) /* at spaces, which are gone */
        return is_text(json_object_get(p, "pattern"), "String", " ");
    if (!is_type(p, "Metaspace") || !is_text(p, "replacement", SPACE)) return 0;
    *prefix |= !is_text(p, "prepend_scheme", "never") &&
               !json_is_false(json_object_get(p, "add_prefix_space"));
    return 1;
}

int kf_pieces_normal(const json_t *tokenizer, int *prefix)
{
    *prefix = 0;
    return is_normalizer(json_object_get(tokenizer, "normalizer"), prefix) &&
           is_cut(json_object_get(tokenizer, "pre_tokenizer"), prefix);
}

int kf_piece_is_byte(const char *text)
{
    unsigned value;
    int end = 0;
    return strlen(text) == 6 && sscanf(text, "<0x%2X>%n", &value, &end) == 1 && end == 6;
}

int kf_merge_join(const json_t *merge, char *out, size_t size)
{
    const char *a = json_string_value(merge), *space = a ? strchr(a, ' ') : NULL;
    const char *b = space ? space + 1 : json_string_value(json_array_get(merge, 1));
    size_t n = space ? (size_t)(space - a) : 0;
    if (!a) {
        a = json_string_value(json_array_get(merge, 0));
        n = a ? strlen(a) : 0;
    }
    return a && b && snprintf(out, size, "%.*s%s", (int)n, a, b) < (int)size;
}

kerf_status kf_pieces_score(const json_t *tokenizer, float *score, size_t n, kerf_error *err)
{
    const json_t *vocab = json_object_get(model_of(tokenizer), "vocab");
    const json_t *merges = json_object_get(model_of(tokenizer), "merges");
    const float last = -(float)(json_array_size(merges) + 1);
    json_t *one;
    size_t i;
    for (i = 0; i < n; i++) score[i] = last;
    json_array_foreach(merges, i, one)
    {
        char text[1024];
        const json_t *id =
            kf_merge_join(one, text, sizeof text) ? json_object_get(vocab, text) : NULL;
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            (uint64_t)json_integer_value(id) >= n)
            return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "tokenizer.json: merge %zu makes no token",
                           i);
        float *at = &score[json_integer_value(id)];
        if (*at == last) *at = i ? -(float)i : 0;
    }
    return KERF_OK;
}
