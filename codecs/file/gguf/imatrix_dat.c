/* imatrix_dat.c - walks the entries of an imatrix.dat from front to back. */
#include "file/gguf/imatrix_dat.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "file/gguf/gguf.h"
#include "file/json/text.h"

#define MOST_ENTRIES 65535u
#define MOST_NAME_BYTES 255u

static uint32_t number(const uint8_t *p)
{
    return (uint32_t)kf_gguf_get(p, 4);
}

int kf_imatrix_dat_is(const uint8_t first[8])
{
    const uint32_t entries = number(first), name = number(first + 4);
    return entries > 0 && entries <= MOST_ENTRIES && name > 0 && name <= MOST_NAME_BYTES;
}

typedef struct walk {
    const kf_blob *blob;
    uint64_t at;
    size_t entry;
    kf_header *out;
    char *text; /* where the next name goes */
    kerf_error *err;
} walk;

static kerf_status fail(const walk *w, const char *why)
{
    return kf_fail(w->err, KERF_E_DATA, w->at, "%s: entry %zu of an imatrix.dat: %s", w->blob->path,
                   w->entry + 1, why);
}

static kerf_status read_number(walk *w, uint32_t *out)
{
    uint8_t raw[4];
    if (w->blob->bytes - w->at < sizeof raw) return fail(w, "the file ends in it");
    KF_TRY(kf_blob_read(w->blob, w->at, raw, sizeof raw, w->err));
    w->at += sizeof raw;
    *out = number(raw);
    return KERF_OK;
}

static void add_tensor(walk *w, const char *name, const char *suffix, kerf_dtype dtype, uint64_t n,
                       uint64_t offset)
{
    kerf_tensor *t = &w->out->tensor[w->out->count];
    *t = (kerf_tensor){
        .name = w->text, .dtype = dtype, .shape = {1, {n}}, .bytes = 4 * n, .offset = offset};
    const size_t length = strlen(name), end = strlen(suffix) + 1;
    memcpy(w->text, name, length);
    memcpy(w->text + length, suffix, end);
    w->text += length + end;
    w->out->by_name[w->out->count] = (kf_named){t->name, w->out->count};
    w->out->count++;
}

static kerf_status read_entry(walk *w)
{
    char name[MOST_NAME_BYTES + 1];
    uint32_t length, calls, values;
    KF_TRY(read_number(w, &length));
    if (length == 0 || length > MOST_NAME_BYTES || length > w->blob->bytes - w->at)
        return fail(w, "its name has no such length");
    KF_TRY(kf_blob_read(w->blob, w->at, name, length, w->err));
    name[length] = 0;
    if (strlen(name) != length || !kf_is_utf8(name)) return fail(w, "its name is not text");
    w->at += length;
    const uint64_t calls_at = w->at;
    KF_TRY(read_number(w, &calls));
    KF_TRY(read_number(w, &values));
    if (values == 0 || values > INT32_MAX || (w->blob->bytes - w->at) / 4 < values)
        return fail(w, "it has more values than the file");
    add_tensor(w, name, KF_IMATRIX_CALLS, KERF_I32, 1, calls_at);
    add_tensor(w, name, KF_IMATRIX_VALUES, KERF_F32, values, w->at);
    w->at += (uint64_t)values * 4;
    return KERF_OK;
}

kerf_status kf_imatrix_dat_read(const kf_blob *b, kf_header *out, kerf_error *err)
{
    enum { ROOM = 2 * (MOST_NAME_BYTES + 16) };
    walk w = {.blob = b, .out = out, .err = err};
    uint32_t entries = 0;
    *out = (kf_header){0};
    KF_TRY(read_number(&w, &entries));
    if (entries > MOST_ENTRIES || entries > b->bytes / 16) return fail(&w, "there are too many");
    out->tensor = kf_alloc_zero(2 * (size_t)entries, sizeof *out->tensor);
    out->by_name = kf_alloc_zero(2 * (size_t)entries, sizeof *out->by_name);
    out->metadata = kf_alloc_zero(1, sizeof *out->metadata);
    out->strings = w.text = kf_alloc_zero(entries, ROOM);
    if (!out->tensor || !out->by_name || !out->metadata || !out->strings)
        return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", b->path);
    for (; w.entry < entries; w.entry++) KF_TRY(read_entry(&w));
    const size_t twice = kf_sort_names(out->by_name, out->count);
    if (twice == out->count) return KERF_OK;
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%s: two entries are named \"%.*s\"", b->path,
                   KF_NAME(out->by_name[twice].name));
}
