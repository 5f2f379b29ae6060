/* token_file.c - files of tokens, whatever stores them, as one list of 32-bit numbers. */
#include <kerf/tokens.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "npy_header.h"

enum { PANEL_BYTES = 1 << 20 };

/* Integers somewhere in a file: a stretch of a blob, or a tensor. */
typedef struct token_source {
    const char *path;
    kf_blob blob;
    int is_blob;
    kerf_reader *reader;
    const kerf_tensor *tensor;
    uint64_t data; /* of a blob: where they begin */
    kerf_dtype dtype;
    uint64_t count, length;
} token_source;

void kerf_token_list_free(kerf_token_list *l)
{
    if (!l) return;
    free(l->token);
    *l = (kerf_token_list){0};
}

/* --- what there is ---------------------------------------------------------------------------- */

static kerf_status open_raw(token_source *s, kerf_dtype dtype, kerf_error *err)
{
    const uint64_t each = kerf_dtype_bits(dtype) / 8;
    KF_TRY(kf_blob_open(s->path, &s->blob, err));
    s->is_blob = 1;
    s->dtype = dtype;
    s->count = s->blob.bytes / each;
    if (s->blob.bytes % each == 0) return KERF_OK;
    return kf_fail(err, KERF_E_DATA, s->blob.bytes - 1,
                   "%.*s: %" PRIu64 " bytes are no whole number of tokens: it was cut",
                   KF_NAME(s->path), s->blob.bytes);
}

static kerf_status open_u16(token_source *s, kerf_error *err)
{
    return open_raw(s, KERF_U16, err);
}

static kerf_status open_u32(token_source *s, kerf_error *err)
{
    return open_raw(s, KERF_U32, err);
}

static kerf_status open_npy(token_source *s, kerf_error *err)
{
    kf_npy h;
    KF_TRY(kf_blob_open(s->path, &s->blob, err));
    s->is_blob = 1;
    KF_TRY(kf_npy_header(&s->blob, &h, err));
    s->data = h.data;
    s->dtype = h.dtype;
    s->count = h.dim[0] * h.dim[1]; /* was checked there */
    s->length = h.rank == 2 ? h.dim[1] : 0;
    return KERF_OK;
}

static int is_list(const kerf_tensor *t)
{
    switch (t->dtype) {
    case KERF_U16:
    case KERF_I16:
    case KERF_U32:
    case KERF_I32:
    case KERF_U64:
    case KERF_I64: return t->shape.rank == 1 || t->shape.rank == 2;
    default: return 0;
    }
}

static kerf_status open_safetensors(token_source *s, kerf_error *err)
{
    KF_TRY(kerf_reader_open(s->path, &s->reader, err));
    for (size_t i = 0; (s->tensor = kerf_reader_at(s->reader, i)) != NULL; i++)
        if (is_list(s->tensor)) break;
    if (!s->tensor)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "%.*s: no tensor of integers with one or two dimensions", KF_NAME(s->path));
    s->dtype = s->tensor->dtype;
    s->count = s->tensor->bytes / (kerf_dtype_bits(s->dtype) / 8);
    s->length = s->tensor->shape.rank == 2 ? s->tensor->shape.dim[1] : 0;
    return KERF_OK;
}

static const struct {
    const char *suffix;
    kerf_status (*open)(token_source *s, kerf_error *err);
} kinds[] = {
    {".u16", open_u16},
    {".u32", open_u32},
    {".npy", open_npy},
    {".safetensors", open_safetensors},
    {".safetensors.zst", open_safetensors},
};

static kerf_status open_source(token_source *s, kerf_error *err)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kf_has_suffix(s->path, kinds[i].suffix)) return kinds[i].open(s, err);
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                   "%.*s: tokens are read from files named .u16, .u32, .npy or .safetensors",
                   KF_NAME(s->path));
}

static void close_source(token_source *s)
{
    if (s->is_blob) kf_blob_close(&s->blob);
    kerf_reader_close(s->reader);
}

/* --- numbers ---------------------------------------------------------------------------------- */

/* The element at p; UINT64_MAX: negative. */
static uint64_t element(const uint8_t *p, kerf_dtype t)
{
    const unsigned bits = kerf_dtype_bits(t);
    uint64_t v = 0;
    for (unsigned i = bits / 8; i-- > 0;) v = v << 8 | p[i];
    const int is_signed = t == KERF_I8 || t == KERF_I16 || t == KERF_I32 || t == KERF_I64;
    return is_signed && v >> (bits - 1) ? UINT64_MAX : v;
}

static kerf_status take_panel(const token_source *s, const uint8_t *p, uint64_t first, uint64_t n,
                              uint64_t limit, uint32_t *token, kerf_error *err)
{
    const unsigned each = kerf_dtype_bits(s->dtype) / 8;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t v = element(p + i * each, s->dtype);
        if (v >= limit)
            return kf_fail(err, KERF_E_DATA, first + i,
                           v == UINT64_MAX
                               ? "%.*s: token %" PRIu64 " is negative"
                               : "%.*s: token %" PRIu64 " is %" PRIu64 ", not below %" PRIu64
                                 ", the size of the vocabulary: another tokenizer made it",
                           KF_NAME(s->path), first + i, v, limit);
        token[first + i] = (uint32_t)v;
    }
    return KERF_OK;
}

static kerf_status read_panels(const token_source *s, uint64_t limit, uint8_t *panel,
                               uint32_t *token, kerf_error *err)
{
    const uint64_t each = kerf_dtype_bits(s->dtype) / 8, most = PANEL_BYTES / each;
    for (uint64_t i = 0; i < s->count; i += most) {
        const uint64_t n = kf_min_u64(most, s->count - i);
        const size_t bytes = (size_t)(n * each);
        if (s->is_blob)
            KF_TRY(kf_blob_read(&s->blob, s->data + i * each, panel, bytes, err));
        else
            KF_TRY(kerf_reader_read(s->reader, s->tensor, i * each, panel, bytes, err));
        KF_TRY(take_panel(s, panel, i, n, limit, token, err));
    }
    return s->is_blob ? kf_blob_check(&s->blob, err) : kerf_reader_check(s->reader, err);
}

static kerf_status read_source(token_source *s, uint64_t vocabulary, kerf_token_list *out,
                               kerf_error *err)
{
    uint64_t limit = (uint64_t)UINT32_MAX + 1;
    uint8_t *panel = NULL;
    KF_TRY(open_source(s, err));
    if (vocabulary > 0) limit = kf_min_u64(limit, vocabulary);
    if (s->count == 0)
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.*s: no tokens in it", KF_NAME(s->path));
    KF_TRY(kf_allocate(&out->token, s->count, sizeof *out->token, err));
    out->count = s->count;
    out->length = s->length;
    KF_TRY(kf_allocate(&panel, PANEL_BYTES, 1, err));
    kerf_status status = read_panels(s, limit, panel, out->token, err);
    free(panel);
    return status;
}

kerf_status kerf_tokens_read(const char *path, uint64_t vocabulary, kerf_token_list *out,
                             kerf_error *err)
{
    token_source s = {.path = path};
    *out = (kerf_token_list){0};
    kerf_status status = read_source(&s, vocabulary, out, err);
    close_source(&s);
    if (status != KERF_OK) kerf_token_list_free(out);
    return status;
}
