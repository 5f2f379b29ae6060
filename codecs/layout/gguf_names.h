/* gguf_names.h - models of Hugging Face that llama.cpp knows under other names: which, and what
 * their tensors are called in GGUF files.
 *
 * Source: llama.cpp, convert_hf_to_gguf.py; gguf-py, tensor_mapping.py and constants.py. */
#ifndef KERF_LAYOUT_GGUF_NAMES_H
#define KERF_LAYOUT_GGUF_NAMES_H

#include <jansson.h>
#include <kerf/layouts.h>

typedef struct kf_gguf_model {
    const char *type;         /* model_type of config.json */
    const char *architecture; /* general.architecture      */
    int interleaves; /* rows of q and k: pairs of rotary positions, where Hugging Face has halves */
    int has_experts;
} kf_gguf_model;

/* NULL: not one that is known. */
const kf_gguf_model *kf_gguf_model_find(const json_t *config);
/* The model types that are known, with commas; cut to size. Returns out. */
char *kf_gguf_model_list(char *out, size_t size);

typedef enum kf_gguf_kind {
    KF_GGUF_UNKNOWN, /* no name of such a model                       */
    KF_GGUF_PLAIN,
    KF_GGUF_Q, /* the rows of its heads are in another order    */
    KF_GGUF_K,
    KF_GGUF_EXPERT, /* one of a stack                                */
    KF_GGUF_NO_USE  /* computed by llama.cpp itself: left out        */
} kf_gguf_kind;

#define KF_GGUF_NAME_ROOM 64

/* The name of a tensor in a GGUF file. *expert: of KF_GGUF_EXPERT, which one. */
kf_gguf_kind kf_gguf_name_of(const char *name, char out[KF_GGUF_NAME_ROOM], uint64_t *expert);

#endif
