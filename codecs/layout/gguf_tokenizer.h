/* gguf_tokenizer.h - tokenizer.json, or tokenizer.model, as keys of a GGUF file. */
#ifndef KERF_LAYOUT_GGUF_TOKENIZER_H
#define KERF_LAYOUT_GGUF_TOKENIZER_H

#include <jansson.h>

#include "file/json/text.h"
#include "layout/layout.h"

/* Adds tokenizer.ggml.* and tokenizer.chat_template to t, and how many they are to *count.
 * BPE over bytes, and over characters with bytes for the rest: KERF_E_NOSUP for others, and for
 * pre-tokenizers that llama.cpp has no name for that kerf knows. config: config.json, whose
 * vocabulary may be larger. */
kerf_status kf_gguf_tokenizer_keys(const kerf_reader *r, const json_t *config, kf_text *t,
                                   uint32_t *count, kerf_error *err);

#endif
