/* safetensors.c - the header of one safetensors file, as a validated table.
 *
 * A file is: N as 8 bytes little-endian, N bytes of JSON, data. Nothing in it is used before
 * all of it is checked: the data of the tensors must lie without hole or overlap from the first
 * byte behind the header to the last of the file, so that no byte means two things to two readers
 * and none is hidden. Beyond the reference parser, what readers are known to disagree on is
 * refused: duplicate names, white space before '{', numbers with sign, fraction or exponent. */
#include "file/safetensors/safetensors.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file/json/json_walk.h"

#define PREFIX_BYTES 8u
#define MAX_ENTRY_BYTES 65536u /* of one tensor's JSON: name, rank 8, ample room for more */

/* header object -> tensor object -> shape */
static const kf_json_rules header_rules = {.max_depth = 3, .integers_only = 1, .brace_first = 1};

typedef struct parser {
    kf_header *out;
    const char *path;
    uint64_t header_end; /* where data starts in the file */
    uint64_t data_bytes;
    size_t strings_used;
    int has_metadata;
    kerf_error *err;
} parser;

static kerf_status fail_tensor(parser *p, kerf_status s, const char *name, const char *fmt, ...)
    KERF_PRINTF(4, 5);

static kerf_status fail_tensor(parser *p, kerf_status s, const char *name, const char *fmt, ...)
{
    char why[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return kf_fail(p->err, s, KF_NOWHERE, "%s: tensor \"%.*s\": %s", p->path, KF_NAME(name), why);
}

static kerf_status fail_header(parser *p, kerf_status s, const char *why)
{
    return kf_fail(p->err, s, KF_NOWHERE, "%s: header: %s", p->path, why);
}

kerf_status kf_header_length(const char *path, const uint8_t first[8], uint64_t file_bytes,
                             size_t *n, kerf_error *err)
{
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--) length = length << 8 | first[i];
    if (file_bytes < PREFIX_BYTES || length > file_bytes - PREFIX_BYTES)
        return kf_fail(err, KERF_E_DATA, 0,
                       "%s: header claims %" PRIu64 " bytes, the file has %" PRIu64
                       ": not a safetensors file, or cut",
                       path, length, file_bytes);
    if (length > KERF_MAX_HEADER_BYTES)
        return kf_fail(err, KERF_E_LIMIT, 0, "%s: header of %" PRIu64 " bytes, at most %u are read",
                       path, length, KERF_MAX_HEADER_BYTES);
    *n = (size_t)length;
    return KERF_OK;
}

/* Decodes a JSON string into the arena, which has the size of the header. *out is NULL for anything
 * but a string. */
static kerf_status take_string(parser *p, kf_json source, const char **out, size_t *length)
{
    char *copy = p->out->strings + p->strings_used;
    KF_TRY(kf_json_string(source, copy, length, p->err));
    *out = *length == SIZE_MAX ? NULL : copy;
    if (*out) p->strings_used += *length + 1;
    return KERF_OK;
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const kerf_key_value *)a)->key, ((const kerf_key_value *)b)->key);
}

static kerf_status parse_metadata(parser *p, kf_json value)
{
    kf_header *h = p->out;
    kf_json_walk w;
    kf_member m;
    int more;
    size_t capacity = 1, length;
    if (p->has_metadata++) return fail_header(p, KERF_E_DATA, "two members are named __metadata__");
    size_t blanks = 0;
    while (blanks < value.n && strchr(" \t\r\n", value.text[blanks])) blanks++;
    if (blanks == value.n || value.text[blanks] != '{')
        return fail_header(p, KERF_E_DATA, "__metadata__ is no JSON object");
    if (value.n > KERF_MAX_METADATA_BYTES)
        return fail_header(p, KERF_E_LIMIT, "__metadata__ is larger than 64 MiB");
    for (size_t i = 0; i < value.n; i++) capacity += value.text[i] == ',';
    h->metadata = kf_alloc(capacity, sizeof *h->metadata);
    if (!h->metadata) return fail_header(p, KERF_E_NOMEM, "no memory");

    kf_json_walk_init(&w, value);
    for (;;) {
        KF_TRY(kf_json_walk_next(&w, &m, &more, p->err));
        if (!more) break;
        kerf_key_value *kv = &h->metadata[h->metadata_count];
        KF_TRY(take_string(p, m.key, &kv->key, &length));
        KF_TRY(take_string(p, m.value, &kv->value, &length));
        if (!kv->value)
            return kf_fail(p->err, KERF_E_DATA, KF_NOWHERE,
                           "%s: __metadata__: value of \"%.*s\" is not a string", p->path,
                           KF_NAME(kv->key));
        h->metadata_count++;
    }
    qsort(h->metadata, h->metadata_count, sizeof *h->metadata, compare_keys);
    for (size_t i = 1; i < h->metadata_count; i++)
        if (strcmp(h->metadata[i - 1].key, h->metadata[i].key) == 0)
            return kf_fail(p->err, KERF_E_DATA, KF_NOWHERE,
                           "%s: __metadata__: key \"%.*s\" occurs twice", p->path,
                           KF_NAME(h->metadata[i].key));
    return KERF_OK;
}

