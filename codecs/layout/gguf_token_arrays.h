/* gguf_token_arrays.h - the tokens of a model as arrays of a GGUF file. Each adds one to *count for
 * each key that it writes. */
#ifndef KERF_LAYOUT_GGUF_TOKEN_ARRAYS_H
#define KERF_LAYOUT_GGUF_TOKEN_ARRAYS_H

#include "file/gguf/gguf.h"
#include "file/gguf/gguf_put.h"

/* llama.cpp's types of tokens. */
enum {
    KF_TOKEN_NORMAL = 1,
    KF_TOKEN_UNKNOWN = 2,
    KF_TOKEN_CONTROL = 3,
    KF_TOKEN_USER_DEFINED = 4,
    KF_TOKEN_UNUSED = 5,
    KF_TOKEN_BYTE = 6
};

typedef struct kf_token {
    const char *text; /* NULL: none has this number */
    int type;
} kf_token;

/* The head of an array of n values. */
void kf_gguf_begin_array(kf_text *t, const char *key, kf_gguf_value of, uint64_t n,
                         uint32_t *count);

/* Texts and types of n tokens, in the order of their numbers. */
void kf_gguf_put_tokens(const kf_token *list, size_t n, kf_text *t, uint32_t *count);
void kf_gguf_put_scores(const float *score, size_t n, kf_text *t, uint32_t *count);

#endif
