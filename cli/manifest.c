/* manifest.c - the list of what is written, known before the first byte of a tensor is read. */
#include "manifest.h"

#include <stdlib.h>
#include <string.h>

#include "stream.h"

static int is_file_path(const char *path)
{
    return ends_with(path, ".safetensors") || ends_with(path, ".safetensors.zst") ||
           ends_with(path, ".gguf");
}

kerf_status manifest_layout(const checkpoint *source, const char *path, const args *a,
                            const kerf_layout **out, kerf_error *err)
{
    const kerf_layout *gguf = kerf_layout_find("gguf");
    const int to_gguf = path ? ends_with(path, ".gguf") : kerf_reader_is_gguf(source->reader);
    TRY(args_layout(a, out, err));
    if (!args_has(a, "layout") && to_gguf) *out = gguf;
    if (path && (*out == gguf) != to_gguf) {
        return USAGE(err,
                     "-o %.200s: layout gguf is written to files named *.gguf, and nothing else is",
                     path);
    }
    return KERF_OK;
}

/* Names of the output's files: those of the source, uncompressed. */
static kerf_status name_shards(manifest *m, const checkpoint *source, kerf_error *err)
{
    TRY(allocate(&m->shard, m->shards, sizeof *m->shard, err));
    for (size_t i = 0; i < m->shards; i++) {
        const char *name = kerf_reader_shard(source->reader, i);
        size_t n = strlen(name) - (ends_with(name, ".zst") ? 4 : 0);
        m->shard[i] = strndup(name, n);
        if (!m->shard[i]) return fail(err, KERF_E_NOMEM, "no memory for file names");
    }
    return KERF_OK;
}

kerf_status manifest_open(manifest *m, const checkpoint *source, const char *path, kerf_error *err)
{
    size_t shards = kerf_reader_shard_count(source->reader);
    *m = (manifest){.shards = is_file_path(path) || shards == 0 ? 1 : shards,
                    .is_gguf = ends_with(path, ".gguf")};
    kerf_status s = m->shards > 1 ? name_shards(m, source, err) : KERF_OK;
    if (s == KERF_OK) s = allocate(&m->metadata, m->shards, sizeof *m->metadata, err);
    if (s == KERF_OK) s = allocate(&m->metadata_count, m->shards, sizeof *m->metadata_count, err);
    if (s != KERF_OK) manifest_close(m);
    return s;
}

/* Strings that the manifest owns are declared const for the library; free takes them back. */
static void release(const char *text)
{
    void *p;
    memcpy(&p, &text, sizeof p);
    free(p);
}

void manifest_close(manifest *m)
{
    for (size_t i = 0; i < m->count; i++) release(m->entry[i].name);
    for (size_t i = 0; m->shard && i < m->shards; i++) release(m->shard[i]);
    for (size_t i = 0; m->metadata && i < m->shards; i++) {
        for (size_t k = 0; m->metadata_count && k < m->metadata_count[i]; k++) {
            release(m->metadata[i][k].key);
            release(m->metadata[i][k].value);
        }
        free(m->metadata[i]);
    }
    kerf_companions_free(m->companion, m->companions);
    free(m->metadata);
    free(m->metadata_count);
    free(m->shard);
    free(m->block_type);
    free(m->entry);
    *m = (manifest){0};
}

static kerf_status make_room(manifest *m, kerf_error *err)
{
    size_t room = m->room ? m->room * 2 : 64;
    kerf_entry *entry = realloc(m->entry, room * sizeof *entry);
    if (entry) m->entry = entry;
    const char **type = entry ? realloc(m->block_type, room * sizeof *type) : NULL;
    if (!type) return fail(err, KERF_E_NOMEM, "no memory for %zu tensors", room);
    m->block_type = type;
    m->room = room;
    return KERF_OK;
}

kerf_status manifest_add(manifest *m, const char *name, kerf_dtype dtype, const kerf_shape *shape,
                         unsigned source_shard, kerf_error *err)
{
    if (m->count == m->room) TRY(make_room(m, err));
    char *copy = strdup(name);
    if (!copy) return fail(err, KERF_E_NOMEM, "no memory for a name");
    unsigned shard = m->shards > 1 ? source_shard : 0;
    m->block_type[m->count] = NULL;
    m->entry[m->count++] =
        (kerf_entry){.name = copy, .dtype = dtype, .shape = *shape, .shard = shard};
    return KERF_OK;
}

