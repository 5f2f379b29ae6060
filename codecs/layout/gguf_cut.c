/* gguf_cut.c - the name by which llama.cpp knows how a text is cut before its tokens are asked.
 *
 * Source: llama.cpp, convert_hf_to_gguf.py (get_vocab_base_pre); src/llama-vocab.cpp has the
 * regular expressions behind the names. */
#include "layout/gguf_cut.h"

#include <string.h>

#define LETTERS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct {
    const char *regex; /* of a Split; NULL: none  */
    int digits;        /* Digits, one by one      */
    const char *name;
} cuts[] = {
    {LETTERS "\\p{N}{1,3}" REST, 0, "llama-bpe"},
    {LETTERS "\\p{N}" REST, 0, "qwen2"},
    {NULL, 1, "smollm"},
    {NULL, 0, "gpt-2"},
};

typedef struct cut {
    const char *regex;
    int digits, is_bytes, others;
} cut;

static void look_at(const json_t *p, cut *c)
{
    const char *type = json_string_value(json_object_get(p, "type"));
    const json_t *list = json_object_get(p, "pretokenizers");
    size_t i;
    json_t *one;
    if (json_is_array(list)) {
        json_array_foreach(list, i, one) look_at(one, c);
        return;
    }
    if (type && strcmp(type, "ByteLevel") == 0)
        c->is_bytes = 1;
    else if (type && strcmp(type, "Digits") == 0)
        c->digits = json_is_true(json_object_get(p, "individual_digits"));
    else if (type && strcmp(type, "Split") == 0)
        c->regex = json_string_value(json_object_get(json_object_get(p, "pattern"), "Regex"));
    else
        c->others = 1;
}

const char *kf_gguf_cut_name(const json_t *tokenizer)
{
    cut c = {0};
    look_at(json_object_get(tokenizer, "pre_tokenizer"), &c);
    if (!c.is_bytes || c.others) return NULL;
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        if (cuts[i].digits != c.digits || !cuts[i].regex != !c.regex) continue;
        if (!c.regex || strcmp(c.regex, cuts[i].regex) == 0) return cuts[i].name;
    }
    return NULL;
}
