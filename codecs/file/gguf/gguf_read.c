/* gguf_read.c - the header of a GGUF file, as a validated table.
 *
 * As strict as llama.cpp's own loader, and beyond it where readers are known to go wrong: counts
 * that the file has no room for, empty and repeated names, names that are no text, arrays of
 * arrays, sizes that do not fit, bytes behind the data. Duplicates are found by sorting, so that a
 * hostile file costs no more than a good one. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file/gguf/gguf_keys.h"

#define MIN_KEY_BYTES 14u    /* name of one byte, type, value of one byte */
#define MIN_TENSOR_BYTES 25u /* name of one byte, no dimensions, type, offset */

/* --- tensors --- */

static kerf_status take_shape(kf_gguf_cursor *p, kerf_tensor *t)
{
    uint64_t rank, ne;
    KF_TRY(kf_gguf_number(p, 4, &rank));
    if (rank > KF_GGUF_MAX_RANK)
        return kf_gguf_fail(p, KERF_E_DATA, "%" PRIu64 " dimensions, at most %u exist", rank,
                            KF_GGUF_MAX_RANK);
    t->shape.rank = (unsigned)rank;
    for (unsigned i = 0; i < rank; i++) {
        KF_TRY(kf_gguf_number(p, 8, &ne));
        if (ne > KF_MAX_DIM)
            return kf_gguf_fail(p, KERF_E_DATA, "dimension %u is negative or above 2^53", i);
        t->shape.dim[rank - 1 - i] = ne; /* innermost first there, last here */
    }
    return KERF_OK;
}

/* Blocks are bytes here: a row of so many elements is a row of so many bytes. */
static kerf_status take_type(kf_gguf_cursor *p, kerf_tensor *t)
{
    uint64_t id, elements;
    KF_TRY(kf_gguf_number(p, 4, &id));
    const kf_gguf_type *type = kf_gguf_type_at((uint32_t)id);
    if (!type)
        return kf_gguf_fail(
            p, KERF_E_NOSUP,
            "ggml type %" PRIu64 " is unknown here: not yet, or not any more, in GGUF", id);
    t->dtype = type->dtype == KERF_DTYPE_NONE ? KERF_U8 : type->dtype;
    if (kerf_shape_count(&t->shape, &elements, NULL) != KERF_OK)
        return kf_gguf_fail(p, KERF_E_DATA, "the size of its shape does not fit 64 bits");
    if (type->dtype == KERF_DTYPE_NONE) {
        t->block_type = type->name;
        uint64_t *last = &t->shape.dim[t->shape.rank ? t->shape.rank - 1 : 0];
        if (t->shape.rank == 0 || *last % type->elements != 0)
            return kf_gguf_fail(p, KERF_E_DATA,
                                "rows of %" PRIu64
                                " elements are not whole blocks of %s, which have %u",
                                t->shape.rank ? *last : 1, type->name, type->elements);
        *last = *last / type->elements * type->bytes;
        if (p->quantization_version != KF_GGUF_QUANTIZATION_VERSION)
            return kf_gguf_fail(p, KERF_E_NOSUP,
                                "%s blocks of general.quantization_version %u: only %u is known",
                                type->name, p->quantization_version, KF_GGUF_QUANTIZATION_VERSION);
    }
    if (kf_tensor_bytes(t->dtype, &t->shape, &t->bytes) != KERF_OK || t->bytes > INT64_MAX)
        return kf_gguf_fail(p, KERF_E_DATA, "the size of its shape does not fit 64 bits");
    return KERF_OK;
}

static uint64_t pad(uint64_t n, uint32_t alignment) /* n is at most INT64_MAX */
{
    return (n + alignment - 1) & ~(uint64_t)(alignment - 1);
}

/* Each tensor begins where the one before ends, padded. *end: where this one does. */
static kerf_status take_tensor(kf_gguf_cursor *p, size_t i, char *name, uint64_t *end)
{
    kerf_tensor *t = &p->out->tensor[i];
    const uint64_t expected = pad(*end, p->out->alignment);
    snprintf(p->where, sizeof p->where, "tensor %zu", i);
    KF_TRY(kf_gguf_name(p, name, KF_GGUF_MAX_NAME_BYTES));
    snprintf(p->where, sizeof p->where, "tensor \"%s\"", name);
    KF_TRY(take_shape(p, t));
    KF_TRY(take_type(p, t));
    KF_TRY(kf_gguf_number(p, 8, &t->offset));
    if (t->offset % p->out->alignment != 0)
        return kf_gguf_fail(p, KERF_E_DATA,
                            "data at %" PRIu64 ", not a multiple of the alignment %u", t->offset,
                            p->out->alignment);
    if (t->offset != expected)
        return kf_gguf_fail(p, KERF_E_DATA,
                            "data at %" PRIu64 ", the tensor before ends at %" PRIu64 " (%s)",
                            t->offset, expected, t->offset < expected ? "overlap" : "hole");
    if (!kf_add_ok(t->offset, t->bytes, end) || *end > INT64_MAX - KERF_MAX_HEADER_BYTES)
        return kf_gguf_fail(p, KERF_E_DATA, "its data would end beyond 64 bits");
    return KERF_OK;
}

