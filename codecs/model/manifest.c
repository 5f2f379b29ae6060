/* manifest.c - the list of what is written, known before the first byte of a tensor is read. */
#include "model/manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "file/disk/io.h"
#include "file/gguf/gguf.h"
#include "layout/gguf_model.h"
#include "layout/place_weights.h"

static int is_file_path(const char *path)
{
    return kf_has_suffix(path, ".safetensors") || kf_has_suffix(path, ".safetensors.zst") ||
           kf_has_suffix(path, ".gguf");
}

kerf_status kf_manifest_layout(const kerf_reader *source, const kerf_output *to,
                               const kerf_layout **out, kerf_error *err)
{
    const kerf_layout *gguf = kerf_layout_find("gguf");
    const int to_gguf = to->path ? kf_has_suffix(to->path, ".gguf") : kerf_reader_is_gguf(source);
    *out = to->layout ? to->layout : to_gguf ? gguf : kerf_layout_at(0);
    if (to->path && (*out == gguf) != to_gguf) {
        return kf_fail(
            err, KERF_E_ARG, KF_NOWHERE,
            "-o %.200s: layout gguf is written to files named *.gguf, and nothing else is",
            to->path);
    }
    return KERF_OK;
}

kerf_status kf_manifest_open(kf_manifest *m, const kerf_output *to, kerf_error *err)
{
    const char *path = to->path ? to->path : "";
    *m = (kf_manifest){.is_file = is_file_path(path),
                       .is_gguf = kf_has_suffix(path, ".gguf"),
                       .shard_bytes = to->shard_bytes};
    if (to->zstd_level && *path && !kf_has_suffix(path, ".zst"))
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "%.200s: --zstd-level is of files named *.safetensors.zst, which are "
                       "compressed; this output is not",
                       path);
    if (!m->is_file || !m->shard_bytes) return KERF_OK;
    return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                   "%.200s: --shard-size splits a folder, and this is the name of one file", path);
}

void kf_manifest_close(kf_manifest *m)
{
    for (size_t i = 0; i < m->texts; i++) free(m->text[i]);
    for (size_t i = 0; m->metadata && i < m->shards; i++) free(m->metadata[i]);
    kerf_companions_free(m->companion, m->companions);
    free(m->text);
    free(m->metadata);
    free(m->metadata_count);
    free(m->shard);
    free(m->block_type);
    free(m->first);
    free(m->entry);
    *m = (kf_manifest){0};
}

/* A copy of the first n bytes, which lives as long as the manifest. */
static kerf_status keep_text(kf_manifest *m, const char *text, size_t n, const char **out,
                             kerf_error *err)
{
    if (m->texts == m->texts_room) {
        const size_t room = m->texts_room ? 2 * m->texts_room : 64;
        char **more = realloc(m->text, room * sizeof *more);
        if (!more) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for names");
        m->text = more;
        m->texts_room = room;
    }
    char *copy = strndup(text, n);
    if (!copy) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for names");
    m->text[m->texts++] = copy;
    *out = copy;
    return KERF_OK;
}

static kerf_status make_room(kf_manifest *m, kerf_error *err)
{
    size_t room = m->room ? m->room * 2 : 64;
    kerf_entry *entry = realloc(m->entry, room * sizeof *entry);
    if (entry) m->entry = entry;
    const char **type = entry ? realloc(m->block_type, room * sizeof *type) : NULL;
    if (!type) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for %zu tensors", room);
    m->block_type = type;
    m->room = room;
    return KERF_OK;
}

/* Adds a tensor that comes from a shard of the source. */
static kerf_status add_entry(kf_manifest *m, const char *name, kerf_dtype dtype,
                             const kerf_shape *shape, unsigned source_shard, kerf_error *err)
{
    const char *copy;
    if (m->count == m->room) KF_TRY(make_room(m, err));
    KF_TRY(keep_text(m, name, strlen(name), &copy, err));
    m->block_type[m->count] = NULL;
    m->entry[m->count++] =
        (kerf_entry){.name = copy, .dtype = dtype, .shape = *shape, .shard = source_shard};
    return KERF_OK;
}

