/* bpe.h - byte pair encoding: characters of a word, of which the pair that was learned first is
 * merged again and again. */
#ifndef KERF_TOKENS_BPE_H
#define KERF_TOKENS_BPE_H

#include "vocabulary.h"

/* What two tokens become, and how early it was learned. */
typedef struct kf_merge {
    uint64_t pair; /* left << 32 | right; UINT64_MAX: free */
    uint32_t rank, id;
} kf_merge;

typedef struct kf_bpe {
    kf_merge *merge; /* [mask + 1], by hash */
    size_t count, mask;
    uint32_t unknown; /* KF_NO_TOKEN: what is unknown is left out */
    int fuse_unknown, whole_words;
    int bytes;          /* byte level: symbols are bytes, not characters             */
    uint32_t byte[256]; /* byte level: their tokens; else what stands for unknown bytes */
    int has_bytes;      /* all 256 of these are there (byte fallback) */
    uint64_t *joined;   /* bits by hash: pairs of characters that stand side by side in a token */
} kf_bpe;

/* Room for `count` merges, which are then added; a pair that was added before gets the new rank. */
kerf_status kf_bpe_reserve(kf_bpe *b, size_t count, kerf_error *err);
void kf_bpe_add(kf_bpe *b, uint32_t left, uint32_t right, uint32_t rank, uint32_t id);
/* Notes which characters of its tokens stand side by side: between others a text may be cut. */
kerf_status kf_bpe_note_joined(kf_bpe *b, const kf_vocab *v, kerf_error *err);
void kf_bpe_free(kf_bpe *b);

/* Memory of one thread. */
typedef struct kf_bpe_work kf_bpe_work;
kerf_status kf_bpe_work_open(kf_bpe_work **out, kerf_error *err);
void kf_bpe_work_close(kf_bpe_work *w); /* NULL is fine */

/* Tokens of a word: *token has *count of them until the next call. */
kerf_status kf_bpe_encode(const kf_bpe *b, const kf_vocab *v, kf_bpe_work *w, const char *word,
                          size_t n, const uint32_t **token, size_t *count, kerf_error *err);

/* Bytes of the first part of a text that can be encoded by itself, at most n. */
size_t kf_bpe_part(const kf_bpe *b, const kf_vocab *v, const char *text, size_t n);

#endif
