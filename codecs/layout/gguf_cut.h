/* gguf_cut.h - what a pre-tokenizer of tokenizer.json is called in a GGUF file. */
#ifndef KERF_LAYOUT_GGUF_CUT_H
#define KERF_LAYOUT_GGUF_CUT_H

#include <jansson.h>

/* Of a BPE over bytes; NULL: llama.cpp has no name for it that kerf knows. */
const char *kf_gguf_cut_name(const json_t *tokenizer);

#endif
