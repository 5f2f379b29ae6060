/* gguf_read.c - the header of a GGUF file, as a validated table.
 *
 * Its length stands nowhere: it is read as it is parsed, and every length in it is held against the
 * bytes that are left before memory is taken. As strict as llama.cpp's own loader, and beyond it
 * where readers are known to go wrong: counts that the file has no room for, empty and repeated
 * names, names that are no text, arrays of arrays, sizes that do not fit, bytes behind the data.
 * Duplicates are found by sorting, so that a hostile file costs no more than a good one. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file/gguf/gguf.h"

#define MIN_KEY_BYTES 14u    /* name of one byte, type, value of one byte */
#define MIN_TENSOR_BYTES 25u /* name of one byte, no dimensions, type, offset */
#define FIRST_READ ((size_t)1 << 16)
#define MAX_DIM (UINT64_C(1) << 53)
#define QUANTIZATION_VERSION 2u /* of ggml's blocks; older ones lie otherwise */

typedef struct parser {
    kf_gguf *out;
    const char *path;
    const kf_blob *blob; /* NULL: all that there is was given */
    uint64_t file_bytes;
    size_t have, capacity, at;
    uint32_t quantization_version;
    char where[64 + KF_GGUF_MAX_NAME_BYTES]; /* what is being read, for errors */
    kerf_error *err;
} parser;

static kerf_status fail(parser *p, kerf_status s, const char *fmt, ...) KERF_PRINTF(3, 4);

