/* charsmap.h - the normalizer that SentencePiece compiles into its models: a double-array trie from
 * byte sequences to what replaces them. */
#ifndef KERF_TOKENS_CHARSMAP_H
#define KERF_TOKENS_CHARSMAP_H

#include "cut_regex.h"
#include "file/json/text.h"

typedef struct kf_charsmap {
    uint32_t *unit; /* [units] of the trie                                     */
    size_t units;
    char *text; /* [bytes] replacements, each with a 0 behind it           */
    size_t bytes;
    kf_regex *cluster; /* what a reader takes for one character              */
} kf_charsmap;

/* From the base64 of a tokenizer.json. */
kerf_status kf_charsmap_read(const char *base64, kf_charsmap *out, kerf_error *err);
/* From the bytes themselves, as GGUF has them. */
kerf_status kf_charsmap_take(const uint8_t *p, size_t n, kf_charsmap *out, kerf_error *err);
void kf_charsmap_free(kf_charsmap *m);

kerf_status kf_charsmap_apply(const kf_charsmap *m, kf_match *match, const char *text, size_t n,
                              kf_text *out, kerf_error *err);

#endif
