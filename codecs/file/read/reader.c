/* reader.c - an open checkpoint: one file, or a folder with one file or an index of shards.
 *
 * Everything is validated when it is opened; afterwards only the data can be found damaged. */
#include "file/read/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file/disk/io.h"
#include "file/read/folder.h"
#include "file/read/left_out.h"
#include "file/read/view.h"
#include "file/safetensors/index.h"

static kerf_status no_memory(const char *path, kerf_error *err)
{
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", path);
}

/* Makes room for shards, none open yet. */
static kerf_status alloc_shards(kerf_reader *r, size_t n, kerf_error *err)
{
    r->shard = kf_alloc_zero(n, sizeof *r->shard);
    if (!r->shard) return no_memory(r->folder, err);
    r->shards = n;
    for (size_t i = 0; i < n; i++) r->shard[i] = (kf_shard)KF_NO_SHARD;
    return KERF_OK;
}

/* The other parts of a model of several GGUF files, whose first is open. */
static kerf_status open_parts(kerf_reader *r, const char *path, kerf_error *err)
{
    const kf_gguf_split first = r->shard[0].split;
    kf_shard *all = kf_alloc_zero(first.count, sizeof *all);
    if (!all) return no_memory(path, err);
    all[0] = r->shard[0];
    for (unsigned i = 1; i < first.count; i++) all[i] = (kf_shard)KF_NO_SHARD;
    free(r->shard);
    r->shard = all;
    r->shards = first.count;
    uint64_t tensors = all[0].header.count;
    for (unsigned i = 1; i < first.count; i++) {
        char *part = NULL;
        KF_TRY(kf_gguf_split_path(path, &first, i, &part, err));
        all[i].may_be_gguf = 1;
        kerf_status s = kf_shard_open(&all[i], part, err);
        if (s == KERF_OK) s = kf_gguf_split_check(part, &all[i].split, &first, i, err);
        free(part);
        if (s != KERF_OK) return s;
        tensors += all[i].header.count;
    }
    if (first.tensors == 0 || first.tensors == tensors) return KERF_OK;
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                   "%s: says that all parts have %llu tensors, they have %llu", path,
                   (unsigned long long)first.tensors, (unsigned long long)tensors);
}

static kerf_status open_file(kerf_reader *r, const char *path, kerf_error *err)
{
    r->folder = kf_path_folder(path);
    if (!r->folder) return no_memory(path, err);
    KF_TRY(alloc_shards(r, 1, err));
    r->shard[0].may_be_gguf = 1;
    KF_TRY(kf_shard_open(&r->shard[0], path, err));
    return r->shard[0].split.count ? open_parts(r, path, err) : KERF_OK;
}

/* Also a link that leads nowhere: what cannot be opened is not passed over. */
static int exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 || errno != ENOENT;
}

/* The path of a file of the folder, or of the same name with .zst when only that is there. NULL: no
 * memory. */
static char *find_packed_or_plain(const char *folder, const char *name)
{
    char *path = kf_path_join(folder, name);
    if (!path || exists(path)) return path;
    size_t n = strlen(path);
    char *packed = kf_alloc(n + 5, 1);
    if (packed) {
        memcpy(packed, path, n);
        memcpy(packed + n, ".zst", 5);
    }
    if (packed && !exists(packed)) {
        free(packed);
        return path;
    }
    free(path);
    return packed;
}

static kerf_status open_named(kerf_reader *r, kf_shard *s, const char *name, kerf_error *err)
{
    char *path = find_packed_or_plain(r->folder, name);
    if (!path) return no_memory(name, err);
    kerf_status st = kf_shard_open(s, path, err);
    if (st == KERF_E_IO && err && err->native == ENOENT)
        st = kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%s: named in the index, but not there", path);
    free(path);
    return st;
}

