/* gguf_sentencepiece.h - tokenizer.model, as SentencePiece trains and stores it. */
#ifndef KERF_LAYOUT_GGUF_SENTENCEPIECE_H
#define KERF_LAYOUT_GGUF_SENTENCEPIECE_H

#include <stdint.h>

#include <kerf/codec.h>

/* One token. type: as GGUF files number them, which is as SentencePiece does. */
typedef struct kf_piece {
    const char *text;
    float score;
    int type;
} kf_piece;

/* What a file says. */
typedef struct kf_pieces {
    kf_piece *piece;
    size_t count;
    int is_bpe;     /* trained as BPE, as llama.cpp joins them                   */
    int is_changed; /* texts are normalized, or their spaces are, before the cut */
    int prefix;     /* a space is put before a text                              */
    int has_bos;    /* there is a token that begins a text                       */
    char *texts;
} kf_pieces;

/* Takes the n bytes of a file apart. Memory is in proportion to them; no length of the file is
 * believed. KERF_E_DATA: not such a file; the reason names `name` and the byte. */
kerf_status kf_pieces_parse(const char *name, const unsigned char *file, size_t n, kf_pieces *out,
                            kerf_error *err);
void kf_pieces_close(kf_pieces *p); /* all zeros are fine */

#endif
