/* gguf_write.c - where every tensor of a GGUF output will lie, and the header that says so.
 *
 * The keys are those of the header that the metadata carry, byte for byte and in their order, but
 * for one: general.file_type tells what most matrices are, and that has changed. Blocks need
 * general.quantization_version. What said that the source was one of several parts is left out. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "file/gguf/gguf_put.h"
#include "file/gguf/gguf_split.h"
#include "file/gguf/gguf_write.h"

#define VERSION 3u
#define MAX_TYPES 64 /* ids are below */
#define FILE_TYPE "general.file_type"
#define BLOCKS "general.quantization_version"

typedef struct item {
    const kerf_entry *entry;
    size_t index, rank; /* among the entries; in the order of the file */
    const kf_gguf_type *type;
    uint64_t columns; /* in elements, not bytes */
} item;

typedef struct draft {
    kf_placement *placement;
    const kerf_writer_options *opt;
    kf_gguf base; /* the header that is carried; all zeros: none */
    item *item;
    kf_text *text;
    kerf_error *err;
} draft;

static kerf_status fail_entry(const draft *d, const kerf_entry *e, const char *why)
{
    return kf_fail(d->err, KERF_E_NOSUP, KF_NOWHERE, "output tensor \"%.*s\": %s", KF_NAME(e->name),
                   why);
}

/* --- what is written --- */

static kerf_status take_base(draft *d)
{
    const kerf_writer_options *opt = d->opt;
    d->base.alignment = KF_GGUF_DEFAULT_ALIGNMENT;
    for (size_t i = 0; opt->metadata && i < opt->metadata_count[0]; i++) {
        uint8_t *bytes;
        size_t n;
        if (strcmp(opt->metadata[0][i].key, KF_GGUF_CARRIED) != 0) continue;
        KF_TRY(kf_gguf_unpack(opt->metadata[0][i].value, &bytes, &n, d->err));
        return kf_gguf_parse("metadata \"" KF_GGUF_CARRIED "\"", bytes, n, &d->base, d->err);
    }
    return KERF_OK;
}

static kerf_status take_item(draft *d, const kerf_entry *e, size_t i)
{
    const char *block = d->opt->block_type ? d->opt->block_type[i] : NULL;
    item *it = &d->item[i];
    *it = (item){.entry = e, .index = i, .columns = 1};
    it->type = block ? kf_gguf_type_find(block) : kf_gguf_type_of(e->dtype);
    if (!it->type)
        return kf_fail(d->err, KERF_E_NOSUP, KF_NOWHERE,
                       "output tensor \"%.*s\": GGUF has no tensors of %s", KF_NAME(e->name),
                       block ? block : kerf_dtype_name(e->dtype));
    if (e->shape.rank > KF_GGUF_MAX_RANK) return fail_entry(d, e, "GGUF has at most 4 dimensions");
    if (strlen(e->name) > KF_GGUF_MAX_NAME_BYTES)
        return fail_entry(d, e, "names in GGUF have at most 63 bytes");
    if (e->name[0] == 0) return fail_entry(d, e, "a tensor of GGUF needs a name");
    if (e->shape.rank > 0) it->columns = e->shape.dim[e->shape.rank - 1];
    if (!block) return KERF_OK;
    if (e->dtype != KERF_U8 || e->shape.rank == 0 || it->columns % it->type->bytes != 0)
        return fail_entry(d, e, "its rows are not whole blocks");
    it->columns = it->columns / it->type->bytes * it->type->elements;
    return KERF_OK;
}

