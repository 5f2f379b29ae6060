/* tokenizer.h - a tokenizer as it is read: what happens to a text, in this order.
 *
 *   added tokens     of the raw text
 *   normal           steps that change what lies between them
 *   added tokens     of the changed text
 *   cut              steps that cut it into words
 *   model            which makes tokens of a word */
#ifndef KERF_TOKENS_TOKENIZER_H
#define KERF_TOKENS_TOKENIZER_H

#include <jansson.h>
#include <kerf/tokens.h>

#include "bpe.h"
#include "normalize.h"
#include "unigram.h"

/* Tokens that are found in a text before any model is asked. */
typedef struct kf_added {
    uint32_t id;
    unsigned char single_word, left, right; /* only as a word; with the space before or after it */
} kf_added;

typedef struct kf_added_set {
    kf_vocab text; /* numbers are indices into `token` */
    kf_trie trie;
    kf_added *token;
    size_t count, capacity;
} kf_added_set;

typedef enum kf_cut_kind {
    KF_CUT_SPLIT,     /* at matches of a pattern  */
    KF_CUT_METASPACE, /* spaces become U+2581, before which words begin */
    KF_CUT_PREFIX     /* a space before what begins with none */
} kf_cut_kind;

/* What becomes of a match. */
typedef enum kf_behavior {
    KF_REMOVED,
    KF_ISOLATED,
    KF_CONTIGUOUS, /* matches in a row are one word */
    KF_WITH_PREVIOUS,
    KF_WITH_NEXT
} kf_behavior;

typedef struct kf_cut_step {
    kf_cut_kind kind;
    kf_regex *regex; /* of a split; NULL: `text` is looked for */
    char *text;      /* also what metaspace puts for a space   */
    kf_behavior behavior;
    int invert;                /* what lies between matches is a match, and the other way round */
    int always, first, splits; /* metaspace: when it is put in front, and whether it cuts */
} kf_cut_step;

typedef struct kf_named_token {
    uint32_t id;
    const char *text;
} kf_named_token;

struct kerf_tokenizer {
    char *path;            /* for errors */
    kf_vocab names;        /* tokens of the model as the file has them                    */
    kf_vocab bytes;        /* byte level: as the bytes that they stand for; else there are none */
    kf_vocab added;        /* added tokens as the file has them                           */
    kf_named_token *by_id; /* [named] all of them, in the order of their numbers   */
    size_t named;
    kf_added_set raw, normalized;
    kf_normal normal[KF_MOST_STEPS];
    size_t normals;
    kf_cut_step cut[KF_MOST_STEPS];
    size_t cuts;
    int is_unigram, is_bytes;
    kf_bpe bpe;
    kf_unigram unigram;
    uint32_t *before, *after; /* what the template puts around a text */
    size_t befores, afters;
    int no_template; /* 1: something else than a template does that */
};

/* What the model looks words up in. */
static inline const kf_vocab *kf_words(const kerf_tokenizer *t)
{
    return t->is_bytes ? &t->bytes : &t->names;
}

/* Of tokenizer.json; of a GGUF file's header. Both fill *t, which is all zeros but for its path;
 * what they leave after a failure, kerf_tokenizer_close frees. */
kerf_status kf_tokenizer_from_json(kerf_tokenizer *t, kerf_error *err);
kerf_status kf_tokenizer_from_gguf(kerf_tokenizer *t, const kerf_reader *r, kerf_error *err);

/* The normalizers and the pre-tokenizers of tokenizer.json. */
kerf_status kf_take_normalizers(kerf_tokenizer *t, const json_t *j, kerf_error *err);
kerf_status kf_take_cuts(kerf_tokenizer *t, const json_t *j, kerf_error *err);
kerf_status kf_add_split(kerf_tokenizer *t, const char *pattern, kf_behavior behavior, int invert,
                         kerf_error *err);
void kf_cut_free(kf_cut_step *s);

/* What GPT-2 cuts texts by. */
#define KF_GPT2_PATTERN \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* A token of the model. With is_bytes (known before) its bytes are noted, too. */
kerf_status kf_take_token(kerf_tokenizer *t, const char *text, size_t n, uint64_t id,
                          kerf_error *err);
/* An added token; normalized: it is looked for in the text that the normalizers leave. */
kerf_status kf_take_added(kerf_tokenizer *t, const char *text, kf_added token, int normalized,
                          kerf_error *err);
/* The token of each byte, and where texts may be cut: after all tokens and merges are there. */
kerf_status kf_finish_bpe(kerf_tokenizer *t, int byte_fallback, kerf_error *err);
/* The tries, and tokens by their number. */
kerf_status kf_finish_tokenizer(kerf_tokenizer *t, kerf_error *err);

/* Byte level: the bytes that a token's text stands for. 0: a character stands for none. out has
 * room for the text. */
int kf_bytes_of_token(const char *text, size_t n, char *out, size_t *bytes);

kerf_status kf_add_token(kf_added_set *s, const char *text, size_t n, kf_added token,
                         kerf_error *err);
void kf_added_free(kf_added_set *s);

/* Calls put(ctx, token or NULL, part, n, at) for the parts of a text, whole and in order. */
typedef kerf_status (*kf_put_part)(void *ctx, const kf_added *token, const char *part, size_t n,
                                   size_t at, kerf_error *err);
kerf_status kf_added_split(const kf_added_set *s, const char *text, size_t n, kf_put_part put,
                           void *ctx, kerf_error *err);

/* Calls put(ctx, word, n) for the words of a text. buffer: one per step. */
typedef kerf_status (*kf_put_word)(void *ctx, const char *word, size_t n, kerf_error *err);
typedef struct kf_cutter {
    const kf_cut_step *step;
    size_t steps;
    kf_match *match;
    kf_text *buffer; /* [steps] */
    kf_put_word put;
    void *ctx;
} kf_cutter;
kerf_status kf_cut_text(const kf_cutter *c, const char *text, size_t n, int is_first,
                        kerf_error *err);

#endif