/* The tensors of all shards in one table, with an index of names. */
static kerf_status join_tensors(kerf_reader *r, kerf_error *err)
{
    if (r->shards == 1) { /* take over what the header has */
        kf_header *h = &r->shard[0].header;
        r->tensor = h->tensor;
        r->by_name = h->by_name;
        r->count = h->count;
        h->tensor = NULL;
        h->by_name = NULL;
        return KERF_OK;
    }
    uint64_t total = 0;
    for (size_t i = 0; i < r->shards; i++) total += r->shard[i].header.count;
    if (total > KERF_MAX_TENSORS)
        return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE, "%s: more than %u tensors", r->folder,
                       KERF_MAX_TENSORS);
    r->tensor = kf_alloc(total, sizeof *r->tensor);
    r->by_name = kf_alloc(total, sizeof *r->by_name);
    if (!r->tensor || !r->by_name) return no_memory(r->folder, err);
    for (size_t i = 0; i < r->shards; i++) {
        kf_header *h = &r->shard[i].header;
        for (size_t k = 0; k < h->count; k++) {
            r->tensor[r->count] = h->tensor[k];
            r->tensor[r->count].shard = (unsigned)i;
            r->by_name[r->count] = (kf_named){h->tensor[k].name, r->count};
            r->count++;
        }
        free(h->tensor);
        free(h->by_name);
        h->tensor = NULL;
        h->by_name = NULL;
    }
    size_t twice = kf_sort_names(r->by_name, r->count);
    if (twice < r->count)
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "%s: tensor \"%.*s\" is in two shards, %s and %s", r->folder,
                       KF_NAME(r->by_name[twice].name),
                       r->shard[r->tensor[r->by_name[twice - 1].index].shard].name,
                       r->shard[r->tensor[r->by_name[twice].index].shard].name);
    return KERF_OK;
}

/* The index and the shards must say the same; both lists are sorted by name. */
static kerf_status check_index(const kerf_reader *r, const kf_index *x, kerf_error *err)
{
    size_t i = 0, k = 0;
    while (i < x->count || k < r->count) {
        int order = i == x->count   ? 1
                    : k == r->count ? -1
                                    : strcmp(x->entry[i].name, r->by_name[k].name);
        if (order < 0)
            return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                           "%s: tensor \"%.*s\" is in the index, but not in %s", r->folder,
                           KF_NAME(x->entry[i].name), r->shard[x->entry[i].index].name);
        const kerf_tensor *t = &r->tensor[r->by_name[k].index];
        if (order > 0)
            return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                           "%s: tensor \"%.*s\" is in %s, but not in the index", r->folder,
                           KF_NAME(t->name), r->shard[t->shard].name);
        if (t->shard != x->entry[i].index)
            return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                           "%s: tensor \"%.*s\" is in %s, the index says %s", r->folder,
                           KF_NAME(t->name), r->shard[t->shard].name,
                           r->shard[x->entry[i].index].name);
        i++;
        k++;
    }
    return KERF_OK;
}

/* Notes the state of a file that is read later, or found absent; takes over the path. */
static kerf_status stamp_beside(kerf_reader *r, char *path, kerf_error *err)
{
    if (!path) return no_memory(r->folder, err);
    kf_beside *b = &r->beside[r->besides++];
    b->path = path;
    b->is_there = kf_stamp_of(path, &b->stamp);
    return KERF_OK;
}

static kerf_status stamp_config(kerf_reader *r, kerf_error *err)
{
    static const char *const names[] = {"config.json", "hf_quant_config.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        KF_TRY(stamp_beside(r, kf_path_join(r->folder, names[i]), err));
    return KERF_OK;
}

static kerf_status check_beside(const kf_beside *b, kerf_error *err)
{
    kf_stamp now;
    if (!b->is_there && !kf_stamp_of(b->path, &now)) return KERF_OK;
    return kf_stamp_check(&b->stamp, -1, b->path, b->path, err);
}

static kerf_status open_index(kerf_reader *r, const char *path, kerf_error *err)
{
    kf_index x;
    KF_TRY(stamp_beside(r, strdup(path), err));
    KF_TRY(kf_index_read(path, &x, err));
    kerf_status s = alloc_shards(r, x.shards, err);
    for (size_t i = 0; i < x.shards && s == KERF_OK; i++)
        s = open_named(r, &r->shard[i], x.shard[i], err);
    if (s == KERF_OK) s = join_tensors(r, err);
    if (s == KERF_OK) s = check_index(r, &x, err);
    kf_index_free(&x);
    return s;
}

/* Numbered shards without an index. */
static kerf_status open_numbered(kerf_reader *r, const kf_folder *f, kerf_error *err)
{
    KF_TRY(alloc_shards(r, f->shards, err));
    for (size_t i = 0; i < f->shards; i++) KF_TRY(open_named(r, &r->shard[i], f->shard[i], err));
    return join_tensors(r, err);
}

static kerf_status open_folder(kerf_reader *r, const char *path, kerf_error *err)
{
    kf_folder f;
    r->is_folder = 1;
    KF_TRY(kerf_hub_snapshot(path, &r->folder, err));
    if (!r->folder) r->folder = strdup(path);
    if (!r->folder) return no_memory(path, err);
    kerf_status s = kf_folder_look(r->folder, &f, err);
    if (s == KERF_OK && f.file) {
        s = alloc_shards(r, 1, err);
        if (s == KERF_OK) s = kf_shard_open(&r->shard[0], f.file, err);
        if (s == KERF_OK) s = join_tensors(r, err);
    } else if (s == KERF_OK) {
        s = f.index ? open_index(r, f.index, err) : open_numbered(r, &f, err);
    }
    const kf_beside_of own = {r->folder, f.index, r->shard, r->shards, r->by_name, r->count};
    if (s == KERF_OK) s = kf_look_beside(&own, &r->left_out, err);
    kf_folder_free(&f);
    return s;
}

kerf_status kerf_reader_open(const char *path, kerf_reader **out, kerf_error *err)
{
    struct stat st;
    if (!path || !out) return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "kerf_reader_open: no path");
    *out = NULL;
    KF_TRY(kf_folder_refuse_parts(path, err));
    if (stat(path, &st) != 0) return kf_fail_no_model(err, errno, path);
    kerf_reader *r = kf_alloc_zero(1, sizeof *r);
    if (!r) return no_memory(path, err);
    kerf_error own; /* open_named looks at the cause */
    kerf_error *e = err ? err : &own;
    kerf_status s;
    if (S_ISDIR(st.st_mode)) {
        s = open_folder(r, path, e);
    } else {
        s = open_file(r, path, e);
        if (s == KERF_OK) s = join_tensors(r, e);
    }
    if (s == KERF_OK) s = stamp_config(r, e);
    if (s != KERF_OK) {
        kerf_reader_close(r);
        return s;
    }
    *out = r;
    return KERF_OK;
}

