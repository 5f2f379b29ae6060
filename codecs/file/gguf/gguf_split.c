/* gguf_split.c - which part of a model a GGUF file is, and where the others are.
 *
 * Source: llama.cpp, src/llama.cpp (llama_split_path) and tools/gguf-split: split.no and
 * split.count are u16, split.tensors.count is i32, names count from 1 and keys from 0. */
#include "file/gguf/gguf_split.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prefix[] = "split.";

int kf_gguf_is_split_key(const char *key)
{
    return strncmp(key, prefix, strlen(prefix)) == 0;
}

/* The number under a key of this type; 0: there is none. */
static uint64_t number_at(const kf_gguf *g, const char *name, kf_gguf_value type, unsigned bytes)
{
    for (size_t i = 0; i < g->keys; i++)
        if (g->key[i].type == type && strcmp(g->key[i].name, name) == 0)
            return kf_gguf_get(g->bytes + g->key[i].value, bytes);
    return 0;
}

kerf_status kf_gguf_split_read(const kf_gguf *g, const char *path, kf_gguf_split *out,
                               kerf_error *err)
{
    out->no = (unsigned)number_at(g, "split.no", KF_GGUF_U16, 2);
    out->count = (unsigned)number_at(g, "split.count", KF_GGUF_U16, 2);
    out->tensors = number_at(g, "split.tensors.count", KF_GGUF_I32, 4);
    if (out->no < out->count || (out->no == 0 && out->count == 0)) {
        if (out->count == 1) out->count = 0;
        return KERF_OK;
    }
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%s: says that it is part %u of %u", path,
                   out->no + 1, out->count);
}

static size_t name_end(char *out, size_t size, unsigned no, unsigned count)
{
    return (size_t)snprintf(out, size, "-%05u-of-%05u.gguf", no + 1, count);
}

kerf_status kf_gguf_split_path(const char *first, const kf_gguf_split *s, unsigned no, char **out,
                               kerf_error *err)
{
    char end[48];
    const size_t n = strlen(first);
    name_end(end, sizeof end, 0, s->count);
    if (s->no != 0)
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "%s: is part %u of %u: give the first, which is named *%s", first, s->no + 1,
                       s->count, end);
    if (!kf_has_suffix(first, end))
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "%s: is the first of %u parts and must be named *%s for the others to be "
                       "found",
                       first, s->count, end);
    const size_t stem = n - strlen(end), room = n + sizeof end;
    name_end(end, sizeof end, no, s->count);
    *out = kf_alloc(room, 1);
    if (!*out) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", first);
    snprintf(*out, room, "%.*s%s", (int)stem, first, end);
    return KERF_OK;
}

kerf_status kf_gguf_split_check(const char *path, const kf_gguf_split *s,
                                const kf_gguf_split *first, unsigned no, kerf_error *err)
{
    if (s->no == no && s->count == first->count) return KERF_OK;
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%s: is not part %u of %u, as its name says", path,
                   no + 1, first->count);
}