static kerf_status parse_shape(parser *p, kerf_tensor *t, const json_t *entry)
{
    const json_t *shape = json_object_get(entry, "shape");
    if (!json_is_array(shape))
        return fail_tensor(p, KERF_E_DATA, t->name, "shape is missing or not an array");
    size_t rank = json_array_size(shape);
    if (rank > KERF_MAX_RANK)
        return fail_tensor(p, KERF_E_LIMIT, t->name, "%zu dimensions, at most %d are read", rank,
                           KERF_MAX_RANK);
    t->shape.rank = (unsigned)rank;
    for (size_t i = 0; i < rank; i++) {
        const json_t *dim = json_array_get(shape, i);
        if (!json_is_integer(dim))
            return fail_tensor(p, KERF_E_DATA, t->name, "shape[%zu] is not an integer", i);
        t->shape.dim[i] = (uint64_t)json_integer_value(dim);
        if (t->shape.dim[i] > KF_MAX_DIM)
            return fail_tensor(p, KERF_E_DATA, t->name, "shape[%zu] is above 2^53", i);
    }
    return KERF_OK;
}

static kerf_status parse_offsets(parser *p, kerf_tensor *t, const json_t *entry)
{
    const json_t *pair = json_object_get(entry, "data_offsets");
    const json_t *first = json_array_get(pair, 0), *last = json_array_get(pair, 1);
    if (json_array_size(pair) != 2 || !json_is_integer(first) || !json_is_integer(last))
        return fail_tensor(p, KERF_E_DATA, t->name, "data_offsets is missing or not two integers");
    uint64_t begin = (uint64_t)json_integer_value(first), end = (uint64_t)json_integer_value(last);
    if (end < begin)
        return fail_tensor(p, KERF_E_DATA, t->name,
                           "data ends at %" PRIu64 ", before it begins at %" PRIu64, end, begin);
    if (end > p->data_bytes)
        return fail_tensor(p, KERF_E_DATA, t->name,
                           "data ends at %" PRIu64 ", the file has %" PRIu64 " bytes of data", end,
                           p->data_bytes);
    if (end - begin != t->bytes)
        return fail_tensor(p, KERF_E_DATA, t->name,
                           "data_offsets span %" PRIu64 " bytes, dtype and shape need %" PRIu64,
                           end - begin, t->bytes);
    t->offset = begin;
    return KERF_OK;
}

static kerf_status parse_fields(parser *p, kerf_tensor *t, const json_t *entry)
{
    if (!json_is_object(entry)) return fail_tensor(p, KERF_E_DATA, t->name, "not a JSON object");
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    if (!dtype) return fail_tensor(p, KERF_E_DATA, t->name, "dtype is missing or not a string");
    t->dtype = kerf_dtype_find(dtype);
    if (t->dtype == KERF_DTYPE_NONE)
        return fail_tensor(p, KERF_E_DATA, t->name, "unknown dtype \"%.*s\"", KF_NAME(dtype));
    KF_TRY(parse_shape(p, t, entry));
    switch (kf_tensor_bytes(t->dtype, &t->shape, &t->bytes)) {
    case KERF_OK: break;
    case KERF_E_DATA:
        return fail_tensor(p, KERF_E_DATA, t->name, "%s elements do not fill whole bytes", dtype);
    default:
        return fail_tensor(p, KERF_E_DATA, t->name, "the size of its shape does not fit 64 bits");
    }
    return parse_offsets(p, t, entry);
}