static kerf_status begin_weight(kf_manifest *m, kerf_error *err)
{
    if (m->weights == m->weights_room) {
        size_t room = m->weights_room ? m->weights_room * 2 : 64;
        size_t *first = realloc(m->first, room * sizeof *first);
        if (!first)
            return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for %zu weights", room);
        m->first = first;
        m->weights_room = room;
    }
    m->first[m->weights++] = m->count;
    return KERF_OK;
}

kerf_status kf_manifest_add_weight(kf_manifest *m, const kerf_layout *layout, const kerf_weight *w,
                                   kerf_error *err)
{
    char name[KERF_MAX_NAME_BYTES + 32];
    kerf_entry e;
    kerf_plane_id plane;
    const kerf_tensor *t = kf_weight_tensor(w);
    KF_TRY(begin_weight(m, err));
    if (!w->codec.format) {
        KF_TRY(add_entry(m, t->name, t->dtype, &t->shape, t->shard, err));
        m->block_type[m->count - 1] = t->block_type;
        return KERF_OK;
    }
    for (size_t i = 0; kerf_layout_entry(layout, w, i, name, sizeof name, &e, &plane); i++) {
        int written;
        KF_TRY(add_entry(m, name, e.dtype, &e.shape, t->shard, err));
        if (m->is_gguf && plane == KERF_PLANE_CODES) {
            m->block_type[m->count - 1] = kerf_layout_scheme(layout, w->codec.format, &written);
        }
    }
    return KERF_OK;
}

kerf_status kf_manifest_add_dense(kf_manifest *m, const kerf_weight *w, kerf_dtype dtype,
                                  kerf_error *err)
{
    KF_TRY(begin_weight(m, err));
    const kerf_shape *shape = w->stored.rank ? &w->stored : &w->shape;
    return add_entry(m, w->name, dtype, shape, w->plane[0]->shard, err);
}

/* What its layout calls a plane. */
static const char *name_of_plane(const kerf_weight *w, kerf_plane_id p, char *name, size_t size)
{
    kerf_entry e;
    kerf_plane_id plane = KERF_PLANES;
    for (size_t i = 0; kerf_layout_entry(w->layout, w, i, name, size, &e, &plane); i++)
        if (plane == p) return name;
    return w->plane[p]->name;
}

kerf_status kf_manifest_add_stored(kf_manifest *m, const kerf_weight *w, kerf_error *err)
{
    char own[KERF_MAX_NAME_BYTES + 32];
    KF_TRY(begin_weight(m, err));
    for (size_t i = 0; i < KERF_PLANES + KERF_EXTRAS; i++) {
        const kerf_tensor *t = i < KERF_PLANES ? w->plane[i] : w->extra[i - KERF_PLANES];
        if (!t) continue;
        const char *name = i < KERF_PLANES && !t->block_type
                               ? name_of_plane(w, (kerf_plane_id)i, own, sizeof own)
                               : t->name;
        KF_TRY(add_entry(m, name, t->dtype, &t->shape, t->shard, err));
        m->block_type[m->count - 1] = t->block_type;
    }
    return KERF_OK;
}

kerf_status kf_manifest_add_nothing(kf_manifest *m, kerf_error *err)
{
    return begin_weight(m, err);
}

size_t kf_manifest_entries(const kf_manifest *m, size_t i)
{
    return (i + 1 < m->weights ? m->first[i + 1] : m->count) - m->first[i];
}

static uint64_t bytes_of(const kerf_entry *e)
{
    uint64_t n = 0;
    if (kerf_shape_count(&e->shape, &n, NULL) != KERF_OK) return 0;
    return n * kerf_dtype_bits(e->dtype) / 8;
}