static kerf_status fail(parser *p, kerf_status s, const char *fmt, ...)
{
    char why[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return kf_fail(p->err, s, p->at, "%s: %s: %s", p->path, p->where, why);
}

static kerf_status no_memory(parser *p)
{
    return kf_fail(p->err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory for the header", p->path);
}

/* --- bytes --- */

/* Reads on until `end` bytes are there: at least as much again as there is, so that all of a header
 * is read in few steps. */
static kerf_status read_on(parser *p, size_t end)
{
    uint64_t want = p->have ? 2 * (uint64_t)p->have : FIRST_READ;
    if (want < end) want = end;
    want = kf_min_u64(kf_min_u64(want, p->file_bytes), KERF_MAX_HEADER_BYTES);
    uint8_t *more = realloc(p->out->bytes, want);
    if (!more) return no_memory(p);
    p->out->bytes = more;
    KF_TRY(kf_blob_read(p->blob, p->have, more + p->have, (size_t)want - p->have, p->err));
    p->have = (size_t)want;
    return KERF_OK;
}

/* Makes sure of n bytes from the place where the parser is. */
static kerf_status need(parser *p, uint64_t n)
{
    if (n > p->file_bytes - p->at)
        return fail(p, KERF_E_DATA, "needs %" PRIu64 " bytes, the file has %" PRIu64 " left", n,
                    p->file_bytes - p->at);
    if (n > KERF_MAX_HEADER_BYTES || p->at + n > KERF_MAX_HEADER_BYTES)
        return fail(p, KERF_E_LIMIT, "a header of more than %u bytes is not read",
                    KERF_MAX_HEADER_BYTES);
    return p->at + n > p->have ? read_on(p, p->at + (size_t)n) : KERF_OK;
}

static kerf_status take_number(parser *p, unsigned bytes, uint64_t *out)
{
    KF_TRY(need(p, bytes));
    *out = kf_gguf_get(p->out->bytes + p->at, bytes);
    p->at += bytes;
    return KERF_OK;
}

/* A length and so many bytes, which begin at *start. */
static kerf_status take_string(parser *p, size_t *start, uint64_t *length)
{
    KF_TRY(take_number(p, 8, length));
    KF_TRY(need(p, *length));
    if (*length > KF_GGUF_MAX_STRING_BYTES)
        return fail(p, KERF_E_LIMIT, "a string of %" PRIu64 " bytes, at most %u are read", *length,
                    KF_GGUF_MAX_STRING_BYTES);
    *start = p->at;
    p->at += (size_t)*length;
    return KERF_OK;
}

/* A name, with a 0 behind it in out. */
static kerf_status take_name(parser *p, char *out, size_t most)
{
    size_t start;
    uint64_t length;
    KF_TRY(take_string(p, &start, &length));
    if (length == 0) return fail(p, KERF_E_DATA, "its name is empty");
    if (length > most)
        return fail(p, KERF_E_DATA, "its name has %" PRIu64 " bytes, at most %zu are read", length,
                    most);
    memcpy(out, p->out->bytes + start, (size_t)length);
    out[length] = 0;
    if (strlen(out) != length || !kf_is_utf8(out))
        return fail(p, KERF_E_DATA, "its name is not UTF-8 text");
    return KERF_OK;
}

/* --- keys --- */

static const unsigned char value_bytes[KF_GGUF_VALUES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

static kerf_status check_bools(parser *p, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (p->out->bytes[p->at + i] > 1)
            return fail(p, KERF_E_DATA, "a bool of %u", p->out->bytes[p->at + i]);
    return KERF_OK;
}

static kerf_status skip_values(parser *p, uint64_t type, uint64_t n)
{
    size_t start;
    uint64_t length, bytes;
    if (type >= KF_GGUF_VALUES)
        return fail(p, KERF_E_DATA, "value of type %" PRIu64 ", types 0 to 12 exist", type);
    if (type == KF_GGUF_ARRAY)
        return fail(p, KERF_E_DATA, "an array of arrays, which llama.cpp does not read either");
    if (type == KF_GGUF_STRING) {
        for (uint64_t i = 0; i < n; i++) KF_TRY(take_string(p, &start, &length));
        return KERF_OK;
    }
    if (!kf_mul_ok(n, value_bytes[type], &bytes))
        return fail(p, KERF_E_DATA, "%" PRIu64 " values do not fit 64 bits", n);
    KF_TRY(need(p, bytes));
    if (type == KF_GGUF_BOOL) KF_TRY(check_bools(p, bytes));
    p->at += (size_t)bytes;
    return KERF_OK;
}

/* What the file says of itself. Checked here, since the rest rests on it. */
static kerf_status take_meaning(parser *p, const char *name, const kf_gguf_key *k)
{
    const uint64_t v =
        kf_gguf_get(p->out->bytes + k->value, value_bytes[k->type] <= 4 ? value_bytes[k->type] : 4);
    if (strcmp(name, "general.alignment") == 0) {
        if (k->type != KF_GGUF_U32) return fail(p, KERF_E_DATA, "its type is not u32");
        if (v == 0 || (v & (v - 1)) != 0)
            return fail(p, KERF_E_DATA, "%" PRIu64 " is not a power of two", v);
        if (v > KF_GGUF_MAX_ALIGNMENT)
            return fail(p, KERF_E_DATA, "%" PRIu64 " is more than %u", v, KF_GGUF_MAX_ALIGNMENT);
        p->out->alignment = (uint32_t)v;
    } else if (strcmp(name, "general.quantization_version") == 0) {
        if (k->type != KF_GGUF_U32) return fail(p, KERF_E_DATA, "its type is not u32");
        p->quantization_version = (uint32_t)v;
    } else if (strcmp(name, "split.count") == 0 || strcmp(name, "split.no") == 0) {
        if (k->type != KF_GGUF_U16) return fail(p, KERF_E_DATA, "its type is not u16");
    } else if (strcmp(name, "split.tensors.count") == 0) {
        if (k->type != KF_GGUF_I32) return fail(p, KERF_E_DATA, "its type is not i32");
    }
    return KERF_OK;
}

static kerf_status take_key(parser *p, size_t i, char *name)
{
    kf_gguf_key *k = &p->out->key[i];
    uint64_t type, count = 1;
    k->at = p->at;
    snprintf(p->where, sizeof p->where, "key %zu", i);
    KF_TRY(take_name(p, name, KF_GGUF_MAX_KEY_BYTES));
    snprintf(p->where, sizeof p->where, "key \"%.60s\"", name);
    KF_TRY(take_number(p, 4, &type));
    k->type = type < KF_GGUF_VALUES ? (kf_gguf_value)type : KF_GGUF_VALUES;
    k->value = p->at;
    if (type == KF_GGUF_ARRAY) {
        KF_TRY(take_number(p, 4, &type));
        KF_TRY(take_number(p, 8, &count));
        const uint64_t least = type == KF_GGUF_STRING ? 8 : 1; /* of one value */
        if (count > (p->file_bytes - p->at) / least)
            return fail(p, KERF_E_DATA,
                        "an array of %" PRIu64 " values, the file has %" PRIu64 " bytes left",
                        count, p->file_bytes - p->at);
    }
    KF_TRY(skip_values(p, type, count));
    k->bytes = p->at - k->at;
    return take_meaning(p, name, k);
}

/* --- tensors --- */

static kerf_status take_shape(parser *p, kerf_tensor *t)
{
    uint64_t rank, ne;
    KF_TRY(take_number(p, 4, &rank));
    if (rank > KF_GGUF_MAX_RANK)
        return fail(p, KERF_E_DATA, "%" PRIu64 " dimensions, at most %u exist", rank,
                    KF_GGUF_MAX_RANK);
    t->shape.rank = (unsigned)rank;
    for (unsigned i = 0; i < rank; i++) {
        KF_TRY(take_number(p, 8, &ne));
        if (ne > MAX_DIM) return fail(p, KERF_E_DATA, "dimension %u is negative or above 2^53", i);
        t->shape.dim[rank - 1 - i] = ne; /* innermost first there, last here */
    }
    return KERF_OK;
}

/* Blocks are bytes here: a row of so many elements is a row of so many bytes. */
static kerf_status take_type(parser *p, kerf_tensor *t)
{
    uint64_t id, elements;
    KF_TRY(take_number(p, 4, &id));
    const kf_gguf_type *type = kf_gguf_type_at((uint32_t)id);
    if (!type)
        return fail(p, KERF_E_NOSUP,
                    "ggml type %" PRIu64 " is unknown here: not yet, or not any more, in GGUF", id);
    t->dtype = type->dtype == KERF_DTYPE_NONE ? KERF_U8 : type->dtype;
    if (kerf_shape_count(&t->shape, &elements, NULL) != KERF_OK)
        return fail(p, KERF_E_DATA, "the size of its shape does not fit 64 bits");
    if (type->dtype == KERF_DTYPE_NONE) {
        t->block_type = type->name;
        uint64_t *last = &t->shape.dim[t->shape.rank ? t->shape.rank - 1 : 0];
        if (t->shape.rank == 0 || *last % type->elements != 0)
            return fail(p, KERF_E_DATA,
                        "rows of %" PRIu64 " elements are not whole blocks of %s, which have %u",
                        t->shape.rank ? *last : 1, type->name, type->elements);
        *last = *last / type->elements * type->bytes;
        if (p->quantization_version != QUANTIZATION_VERSION)
            return fail(p, KERF_E_NOSUP,
                        "%s blocks of general.quantization_version %u: only %u is known",
                        type->name, p->quantization_version, QUANTIZATION_VERSION);
    }
    if (kf_tensor_bytes(t->dtype, &t->shape, &t->bytes) != KERF_OK || t->bytes > INT64_MAX)
        return fail(p, KERF_E_DATA, "the size of its shape does not fit 64 bits");
    return KERF_OK;
}

static uint64_t pad(uint64_t n, uint32_t alignment) /* n is at most INT64_MAX */
{
    return (n + alignment - 1) & ~(uint64_t)(alignment - 1);
}

/* Each tensor begins where the one before ends, padded. *end: where this one does. */
static kerf_status take_tensor(parser *p, size_t i, char *name, uint64_t *end)
{
    kerf_tensor *t = &p->out->tensor[i];
    const uint64_t expected = pad(*end, p->out->alignment);
    snprintf(p->where, sizeof p->where, "tensor %zu", i);
    KF_TRY(take_name(p, name, KF_GGUF_MAX_NAME_BYTES));
    snprintf(p->where, sizeof p->where, "tensor \"%s\"", name);
    KF_TRY(take_shape(p, t));
    KF_TRY(take_type(p, t));
    KF_TRY(take_number(p, 8, &t->offset));
    if (t->offset % p->out->alignment != 0)
        return fail(p, KERF_E_DATA, "data at %" PRIu64 ", not a multiple of the alignment %u",
                    t->offset, p->out->alignment);
    if (t->offset != expected)
        return fail(p, KERF_E_DATA,
                    "data at %" PRIu64 ", the tensor before ends at %" PRIu64 " (%s)", t->offset,
                    expected, t->offset < expected ? "overlap" : "hole");
    if (!kf_add_ok(t->offset, t->bytes, end) || *end > INT64_MAX - KERF_MAX_HEADER_BYTES)
        return fail(p, KERF_E_DATA, "its data would end beyond 64 bits");
    return KERF_OK;
}

/* --- names --- */

/* Names are gathered while the header is read, and pointed at when all of them are there. */
static kerf_status sort_names(parser *p, const kf_text *names)
{
    kf_gguf *g = p->out;
    g->strings = names->p;
    g->by_name = kf_alloc(g->count, sizeof *g->by_name);
    kf_named *keys = kf_alloc(g->keys, sizeof *keys);
    if (!g->by_name || !keys) {
        free(keys);
        return no_memory(p);
    }
    const char *at = names->p;
    for (size_t i = 0; i < g->keys; i++, at += strlen(at) + 1) {
        g->key[i].name = at;
        keys[i] = (kf_named){at, i};
    }
    for (size_t i = 0; i < g->count; i++, at += strlen(at) + 1) {
        g->tensor[i].name = at;
        g->by_name[i] = (kf_named){at, i};
    }
    kerf_status s = KERF_OK;
    size_t twice = kf_sort_names(keys, g->keys);
    snprintf(p->where, sizeof p->where, "header");
    if (twice < g->keys)
        s = fail(p, KERF_E_DATA, "key \"%.*s\" occurs twice", KF_NAME(keys[twice].name));
    twice = kf_sort_names(g->by_name, g->count);
    if (s == KERF_OK && twice < g->count)
        s = fail(p, KERF_E_DATA, "two tensors are named \"%.*s\"", KF_NAME(g->by_name[twice].name));
    free(keys);
    return s;
}

/* --- all --- */

static kerf_status take_counts(parser *p, uint64_t *tensors, uint64_t *keys)
{
    uint64_t version;
    snprintf(p->where, sizeof p->where, "header");
    KF_TRY(need(p, 4));
    if (!kf_gguf_is(p->out->bytes))
        return fail(p, KERF_E_DATA, "does not begin with \"GGUF\": not a GGUF file");
    p->at = 4;
    KF_TRY(take_number(p, 4, &version));
    if (version != 0 && (version & 0xffff) == 0)
        return fail(p, KERF_E_NOSUP, "a big-endian file: convert it to little-endian first");
    if (version != 2 && version != 3)
        return fail(p, KERF_E_NOSUP, "version %" PRIu64 " of GGUF: 2 and 3 are read", version);
    KF_TRY(take_number(p, 8, tensors));
    KF_TRY(take_number(p, 8, keys));
    const uint64_t left = p->file_bytes - p->at;
    if (*tensors > left / MIN_TENSOR_BYTES || *keys > left / MIN_KEY_BYTES ||
        *tensors * MIN_TENSOR_BYTES + *keys * MIN_KEY_BYTES > left)
        return fail(p, KERF_E_DATA,
                    "claims %" PRIu64 " tensors and %" PRIu64 " keys, in %" PRIu64 " bytes",
                    *tensors, *keys, left);
    if (*tensors > KF_GGUF_MAX_ITEMS || *keys > KF_GGUF_MAX_ITEMS)
        return fail(p, KERF_E_LIMIT, "%" PRIu64 " tensors, %" PRIu64 " keys; at most %u are read",
                    *tensors, *keys, KF_GGUF_MAX_ITEMS);
    return KERF_OK;
}

static kerf_status take_items(parser *p, kf_text *names, char *name, uint64_t *end)
{
    kf_gguf *g = p->out;
    for (size_t i = 0; i < g->keys; i++) {
        KF_TRY(take_key(p, i, name));
        kf_text_add_bytes(names, name, strlen(name) + 1);
    }
    for (size_t i = 0; i < g->count; i++) {
        KF_TRY(take_tensor(p, i, name, end));
        kf_text_add_bytes(names, name, strlen(name) + 1);
    }
    return names->failed ? no_memory(p) : KERF_OK;
}

/* Nothing is hidden behind the data; the padding after the last tensor may be there or not. */
static kerf_status check_end(parser *p, uint64_t end)
{
    kf_gguf *g = p->out;
    const uint64_t start = g->count ? pad(p->at, g->alignment) : p->at;
    for (size_t i = 0; i < g->count; i++) {
        kerf_tensor *t = &g->tensor[i];
        t->offset += start;
        if (p->blob && t->offset + t->bytes > p->file_bytes)
            return kf_fail(p->err, KERF_E_DATA, t->offset,
                           "%s: tensor \"%s\": data ends at %" PRIu64 ", the file has %" PRIu64
                           " bytes",
                           p->path, t->name, t->offset + t->bytes, p->file_bytes);
    }
    const uint64_t last = g->count ? pad(start + end, g->alignment) : pad(p->at, g->alignment);
    if (p->blob && p->file_bytes > last)
        return kf_fail(p->err, KERF_E_DATA, last,
                       "%s: %" PRIu64 " bytes stand behind the last tensor, which ends at %" PRIu64,
                       p->path, p->file_bytes - last, last);
    return KERF_OK;
}

static kerf_status parse(parser *p)
{
    kf_gguf *g = p->out;
    uint64_t tensors = 0, keys = 0, end = 0;
    kf_text names = {0};
    KF_TRY(take_counts(p, &tensors, &keys));
    g->count = (size_t)tensors;
    g->keys = (size_t)keys;
    g->key = kf_alloc_zero(keys, sizeof *g->key);
    g->tensor = kf_alloc_zero(tensors, sizeof *g->tensor);
    char *name = kf_alloc(KF_GGUF_MAX_KEY_BYTES + 1, 1);
    kerf_status s = g->key && g->tensor && name ? KERF_OK : no_memory(p);
    if (s == KERF_OK) s = take_items(p, &names, name, &end);
    if (s == KERF_OK)
        s = sort_names(p, &names); /* which takes the names over */
    else
        free(names.p);
    free(name);
    g->n = p->at;
    return s == KERF_OK ? check_end(p, end) : s;
}

static kerf_status run(parser *p)
{
    p->out->alignment = KF_GGUF_DEFAULT_ALIGNMENT;
    p->quantization_version = QUANTIZATION_VERSION;
    kerf_status s = parse(p);
    if (s != KERF_OK) kf_gguf_free(p->out);
    return s;
}

kerf_status kf_gguf_read(const kf_blob *b, kf_gguf *out, kerf_error *err)
{
    parser p = {.out = out, .path = b->path, .blob = b, .file_bytes = b->bytes, .err = err};
    *out = (kf_gguf){0};
    return run(&p);
}

kerf_status kf_gguf_parse(const char *what, uint8_t *bytes, size_t n, kf_gguf *out, kerf_error *err)
{
    parser p = {.out = out, .path = what, .file_bytes = n, .have = n, .err = err};
    *out = (kf_gguf){.bytes = bytes};
    return run(&p);
}
