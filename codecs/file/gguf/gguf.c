/* gguf.c - ggml's types, and the header of a GGUF file as metadata that other files can carry. */
#include "file/gguf/gguf.h"

#include <stdlib.h>
#include <string.h>

/* clang-format off */
/* Numbers that are not here were types once and are in no file that llama.cpp still reads. */
static const kf_gguf_type types[] = {
    {"F32",      0,   1,   4, KERF_F32,  0}, {"F16",      1,   1,   2, KERF_F16,  1},
    {"BF16",    30,   1,   2, KERF_BF16, 32}, {"F64",     28,   1,   8, KERF_F64, -1},
    {"I8",      24,   1,   1, KERF_I8,  -1}, {"I16",     25,   1,   2, KERF_I16, -1},
    {"I32",     26,   1,   4, KERF_I32, -1}, {"I64",     27,   1,   8, KERF_I64, -1},
    {"Q8_0",     8,  32,  34, KERF_DTYPE_NONE,  7}, {"Q4_0",     2,  32,  18, KERF_DTYPE_NONE,  2},
    {"MXFP4",   39,  32,  17, KERF_DTYPE_NONE, 38}, {"NVFP4",   40,  64,  36, KERF_DTYPE_NONE, 39},
    {"Q4_1",     3,  32,  20, KERF_DTYPE_NONE, 3}, {"Q5_0",     6,  32,  22, KERF_DTYPE_NONE, 8},
    {"Q5_1",     7,  32,  24, KERF_DTYPE_NONE, 9}, {"Q8_1",     9,  32,  36, KERF_DTYPE_NONE, -1},
    {"Q2_K",    10, 256,  84, KERF_DTYPE_NONE, 10}, {"Q3_K",    11, 256, 110, KERF_DTYPE_NONE, 12},
    {"Q4_K",    12, 256, 144, KERF_DTYPE_NONE, 15}, {"Q5_K",    13, 256, 176, KERF_DTYPE_NONE, 17},
    {"Q6_K",    14, 256, 210, KERF_DTYPE_NONE, 18}, {"Q8_K",    15, 256, 292, KERF_DTYPE_NONE, -1},
    {"IQ2_XXS", 16, 256,  66, KERF_DTYPE_NONE, -1}, {"IQ2_XS",  17, 256,  74, KERF_DTYPE_NONE, -1},
    {"IQ3_XXS", 18, 256,  98, KERF_DTYPE_NONE, -1}, {"IQ1_S",   19, 256,  50, KERF_DTYPE_NONE, -1},
    {"IQ4_NL",  20,  32,  18, KERF_DTYPE_NONE, 25}, {"IQ3_S",   21, 256, 110, KERF_DTYPE_NONE, -1},
    {"IQ2_S",   22, 256,  82, KERF_DTYPE_NONE, -1}, {"IQ4_XS",  23, 256, 136, KERF_DTYPE_NONE, 30},
    {"IQ1_M",   29, 256,  56, KERF_DTYPE_NONE, -1}, {"TQ1_0",   34, 256,  54, KERF_DTYPE_NONE, -1},
    {"TQ2_0",   35, 256,  66, KERF_DTYPE_NONE, -1}, {"Q1_0",    41, 128,  18, KERF_DTYPE_NONE, -1},
    {"Q2_0",    42,  64,  18, KERF_DTYPE_NONE, -1},
};
/* clang-format on */
#define TYPES (sizeof types / sizeof *types)

const kf_gguf_type *kf_gguf_type_at(uint32_t id)
{
    for (size_t i = 0; i < TYPES; i++)
        if (types[i].id == id) return &types[i];
    return NULL;
}

const kf_gguf_type *kf_gguf_type_find(const char *name)
{
    for (size_t i = 0; i < TYPES; i++)
        if (strcmp(types[i].name, name) == 0) return &types[i];
    return NULL;
}

const kf_gguf_type *kf_gguf_type_of(kerf_dtype t)
{
    for (size_t i = 0; i < TYPES; i++)
        if (types[i].dtype == t && t != KERF_DTYPE_NONE) return &types[i];
    return NULL;
}

int kf_gguf_is(const uint8_t first[4])
{
    return memcmp(first, "GGUF", 4) == 0;
}

void kf_gguf_free(kf_gguf *g)
{
    free(g->bytes);
    free(g->key);
    free(g->tensor);
    free(g->by_name);
    free(g->strings);
    memset(g, 0, sizeof *g);
}

/* --- as a string --- */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t kf_gguf_packed_bytes(size_t n)
{
    return (n + 2) / 3 * 4 + 1;
}

