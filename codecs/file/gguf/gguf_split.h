/* gguf_split.h - models of several GGUF files, PREFIX-00001-of-00003.gguf and so on. Each part says
 * in its keys which it is; only the first has the keys of the model. */
#ifndef KERF_FILE_GGUF_SPLIT_H
#define KERF_FILE_GGUF_SPLIT_H

#include "file/gguf/gguf.h"

typedef struct kf_gguf_split {
    unsigned no, count; /* from 0; count 0: not a part, or the only one  */
    uint64_t tensors;   /* of all parts; 0: not said                     */
} kf_gguf_split;

/* Whether a key is about parts: a file that is whole has none of them. */
int kf_gguf_is_split_key(const char *key);

/* What the keys say. KERF_E_DATA when they contradict each other. */
kerf_status kf_gguf_split_read(const kf_gguf *g, const char *path, kf_gguf_split *out,
                               kerf_error *err);

/* The path of part `no` of the model whose first part this is: malloc'd. KERF_E_DATA when the path
 * is not named as llama.cpp names first parts. */
kerf_status kf_gguf_split_path(const char *first, const kf_gguf_split *s, unsigned no, char **out,
                               kerf_error *err);

/* Whether s, read from path, is part `no` of the model that `first` begins. */
kerf_status kf_gguf_split_check(const char *path, const kf_gguf_split *s,
                                const kf_gguf_split *first, unsigned no, kerf_error *err);

#endif