void kerf_reader_close(kerf_reader *r)
{
    if (!r) return;
    for (size_t i = 0; i < r->shards; i++) {
        kf_shard_close(&r->shard[i]);
    }
    free(r->shard);
    free(r->tensor);
    free(r->by_name);
    free(r->folder);
    free(r->left_out);
    for (size_t i = 0; i < r->besides; i++) free(r->beside[i].path);
    free(r);
}

kerf_status kerf_reader_check(const kerf_reader *r, kerf_error *err)
{
    for (size_t i = 0; i < r->shards; i++) KF_TRY(kf_blob_check(&r->shard[i].blob, err));
    for (size_t i = 0; i < r->besides; i++) KF_TRY(check_beside(&r->beside[i], err));
    return KERF_OK;
}

size_t kerf_reader_count(const kerf_reader *r)
{
    return r->count;
}

const kerf_tensor *kerf_reader_at(const kerf_reader *r, size_t i)
{
    return i < r->count ? &r->tensor[i] : NULL;
}

const kerf_tensor *kerf_reader_find(const kerf_reader *r, const char *name)
{
    const kf_named *found = kf_find_name(r->by_name, r->count, name);
    return found ? &r->tensor[found->index] : NULL;
}

size_t kerf_reader_shard_count(const kerf_reader *r)
{
    return r->shards;
}

const char *kerf_reader_shard(const kerf_reader *r, size_t i)
{
    return i < r->shards ? r->shard[i].name : NULL;
}

const char *kerf_reader_folder(const kerf_reader *r)
{
    return r->folder;
}

int kerf_reader_is_folder(const kerf_reader *r)
{
    return r->is_folder;
}

int kerf_reader_is_gguf(const kerf_reader *r)
{
    return r->shards > 0 && r->shard[0].is_gguf;
}

int kerf_reader_metadata_at(const kerf_reader *r, size_t i, size_t k, const char **key,
                            const char **value)
{
    if (i >= r->shards || k >= r->shard[i].header.metadata_count) return 0;
    *key = r->shard[i].header.metadata[k].key;
    *value = r->shard[i].header.metadata[k].value;
    return 1;
}

const char *kerf_reader_metadata(const kerf_reader *r, size_t i, const char *key)
{
    if (i >= r->shards) return NULL;
    const kf_header *h = &r->shard[i].header;
    size_t low = 0, high = h->metadata_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = strcmp(key, h->metadata[mid].key);
        if (order == 0) return h->metadata[mid].value;
        if (order < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return NULL;
}

kerf_status kerf_reader_read(const kerf_reader *r, const kerf_tensor *t, uint64_t offset, void *dst,
                             size_t n, kerf_error *err)
{
    uint64_t end;
    if (!kf_add_ok(offset, n, &end) || end > t->bytes || t->shard >= r->shards)
        return kf_fail(err, KERF_E_ARG, offset,
                       "tensor \"%.*s\": bytes beyond its end were asked for", KF_NAME(t->name));
    if (n == 0) return KERF_OK;
    if (t->view) return kf_view_read(r, t, offset, dst, n, err);
    return kf_blob_read(&r->shard[t->shard].blob, t->offset + offset, dst, n, err);
}