void kf_gguf_pack(const uint8_t *p, size_t n, char *out)
{
    for (size_t i = 0; i < n; i += 3) {
        const size_t left = n - i;
        uint32_t word = (uint32_t)p[i] << 16;
        if (left > 1) word |= (uint32_t)p[i + 1] << 8;
        if (left > 2) word |= p[i + 2];
        for (unsigned k = 0; k < 4; k++)
            *out++ = k <= left ? digits[word >> (18 - 6 * k) & 63] : '=';
    }
    *out = 0;
}

kerf_status kf_gguf_unpack(const char *text, uint8_t **out, size_t *n, kerf_error *err)
{
    size_t length = strlen(text), padding = 0;
    uint8_t value[256];
    *out = NULL;
    while (padding < 2 && padding < length && text[length - 1 - padding] == '=') padding++;
    if (length % 4 != 0)
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "metadata \"" KF_GGUF_CARRIED "\": not the header of a GGUF file");
    memset(value, 0xff, sizeof value);
    for (unsigned i = 0; i < 64; i++) value[(unsigned char)digits[i]] = (uint8_t)i;
    *n = length / 4 * 3 - padding;
    uint8_t *p = kf_alloc(length / 4 * 3, 1);
    if (!p) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for the header");
    for (size_t i = 0; i < length; i += 4) {
        uint32_t word = 0;
        for (size_t k = i; k < i + 4; k++) {
            const uint8_t v = k < length - padding ? value[(unsigned char)text[k]] : 0;
            if (v > 63) {
                free(p);
                return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                               "metadata \"" KF_GGUF_CARRIED "\": not the header of a GGUF file");
            }
            word = word << 6 | v;
        }
        for (unsigned k = 0; k < 3; k++) p[i / 4 * 3 + k] = (uint8_t)(word >> (16 - 8 * k));
    }
    *out = p;
    return KERF_OK;
}

/* --- as the reader has it --- */

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const kerf_key_value *)a)->key, ((const kerf_key_value *)b)->key);
}

/* A value that can be given as text: a string of UTF-8 without zeros. The names that kerf gives a
 * meaning in other files have none here. */
static int is_told(const kf_gguf_key *k, const char *value, size_t length)
{
    return strlen(value) == length && kf_is_utf8(value) && strcmp(k->name, "kerf") != 0 &&
           strcmp(k->name, "format") != 0 && strcmp(k->name, KF_GGUF_CARRIED) != 0;
}

static void add_pair(kf_header *h, const char *key, const char *value)
{
    h->metadata[h->metadata_count++] = (kerf_key_value){key, value};
}

kerf_status kf_gguf_take(kf_gguf *g, kf_header *out, kerf_error *err)
{
    size_t names = 0, values = 0, strings = 1;
    for (size_t i = 0; i < g->keys; i++) names += strlen(g->key[i].name) + 1;
    for (size_t i = 0; i < g->count; i++) names += strlen(g->tensor[i].name) + 1;
    for (size_t i = 0; i < g->keys; i++) {
        if (g->key[i].type != KF_GGUF_STRING) continue;
        values += (size_t)kf_gguf_get(g->bytes + g->key[i].value, 8) + 1;
        strings++;
    }
    *out = (kf_header){0};
    out->metadata = kf_alloc(strings, sizeof *out->metadata);
    out->strings = kf_alloc(names + values + kf_gguf_packed_bytes(g->n), 1);
    if (!out->metadata || !out->strings) {
        kf_header_free(out);
        return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for metadata");
    }
    char *at = out->strings;
    for (size_t i = 0; i < g->keys; i++) {
        const kf_gguf_key *k = &g->key[i];
        if (k->type != KF_GGUF_STRING) continue;
        const size_t length = (size_t)kf_gguf_get(g->bytes + k->value, 8), n = strlen(k->name) + 1;
        memcpy(at, g->bytes + k->value + 8, length);
        at[length] = 0;
        if (!is_told(k, at, length)) continue;
        memcpy(at + length + 1, k->name, n);
        add_pair(out, at + length + 1, at);
        at += length + 1 + n;
    }
    for (size_t i = 0; i < g->count; i++) {
        const size_t n = strlen(g->tensor[i].name) + 1;
        memcpy(at, g->tensor[i].name, n);
        g->tensor[i].name = at;
        g->by_name[i].index = i;
        at += n;
    }
    for (size_t i = 0; i < g->count; i++) g->by_name[i].name = g->tensor[i].name;
    kf_sort_names(g->by_name, g->count);
    kf_gguf_pack(g->bytes, g->n, at);
    add_pair(out, KF_GGUF_CARRIED, at);
    qsort(out->metadata, out->metadata_count, sizeof *out->metadata, compare_keys);
    out->tensor = g->tensor;
    out->by_name = g->by_name;
    out->count = g->count;
    g->tensor = NULL;
    g->by_name = NULL;
    return KERF_OK;
}
