/* gguf_model.h - the keys of a GGUF file for a Hugging Face model: sizes from config.json, the
 * tokenizer from tokenizer.json. */
#ifndef KERF_LAYOUT_GGUF_MODEL_H
#define KERF_LAYOUT_GGUF_MODEL_H

#include "layout/layout.h"

/* The header of a GGUF file without tensors, packed as kf_gguf_pack does: malloc'd. name: of the
 * model, for general.name. KERF_E_NOSUP with the reason: another kind of model or tokenizer, or
 * something that llama.cpp must be told and that kerf cannot say. */
kerf_status kf_gguf_model_header(const kerf_reader *r, const char *name, char **out,
                                 kerf_error *err);

#endif