/* --- names --- */

/* Names are gathered while the header is read, and pointed at when all of them are there. */
static kerf_status sort_names(kf_gguf_cursor *p, const kf_text *names)
{
    kf_gguf *g = p->out;
    g->strings = names->p;
    g->by_name = kf_alloc(g->count, sizeof *g->by_name);
    kf_named *keys = kf_alloc(g->keys, sizeof *keys);
    if (!g->by_name || !keys) {
        free(keys);
        return kf_gguf_no_memory(p);
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
        s = kf_gguf_fail(p, KERF_E_DATA, "key \"%.*s\" occurs twice", KF_NAME(keys[twice].name));
    twice = kf_sort_names(g->by_name, g->count);
    if (s == KERF_OK && twice < g->count)
        s = kf_gguf_fail(p, KERF_E_DATA, "two tensors are named \"%.*s\"",
                         KF_NAME(g->by_name[twice].name));
    free(keys);
    return s;
}

/* --- all --- */

static kerf_status take_counts(kf_gguf_cursor *p, uint64_t *tensors, uint64_t *keys)
{
    uint64_t version;
    snprintf(p->where, sizeof p->where, "header");
    KF_TRY(kf_gguf_need(p, 4));
    if (!kf_gguf_is(p->out->bytes))
        return kf_gguf_fail(p, KERF_E_DATA, "does not begin with \"GGUF\": not a GGUF file");
    p->at = 4;
    KF_TRY(kf_gguf_number(p, 4, &version));
    if (version != 0 && (version & 0xffff) == 0)
        return kf_gguf_fail(
            p, KERF_E_NOSUP,
            "a big-endian file: gguf-convert-endian FILE little, of the Python package "
            "gguf, turns it");
    if (version != 2 && version != 3)
        return kf_gguf_fail(p, KERF_E_NOSUP, "version %" PRIu64 " of GGUF: 2 and 3 are read",
                            version);
    KF_TRY(kf_gguf_number(p, 8, tensors));
    KF_TRY(kf_gguf_number(p, 8, keys));
    const uint64_t left = p->file_bytes - p->at;
    if (*tensors > left / MIN_TENSOR_BYTES || *keys > left / MIN_KEY_BYTES ||
        *tensors * MIN_TENSOR_BYTES + *keys * MIN_KEY_BYTES > left)
        return kf_gguf_fail(p, KERF_E_DATA,
                            "claims %" PRIu64 " tensors and %" PRIu64 " keys, in %" PRIu64 " bytes",
                            *tensors, *keys, left);
    if (*tensors > KF_GGUF_MAX_ITEMS || *keys > KF_GGUF_MAX_ITEMS)
        return kf_gguf_fail(p, KERF_E_LIMIT,
                            "%" PRIu64 " tensors, %" PRIu64 " keys; at most %u are read", *tensors,
                            *keys, KF_GGUF_MAX_ITEMS);
    return KERF_OK;
}

static kerf_status take_items(kf_gguf_cursor *p, kf_text *names, char *name, uint64_t *end)
{
    kf_gguf *g = p->out;
    for (size_t i = 0; i < g->keys; i++) {
        KF_TRY(kf_gguf_take_key(p, i, name));
        kf_text_add_bytes(names, name, strlen(name) + 1);
    }
    for (size_t i = 0; i < g->count; i++) {
        KF_TRY(take_tensor(p, i, name, end));
        kf_text_add_bytes(names, name, strlen(name) + 1);
    }
    return names->failed ? kf_gguf_no_memory(p) : KERF_OK;
}

/* Nothing is hidden behind the data; the padding after the last tensor may be there or not. */
static kerf_status check_end(kf_gguf_cursor *p, uint64_t end)
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

static kerf_status parse(kf_gguf_cursor *p)
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
    kerf_status s = g->key && g->tensor && name ? KERF_OK : kf_gguf_no_memory(p);
    if (s == KERF_OK) s = take_items(p, &names, name, &end);
    if (s == KERF_OK)
        s = sort_names(p, &names); /* which takes the names over */
    else
        free(names.p);
    free(name);
    g->n = p->at;
    return s == KERF_OK ? check_end(p, end) : s;
}

static kerf_status run(kf_gguf_cursor *p)
{
    p->out->alignment = KF_GGUF_DEFAULT_ALIGNMENT;
    p->quantization_version = KF_GGUF_QUANTIZATION_VERSION;
    kerf_status s = parse(p);
    if (s != KERF_OK) kf_gguf_free(p->out);
    return s;
}

kerf_status kf_gguf_read(const kf_blob *b, kf_gguf *out, kerf_error *err)
{
    kf_gguf_cursor p = {.out = out, .path = b->path, .blob = b, .file_bytes = b->bytes, .err = err};
    *out = (kf_gguf){0};
    return run(&p);
}

kerf_status kf_gguf_parse(const char *what, uint8_t *bytes, size_t n, kf_gguf *out, kerf_error *err)
{
    kf_gguf_cursor p = {.out = out, .path = what, .file_bytes = n, .have = n, .err = err};
    *out = (kf_gguf){.bytes = bytes};
    return run(&p);
}
