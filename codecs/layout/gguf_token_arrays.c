/* gguf_token_arrays.c - the tokens of a model as arrays of a GGUF file: texts, types, scores.
 *
 * Source: llama.cpp, convert_hf_to_gguf.py (get_vocab_base, _create_vocab_sentencepiece). */
#include "layout/gguf_token_arrays.h"

#include <stdio.h>
#include <string.h>

void kf_gguf_begin_array(kf_text *t, const char *key, kf_gguf_value of, uint64_t n, uint32_t *count)
{
    kf_gguf_put_key(t, key, KF_GGUF_ARRAY);
    kf_gguf_put(t, (uint64_t)of, 4);
    kf_gguf_put(t, n, 8);
    ++*count;
}

/* llama.cpp looks for tokens that users have defined in a text as it is, before its spaces become
 * SentencePiece's mark: they have spaces in a GGUF file. */
static void put_token(const kf_token *one, kf_text *t)
{
    static const char mark[] = "\xe2\x96\x81";
    const size_t width = sizeof mark - 1;
    const char *at = one->text, *next;
    uint64_t n = strlen(at);
    if (one->type != KF_TOKEN_USER_DEFINED) {
        kf_gguf_put_string(t, at);
        return;
    }
    for (next = strstr(at, mark); next; next = strstr(next + width, mark)) n -= width - 1;
    kf_gguf_put(t, n, 8);
    for (; (next = strstr(at, mark)); at = next + width) {
        kf_text_add_bytes(t, at, (size_t)(next - at));
        kf_text_add_bytes(t, " ", 1);
    }
    kf_text_add_bytes(t, at, strlen(at));
}

void kf_gguf_put_tokens(const kf_token *list, size_t n, kf_text *t, uint32_t *count)
{
    char pad[32];
    kf_gguf_begin_array(t, "tokenizer.ggml.tokens", KF_GGUF_STRING, n, count);
    for (size_t i = 0; i < n; i++) {
        snprintf(pad, sizeof pad, "[PAD%zu]", i);
        if (list[i].text)
            put_token(&list[i], t);
        else
            kf_gguf_put_string(t, pad);
    }
    kf_gguf_begin_array(t, "tokenizer.ggml.token_type", KF_GGUF_I32, n, count);
    for (size_t i = 0; i < n; i++)
        kf_gguf_put(t, (uint64_t)(list[i].text ? list[i].type : KF_TOKEN_UNUSED), 4);
}

void kf_gguf_put_scores(const float *score, size_t n, kf_text *t, uint32_t *count)
{
    kf_gguf_begin_array(t, "tokenizer.ggml.scores", KF_GGUF_F32, n, count);
    kf_text_add_bytes(t, (const char *)score, n * sizeof *score);
}