uint64_t kf_manifest_entry_bytes(const kf_manifest *m, size_t entry)
{
    return bytes_of(&m->entry[entry]);
}

uint64_t kf_manifest_bytes(const kf_manifest *m)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < m->count; i++) bytes += bytes_of(&m->entry[i]);
    return bytes;
}

/* --- files --------------------------------------------------------------------------------- */

/* Puts weights into shards in their order, whole, until the next would make one too large. */
static void split(kf_manifest *m)
{
    uint64_t used = 0;
    m->shards = 1;
    for (size_t i = 0; i < m->weights; i++) {
        const size_t end = m->first[i] + kf_manifest_entries(m, i);
        uint64_t bytes = 0;
        for (size_t k = m->first[i]; k < end; k++) bytes += bytes_of(&m->entry[k]);
        if (used > 0 && bytes > m->shard_bytes - (used < m->shard_bytes ? used : m->shard_bytes)) {
            m->shards++;
            used = 0;
        }
        for (size_t k = m->first[i]; k < end; k++) m->entry[k].shard = (unsigned)m->shards - 1;
        used += bytes;
    }
}

/* The name of shard i: as the source has it, uncompressed, or counted where that has others or was
 * GGUF. */
static kerf_status name_shard(kf_manifest *m, const kerf_reader *source, size_t i, kerf_error *err)
{
    char text[80];
    if (!m->shard_bytes && !kerf_reader_is_gguf(source)) {
        const char *name = kerf_reader_shard(source, i);
        const size_t n = strlen(name) - (kf_has_suffix(name, ".zst") ? 4 : 0);
        return keep_text(m, name, n, &m->shard[i], err);
    }
    snprintf(text, sizeof text, "model-%05zu-of-%05zu.safetensors", i + 1, m->shards);
    return keep_text(m, text, strlen(text), &m->shard[i], err);
}

static kerf_status place_files(kf_manifest *m, const kerf_reader *source, kerf_error *err)
{
    m->shards = kerf_reader_shard_count(source);
    if (m->shard_bytes) split(m);
    if (m->is_file || m->shards == 0) m->shards = 1;
    for (size_t i = 0; m->shards == 1 && i < m->count; i++) m->entry[i].shard = 0;
    KF_TRY(kf_allocate(&m->metadata, m->shards, sizeof *m->metadata, err));
    KF_TRY(kf_allocate(&m->metadata_count, m->shards, sizeof *m->metadata_count, err));
    if (m->shards == 1) return KERF_OK;
    KF_TRY(kf_allocate(&m->shard, m->shards, sizeof *m->shard, err));
    for (size_t i = 0; i < m->shards; i++) KF_TRY(name_shard(m, source, i, err));
    return KERF_OK;
}

/* --- metadata ------------------------------------------------------------------------------ */

static int has_key(const kf_manifest *m, size_t shard, const char *key)
{
    for (size_t i = 0; i < m->metadata_count[shard]; i++) {
        if (strcmp(m->metadata[shard][i].key, key) == 0) return 1;
    }
    return 0;
}

static kerf_status add_key(kf_manifest *m, size_t shard, const char *key, const char *value,
                           kerf_error *err)
{
    size_t count = m->metadata_count[shard];
    kerf_key_value *list = realloc(m->metadata[shard], (count + 1) * sizeof *list);
    if (!list) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for metadata");
    m->metadata[shard] = list;
    KF_TRY(keep_text(m, key, strlen(key), &list[count].key, err));
    KF_TRY(keep_text(m, value, strlen(value), &list[count].value, err));
    m->metadata_count[shard]++;
    return KERF_OK;
}

/* What the writer and the layout set themselves, and what ComfyUI reads of how the weights of the
 * source were quantized, which those of the output are not. */
static int is_of_source(const char *key)
{
    static const char *const keys[] = {"format", "kerf", "_quantization_metadata"};
    int found = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) found |= strcmp(key, keys[i]) == 0;
    return found;
}

