/* unigram.h - SentencePiece's unigram model: of all ways to make a text of tokens, the likeliest.
 */
#ifndef KERF_TOKENS_UNIGRAM_H
#define KERF_TOKENS_UNIGRAM_H

#include "vocabulary.h"

typedef struct kf_unigram {
    double *score; /* [scores] logarithms, by token */
    size_t scores;
    double least; /* of all of them */
    kf_trie trie;
    uint32_t unknown; /* KF_NO_TOKEN: there is none */
    int byte_fallback;
    uint32_t byte[256];
} kf_unigram;

void kf_unigram_free(kf_unigram *u);

/* Memory of one thread. All zeros at first; freed by the caller. */
typedef struct kf_unigram_work {
    struct kf_unigram_node *node;
    size_t capacity;
    uint32_t *token; /* [tokens] the result */
    size_t tokens;
} kf_unigram_work;
void kf_unigram_work_free(kf_unigram_work *w);

kerf_status kf_unigram_encode(const kf_unigram *u, const kf_vocab *v, kf_unigram_work *w,
                              const char *text, size_t n, kerf_error *err);

#endif
