/* gguf_pieces.h - tokenizer.json of a BPE over characters whose rest are bytes, as SentencePiece
 * trains it (Llama 2, Mistral, Gemma), as llama.cpp has it: a score for each token in place of
 * merges. */
#ifndef KERF_LAYOUT_GGUF_PIECES_H
#define KERF_LAYOUT_GGUF_PIECES_H

#include <jansson.h>
#include <kerf/codec.h>

/* BPE with byte_fallback. */
int kf_pieces_are(const json_t *tokenizer);

/* Whether a text is changed before it is cut in a way that llama.cpp has; *prefix: a space is put
 * before it. */
int kf_pieces_normal(const json_t *tokenizer, int *prefix);

/* "<0x0A>" */
int kf_piece_is_byte(const char *text);

/* Scores of n tokens: the earlier a merge makes a token, the higher it is. KERF_E_DATA: a merge is
 * no pair of tokens that make a token. */
kerf_status kf_pieces_score(const json_t *tokenizer, float *score, size_t n, kerf_error *err);

/* The two tokens of a merge, "a b" or a pair, into one text without a space; 0: it is none, or has
 * no room. */
int kf_merge_join(const json_t *merge, char *out, size_t size);

#endif