/* Other keys of the source's files; all in the first file where files are others than the
 * source's. */
static kerf_status carry_keys(kf_manifest *m, const kerf_reader *source, kerf_error *err)
{
    for (size_t i = 0; i < kerf_reader_shard_count(source); i++) {
        size_t to = m->shards > 1 && !m->shard_bytes ? i : 0;
        const char *key, *value;
        for (size_t k = 0; kerf_reader_metadata_at(source, i, k, &key, &value); k++) {
            if (!is_of_source(key) && !has_key(m, to, key)) KF_TRY(add_key(m, to, key, value, err));
        }
    }
    return KERF_OK;
}

static kerf_status describe_shard(kf_manifest *m, size_t shard, const kerf_layout *layout,
                                  const kerf_weight *weights, const size_t *mine, size_t n,
                                  kerf_error *err)
{
    kerf_weight *copy = NULL;
    if (n == 0) return KERF_OK;
    KF_TRY(kf_allocate(&copy, n, sizeof *copy, err));
    for (size_t i = 0; i < n; i++) copy[i] = weights[mine[i]];
    char *text = kerf_layout_describe(layout, copy, n);
    kerf_status s = text ? add_key(m, shard, "kerf", text, err)
                         : kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for metadata");
    free(text);
    free(copy);
    return s;
}

/* Quantized weights are put into the order of their shards first: to look through all weights for
 * each of thousands of shards would take longer than to quantize them. */
static kerf_status describe_shards(kf_manifest *m, const kerf_layout *layout,
                                   const kerf_weight *weights, size_t count, kerf_error *err)
{
    size_t *end = NULL, *order = NULL; /* of each shard, in `order`; its first is before that */
    kerf_status s = kf_allocate(&end, (uint64_t)m->shards + 1, sizeof *end, err);
    if (s == KERF_OK) s = kf_allocate(&order, count, sizeof *order, err);
    for (size_t i = 0; i < count && s == KERF_OK; i++)
        if (weights[i].codec.format) end[m->entry[m->first[i]].shard + 1]++;
    for (size_t k = 0; k < m->shards && s == KERF_OK; k++) end[k + 1] += end[k];
    for (size_t i = 0; i < count && s == KERF_OK; i++)
        if (weights[i].codec.format) order[end[m->entry[m->first[i]].shard]++] = i;
    for (size_t k = 0, at = 0; k < m->shards && s == KERF_OK; at = end[k++])
        s = describe_shard(m, k, layout, weights, order + at, end[k] - at, err);
    free(end);
    free(order);
    return s;
}

/* The keys of a model that was none of llama.cpp's before: under the name of its folder. */
static kerf_status make_gguf_keys(kf_manifest *m, const kerf_reader *source, const char *path,
                                  kerf_error *err)
{
    char *packed = NULL, name[128];
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    snprintf(name, sizeof name, "%.*s", (int)n, path);
    kerf_status s = kf_gguf_model_header(source, kf_path_base(name), &packed, err);
    if (s != KERF_OK) return kf_fail_at(err, s, path);
    s = add_key(m, 0, KF_GGUF_CARRIED, packed, err);
    free(packed);
    return s;
}

kerf_status kf_manifest_describe(kf_manifest *m, const kerf_reader *source, const char *path,
                                 const kerf_layout *layout, const kerf_weight *weights,
                                 size_t count, kerf_error *err)
{
    KF_TRY(place_files(m, source, err));
    KF_TRY(carry_keys(m, source, err));
    if (m->is_gguf && !has_key(m, 0, "gguf")) KF_TRY(make_gguf_keys(m, source, path, err));
    if (!m->is_gguf) /* which names the type of every tensor */
        KF_TRY(describe_shards(m, layout, weights, count, err));
    return kerf_layout_companions(layout, source, weights, count, m->companion, &m->companions,
                                  err);
}