static kerf_status parse_tensor(parser *p, const char *name, size_t name_bytes, kf_json value)
{
    if (name_bytes > KERF_MAX_NAME_BYTES)
        return fail_tensor(p, KERF_E_LIMIT, name, "name of %zu bytes, at most %u are read",
                           name_bytes, KERF_MAX_NAME_BYTES);
    if (value.n > MAX_ENTRY_BYTES)
        return fail_tensor(p, KERF_E_LIMIT, name, "entry of %zu bytes, at most %u are read",
                           value.n, MAX_ENTRY_BYTES);
    kerf_tensor *t = &p->out->tensor[p->out->count++];
    *t = (kerf_tensor){.name = name};
    json_t *entry;
    KF_TRY(kf_json_load(value, &entry, p->err));
    kerf_status s = parse_fields(p, t, entry);
    json_decref(entry);
    return s;
}

static kerf_status parse_members(parser *p, kf_json json)
{
    kf_json_walk w;
    kf_member m;
    int more;
    kf_json_walk_init(&w, json);
    for (;;) {
        KF_TRY(kf_json_walk_next(&w, &m, &more, p->err));
        if (!more) return KERF_OK;
        const char *name;
        size_t length;
        KF_TRY(take_string(p, m.key, &name, &length));
        if (strcmp(name, "__metadata__") == 0)
            KF_TRY(parse_metadata(p, m.value));
        else
            KF_TRY(parse_tensor(p, name, length, m.value));
    }
}

/* Tensors without bytes may share an offset with one that has some: they come first. */
static int compare_places(const void *pa, const void *pb)
{
    const kerf_tensor *a = pa, *b = pb;
    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

static kerf_status check_places(parser *p)
{
    kf_header *h = p->out;
    uint64_t at = 0;
    for (size_t i = 0; i < h->count; i++) {
        kerf_tensor *t = &h->tensor[i];
        if (t->offset != at)
            return fail_tensor(p, KERF_E_DATA, t->name,
                               "data begins at %" PRIu64 ", the tensor before ends at %" PRIu64
                               " (%s)",
                               t->offset, at, t->offset < at ? "overlap" : "hole");
        at += t->bytes; /* at most data_bytes: checked per tensor */
        t->offset += p->header_end;
    }
    if (at != p->data_bytes)
        return kf_fail(p->err, KERF_E_DATA, p->header_end + at,
                       "%s: tensors end at byte %" PRIu64 ", the file has %" PRIu64 " bytes",
                       p->path, p->header_end + at, p->header_end + p->data_bytes);
    return KERF_OK;
}

static kerf_status check_names(parser *p)
{
    kf_header *h = p->out;
    h->by_name = kf_alloc(h->count, sizeof *h->by_name);
    if (!h->by_name) return fail_header(p, KERF_E_NOMEM, "no memory");
    for (size_t i = 0; i < h->count; i++) h->by_name[i] = (kf_named){h->tensor[i].name, i};
    size_t twice = kf_sort_names(h->by_name, h->count);
    if (twice < h->count)
        return fail_tensor(p, KERF_E_DATA, h->by_name[twice].name, "the name occurs twice");
    return KERF_OK;
}

static kerf_status parse_all(parser *p, kf_json json)
{
    uint64_t members;
    KF_TRY(kf_json_check(json, &header_rules, &members, p->err));
    if (members > KERF_MAX_TENSORS + 1)
        return kf_fail(p->err, KERF_E_LIMIT, KF_NOWHERE, "%s: more than %u tensors", p->path,
                       KERF_MAX_TENSORS);
    p->out->tensor = kf_alloc(members, sizeof *p->out->tensor);
    p->out->strings = kf_alloc(json.n, 1);
    if (!p->out->tensor || !p->out->strings) return fail_header(p, KERF_E_NOMEM, "no memory");
    KF_TRY(parse_members(p, json));
    qsort(p->out->tensor, p->out->count, sizeof *p->out->tensor, compare_places);
    KF_TRY(check_names(p)); /* first: two tensors of one name also leave a hole */
    return check_places(p);
}

kerf_status kf_header_parse(const char *path, const char *text, size_t n, uint64_t file_bytes,
                            kf_header *out, kerf_error *err)
{
    uint64_t header_end;
    memset(out, 0, sizeof *out);
    if (!kf_add_ok(PREFIX_BYTES, n, &header_end) || header_end > file_bytes)
        return kf_fail(err, KERF_E_DATA, 0, "%s: the header is longer than the file", path);
    parser p = {.out = out,
                .path = path,
                .header_end = header_end,
                .data_bytes = file_bytes - header_end,
                .err = err};
    char what[400];
    snprintf(what, sizeof what, "%.*s: header", (int)sizeof what - 16, path);
    kf_json json = {what, text, n};
    kerf_status s = parse_all(&p, json);
    if (s != KERF_OK) kf_header_free(out);
    return s;
}