kerf_status manifest_add_weight(manifest *m, const kerf_layout *layout, const kerf_weight *w,
                                kerf_error *err)
{
    char name[KERF_MAX_NAME_BYTES + 32];
    kerf_entry e;
    kerf_plane_id plane;
    const kerf_tensor *t = w->plane[0];
    if (!w->codec.format) {
        TRY(manifest_add(m, t->name, t->dtype, &t->shape, t->shard, err));
        m->block_type[m->count - 1] = t->block_type;
        return KERF_OK;
    }
    for (size_t i = 0; kerf_layout_entry(layout, w, i, name, sizeof name, &e, &plane); i++) {
        int written;
        TRY(manifest_add(m, name, e.dtype, &e.shape, t->shard, err));
        if (m->is_gguf && plane == KERF_PLANE_CODES) {
            m->block_type[m->count - 1] = kerf_layout_scheme(layout, w->codec.format, &written);
        }
    }
    return KERF_OK;
}

size_t manifest_entries(const kerf_layout *layout, const kerf_weight *w)
{
    char name[KERF_MAX_NAME_BYTES + 32];
    kerf_entry e;
    kerf_plane_id plane;
    size_t n = 0;
    if (!w->codec.format) return 1;
    while (kerf_layout_entry(layout, w, n, name, sizeof name, &e, &plane)) n++;
    return n;
}

uint64_t manifest_bytes(const manifest *m)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < m->count; i++) {
        uint64_t n = 0;
        if (kerf_shape_count(&m->entry[i].shape, &n, NULL) != KERF_OK) continue;
        bytes += n * kerf_dtype_bits(m->entry[i].dtype) / 8;
    }
    return bytes;
}

/* --- metadata ------------------------------------------------------------------------------ */

static int has_key(const manifest *m, size_t shard, const char *key)
{
    for (size_t i = 0; i < m->metadata_count[shard]; i++) {
        if (strcmp(m->metadata[shard][i].key, key) == 0) return 1;
    }
    return 0;
}

static kerf_status add_key(manifest *m, size_t shard, const char *key, const char *value,
                           kerf_error *err)
{
    size_t count = m->metadata_count[shard];
    kerf_key_value *list = realloc(m->metadata[shard], (count + 1) * sizeof *list);
    if (list) m->metadata[shard] = list;
    char *key_copy = list ? strdup(key) : NULL;
    char *value_copy = key_copy ? strdup(value) : NULL;
    if (!value_copy) {
        free(key_copy);
        return fail(err, KERF_E_NOMEM, "no memory for metadata");
    }
    list[count] = (kerf_key_value){key_copy, value_copy};
    m->metadata_count[shard]++;
    return KERF_OK;
}

/* Keys of the source's files, but for those that the writer and the layout set themselves. */
static kerf_status carry_keys(manifest *m, const checkpoint *source, kerf_error *err)
{
    for (size_t i = 0; i < kerf_reader_shard_count(source->reader); i++) {
        size_t to = m->shards > 1 ? i : 0;
        const char *key, *value;
        for (size_t k = 0; kerf_reader_metadata_at(source->reader, i, k, &key, &value); k++) {
            int ours = strcmp(key, "format") == 0 || strcmp(key, "kerf") == 0;
            if (!ours && !has_key(m, to, key)) TRY(add_key(m, to, key, value, err));
        }
    }
    return KERF_OK;
}

static kerf_status describe_shard(manifest *m, size_t shard, const kerf_layout *layout,
                                  const kerf_weight *weights, size_t count, kerf_error *err)
{
    kerf_weight *mine = NULL;
    TRY(allocate(&mine, count, sizeof *mine, err));
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        size_t at = m->shards > 1 ? weights[i].plane[0]->shard : 0;
        if (weights[i].codec.format && at == shard) mine[n++] = weights[i];
    }
    kerf_status s = KERF_OK;
    if (n > 0) {
        char *text = kerf_layout_describe(layout, mine, n);
        s = text ? add_key(m, shard, "kerf", text, err)
                 : fail(err, KERF_E_NOMEM, "no memory for metadata");
        free(text);
    }
    free(mine);
    return s;
}