static int compare_items(const void *pa, const void *pb)
{
    const item *a = pa, *b = pb;
    if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* A tensor that the header does not name stays behind the one that it was given after. */
static kerf_status take_items(draft *d, const kerf_entry *entries)
{
    size_t rank = 0;
    for (size_t i = 0; i < d->placement->count; i++) {
        KF_TRY(take_item(d, &entries[i], i));
        const kf_named *found = kf_find_name(d->base.by_name, d->base.count, entries[i].name);
        if (found) rank = found->index;
        d->item[i].rank = rank;
    }
    qsort(d->item, d->placement->count, sizeof *d->item, compare_items);
    return KERF_OK;
}

/* llama.cpp's own guess for files that do not say: the type of most of the matrices. -1: kerf has
 * no number for it. */
static int file_type(const draft *d)
{
    size_t count[MAX_TYPES] = {0}, best = 0;
    int type = -1;
    for (size_t i = 0; i < d->placement->count; i++) {
        const item *it = &d->item[i];
        if (it->entry->shape.rank < 2 || ++count[it->type->id] <= best) continue;
        best = count[it->type->id];
        type = it->type->file_type;
    }
    return type;
}

/* --- keys --- */

static size_t add_carried_keys(draft *d, int type, int has_blocks)
{
    size_t n = 0;
    int has_type = 0, has_version = 0;
    for (size_t i = 0; i < d->base.keys; i++) {
        const kf_gguf_key *k = &d->base.key[i];
        if (kf_gguf_is_split_key(k->name)) continue; /* the output is one file */
        n++;
        const int is_type = strcmp(k->name, FILE_TYPE) == 0;
        has_type |= is_type;
        has_version |= strcmp(k->name, BLOCKS) == 0;
        if (is_type && type >= 0)
            kf_gguf_put_u32(d->text, FILE_TYPE, (uint32_t)type);
        else
            kf_text_add_bytes(d->text, (const char *)d->base.bytes + k->at, k->bytes);
    }
    if (has_blocks && !has_version)
        kf_gguf_put_u32(d->text, BLOCKS, KF_GGUF_QUANTIZATION_VERSION), n++;
    if (!has_type && type >= 0) kf_gguf_put_u32(d->text, FILE_TYPE, (uint32_t)type), n++;
    return n;
}

/* Metadata of another kind of file: all of it strings. */
static size_t add_strings(draft *d)
{
    const kerf_writer_options *opt = d->opt;
    size_t n = 0;
    for (size_t i = 0; opt->metadata && i < opt->metadata_count[0]; i++) {
        const kerf_key_value *kv = &opt->metadata[0][i];
        if (strcmp(kv->key, "kerf") == 0 || strcmp(kv->key, "format") == 0 ||
            strcmp(kv->key, KF_GGUF_CARRIED) == 0)
            continue;
        kf_gguf_put_string(d->text, kv->key);
        kf_gguf_put(d->text, KF_GGUF_STRING, 4);
        kf_gguf_put_string(d->text, kv->value);
        n++;
    }
    return n;
}

/* --- the file --- */

static void add_tensor(kf_text *t, const item *it, uint64_t offset)
{
    const kerf_shape *s = &it->entry->shape;
    kf_gguf_put_string(t, it->entry->name);
    kf_gguf_put(t, s->rank ? s->rank : 1, 4); /* a scalar is a row of one */
    kf_gguf_put(t, it->columns, 8);
    for (unsigned i = s->rank; i-- > 1;) kf_gguf_put(t, s->dim[i - 1], 8);
    kf_gguf_put(t, it->type->id, 4);
    kf_gguf_put(t, offset, 8);
}

static uint32_t padding_of(uint64_t n, uint32_t alignment)
{
    return (uint32_t)(-n & (alignment - 1));
}

static kerf_status lay_out(draft *d, uint64_t *end)
{
    kf_placement *p = d->placement;
    uint64_t at = 0;
    for (size_t i = 0; i < p->count; i++) {
        kf_place *place = &p->place[d->item[i].index];
        place->offset = at;
        place->padding = padding_of(place->bytes, d->base.alignment);
        add_tensor(d->text, &d->item[i], at);
        if (!kf_add_ok(at, place->bytes, &at) || at > INT64_MAX - 2 * KERF_MAX_HEADER_BYTES)
            return kf_fail(d->err, KERF_E_RANGE, KF_NOWHERE, "the output would be too large");
        at += place->padding;
        p->tensor_bytes += place->bytes;
    }
    *end = at;
    return KERF_OK;
}

static kerf_status write_header(draft *d)
{
    kf_placement *p = d->placement;
    kf_text *t = d->text;
    uint64_t end = 0;
    int has_blocks = 0;
    for (size_t i = 0; i < p->count; i++) has_blocks |= d->item[i].type->dtype == KERF_DTYPE_NONE;
    kf_text_add_bytes(t, "GGUF", 4);
    kf_gguf_put(t, VERSION, 4);
    kf_gguf_put(t, p->count, 8);
    const size_t counted = t->n;
    kf_gguf_put(t, 0, 8); /* keys, once they are counted */
    size_t keys = d->base.keys ? 0 : add_strings(d);
    keys += add_carried_keys(d, file_type(d), has_blocks);
    KF_TRY(lay_out(d, &end));
    kf_text_fill(t, 0, padding_of(t->n, d->base.alignment));
    if (t->failed) return kf_fail(d->err, KERF_E_NOMEM, KF_NOWHERE, "no memory for the header");
    for (unsigned i = 0; i < 8; i++) t->p[counted + i] = (char)(keys >> 8 * i);
    if (t->n > KERF_MAX_HEADER_BYTES)
        return kf_fail(d->err, KERF_E_LIMIT, KF_NOWHERE,
                       "the header would have %zu bytes, readers take %u", t->n,
                       KERF_MAX_HEADER_BYTES);
    for (size_t i = 0; i < p->count; i++) p->place[i].offset += t->n;
    p->file[0].bytes = t->n + end;
    return KERF_OK;
}

/* What kerf writes, kerf must read: keys may come from anywhere. */
static kerf_status check_header(draft *d)
{
    kf_gguf own;
    uint8_t *copy = kf_alloc(d->text->n, 1);
    if (!copy) return kf_fail(d->err, KERF_E_NOMEM, KF_NOWHERE, "no memory for the header");
    memcpy(copy, d->text->p, d->text->n);
    KF_TRY(kf_gguf_parse("the output", copy, d->text->n, &own, d->err));
    kf_gguf_free(&own);
    return KERF_OK;
}

kerf_status kf_gguf_place(kf_placement *p, const kerf_entry *entries, size_t count,
                          const kerf_writer_options *opt, kerf_error *err)
{
    draft d = {.placement = p, .opt = opt, .err = err};
    kerf_status s = kf_placement_begin(p, entries, count, 1, err);
    if (s == KERF_OK && count > KF_GGUF_MAX_ITEMS)
        s = kf_fail(err, KERF_E_LIMIT, KF_NOWHERE, "%zu output tensors, a GGUF file has at most %u",
                    count, KF_GGUF_MAX_ITEMS);
    if (s == KERF_OK) s = take_base(&d);
    if (s == KERF_OK) {
        d.item = kf_alloc(count, sizeof *d.item);
        d.text = &p->file[0].header;
        s = d.item ? take_items(&d, entries)
                   : kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for %zu tensors", count);
    }
    if (s == KERF_OK) s = write_header(&d);
    if (s == KERF_OK) s = check_header(&d);
    free(d.item);
    kf_gguf_free(&d.base);
    if (s != KERF_OK) kf_placement_free(p);
    return s;
}
