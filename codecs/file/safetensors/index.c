/* index.c - model.safetensors.index.json: which shard holds which tensor. */
#include "file/safetensors/index.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "file/disk/download.h"
#include "file/disk/io.h"
#include "file/json/json_walk.h"

#define MAX_INDEX_BYTES KERF_MAX_HEADER_BYTES
#define MAX_OTHER_BYTES (1u << 20) /* of a member that is not weight_map */

/* Writers put floats into "metadata", which is not read: any number is allowed. */
static const kf_json_rules index_rules = {.max_depth = 8};

int kf_is_shard_name(const char *name)
{
    if (name[0] == '.' || strpbrk(name, "/\\")) return 0;
    return kf_has_suffix(name, ".safetensors") || kf_has_suffix(name, ".safetensors.zst");
}

typedef struct mapping {
    const char *tensor, *file;
} mapping;

typedef struct parser {
    kf_index *out;
    const char *path;
    mapping *map;
    size_t strings_used;
    int has_map;
    kerf_error *err;
} parser;

static kerf_status take_string(parser *p, kf_json source, const char *of, const char **out)
{
    char *copy = p->out->strings + p->strings_used;
    size_t length;
    KF_TRY(kf_json_string(source, copy, &length, p->err));
    if (length == SIZE_MAX)
        return kf_fail(p->err, KERF_E_DATA, KF_NOWHERE,
                       "%s: weight_map: value of \"%.*s\" is not a string", p->path, KF_NAME(of));
    p->strings_used += length + 1;
    *out = copy;
    return KERF_OK;
}

static kerf_status parse_map(parser *p, kf_json value)
{
    kf_json_walk w;
    kf_member m;
    int more;
    size_t capacity = 1;
    if (p->has_map++)
        return kf_fail(p->err, KERF_E_DATA, KF_NOWHERE, "%s: weight_map occurs twice", p->path);
    for (size_t i = 0; i < value.n; i++) capacity += value.text[i] == ',';
    p->map = kf_alloc(kf_min_u64(capacity, KERF_MAX_TENSORS), sizeof *p->map);
    if (!p->map) return kf_fail(p->err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", p->path);
    kf_json_walk_init(&w, value);
    for (;;) {
        KF_TRY(kf_json_walk_next(&w, &m, &more, p->err));
        if (!more) return KERF_OK;
        if (p->out->count == KERF_MAX_TENSORS)
            return kf_fail(p->err, KERF_E_LIMIT, KF_NOWHERE, "%s: more than %u tensors", p->path,
                           KERF_MAX_TENSORS);
        mapping *e = &p->map[p->out->count];
        KF_TRY(take_string(p, m.key, "", &e->tensor));
        KF_TRY(take_string(p, m.value, e->tensor, &e->file));
        if (!kf_is_shard_name(e->file))
            return kf_fail(p->err, KERF_E_DATA, KF_NOWHERE,
                           "%s: weight_map: \"%.*s\" is not the name of a safetensors file in "
                           "this folder",
                           p->path, KF_NAME(e->file));
        p->out->count++;
    }
}

static kerf_status skip_other(parser *p, kf_json value)
{
    json_t *j;
    if (value.n > MAX_OTHER_BYTES)
        return kf_fail(p->err, KERF_E_LIMIT, KF_NOWHERE,
                       "%s: a member besides weight_map is larger than 1 MiB", p->path);
    KF_TRY(kf_json_load(value, &j, p->err));
    json_decref(j);
    return KERF_OK;
}

static kerf_status parse_members(parser *p, kf_json json)
{
    kf_json_walk w;
    kf_member m;
    int more;
    kf_json_walk_init(&w, json);
    for (;;) {
        json_t *key;
        KF_TRY(kf_json_walk_next(&w, &m, &more, p->err));
        if (!more) break;
        KF_TRY(kf_json_load(m.key, &key, p->err));
        int is_map = strcmp(json_string_value(key), "weight_map") == 0;
        json_decref(key);
        KF_TRY(is_map ? parse_map(p, m.value) : skip_other(p, m.value));
    }
    if (p->out->count > 0) return KERF_OK;
    const char *is = kf_download_is(json.text, kf_min_u64(json.n, KF_DOWNLOAD_BYTES));
    return kf_fail(p->err, KERF_E_DATA, KF_NOWHERE, "%s: %s", p->path,
                   is ? is : "no weight_map, or an empty one");
}

static int compare_files(const void *a, const void *b)
{
    return strcmp(((const mapping *)a)->file, ((const mapping *)b)->file);
}

/* Numbers the shards in the order of their names, then sorts the tensors by name. */
static kerf_status number_shards(parser *p)
{
    kf_index *x = p->out;
    x->entry = kf_alloc(x->count, sizeof *x->entry);
    x->shard = kf_alloc(x->count, sizeof *x->shard);
    if (!x->entry || !x->shard)
        return kf_fail(p->err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", p->path);
    qsort(p->map, x->count, sizeof *p->map, compare_files);
    for (size_t i = 0; i < x->count; i++) {
        if (i == 0 || strcmp(p->map[i].file, p->map[i - 1].file) != 0)
            x->shard[x->shards++] = p->map[i].file;
        x->entry[i] = (kf_named){p->map[i].tensor, x->shards - 1};
    }
    size_t twice = kf_sort_names(x->entry, x->count);
    if (twice < x->count)
        return kf_fail(p->err, KERF_E_DATA, KF_NOWHERE,
                       "%s: weight_map: tensor \"%.*s\" occurs twice", p->path,
                       KF_NAME(x->entry[twice].name));
    return KERF_OK;
}

kerf_status kf_index_read(const char *path, kf_index *out, kerf_error *err)
{
    memset(out, 0, sizeof *out);
    parser p = {.out = out, .path = path, .err = err};
    char *text = NULL;
    size_t n;
    uint64_t members;
    kf_json json = {path, NULL, 0};
    KF_TRY(kf_read_whole(path, MAX_INDEX_BYTES, &text, &n, err));
    json.text = text;
    json.n = n;
    out->strings = kf_alloc(n, 1);
    kerf_status s = kf_json_check(json, &index_rules, &members, err);
    if (s == KERF_OK && !out->strings)
        s = kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", path);
    if (s == KERF_OK) s = parse_members(&p, json);
    if (s == KERF_OK) s = number_shards(&p);
    free(text);
    free(p.map);
    if (s != KERF_OK) kf_index_free(out);
    return s;
}

void kf_index_free(kf_index *x)
{
    free(x->entry);
    free(x->shard);
    free(x->strings);
    memset(x, 0, sizeof *x);
}

static void add_unpacked_name(kf_text *t, const char *file)
{
    char name[256];
    size_t n = strlen(file);
    if (kf_has_suffix(file, ".zst")) n -= 4;
    if (n >= sizeof name) {
        t->failed = 1;
        return;
    }
    memcpy(name, file, n);
    name[n] = 0;
    kf_text_add_quoted(t, name);
}

void kf_index_write(kf_text *t, const kf_named *entry, size_t count, const char *const *shard,
                    uint64_t total_bytes)
{
    kf_text_add(t, "{\n  \"metadata\": {\n    \"total_size\": %" PRIu64 "\n  },\n", total_bytes);
    kf_text_add(t, "  \"weight_map\": {");
    for (size_t i = 0; i < count; i++) {
        kf_text_add(t, "%s\n    ", i ? "," : "");
        kf_text_add_quoted(t, entry[i].name);
        kf_text_add(t, ": ");
        add_unpacked_name(t, shard[entry[i].index]);
    }
    kf_text_add(t, "%s}\n}\n", count ? "\n  " : "");
}