kerf_status manifest_describe(manifest *m, const checkpoint *source, const kerf_layout *layout,
                              const kerf_weight *weights, size_t count, kerf_error *err)
{
    TRY(carry_keys(m, source, err));
    if (m->is_gguf && !has_key(m, 0, "gguf")) {
        return fail(
            err, KERF_E_NOSUP,
            "%.200s: a GGUF file needs what this source does not have, the keys of its model "
            "(architecture, tokenizer) and llama.cpp's names of its tensors: convert it with "
            "llama.cpp's convert_hf_to_gguf.py, and run kerf on the result",
            source->path);
    }
    for (size_t i = 0; i < m->shards && !m->is_gguf;
         i++) { /* types of blocks describe themselves */
        TRY(describe_shard(m, i, layout, weights, count, err));
    }
    return kerf_layout_companions(layout, source->reader, weights, count, m->companion,
                                  &m->companions, err);
}

/* --- output -------------------------------------------------------------------------------- */

kerf_status manifest_create(const manifest *m, const checkpoint *source, const char *path,
                            const args *a, kerf_writer **out, kerf_error *err)
{
    const kerf_key_value **metadata = NULL;
    kerf_writer_options opt = {
        .overwrite = args_has(a, "overwrite"),
        .source = source->reader,
        .shard = m->shard,
        .shards = m->shard ? m->shards : 0,
        .metadata_count = m->metadata_count,
        .block_type = m->block_type,
        .companion = m->companion,
        .companions = m->companions,
    };
    TRY(args_integer(a, "threads", 1, 4096, &opt.threads, err));
    TRY(args_integer(a, "zstd-level", 1, 22, &opt.zstd_level, err));
    TRY(allocate(&metadata, m->shards, sizeof *metadata, err));
    for (size_t i = 0; i < m->shards; i++) metadata[i] = m->metadata[i];
    opt.metadata = metadata;
    kerf_status s = kerf_writer_create(path, m->entry, m->count, &opt, out, err);
    free(metadata);
    if (s == KERF_E_EXISTS) fail(err, s, "%.300s: exists already; -y replaces it", path);
    return s;
}

/* --- copy ---------------------------------------------------------------------------------- */

typedef struct copy_job {
    const kerf_reader *reader;
    const kerf_tensor *tensor;
    kerf_writer *writer;
    size_t entry;
    progress *progress;
} copy_job;

static kerf_status copy_read(void *ctx, stream_panel *p, kerf_error *err)
{
    copy_job *job = ctx;
    return kerf_reader_read(job->reader, job->tensor, p->u0, p->dense.p, p->dense.n, err);
}

static kerf_status copy_work(void *ctx, stream_panel *p, kerf_error *err)
{
    copy_job *job = ctx;
    (void)err;
    progress_add(job->progress, p->dense.n);
    return KERF_OK;
}

static kerf_status copy_write(void *ctx, stream_panel *p, kerf_error *err)
{
    copy_job *job = ctx;
    return kerf_writer_write(job->writer, job->entry, p->u0, p->dense.p, p->dense.n, err);
}

kerf_status copy_tensor(const checkpoint *source, const kerf_tensor *t, kerf_writer *w, size_t i,
                        progress *bar, kerf_error *err)
{
    static const stream_steps steps = {copy_read, copy_work, copy_write};
    copy_job job = {source->reader, t, w, i, bar};
    stream *s = NULL;
    TRY(stream_open_bytes(&s, t->bytes, err));
    kerf_status status = stream_run(s, &steps, &job, err);
    stream_close(s);
    return status;
}

kerf_status copy_weight(const checkpoint *source, const kerf_weight *w, kerf_writer *to, size_t i,
                        progress *bar, kerf_error *err)
{
    for (kerf_plane_id p = 0; p < KERF_PLANES; p++) {
        if (w->plane[p]) TRY(copy_tensor(source, w->plane[p], to, i++, bar, err));
    }
    for (size_t k = 0; k < KERF_EXTRAS; k++) {
        if (w->extra[k]) TRY(copy_tensor(source, w->extra[k], to, i++, bar, err));
    }
    return KERF_OK;
}
