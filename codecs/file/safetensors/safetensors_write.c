/* safetensors_write.c - the headers of safetensors files that are about to be written.
 *
 * The order is the one that the safetensors library writes, so that equal content gives equal
 * files: dtype by rank, highest first, then names by bytes. Every header is a multiple of 8 bytes
 * long, and with wide types first every tensor is aligned to its elements. */
#include "file/safetensors/safetensors_write.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct item {
    const kerf_entry *entry;
    size_t index;
} item;

static kerf_status fail_entry(const kerf_entry *e, kerf_status s, const char *why, kerf_error *err)
{
    return kf_fail(err, s, KF_NOWHERE, "output tensor \"%.*s\": %s",
                   KF_NAME(e->name ? e->name : "(null)"), why);
}

static int compare_items(const void *pa, const void *pb)
{
    const kerf_entry *a = ((const item *)pa)->entry, *b = ((const item *)pb)->entry;
    if (a->shard != b->shard) return a->shard < b->shard ? -1 : 1;
    if (a->dtype != b->dtype) return a->dtype > b->dtype ? -1 : 1;
    return strcmp(a->name, b->name);
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const kerf_key_value *)a)->key, ((const kerf_key_value *)b)->key);
}

/* transformers refuses files without "format":"pt": another value of this key is dropped. */
static kerf_status add_metadata(kf_text *t, const kerf_key_value *kv, size_t n, kerf_error *err)
{
    kf_text_add(t, "{\"__metadata__\":{\"format\":\"pt\"");
    kerf_key_value *sorted = kf_alloc(n, sizeof *sorted);
    if (!sorted) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for metadata");
    if (n > 0) memcpy(sorted, kv, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare_keys);
    kerf_status s = KERF_OK;
    for (size_t i = 0; i < n && s == KERF_OK; i++) {
        if (i > 0 && strcmp(sorted[i].key, sorted[i - 1].key) == 0)
            s = kf_fail(err, KERF_E_ARG, KF_NOWHERE, "metadata key \"%.*s\" is given twice",
                        KF_NAME(sorted[i].key));
        else if (!kf_is_utf8(sorted[i].key) || !kf_is_utf8(sorted[i].value))
            s = kf_fail(err, KERF_E_ARG, KF_NOWHERE, "metadata \"%.*s\" is not UTF-8",
                        KF_NAME(sorted[i].key));
        else if (strcmp(sorted[i].key, "format") != 0) {
            kf_text_add(t, ",");
            kf_text_add_quoted(t, sorted[i].key);
            kf_text_add(t, ":");
            kf_text_add_quoted(t, sorted[i].value);
        }
    }
    free(sorted);
    kf_text_add(t, "}");
    if (s == KERF_OK && t->n > KERF_MAX_METADATA_BYTES)
        s = kf_fail(err, KERF_E_LIMIT, KF_NOWHERE, "metadata is larger than 64 MiB");
    return s;
}

static void add_tensor(kf_text *t, const kerf_entry *e, uint64_t begin, uint64_t end)
{
    kf_text_add(t, ",");
    kf_text_add_quoted(t, e->name);
    kf_text_add(t, ":{\"dtype\":\"%s\",\"shape\":[", kerf_dtype_name(e->dtype));
    for (unsigned i = 0; i < e->shape.rank; i++)
        kf_text_add(t, "%s%" PRIu64, i ? "," : "", e->shape.dim[i]);
    kf_text_add(t, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, end);
}

static kerf_status end_header(kf_text *t, kerf_error *err)
{
    kf_text_add(t, "}");
    kf_text_fill(t, ' ', (8 - t->n % 8) % 8);
    if (t->failed) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for the header");
    uint64_t n = t->n - 8;
    if (n > KERF_MAX_HEADER_BYTES)
        return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE,
                       "the header would have %" PRIu64 " bytes, readers take %u: write shards", n,
                       KERF_MAX_HEADER_BYTES);
    for (int i = 0; i < 8; i++) t->p[i] = (char)(n >> 8 * i);
    return KERF_OK;
}

/* Lays out the sorted items [i, end) of one file. */
static kerf_status place_file(kf_placement *p, size_t f, const item *items, size_t n,
                              const kerf_writer_options *opt, kerf_error *err)
{
    kf_text *t = &p->file[f].header;
    const kerf_key_value *kv = opt->metadata ? opt->metadata[f] : NULL;
    uint64_t at = 0;
    kf_text_fill(t, 0, 8);
    KF_TRY(add_metadata(t, kv, kv ? opt->metadata_count[f] : 0, err));
    for (size_t i = 0; i < n; i++) {
        kf_place *place = &p->place[items[i].index];
        place->file = f;
        place->offset = at;
        if (!kf_add_ok(at, place->bytes, &at) || at > INT64_MAX - KERF_MAX_HEADER_BYTES - 8)
            return fail_entry(items[i].entry, KERF_E_RANGE, "the file would be too large", err);
        add_tensor(t, items[i].entry, place->offset, at);
    }
    KF_TRY(end_header(t, err));
    for (size_t i = 0; i < n; i++) p->place[items[i].index].offset += t->n;
    p->file[f].bytes = t->n + at;
    if (!kf_add_ok(p->tensor_bytes, at, &p->tensor_bytes))
        return kf_fail(err, KERF_E_RANGE, KF_NOWHERE, "the output would be too large");
    return KERF_OK;
}

static kerf_status place_files(kf_placement *p, item *items, const kerf_writer_options *opt,
                               kerf_error *err)
{
    qsort(items, p->count, sizeof *items, compare_items);
    size_t first = 0;
    for (size_t f = 0; f < p->files; f++) {
        size_t end = first;
        while (end < p->count && items[end].entry->shard == f) end++;
        if (end == first && p->files > 1)
            return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "output shard %zu has no tensors", f);
        KF_TRY(place_file(p, f, items + first, end - first, opt, err));
        first = end;
    }
    return KERF_OK;
}

/* Blocks of a GGUF file are bytes without a meaning to readers of safetensors. */
static kerf_status check_types(const kerf_entry *entries, size_t count,
                               const kerf_writer_options *opt, kerf_error *err)
{
    for (size_t i = 0; opt->block_type && i < count; i++)
        if (opt->block_type[i])
            return kf_fail(
                err, KERF_E_NOSUP, KF_NOWHERE,
                "output tensor \"%.*s\": blocks of type %s have a place in *.gguf alone: "
                "name the output so",
                KF_NAME(entries[i].name), opt->block_type[i]);
    return KERF_OK;
}

kerf_status kf_safetensors_place(kf_placement *p, const kerf_entry *entries, size_t count,
                                 size_t files, const kerf_writer_options *opt, kerf_error *err)
{
    kerf_status s = kf_placement_begin(p, entries, count, files, err);
    item *items = kf_alloc(count, sizeof *items);
    if (s == KERF_OK) s = check_types(entries, count, opt, err);
    if (s == KERF_OK && !items)
        s = kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for %zu output tensors", count);
    for (size_t i = 0; i < count && s == KERF_OK; i++) items[i] = (item){&entries[i], i};
    if (s == KERF_OK) s = place_files(p, items, opt, err);
    free(items);
    if (s != KERF_OK) kf_placement_free(p);
    return s;
}
