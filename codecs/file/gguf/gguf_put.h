/* gguf_put.h - numbers, strings and keys of a GGUF header, added to a text. */
#ifndef KERF_FILE_GGUF_PUT_H
#define KERF_FILE_GGUF_PUT_H

#include <string.h>

#include "file/gguf/gguf.h"

static inline void kf_gguf_put(kf_text *t, uint64_t v, unsigned bytes)
{
    char raw[8];
    for (unsigned i = 0; i < bytes; i++) raw[i] = (char)(v >> 8 * i);
    kf_text_add_bytes(t, raw, bytes);
}

static inline void kf_gguf_put_string(kf_text *t, const char *s)
{
    kf_gguf_put(t, strlen(s), 8);
    kf_text_add_bytes(t, s, strlen(s));
}

/* A key and the type of its value, which follows. */
static inline void kf_gguf_put_key(kf_text *t, const char *name, kf_gguf_value type)
{
    kf_gguf_put_string(t, name);
    kf_gguf_put(t, (uint64_t)type, 4);
}

static inline void kf_gguf_put_u32(kf_text *t, const char *name, uint32_t v)
{
    kf_gguf_put_key(t, name, KF_GGUF_U32);
    kf_gguf_put(t, v, 4);
}

#endif
